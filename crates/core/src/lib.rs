//! The part of Quietus that decides: what is dead, what must be destroyed,
//! and in which order, so that no crash at any instant can undo a promise.
//!
//! Nothing here has a clock, a random source, a thread or a socket: time and
//! entropy come in as arguments, input and output as [`volume::Event`] and
//! [`volume::Command`]. The same code runs above a real disk and inside the
//! deterministic simulator.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod buf;
pub mod cell;
pub mod erase;
pub mod extents;
pub mod fields;
pub mod journal;
pub mod ledger;
pub mod media;
pub mod medium;
pub mod memory;
pub mod mend;
pub mod mutant;
pub mod named;
pub mod owed;
pub mod place;
pub mod places;
pub mod policy;
pub mod receipts;
pub mod request;
pub mod retention;
pub mod sealing;
mod steps;
pub mod store;
pub mod tree;
pub mod units;
pub mod volume;
pub mod watch;
pub mod zeros;
