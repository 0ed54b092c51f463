//! The journal: durable obligations, and staging slots for content that is in flight.
//!
//! Layout (byte by byte in `docs/formats/journal.md`): a head, two halves, the
//! slots and the notes. A half is a mark, a snapshot of the ledger, and the changes since,
//! a frame a commit. When a half is full, a snapshot goes to the other one.
//!
//! Invariants:
//! 1. A frame is durable before the next one is written, so that only the last
//!    frame can be torn. An invalid frame with a valid one of the same
//!    generation behind it is damage, and is refused.
//! 2. A half is overwritten only after the other one's snapshot is durable.
//! 3. Frames hold addresses, never content. Content is in slots only, and each
//!    is overwritten by the disk's policy before it is called clean.

mod frame;
mod notes;
mod record;
mod scan;
#[cfg(test)]
mod tests;

use crate::base::parts::{Forget, Parts};
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Millis, Part, Pos, Scope};
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::owed::KeysPosition;
use crate::owed::ledger::{Cause, Counters, Due, Ledger, Obligation};
use crate::owed::receipts::{Done, LogHead, Receipt, Receipts};
use crate::owed::{Owed, OwedContent};
pub use frame::{Frame, FrameKind, Head, RawFrame};
pub use notes::{FrameId, NOTES, Note};
pub use record::RecordError;
pub use scan::{JournalError, Recovered, mend, scan};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes in the unit that a medium writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of content that one slot holds.
pub const SLOT_BYTES: u64 = 4096;
/// Where the first half begins.
pub const HALVES_AT: u64 = 4096;
/// Bytes in each half of the journal of a disk: from that of a small disk to that of a large one.
const HALF_BYTES: RangeInclusive<u64> = 4 << 20..=16 << 20;
/// Each half has one byte for so many bytes of the disk.
const DISK_BYTES_A_BYTE: u64 = 256;
/// The version of the format that this code writes and reads.
pub const VERSION: u32 = 3;

/// The number of a staging slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

/// The sizes of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes in each half; a multiple of [`SECTOR_BYTES`].
    pub half_bytes: u64,
    /// How many staging slots.
    pub slots: u32,
}

impl Shape {
    /// The journal of a disk of `size` bytes, with 256 slots. What a guest at work frees waits until it rests only while
    /// there is room: the larger a disk, the more there may be. From 1 GiB, 65,000 obligations, to 4 GiB, 260,000.
    #[must_use]
    pub fn of_disk(size: u64) -> Self {
        let half_bytes = (size / DISK_BYTES_A_BYTE).clamp(*HALF_BYTES.start(), *HALF_BYTES.end());
        let shape = Self { half_bytes: half_bytes.next_multiple_of(SECTOR_BYTES), slots: 256 };
        assert!(shape.is_sane(), "a start takes a journal of {shape:?}");
        shape
    }

    /// Bytes of the whole journal.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.slot(Slot(self.slots)).0 + notes::NOTES_BYTES
    }

    /// Where `slot` begins.
    #[must_use]
    pub fn slot(self, slot: Slot) -> Pos {
        assert!(slot.0 <= self.slots, "{slot:?} lies behind the last slot");
        Pos(HALVES_AT + 2 * self.half_bytes + u64::from(slot.0) * SLOT_BYTES)
    }

    /// Where half `which` (0 or 1) begins.
    #[must_use]
    pub fn half(self, which: usize) -> Pos {
        assert!(which < 2, "a journal has two halves");
        Pos(HALVES_AT + which as u64 * self.half_bytes)
    }

    /// Both halves.
    #[must_use]
    pub fn halves(self) -> Extent<Pos> {
        Extent::between(self.half(0).0, self.slot(Slot(0)).0)
    }

    /// How many obligations and receipts fit, so that a snapshot of them with
    /// every slot in use takes half a half at most.
    #[must_use]
    pub fn entries_max(self) -> usize {
        let heads = 2 * SECTOR_BYTES + record::COUNTERS_BYTES + record::LOG_BYTES;
        let changes = (self.half_bytes / 2).saturating_sub(heads) / record::CHANGE_BYTES_MAX;
        usize::try_from(changes).unwrap_or(usize::MAX).saturating_sub(self.slots as usize + 1)
    }
}

