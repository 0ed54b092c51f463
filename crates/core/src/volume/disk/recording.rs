//! Receipts on their way to the audit log.
//!
//! Invariants:
//! 1. A receipt is handed out only when the commit that completed its obligation is durable,
//!    and while no copy of the destroyed content can be left.
//! 2. A receipt stays in the journal until the audit log has made it durable.
//! 3. Receipts and obligations share the room in the ledger, so memory is bounded. Deaths wait for
//!    room; erase tasks go on a while, because each turns obligations into receipts.
//! 4. An audit log that cannot be written never latches the disk. Once many receipts wait for it,
//!    or for copies that [remain](super::remaining), destruction pauses: only erase tasks that a write waits for begin.
//!    Requests that need room which only the log can give are refused; all others are served.

use crate::media::medium::{MediumError, MediumErrorKind};
use crate::mutant::{self, Mutant};
use crate::owed::journal::Change;
use crate::owed::receipts::LogHead;
use crate::volume::disk::Disk;
use crate::volume::{Command, Volume};
use std::collections::VecDeque;

/// How far receipts have come, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::volume) struct Recording {
    /// The journal durably has the receipts before this number.
    durable: u64,
    /// The commits that make more receipts durable: the number of each, and the end of its receipts.
    committing: VecDeque<(u64, u64)>,
    /// The receipts before this number were handed out.
    given: u64,
    /// Why the audit log cannot be written, since the last time that it could.
    stuck: Option<String>,
}

impl Recording {
    /// The state after a start: receipts `first..end` of the journal are to be handed out again.
    pub(in crate::volume) fn resume(first: u64, end: u64) -> Self {
        assert!(first <= end, "receipts that wait are not more than there ever were");
        Self { durable: end, given: first, ..Self::default() }
    }

    /// Notes that commit `seq` has the receipts before `end`.
    pub(in crate::volume) fn note(&mut self, seq: u64, end: u64) {
        if mutant::is(Mutant::ReceiptBeforeCommit) {
            self.durable = end;
        }
        let is_next = self.committing.back().is_none_or(|(last, to)| *last <= seq && *to < end);
        assert!(is_next, "receipts, and the commits that have them, are noted in order");
        match self.committing.back_mut() {
            Some((last, to)) if *last == seq => *to = end,
            _ => self.committing.push_back((seq, end)),
        }
    }

    /// Notes that commit `seq` is durable.
    pub(in crate::volume) fn committed(&mut self, seq: u64) {
        let count = self.committing.partition_point(|(commit, _)| *commit <= seq);
        self.durable = self.committing.drain(..count).next_back().map_or(self.durable, |(_, end)| end);
    }
}

impl Disk {
    /// Hands receipts out, once no copy of the destroyed content can be left.
    pub(in crate::volume) fn give_receipts(&mut self, out: &mut Vec<Command>) {
        if !self.has_receipts_to_give() || self.store.has_residue() {
            return;
        }
        let (from, to) = (self.commits.recording.given, self.commits.recording.durable);
        let first = self.first_receipt();
        assert!(first <= from, "the audit log has only what it was given");
        let skipped = from - first;
        assert!(to <= self.state.counters.receipts, "a receipt that is durable was made");
        let receipts = self.state.receipts.iter().skip(skipped as usize).copied();
        let before = out.len();
        out.extend((from..to).zip(receipts).map(|(number, receipt)| Command::Receipt(number, receipt)));
        assert!((out.len() - before) as u64 == to - from, "each receipt that is durable is handed out");
        self.commits.recording.given = to;
    }

    pub(in crate::volume) fn has_receipts_to_give(&self) -> bool {
        self.commits.recording.given < self.commits.recording.durable
    }

    /// Notes that the audit log, which ends with `head`, has all receipts before number `receipts`.
    pub(in crate::volume) fn recorded(&mut self, receipts: u64, head: LogHead) {
        let first = self.first_receipt();
        assert!(first <= self.commits.recording.given, "the audit log has only what it was given");
        // The log cannot have receipts that were not handed out.
        let receipts = receipts.clamp(first, self.commits.recording.durable);
        self.commits.recording.stuck = None;
        self.commits.recording.given = self.commits.recording.given.max(receipts);
        if self.config.read_only || (receipts == first && head == self.state.log) {
            return;
        }
        let waiting = self.state.receipts.len() as u64;
        assert!(receipts - first <= waiting, "the audit log takes receipts that wait, and no others");
        self.state.log = head;
        self.change(Change::Recorded(receipts - first));
        assert!(
            self.first_receipt() == receipts,
            "the journal keeps the receipts that the audit log has not"
        );
    }

    pub(in crate::volume) fn record_stuck(&mut self, reason: String) {
        self.commits.recording.stuck = Some(reason);
    }

    /// Why destruction pauses; `None` if it does not. The next try to write the audit log, or to erase what remains, wakes
    /// the volume.
    pub(in crate::volume) fn pause(&self) -> Option<&str> {
        let waits = self.state.receipts.len() >= self.commits.journal.shape().entries_max() / 4;
        self.commits.recording.stuck.as_deref().or_else(|| self.copies_remain()).filter(|_| waits)
    }

    /// Whether erase tasks may make receipts: the room for them is limited.
    pub(in crate::volume) fn may_owe_receipts(&self) -> bool {
        self.entries() < self.commits.journal.shape().entries_max() / 2 * 3
    }

    /// How many entries the ledger has, receipts and the parts of sets included: they share its room.
    pub(in crate::volume) fn entries(&self) -> usize {
        self.state.ledger.len() + self.state.owed.len() + self.state.receipts.len() + self.state.parts()
    }

    fn first_receipt(&self) -> u64 {
        let (made, waiting) = (self.state.counters.receipts, self.state.receipts.len() as u64);
        assert!(waiting <= made, "each receipt that waits was counted");
        made - waiting
    }
}

impl Volume {
    /// Refuses what waits for room, or for an erase task, while only the audit log can give room and
    /// cannot be written.
    pub(in crate::volume) fn refuse_unrecorded(&mut self, out: &mut Vec<Command>) {
        let Some(reason) = self.disk.pause() else { return };
        if self.disk.has_room() && self.disk.may_owe_receipts() {
            return;
        }
        let waits_for = if self.disk.commits.recording.stuck.is_some() { " for the audit log" } else { "" };
        let message = format!("{} receipts wait{waits_for}: {reason}", self.disk.state.receipts.len());
        let error = MediumError { kind: MediumErrorKind::NoSpace, message };
        self.on_requests(out, |requests, others| requests.refuse_roomless(others, &error));
        if !self.disk.may_owe_receipts() && self.erasing.task.is_none() {
            self.on_requests(out, |requests, others| requests.refuse_demands(others, &error));
        }
    }
}
