//! Containers: the units in which a vault is written, each in one slot of the pool. A container is never changed once
//! written, but for chunks of which the bytes and the entry are destroyed (the paper's section 3).
//!
//! A container has a head, a directory and the stored chunks, one behind another. The format, byte by byte:
//! `docs/formats/vault.md`.

mod build;
mod entry;
mod head;

#[cfg(test)]
mod tests;

pub use crate::units::Class;
pub use build::Builder;
pub use entry::{ChunkError, Entry, Stored};
pub use head::{Head, HeadError};

/// Bytes of a slot, and so of a container: 4.5 MiB.
pub const SLOT_BYTES: usize = 4_718_592;
/// Bytes of a head. The chunks begin at a multiple of this, too.
pub const HEAD_BYTES: usize = 4096;
/// Bytes of an entry of the directory.
pub const ENTRY_BYTES: usize = 64;
