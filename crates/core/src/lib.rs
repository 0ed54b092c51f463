//! The part of Quietus that decides: what is dead, what must be destroyed,
//! and in which order, so that no crash at any instant can undo a promise.
//!
//! Nothing here has a clock, a random source, a thread or a socket: time and
//! entropy come in as arguments, input and output as [`volume::Event`] and
//! [`volume::Command`]. The same code runs above a real disk and inside the
//! deterministic simulator.
#![forbid(unsafe_code)]

pub mod base;
pub mod erase;
pub mod media;
pub mod mutant;
pub mod owed;
pub mod request;
pub mod retention;
pub mod store;
pub mod tree;
pub mod volume;
pub mod watch;
