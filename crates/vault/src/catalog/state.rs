//! The catalog's state besides the slots, and the changes to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::layout::PAGE_SLOTS;
use crate::container::Class;
use crate::{ContainerSequence, ForgetId, Ordinal, PutId, Reference, RunId, SlotNumber, SnapshotId};

/// The numbers that are given next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// The next container's.
    pub container: ContainerSequence,
    /// The next chunk's; chunks of containers that are not sealed yet may have it already.
    pub ordinal: Ordinal,
    /// The next snapshot's.
    pub snapshot: SnapshotId,
    /// The next forget's.
    pub forget: ForgetId,
    /// The next sanitization's.
    pub run: RunId,
    /// The next put's.
    pub put: PutId,
}

impl Numbers {
    /// The higher of both, for each.
    pub(crate) fn max(self, other: Numbers) -> Numbers {
        Numbers {
            container: self.container.max(other.container),
            ordinal: self.ordinal.max(other.ordinal),
            snapshot: self.snapshot.max(other.snapshot),
            forget: self.forget.max(other.forget),
            run: self.run.max(other.run),
            put: self.put.max(other.put),
        }
    }
}

/// The cause of content that is to be destroyed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Owed {
    /// A snapshot was forgotten.
    Snapshot(SnapshotId),
    /// Paths were taken out of a snapshot.
    Paths(SnapshotId),
    /// A put ended without a snapshot.
    Put(PutId),
}

/// The end of the audit log, as far as it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogHead {
    /// Its lines.
    pub lines: u64,
    /// SHA-256 of the last one.
    pub hash: [u8; 32],
}

/// The sorted part of the index.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IndexPart {
    /// The slots of its containers, in the order of fingerprints.
    pub slots: Vec<SlotNumber>,
    /// Its entries.
    pub entries: u64,
    /// Chunks in containers below this number are in it, unless they died.
    pub merged: ContainerSequence,
}

/// The outcome of a sanitization for one forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// The forget.
    pub forget: ForgetId,
    /// The cause of the dead content.
    pub owed: Owed,
    /// The sanitization that destroyed that content.
    pub run: RunId,
    /// Passes over each byte.
    pub passes: u16,
}

/// One change. All numbers that it gives are those of [`Numbers`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// The numbers are these.
    Numbers(Numbers),
    /// From now on the slot may have content: of that container.
    Open(SlotNumber, ContainerSequence, Class),
    /// The slot's container is whole and durable.
    Seal(SlotNumber),
    /// Chunks below this number are given.
    Given(Ordinal),
    /// The slot's content is to be destroyed.
    Condemn(SlotNumber),
    /// The slot was destroyed, and is free.
    Destroyed(SlotNumber),
    /// This is the sorted part of the index.
    Index(IndexPart),
    /// A snapshot, and the chunk that it begins with.
    Commit(SnapshotId, Reference),
    /// Content that this cause left behind is to be destroyed. A snapshot or a put that it names is not there any more.
    Forget(ForgetId, Owed),
    /// A sanitization is under way.
    Begin(RunId),
    /// The sanitization has met an obligation, with so many passes.
    Met(ForgetId, RunId, u16),
    /// The sanitization is over.
    End(RunId),
    /// A receipt that nobody has taken yet. Only in snapshots.
    Receipt(Receipt),
    /// So many receipts, the oldest ones, are in the audit log, which ends so.
    Recorded(u64, LogHead),
    /// A put is under way: what it stores or refers to is owed, should it end without a snapshot.
    BeginPut(PutId),
    /// The put has ended with what the same frame says.
    EndPut(PutId),
    /// The snapshot begins with another chunk.
    Replace(SnapshotId, Reference),
    /// The snapshot is not to be forgotten, for a reason of that name.
    Hold(String, SnapshotId),
    /// The holds of that name are over.
    Release(String),
    /// A part of the slot's container was found damaged.
    Damaged(SlotNumber),
    /// The generations of the pages of the table. Only in snapshots.
    Pages(Vec<u64>),
}

impl Change {
    /// The slots that it names.
    pub(super) fn slots(&self) -> &[SlotNumber] {
        match self {
            Change::Open(slot, ..)
            | Change::Seal(slot)
            | Change::Condemn(slot)
            | Change::Destroyed(slot)
            | Change::Damaged(slot) => std::slice::from_ref(slot),
            Change::Index(part) => &part.slots,
            _ => &[],
        }
    }
}

/// The sum of all changes, but for the slots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// The next numbers to be given.
    pub next: Numbers,
    /// The snapshots.
    pub roots: BTreeMap<SnapshotId, Reference>,
    /// Obligations, by the number of the forget that asked for them.
    pub obligations: BTreeMap<ForgetId, Owed>,
    /// The puts that are under way, or that a crash has cut short.
    pub puts: BTreeSet<PutId>,
    /// Names of holds, and the snapshots that each keeps.
    pub holds: BTreeSet<(String, SnapshotId)>,
    /// The sanitization that is under way, or that a crash has cut short.
    pub run: Option<RunId>,
    /// The sorted part of the index.
    pub index: IndexPart,
    /// Receipts that nobody has taken yet, the oldest first.
    pub receipts: VecDeque<Receipt>,
    /// The end of the audit log.
    pub log: LogHead,
}

