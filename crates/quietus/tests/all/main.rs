//! The server and the program, tested as clients and users find them. One binary: linking many takes longer than the tests.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod cli;
mod damage;
mod flash;
mod mounted;
mod nbd;
mod program;
mod schemas;
mod sealed;
mod vault;
mod versions;
