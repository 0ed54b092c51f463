//! The NBD server, as a client finds it that does as it pleases.

#![allow(missing_docs, reason = "tests")]

mod client;
mod commands;
mod disk;
mod handshake;
mod hostile;
mod order;
mod serving;
mod tls;
