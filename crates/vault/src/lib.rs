//! The vault: deduplicated backups that can be sanitized while they are in use.
//!
//! The model is that of Botelho, Shilane, Garg and Hsu, *Memory Efficient Sanitization of a
//! Deduplicated Storage System* (FAST 2013). What exists so far: the [`catalog`], and the exact sets in
//! which a sanitization notes what is live ([`live`]).
//!
//! This crate has no clock, no thread and no entropy of its own, and does I/O through
//! [`Medium`](quietus_core::medium::Medium) only.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod chunk;
pub mod container;
pub mod index;
pub mod live;
pub mod mutant;
#[cfg(test)]
mod testing;
pub mod tree;
mod units;

pub use units::{
    ContainerSequence, Fingerprint, ForgetId, Ordinal, PutId, Reference, RunId, SlotNumber, SnapshotId,
    VaultId,
};
