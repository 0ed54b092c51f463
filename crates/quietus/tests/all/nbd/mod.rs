//! The NBD server, as a client finds it that does as it pleases.

mod attached;
pub(crate) mod client;
mod commands;
mod disk;
mod ending;
pub(crate) mod ext2;
mod failing;
mod handshake;
mod hostile;
mod memory;
mod online;
mod order;
mod past;
mod places;
mod program;
mod sensitive;
mod serving;
mod since;
mod tls;
