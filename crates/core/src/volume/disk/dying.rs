//! What dies: obligations, their room in the ledger, and what lies below.

use crate::base::units::{Addr, Extent, Millis};
use crate::owed::ledger::{Cause, Due};
use crate::request::Op;
use crate::volume::disk::Disk;
use crate::volume::origin::Origin;

/// Entries of the ledger that are reserved for erase tasks: destroying the middle of an entry splits it.
const ENTRIES_RESERVED: usize = 16;

impl Disk {
    /// The first part of `run`, which dies, and how it is to be destroyed: sensitive content may lie below what was written
    /// over it, until a sync.
    pub(in crate::volume) fn above_overwritten(&self, run: Extent<Addr>, due: Due) -> (Extent<Addr>, Due) {
        let mut below = self.state.ledger.overwritten_within(run).filter(|(_, it)| !it.due.is_plain());
        match below.next().filter(|_| due.is_plain()) {
            Some((below, it)) if below.start == run.start => (below, due.and(it.due)),
            Some((below, _)) => (Extent::between(run.start.0, below.start.0), due),
            None => (run, due),
        }
    }

    /// The fate of the bytes that `op` frees, and why they die; `None` if it frees no bytes.
    pub(in crate::volume) fn obligation(&self, id: Origin, op: &Op) -> Option<(Due, Cause)> {
        let shred = |no_hole, cause| Some((Due::Shred { no_hole }, cause));
        match op {
            Op::Zero { no_hole, .. } => shred(*no_hole && self.store.same_place(), Cause::WriteZeroes),
            Op::Trim => shred(false, Cause::Trim),
            Op::Purge if matches!(id, Origin::Own(_)) => shred(false, Cause::Map),
            Op::Purge => shred(false, Cause::Purge),
            Op::ConservativeOverwrite => Some((Due::ConservativeOverwrite, Cause::ConservativeOverwrite)),
            Op::Read
            | Op::Copy
            | Op::Write(_)
            | Op::Cache
            | Op::Flush
            | Op::ReadForInference
            | Op::ReadPast(_)
            | Op::Compare(_)
            | Op::Ask(_)
            | Op::CloseEpoch { .. }
            | Op::Forget(_)
            | Op::ForgetSet(_) => None,
        }
    }

    /// Whether deaths that are known since `since` become obligations now. What dies by key does so as soon as the evidence is durable: a
    /// write over what is known to be dead waits for nothing, and one over what may be dead is staged.
    pub(in crate::volume) fn takes_deaths(&self, since: Millis) -> bool {
        self.is_due_since(since) || self.dies_by_key() && !self.schedule.halting
    }

    /// Whether a checkpoint is made for evidence since `since`, rather than wait for one that another waiter asks for.
    pub(in crate::volume) fn is_evidence_due(&self, since: Millis) -> bool {
        self.is_due_since(since) || !self.dies_by_key()
    }

    pub(in crate::volume) fn has_room(&self) -> bool {
        self.has_room_for(0)
    }

    /// Whether the ledger has room for `entries`, and then for one more.
    pub(in crate::volume) fn has_room_for(&self, entries: usize) -> bool {
        self.entries() + entries + ENTRIES_RESERVED + 2 < self.commits.journal.shape().entries_max()
    }

    /// Whether the journal has room for `parts` of sets that are to be forgotten: in all, sets have a quarter of it at most.
    pub(in crate::volume) fn has_room_for_parts(&self, parts: usize) -> bool {
        let most = self.commits.journal.shape().entries_max() / 4;
        self.state.parts() + parts <= most && self.has_room_for(parts)
    }
}