/// Longest name of a hold.
pub const HOLD_NAME_BYTES_MAX: usize = 64;

/// The most that a snapshot, or an obligation or a receipt, takes in a snapshot of the catalog.
const ROOT_BYTES: u64 = 64;
const RECEIPT_BYTES: u64 = 48;
const HOLD_BYTES: u64 = 16;
const NUMBERS_BYTES: u64 = 256;
const SLOT_BYTES: u64 = 5;
const PAGE_BYTES: u64 = 10;

/// The most that a hold of that name on one snapshot takes.
pub(crate) fn hold_bytes(name: &str) -> u64 {
    name.len() as u64 + HOLD_BYTES
}

impl State {
    pub(crate) fn apply(&mut self, change: &Change) {
        let next = &mut self.next;
        match change {
            Change::Numbers(numbers) => *next = *numbers,
            Change::Open(_, container, _) => next.container = ContainerSequence(container.0 + 1),
            Change::Given(ordinal) => next.ordinal = next.ordinal.max(*ordinal),
            Change::Index(part) => self.index = part.clone(),
            Change::Commit(snapshot, root) => {
                next.snapshot = next.snapshot.max(SnapshotId(snapshot.0 + 1));
                self.roots.insert(*snapshot, *root);
            }
            Change::Forget(forget, owed) => {
                next.forget = next.forget.max(ForgetId(forget.0 + 1));
                self.owe(*forget, *owed);
            }
            Change::Begin(run) => {
                next.run = next.run.max(RunId(run.0 + 1));
                self.run = Some(*run);
            }
            Change::Met(forget, run, passes) => self.meet(*forget, *run, *passes),
            Change::End(_) => self.run = None,
            Change::Receipt(receipt) => self.receipts.push_back(*receipt),
            Change::Recorded(count, head) => {
                self.receipts.drain(..self.receipts.len().min(*count as usize));
                self.log = *head;
            }
            Change::BeginPut(put) => {
                next.put = next.put.max(PutId(put.0 + 1));
                self.puts.insert(*put);
            }
            Change::EndPut(put) => {
                self.puts.remove(put);
            }
            Change::Replace(snapshot, root) => {
                self.roots.insert(*snapshot, *root);
            }
            Change::Hold(name, snapshot) => {
                self.holds.insert((name.clone(), *snapshot));
            }
            Change::Release(name) => self.holds.retain(|(held, _)| held != name),
            Change::Seal(_)
            | Change::Condemn(_)
            | Change::Destroyed(_)
            | Change::Damaged(_)
            | Change::Pages(_) => {}
        }
    }

    fn owe(&mut self, forget: ForgetId, owed: Owed) {
        match owed {
            Owed::Snapshot(snapshot) => {
                self.roots.remove(&snapshot);
            }
            Owed::Put(put) => {
                self.puts.remove(&put);
            }
            Owed::Paths(_) => {}
        }
        self.obligations.insert(forget, owed);
    }

    fn meet(&mut self, forget: ForgetId, run: RunId, passes: u16) {
        if let Some(owed) = self.obligations.remove(&forget) {
            self.receipts.push_back(Receipt { forget, owed, run, passes });
        }
    }

    /// The changes that make this of nothing.
    pub(super) fn changes(&self) -> Vec<Change> {
        let roots = self.roots.iter().map(|(snapshot, root)| Change::Commit(*snapshot, *root));
        let owed = self.obligations.iter().map(|(forget, owed)| Change::Forget(*forget, *owed));
        let puts = self.puts.iter().copied().map(Change::BeginPut);
        let holds = self.holds.iter().map(|(name, snapshot)| Change::Hold(name.clone(), *snapshot));
        let receipts = self.receipts.iter().copied().map(Change::Receipt);
        let all = roots.chain(owed).chain(puts).chain(holds).chain(receipts);
        let all = all.chain(self.run.map(Change::Begin)).chain([Change::Recorded(0, self.log)]);
        all.chain([Change::Index(self.index.clone()), Change::Numbers(self.next)]).collect()
    }

    /// Bytes that a snapshot of this state takes at most, whatever is forgotten and merged.
    pub(crate) fn bytes_max(&self, slots: u32) -> u64 {
        let owed = (self.obligations.len() + self.receipts.len() + self.puts.len()) as u64;
        let holds = self.holds.iter().map(|(name, _)| hold_bytes(name));
        NUMBERS_BYTES
            + self.roots.len() as u64 * ROOT_BYTES
            + owed * RECEIPT_BYTES
            + holds.sum::<u64>()
            + u64::from(slots) * SLOT_BYTES
            + u64::from(slots).div_ceil(PAGE_SLOTS as u64) * PAGE_BYTES
    }
}

/// The bytes of changes.
pub(super) fn encode(changes: &[Change]) -> Vec<u8> {
    changes.iter().flat_map(|change| postcard::to_allocvec(change).expect("a change has a length")).collect()
}

/// The changes that `bytes` are made of; `None` if that cannot be.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (change, rest) = postcard::take_from_bytes(bytes).ok()?;
        changes.push(change);
        bytes = rest;
    }
    Some(changes)
}