/// One change to the content of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `extent` has this obligation from now on, whatever it had before.
    Oblige(Extent<Addr>, Due, Cause),
    /// The guest wrote over dead bytes in `extent`: they are live, and owed until a sync. Only in snapshots,
    /// and valid only in the host's session with this number (see [`Note`]).
    Overwritten(Extent<Addr>, u64),
    /// `extent` has no obligation any more: its dead content is owed by place.
    Clear(Extent<Addr>),
    /// The obligations of `extent` are completed, with so many passes over each byte: each becomes a
    /// receipt.
    Complete(Extent<Addr>, Done, u16),
    /// `slot` has the content of `extent`, which is being overwritten.
    Stage(Slot, Extent<Addr>, Crc),
    /// All staged content is back in its place. The slots still have copies of it.
    Release,
    /// The staging slots have been overwritten.
    Clean,
    /// The dead content of this address lies at this place and is to be destroyed there. The address now has
    /// another place, or none.
    Owe(Place, Addr, Cause),
    /// Nothing is owed at this place any more: receipts say what was destroyed.
    ClearPlace(Place),
    /// The audit log does not have this receipt yet.
    Receipt(Receipt),
    /// The audit log has this many more receipts, the oldest first.
    Recorded(u64),
    /// A part of a set that is to be forgotten. The set comes directly behind its parts, in the same commit.
    Part(Part),
    /// This is to be forgotten: a set with the parts that come directly before.
    Forget(Scope),
    /// The keys of the disk have come so far.
    Keys(KeysPosition),
    /// This is forgotten, with so many blocks of content: that becomes a receipt, with so many passes.
    Forgotten(Scope, u64, u16),
}

/// The CRC-32C of a slot's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crc(pub u32);

/// The content of the staging slots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slots {
    /// The staged content, which may be nowhere else.
    pub staged: BTreeMap<Slot, (Extent<Addr>, Crc)>,
    /// Whether the slots have content, or may have.
    pub dirty: bool,
}

/// The content of the journal, in memory: the sum of all changes.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The host's session.
    pub session: u64,
    /// The obligations.
    pub ledger: Ledger,
    /// The dead content that is owed by place.
    pub owed: Owed,
    /// What is to be forgotten, in the order in which that was asked for.
    pub forgets: Vec<Forget>,
    /// Parts whose set comes next.
    parts: Vec<Part>,
    /// The staging slots.
    pub slots: Slots,
    /// How far the keys have come, of a disk whose content dies with its keys.
    pub keys: Option<KeysPosition>,
    /// The counters.
    pub counters: Counters,
    /// Receipts that the audit log does not have yet.
    pub receipts: Receipts,
    /// The end of the audit log.
    pub log: LogHead,
}

impl State {
    /// Applies one change that was made at `now`.
    pub fn apply(&mut self, change: Change, now: Millis) {
        match change {
            Change::Oblige(extent, due, cause) => {
                self.ledger.insert(extent, Obligation { due, cause, since: now });
            }
            Change::Overwritten(extent, session) if session == self.session => self.ledger.overwrite(extent),
            Change::Overwritten(..) => {}
            Change::Clear(extent) => self.ledger.remove(extent),
            Change::Complete(extent, act, passes) => self.complete(extent, act, passes),
            Change::Stage(slot, extent, crc) => {
                self.slots.staged.insert(slot, (extent, crc));
                self.slots.dirty = true;
            }
            Change::Release => self.slots.staged.clear(),
            Change::Clean => self.slots.dirty = false,
            Change::Owe(place, address, cause) => {
                let extent = Extent::new(address.0, place.extent.len);
                let dead = || self.ledger.dead().within(extent);
                let owed = dead().chain(self.ledger.overwritten_within(extent));
                let since = owed.map(|(_, it)| it.since).min().unwrap_or(now);
                // One sensitive byte makes the whole place sensitive, and no old key is plain.
                let is_plain = self.keys.is_none() && dead().next().is_some();
                let is_plain = is_plain && dead().all(|(_, it)| it.due.is_plain());
                let mut content = OwedContent::new(place.extent.start, address, cause, since);
                content.is_plain = is_plain;
                self.owed.insert(place, content);
            }
            Change::ClearPlace(place) => self.owed.remove(place),
            Change::Receipt(receipt) => self.give(receipt),
            Change::Recorded(count) => self.receipts.recorded(count),
            Change::Part(part) => self.parts.push(part),
            Change::Forget(scope) => self.forget(scope),
            Change::Keys(position) => self.keys = self.keys.max(Some(position)),
            Change::Forgotten(scope, blocks, passes) => self.forgotten(scope, blocks, passes),
        }
    }

