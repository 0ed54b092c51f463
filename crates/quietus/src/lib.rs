//! The server and its tools: everything around the core that touches the world.

pub mod buffers;
pub mod disk;
pub mod engine;
pub mod export;
pub mod media;
