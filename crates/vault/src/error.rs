//! The errors of a vault.

use quietus_core::media::medium::MediumError;

use crate::catalog::{CatalogError, HOLD_NAME_BYTES_MAX};
use crate::container::{ChunkError, HeadError};
use crate::index::PageError;
use crate::tree::{BadMetadata, BadNode};
use crate::{ContainerSequence, Fingerprint, Ordinal, PutId, SlotNumber, SnapshotId};

/// Why a vault refused or failed a request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VaultError {
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The pool's medium.
    #[error("vault pool: {0}")]
    Pool(#[from] MediumError),
    /// The host has no space for another container.
    #[error("vault pool: {0}; free space on the host, or forget snapshots and sanitize")]
    NoSpace(MediumError),
    /// A write to the pool has failed before.
    #[error("vault pool: an earlier write failed, so nothing more is written; start again")]
    Broken,
    /// A container cannot be read.
    #[error("vault pool, slot {}: {error}", slot.0)]
    Head {
        /// The slot of the container.
        slot: SlotNumber,
        /// The fault in its head.
        error: HeadError,
    },
    /// A slot has another container than the catalog says.
    #[error("vault pool, slot {}: container {} of this vault expected; run `quietus vault repair`", slot.0, container.0)]
    Container {
        /// The slot.
        slot: SlotNumber,
        /// The container that was expected.
        container: ContainerSequence,
    },
    /// A chunk was changed.
    #[error("container {}: {error}", container.0)]
    Chunk {
        /// The container that has it.
        container: ContainerSequence,
        /// The fault.
        error: ChunkError,
    },
    /// A chunk is in no container, or its entry was changed.
    #[error("chunk {:02x?} is not in the vault; run `quietus vault verify`", &.0.0[..8])]
    Absent(Fingerprint),
    /// A page of the index was changed.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A chunk of metadata has another kind than expected.
    #[error(transparent)]
    Metadata(#[from] BadMetadata),
    /// A folder cannot have such an entry.
    #[error(transparent)]
    Node(#[from] BadNode),
    /// A chunk of metadata names a chunk that the vault does not have: the client is wrong, or that chunk was destroyed.
    #[error("metadata chunk names chunk {:02x?}, which is not in the vault; put the file again", &.0.0[..8])]
    Dangling(Fingerprint),
    /// A chunk does not fit into a slot.
    #[error("chunk of {stored} bytes does not fit into a slot of {slot}; make the vault with larger slots")]
    TooLarge {
        /// Bytes as stored.
        stored: usize,
        /// Bytes of a slot.
        slot: usize,
    },
    /// No slot is left.
    #[error(
        "vault full: {free} free slots, {reserved} of them for sanitization; forget snapshots and sanitize, or make a larger vault"
    )]
    Full {
        /// Slots that are free.
        free: usize,
        /// The free slots that a put does not get.
        reserved: usize,
    },
    /// A slot that the catalog calls free holds data.
    #[error(
        "vault catalog: slot {} of the pool counts as free, but holds data: the catalog is older than the pool; \
         run `quietus vault repair`, which rebuilds the catalog from the pool", .0.0
    )]
    Stale(SlotNumber),
    /// The catalog has no room for another snapshot.
    #[error("vault catalog full: {0} snapshots; forget some")]
    Snapshots(usize),
    /// Too many puts run at once.
    #[error("{0} puts are running, the most that a vault takes; wait for one of them")]
    Puts(usize),
    /// No such put is running.
    #[error("unknown put {}; it has ended, or the vault was opened anew", .0.0)]
    NoPut(PutId),
    /// No such snapshot.
    #[error("unknown snapshot {}; `quietus vault list` names all", .0.0)]
    NoSnapshot(SnapshotId),
    /// Paths were taken out of the snapshot since it was read.
    #[error("paths of snapshot {} were forgotten meanwhile by another command; repeat this one", .0.0)]
    Changed(SnapshotId),
    /// The root chunk of a put is not a snapshot.
    #[error("put: the root chunk is not a snapshot; use the same version of the program")]
    NoRoot,
    /// A hold keeps the snapshot.
    #[error("snapshot {} is held ({hold:?}); release the hold first", snapshot.0)]
    Held {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The name of a hold.
        hold: String,
    },
    /// No such hold.
    #[error("unknown hold {0:?}; `quietus vault list` names all")]
    NoHold(String),
    /// The name of a hold is too long, or empty.
    #[error("the name of a hold has {0} bytes; choose one of 1 to {HOLD_NAME_BYTES_MAX}")]
    HoldName(usize),
    /// A read-only sanitization is under way.
    #[error("cannot put: a read-only sanitization is running; retry when it ends")]
    ReadOnly,
    /// The observer of the progress has asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A snapshot reaches a chunk that is in no container.
    #[error("a snapshot reaches chunk number {}, which no container has whole; restore the pool from a copy", .0.0)]
    Missing(Ordinal),
    /// The index names a wrong place for a chunk.
    #[error("the index does not find chunk number {}, which a snapshot reaches; restore the pool from a copy", .0.0)]
    Unindexed(Ordinal),
    /// An entry of a directory was changed.
    #[error("container {}: {entries} entries of the directory were changed; restore the pool from a copy", container.0)]
    Entries {
        /// The container.
        container: ContainerSequence,
        /// The number of changed entries.
        entries: usize,
    },
    /// A sanitization is under way.
    #[error("a sanitization is under way; wait for it, or cancel it")]
    Running,
    /// Puts are under way, and a read-only sanitization cannot begin.
    #[error("{0} puts are running; wait for them, or sanitize without --read-only")]
    Putting(usize),
    /// The sanitization was cancelled.
    #[error("the sanitization was cancelled by another command; what it had to destroy is still owed")]
    Cancelled,
    /// Another process sent an invalid chunk.
    #[error(
        "a client sent a chunk that does not decompress to its length; use the same version of the program"
    )]
    Sent,
    /// An answer does not fit its request.
    #[error(
        "the process that has the vault open sent an answer to another request; use the same version of the program"
    )]
    Answer,
    /// The process that has the vault open refuses.
    #[error("{0}")]
    Refused(String),
    /// The process that has the vault open is gone, or its media have failed.
    #[error("{0}")]
    Lost(String),
    /// No sanitization is under way.
    #[error("no sanitization is under way; begin one")]
    NotRunning,
    /// The policy destroys nothing.
    #[error("policy without passes: a vault needs at least one pass; choose clear, purge-2, ...")]
    NoPasses,
    /// A folder or a recipe of a snapshot cannot be read, so that it is unknown what else is live.
    #[error(
        "sanitization stopped before it destroyed anything: snapshot {} cannot be read: {why}; put its files again, or forget it, \
         and sanitize again", snapshot.0
    )]
    Unreadable {
        /// The snapshot, or one of several.
        snapshot: SnapshotId,
        /// The fault.
        why: Box<VaultError>,
    },
    /// The marked chunks differ from the chunks found in containers. Nothing was destroyed.
    #[error(
        "sanitization stopped before it destroyed anything: {marked} live chunks in part {part} of the set, \
         but {found} in containers; run `quietus vault verify`"
    )]
    Audit {
        /// The part of the set of live chunks.
        part: usize,
        /// Live chunks there.
        marked: u64,
        /// Live chunks of that part that were found in containers.
        found: u64,
    },
}

impl VaultError {
    /// Whether nothing more can be read: a medium has failed, or its owner is gone. Other errors concern one chunk.
    pub fn is_of_media(&self) -> bool {
        matches!(self, VaultError::Pool(_) | VaultError::Catalog(_) | VaultError::Lost(_))
    }

    /// The result of a read, or `None` if the vault does not have the whole of it.
    ///
    /// # Errors
    ///
    /// If media failed: nothing is known of the vault then.
    pub(crate) fn or_damaged<T>(read: Result<T, VaultError>) -> Result<Option<T>, VaultError> {
        match read {
            Err(error) if error.is_of_media() => Err(error),
            read => Ok(read.ok()),
        }
    }

    /// Whether a slot lacks the container that the catalog expects there.
    pub fn is_of_container(&self) -> bool {
        matches!(self, VaultError::Head { .. } | VaultError::Container { .. })
    }
}
