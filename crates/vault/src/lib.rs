//! The vault: deduplicated backups that can be sanitized while they are in use.
//!
//! The model is that of Botelho, Shilane, Garg and Hsu, *Memory Efficient Sanitization of a
//! Deduplicated Storage System* (FAST 2013). What exists so far: the exact sets in which a
//! sanitization notes what is live ([`live`]).
//!
//! This crate does no I/O and has no clock, no thread and no entropy of its own.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod container;
pub mod index;
pub mod live;
#[cfg(test)]
mod testing;
pub mod tree;
mod units;

pub use units::{ContainerSequence, Fingerprint, Ordinal, Reference, VaultId};