    fn forget(&mut self, scope: Scope) {
        let parts = std::mem::take(&mut self.parts);
        let Scope::Set(set) = scope else {
            assert!(parts.is_empty(), "parts are of a set");
            return self.forgets.push(scope.into());
        };
        let forget = Forget::set(Arc::new(Parts::new(set.id, parts))).filter(|it| it.scope() == scope);
        self.forgets.push(forget.expect("a set comes behind its parts, whose epochs it has"));
    }

    /// How many parts the sets have that are to be forgotten: each takes the room of an entry.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.forgets.iter().map(|it| it.parts().len()).sum()
    }

    fn forgotten(&mut self, scope: Scope, blocks: u64, passes: u16) {
        let same = |it: &Forget| it.scope() == scope;
        if let Some(first) = self.forgets.iter().position(same) {
            self.forgets.remove(first);
        }
        if mutant::is(Mutant::MergeForgets) {
            self.forgets.retain(|it| !same(it));
        }
        self.give(forget_receipt(scope, blocks, passes));
    }

    fn complete(&mut self, extent: Extent<Addr>, act: Done, passes: u16) {
        let mut completed = Vec::new();
        let owed = self.ledger.within(extent).chain(self.ledger.overwritten_within(extent));
        for (extent, it) in owed {
            completed.push(Receipt { act, cause: it.cause, passes, extent, forgot: None });
        }
        let bytes = completed.iter().map(|receipt| receipt.extent.len).sum::<u64>();
        assert!(bytes <= extent.len, "each byte is completed once");
        completed.into_iter().for_each(|receipt| self.give(receipt));
        self.ledger.remove(extent);
    }

    fn give(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
        self.counters.receipts = self.counters.receipts.saturating_add(1);
    }

    /// The changes that make this state from nothing.
    fn changes(&self) -> Vec<Change> {
        let obligations = self.ledger.all().map(|(extent, it)| Change::Oblige(extent, it.due, it.cause));
        // A key that is in memory only is lost with it: what lies under it stays dead.
        let overwritten = self.ledger.overwritten().filter(|_| self.keys.is_none());
        let overwritten = overwritten.map(|(extent, _)| Change::Overwritten(extent, self.session));
        let staged =
            self.slots.staged.iter().map(|(slot, (extent, crc))| Change::Stage(*slot, *extent, *crc));
        let owed = self.owed.iter();
        let owed = owed.map(|(place, it)| Change::Owe(place, it.address(place.extent).start, it.cause));
        let lost = |forget: &Forget| without_last(forget).filter(|_| mutant::is(Mutant::LosePart));
        let forgets: Vec<Forget> =
            self.forgets.iter().map(|forget| lost(forget).unwrap_or_else(|| forget.clone())).collect();
        let forgets = forgets.iter().flat_map(changes_of);
        let keys = self.keys.map(Change::Keys);
        let receipts = self.receipts.iter().copied().map(Change::Receipt);
        let receipts = receipts.filter(|_| !mutant::is(Mutant::ForgetReceipts));
        let owes = obligations.chain(overwritten).chain(staged).chain(owed).chain(forgets);
        let mut changes: Vec<Change> = owes.chain(keys).chain(receipts).collect();
        if self.slots.dirty && self.slots.staged.is_empty() {
            // Staged once and released: only the slots' being dirty is left of it.
            changes.push(Change::Stage(Slot(0), Extent::default(), Crc(0)));
            changes.push(Change::Release);
        }
        let entries = self.ledger.len() + self.owed.len() + self.receipts.len() + self.parts();
        let others = self.slots.staged.len() + self.forgets.len() + 3;
        assert!(
            changes.len() <= entries + others,
            "a snapshot has no more records than its half has room for"
        );
        changes
    }
}

