//! The vault: deduplicated backups that can be sanitized while they are in use.
//!
//! The model is that of Botelho, Shilane, Garg and Hsu, *Memory Efficient Sanitization of a
//! Deduplicated Storage System* (FAST 2013). A [`Vault`] is a state machine with one owner above two media;
//! [`sanitize`] destroys what no snapshot reaches, while puts and restores go on.
//!
//! This crate has no clock, no thread and no entropy of its own, and does I/O through
//! [`Medium`](quietus_core::media::medium::Medium) only.
//!
//! | question | where |
//! | --- | --- |
//! | how backups are cut into chunks, named, compressed, kept in containers, found again | `chunk`, `container`, `index` |
//! | files, folders and recipes | `tree` |
//! | snapshots, slots, what is owed | `catalog` |
//! | puts, restores and forgets; how the index is merged | `vault`; a client: `client`, above the requests of `client::access` |
//! | sanitization while the vault is used; what stays of it when containers are damaged | `vault::sanitize`, and its `damage` and `witness` |
//! | which chunks are live meanwhile | `live` |
//! | what a slot has that the catalog does not know; a catalog made anew | `vault::{judge,repair}` |
//! | what snapshots reach, what lies in a slot | `vault::{reach,examine,verify}` |
#![forbid(unsafe_code)]

pub mod catalog;
pub mod chunk;
pub mod client;
pub mod container;
mod error;
pub mod index;
pub mod live;
pub mod mutant;
#[cfg(test)]
mod testing;
pub mod tree;
mod units;
pub mod vault;

pub use error::VaultError;
pub(crate) use units::NUMBER_MAX;
pub use units::{
    ContainerSequence, Fingerprint, ForgetId, Ordinal, PutId, Reference, RunId, SlotNumber, SnapshotId,
    VaultId,
};
pub use vault::{Vault, sanitize};
