//! The vault: a state machine that one owner calls. It does its input and output on two media, one step at a time.
//!
//! The *pool* has containers in slots, and everything that can betray content: chunks, names, the index. The *catalog* has what
//! must be known of them (see [`crate::catalog`]).
//!
//! Invariants:
//! 1. A slot is written only when the catalog durably says that it is open, and after a full destruction of its old content.
//! 2. A snapshot is committed only when all chunks that it reaches are in sealed containers.
//! 3. The references of a put are closed: with a chunk of metadata, a put refers to all that this chunk names.
//! 4. Each chunk that the index finds is in an open or sealed container, never in a condemned one.
//! 5. Looking a chunk up and referring to it is one call, and so is condemning the containers of one step of a
//!    sanitization: no put ever refers to a chunk that has just been condemned.

mod examine;
mod index;
mod judge;
mod merge;
mod opening;
mod pool;
mod puts;
mod reach;
mod reading;
mod repair;
pub mod sanitize;
mod verify;
mod writing;

#[cfg(test)]
pub(crate) mod tests;

pub use examine::{Found, Residue};
pub use puts::PUTS_MAX;
pub use reach::{Amount, Contents};
pub use repair::{Repair, Repaired};
pub use verify::Verified;

use quietus_core::erase::Seeds;
use quietus_core::erase::policy::{Policy, Scratch};

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::catalog::{Catalog, Change, HOLD_NAME_BYTES_MAX, Layout, LogHead, Owed, Receipt, hold_bytes};
use crate::chunk::VaultKey;
use crate::mutant::{self, Mutant};
use crate::{ForgetId, Ordinal, Reference, SnapshotId, VaultError};
use index::Index;
use merge::Merge;
pub(crate) use pool::Directory;
use pool::Pool;
use puts::Puts;
pub(crate) use writing::Bytes;
use writing::Writing;

/// Parameters of an open vault, besides its media.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The vault's key.
    pub key: VaultKey,
    /// How slots are destroyed.
    pub policy: Policy,
    /// Entries of the index that are kept in memory before a merge; each takes some 80 bytes.
    pub recent_entries_max: usize,
    /// Secret random bytes, drawn each time: for random passes, and for sets of live chunks.
    pub entropy: [u8; 32],
}

/// Gets the amount that is done and the total, and returns whether to go on.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// An open vault.
pub struct Vault<'m> {
    pub(crate) catalog: Catalog<'m>,
    pub(crate) pool: Pool<'m>,
    pub(crate) index: Index,
    merge: Option<Merge>,
    writing: Writing,
    pub(crate) puts: Puts,
    pub(crate) next_ordinal: Ordinal,
    pub(crate) run: Option<Box<sanitize::Run>>,
    pub(crate) zeroing: Option<sanitize::Zeroing>,
    pub(crate) policy: Policy,
    pub(crate) seeds: Seeds,
    pub(crate) scratch: Scratch,
    /// Slots that were judged by their own bytes when the vault was opened.
    judged: usize,
}

/// How full a vault is, and what it owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Snapshots.
    pub snapshots: usize,
    /// Slots of the pool.
    pub slots: u32,
    /// Slots that are free.
    pub free: usize,
    /// Slots with content that is to be destroyed.
    pub condemned: usize,
    /// Forgets that no sanitization has met yet.
    pub owed: usize,
    /// Receipts that are not in the audit log yet.
    pub receipts: usize,
    /// Chunks that the index has, some of them perhaps twice or destroyed since.
    pub chunks: u64,
}