/// The changes that a forget begins with, all in one commit.
pub(crate) fn changes_of(forget: &Forget) -> impl Iterator<Item = Change> {
    let parts = forget.parts().iter().copied().map(Change::Part);
    parts.chain([Change::Forget(forget.scope())])
}

/// The set without its last part, if it has two.
fn without_last(forget: &Forget) -> Option<Forget> {
    let (Scope::Set(set), [parts @ .., _]) = (forget.scope(), forget.parts()) else { return None };
    Forget::set(Arc::new(Parts::new(set.id, parts.to_vec())))
}

/// The receipt of a forget, with which so many blocks of content died.
fn forget_receipt(scope: Scope, blocks: u64, passes: u16) -> Receipt {
    let (act, cause, extent) = (Done::Shredded, Cause::Forget, Extent::new(0, blocks * BLOCK_BYTES));
    Receipt { act, cause, passes, extent, forgot: Some(scope) }
}

/// The writing end of the journal. Does no I/O: says which bytes go where.
#[derive(Clone, Debug)]
pub struct Journal {
    shape: Shape,
    half: usize,
    generation: u64,
    /// The number of the last frame made.
    seq: u64,
    /// Where the next frame goes, in bytes from the start of the half.
    cursor: u64,
    pending: Vec<Change>,
}

/// The writes of one commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Where the frame goes.
    pub pos: Pos,
    /// The frame.
    pub bytes: Vec<u8>,
    /// All changes up to this number are durable with it.
    pub seq: u64,
    /// A mark, and where it goes: written at any time after the frame is durable.
    pub mark: Option<(Pos, Vec<u8>)>,
}

impl Journal {
    /// A journal of `shape` whose last frame has this half, generation and number. The next commit is a
    /// snapshot in the other half.
    #[must_use]
    pub fn resume(shape: Shape, half: usize, generation: u64, seq: u64) -> Self {
        assert!(half < 2, "a journal has two halves");
        Self { shape, half, generation, seq, cursor: shape.half_bytes, pending: Vec::new() }
    }

    /// The sizes of the journal.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The name of the last frame made.
    #[must_use]
    pub fn position(&self) -> FrameId {
        FrameId { generation: self.generation, seq: self.seq }
    }

    /// Adds `change` to the next commit; returns that commit's number.
    pub fn push(&mut self, change: Change) -> u64 {
        self.pending.push(change);
        self.seq + 1
    }

    /// Whether changes wait for a commit.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Makes the next commit. `state` has all pending changes applied.
    pub fn commit(&mut self, state: &State) -> Commit {
        self.seq += 1;
        let changes = std::mem::take(&mut self.pending);
        let frame = self.frame(FrameKind::Delta, changes, state).to_bytes();
        if self.cursor + frame.len() as u64 > self.shape.half_bytes {
            return self.rotate(state);
        }
        // A torn write of this frame must not damage the one before.
        assert!(self.cursor.is_multiple_of(SECTOR_BYTES), "a frame begins at a sector");
        let pos = Pos(self.shape.half(self.half).0 + self.cursor);
        self.cursor += frame.len() as u64;
        assert!(self.cursor <= self.shape.half_bytes, "a frame leaves the other half alone");
        Commit { pos, bytes: frame, seq: self.seq, mark: None }
    }

    /// Makes a commit that is a snapshot in the other half.
    fn rotate(&mut self, state: &State) -> Commit {
        let old = (self.shape.half(self.half), frame::mark(self.generation));
        self.half = 1 - self.half;
        self.generation += 1;
        let snapshot = self.frame(FrameKind::Snapshot, state.changes(), state);
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        bytes.extend(snapshot.to_bytes());
        assert!(bytes.len() as u64 <= self.shape.half_bytes, "a snapshot outgrew its half");
        self.cursor = bytes.len() as u64;
        assert!(self.cursor.is_multiple_of(SECTOR_BYTES), "the next frame begins at a sector");
        Commit { pos: self.shape.half(self.half), bytes, seq: self.seq, mark: Some(old) }
    }

    fn frame(&self, kind: FrameKind, changes: Vec<Change>, state: &State) -> Frame {
        Frame {
            kind,
            generation: self.generation,
            seq: self.seq,
            counters: state.counters,
            log: state.log,
            changes,
        }
    }
}
