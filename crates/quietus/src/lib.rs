//! The server and its tools: everything around the core that touches the world.

pub mod aligned;
pub mod attached;
pub mod audit_log;
pub mod buffers;
pub mod cli;
pub mod control;
pub mod copy;
pub mod directory;
pub mod disk;
pub mod engine;
pub mod epochs;
pub mod export;
mod fiemap;
pub mod front;
pub mod hex;
pub mod host;
pub mod keys;
pub mod locked;
pub mod media;
pub mod naming;

pub mod offline;
pub mod open_disk;
pub mod output;
mod paths;
pub mod proof;
pub mod recorder;
pub mod rfc3339;
pub mod sealing;
pub mod signed;
mod stub_medium;
pub mod vault;
mod verify;
pub mod wiping;
pub mod zeros;
