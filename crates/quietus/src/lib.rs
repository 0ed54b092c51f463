//! The server and its tools: everything around the core that touches the world.

pub mod base;
pub mod cli;
pub mod disk;
pub mod engine;
pub mod epochs;
pub mod evidence;
pub mod front;
pub mod host;
pub mod offline;
pub mod open_disk;
pub mod proof;
pub mod vault;
