//! The catalog's state besides the slots, and the changes to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::layout::PAGE_SLOTS;
use crate::container::Class;
use crate::{ContainerSequence, ForgetId, Ordinal, PutId, Reference, RunId, SlotNumber, SnapshotId};

/// The numbers that are given next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// The next container's number.
    pub container: ContainerSequence,
    /// The next chunk's number; chunks of containers that are not sealed yet may have it already.
    pub ordinal: Ordinal,
    /// The next snapshot's number.
    pub snapshot: SnapshotId,
    /// The next forget's number.
    pub forget: ForgetId,
    /// The next sanitization's number.
    pub run: RunId,
    /// The next put's number.
    pub put: PutId,
}

impl Numbers {
    /// For each number, the higher of both.
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
    /// The number of its lines.
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

/// One change. [`Numbers`] gives all its numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// The next numbers are these.
    Numbers(Numbers),
    /// From now on the slot may have content of this container.
    Open(SlotNumber, ContainerSequence, Class),
    /// The slot's container is whole and durable.
    Seal(SlotNumber),
    /// Chunks below this number are given.
    Given(Ordinal),
    /// The slot's content is to be destroyed.
    Condemn(SlotNumber),
    /// The slot was destroyed, and is free.
    Destroyed(SlotNumber),
    /// The index has this sorted part now.
    Index(IndexPart),
    /// A snapshot was committed, with the chunk that it begins with.
    Commit(SnapshotId, Reference),
    /// Content that this cause left behind is to be destroyed. A snapshot or a put that it names is not there any more.
    Forget(ForgetId, Owed),
    /// A sanitization is under way.
    Begin(RunId),
    /// The sanitization has met an obligation, with this many passes.
    Met(ForgetId, RunId, u16),
    /// The sanitization is over.
    End(RunId),
    /// A receipt that is not in the audit log yet. Only in snapshots.
    Receipt(Receipt),
    /// The audit log has this many of the oldest receipts, and this end.
    Recorded(u64, LogHead),
    /// A put is under way: if it ends without a snapshot, all that it stores or refers to is owed.
    BeginPut(PutId),
    /// The put has ended; the other changes of the frame are its outcome.
    EndPut(PutId),
    /// The snapshot begins with another chunk.
    Replace(SnapshotId, Reference),
    /// A hold of this name keeps the snapshot from being forgotten.
    Hold(String, SnapshotId),
    /// The holds of this name are released.
    Release(String),
    /// A part of the slot's container was found damaged.
    Damaged(SlotNumber),
    /// The generations of the pages of the table. Only in snapshots.
    Pages(Vec<u64>),
}

impl Change {
    /// The slots that the change names.
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

/// The sum of all changes, except those of slots.
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
    /// Receipts that are not in the audit log yet, the oldest first.
    pub receipts: VecDeque<Receipt>,
    /// The end of the audit log.
    pub log: LogHead,
}

/// Longest name of a hold.
pub const HOLD_NAME_BYTES_MAX: usize = 64;

/// Most bytes that a snapshot, an obligation or a receipt takes in a snapshot of the catalog.
const ROOT_BYTES: u64 = 64;
const RECEIPT_BYTES: u64 = 48;
const HOLD_BYTES: u64 = 16;
const NUMBERS_BYTES: u64 = 256;
const SLOT_BYTES: u64 = 5;
const PAGE_BYTES: u64 = 10;

/// Most bytes that a hold of this name on one snapshot takes.
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

    /// The changes that lead from the empty state to this one.
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

    /// Most bytes that a snapshot of this state takes, after any forgets and merges.
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

/// The changes that `bytes` encode; `None` if they are invalid.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (change, rest) = postcard::take_from_bytes(bytes).ok()?;
        changes.push(change);
        bytes = rest;
    }
    Some(changes)
}
