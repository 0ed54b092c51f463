//! The promises of a vault.

use std::collections::{BTreeMap, BTreeSet};

use quietus_vault::{PutId, SnapshotId};

use super::items::{Item, Shot};

/// See the module's documentation. Time counts the calls of the vault.
#[derive(Default)]
pub struct Model {
    pub now: u64,
    pub live: BTreeMap<SnapshotId, Shot>,
    /// The forgotten snapshots, and when each was forgotten.
    pub forgotten: BTreeMap<SnapshotId, (u64, Shot)>,
    /// The forgotten snapshots that have a receipt.
    pub receipts: BTreeSet<SnapshotId>,
    pub held: BTreeSet<SnapshotId>,
    /// Puts that ended without a snapshot and have no receipt yet.
    pub orphans: BTreeSet<PutId>,
    /// Snapshots that lost a file, which have no receipt for that yet.
    pub pruned: BTreeSet<SnapshotId>,
    /// When the last reference to an item ended, unless there is one now.
    ended: BTreeMap<Item, u64>,
    /// Calls that the power cut short: done, or not.
    pub pending: Option<Pending>,
    /// The last number of an item.
    pub last_number: u32,
}

/// A call that did not return.
pub enum Pending {
    Commit(Shot),
    Forget(SnapshotId),
    Replace(SnapshotId, Shot),
    Hold,
}

impl Model {
    /// Notes that something that referred to the items is gone.
    pub fn end(&mut self, shot: &Shot) {
        for item in shot.items() {
            self.ended.insert(item, self.now);
        }
    }

    /// Notes that nothing refers to these chunks.
    pub fn drop_content(&mut self, numbers: &[u32]) {
        let items = numbers.iter().map(|number| (Item::Content(*number), self.now));
        self.ended.extend(items);
    }

    /// Notes that a snapshot has become `new`, and has lost what `gone` has.
    pub fn replace(&mut self, snapshot: SnapshotId, new: Shot, gone: &Shot) {
        self.end(gone);
        self.pruned.insert(snapshot);
        self.live.insert(snapshot, new);
    }

    pub fn forget(&mut self, snapshot: SnapshotId) {
        if let Some(shot) = self.live.remove(&snapshot) {
            self.end(&shot);
            self.forgotten.insert(snapshot, (self.now, shot));
        }
    }

    /// Items that nothing has referred to since `time` or before; `running` are puts.
    pub fn dead_since(&self, time: u64, running: &[&Shot]) -> Vec<Item> {
        let live: BTreeSet<Item> =
            self.live.values().chain(running.iter().copied()).flat_map(Shot::items).collect();
        let dead = self.ended.iter().filter(|(item, ended)| **ended <= time && !live.contains(item));
        dead.map(|(item, _)| *item).collect()
    }

    /// The snapshots that a new one may share something with.
    pub fn known(&self) -> Vec<&Shot> {
        self.live.values().chain(self.forgotten.values().rev().take(4).map(|(_, shot)| shot)).collect()
    }
}
