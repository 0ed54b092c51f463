//! The NBD server, as a client finds it that does as it pleases.

mod attached;
pub(crate) mod client;
mod commands;
mod disk;
mod online;
mod places;
mod program;
mod protocol;
mod serving;
pub(crate) mod watched;