impl<'m> Vault<'m> {
    /// The snapshots, with the chunk that each begins with.
    pub fn snapshots(&self) -> impl Iterator<Item = (SnapshotId, Reference)> + '_ {
        self.catalog.state().roots.iter().map(|(snapshot, root)| (*snapshot, *root))
    }

    /// How full the vault is, and what it owes.
    pub fn status(&self) -> Status {
        let (state, table) = (self.catalog.state(), self.catalog.table());
        Status {
            snapshots: state.roots.len(),
            slots: self.catalog.layout().slots,
            free: table.free().len(),
            condemned: table.condemned().len(),
            owed: state.obligations.len(),
            receipts: state.receipts.len(),
            chunks: self.index.entries(),
        }
    }

    /// Whether a part of the catalog was damaged when the vault was opened, and how many slots were therefore judged by their
    /// own bytes.
    pub fn mended(&self) -> Option<usize> {
        (self.catalog.is_damaged() || self.judged > 0).then_some(self.judged)
    }

    /// Bytes of the pool that were read and written so far.
    pub fn moved_bytes(&self) -> u64 {
        self.pool.moved()
    }

    /// Forgets all of these snapshots, or fails without a change. From now on they cannot be restored, and the next sanitization
    /// destroys the chunks that only they have. Both are durable when this returns.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoSnapshot`], [`VaultError::Held`], and the errors of the catalog.
    pub fn forget(&mut self, snapshots: &[SnapshotId]) -> Result<Vec<ForgetId>, VaultError> {
        let snapshots: BTreeSet<SnapshotId> = snapshots.iter().copied().collect();
        snapshots.iter().try_for_each(|snapshot| self.guard_snapshot(*snapshot))?;
        let forgets = (self.catalog.state().next.forget.0..).map(ForgetId);
        let forgets: Vec<(ForgetId, SnapshotId)> = forgets.zip(snapshots).collect();
        let changes = forgets.iter().map(|(forget, it)| Change::Forget(*forget, Owed::Snapshot(*it)));
        let changes: Vec<Change> = changes.collect();
        self.catalog.commit(&changes)?;
        Ok(forgets.into_iter().map(|(forget, _)| forget).collect())
    }

    /// Keeps snapshots from being forgotten, in whole or in part, until the holds of this name are released.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoSnapshot`], [`VaultError::HoldName`], [`VaultError::Snapshots`], and the errors of the catalog.
    pub fn hold(&mut self, name: &str, snapshots: &[SnapshotId]) -> Result<(), VaultError> {
        if name.is_empty() || name.len() > HOLD_NAME_BYTES_MAX {
            return Err(VaultError::HoldName(name.len()));
        }
        let snapshots: BTreeSet<SnapshotId> = snapshots.iter().copied().collect();
        for snapshot in &snapshots {
            self.root(*snapshot)?;
        }
        self.guard_room(snapshots.len() as u64 * hold_bytes(name))?;
        let holds = snapshots.iter().map(|snapshot| Change::Hold(name.into(), *snapshot));
        Ok(self.catalog.commit(&holds.collect::<Vec<_>>())?)
    }

    /// Releases the holds of this name, and returns the snapshots that they kept.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoHold`], and the errors of the catalog.
    pub fn release(&mut self, name: &str) -> Result<Vec<SnapshotId>, VaultError> {
        let held = self.holds().filter(|(hold, _)| *hold == name).map(|(_, snapshot)| snapshot);
        let held: Vec<SnapshotId> = held.collect();
        if held.is_empty() {
            return Err(VaultError::NoHold(name.into()));
        }
        self.catalog.commit(&[Change::Release(name.into())])?;
        Ok(held)
    }

    /// The holds: the name of each, and a snapshot that it keeps.
    pub fn holds(&self) -> impl Iterator<Item = (&str, SnapshotId)> + '_ {
        self.catalog.state().holds.iter().map(|(name, snapshot)| (name.as_str(), *snapshot))
    }

    /// Obligations, each under the number of its forget.
    pub fn owed(&self) -> impl Iterator<Item = (ForgetId, Owed)> + '_ {
        self.catalog.state().obligations.iter().map(|(forget, owed)| (*forget, *owed))
    }

    /// The receipts that are not in the audit log yet, the oldest first.
    pub fn receipts(&self) -> impl Iterator<Item = Receipt> + '_ {
        self.catalog.state().receipts.iter().copied()
    }

    /// Drops the `count` oldest receipts: they are in the audit log, which ends with `head`, durably.
    ///
    /// # Errors
    ///
    /// The errors of the catalog.
    pub fn recorded(&mut self, count: u64, head: LogHead) -> Result<(), VaultError> {
        Ok(self.catalog.commit(&[Change::Recorded(count, head)])?)
    }

    /// The end of the audit log, as it was [told](Vault::recorded).
    pub fn log_head(&self) -> LogHead {
        self.catalog.state().log
    }

    /// The sizes and the id of the vault.
    pub fn layout(&self) -> Layout {
        self.catalog.layout()
    }

    /// Passes of the policy.
    pub fn passes(&self) -> usize {
        self.policy.passes().len()
    }

    /// The chunk that a snapshot begins with.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoSnapshot`].
    pub fn root(&self, snapshot: SnapshotId) -> Result<Reference, VaultError> {
        self.catalog.state().roots.get(&snapshot).copied().ok_or(VaultError::NoSnapshot(snapshot))
    }

    /// Refuses a change to a held snapshot.
    fn guard_snapshot(&self, snapshot: SnapshotId) -> Result<(), VaultError> {
        self.root(snapshot)?;
        match self.holds().find(|(_, held)| *held == snapshot) {
            Some((hold, _)) if !mutant::is(Mutant::ForgetHeld) => {
                Err(VaultError::Held { snapshot, hold: hold.into() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a change for which the catalog may lack room: a small one, and this many bytes.
    fn guard_room(&self, bytes: u64) -> Result<(), VaultError> {
        match self.catalog.has_room(bytes) {
            true => Ok(()),
            false => Err(VaultError::Snapshots(self.catalog.state().roots.len())),
        }
    }

    /// Slots that a put does not get: two to copy into, and those of the next part of the index.
    pub(crate) fn reserved(&self) -> usize {
        let per_slot = self.pool.index_pages() * crate::index::PAGE_ENTRIES;
        2 + (self.index.entries() as usize).div_ceil(per_slot)
    }

    /// Slots that have `bytes` together; of a small pool an eighth, so that some are free again before others.
    pub(crate) fn slots_a_batch(&self, bytes: u64) -> usize {
        let Layout { slots, slot_bytes, .. } = self.catalog.layout();
        let within = bytes / u64::from(slot_bytes);
        within.min(u64::from(slots / 8)).max(1) as usize
    }
}

impl std::fmt::Debug for Vault<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Vault").field("status", &self.status()).finish()
    }
}
