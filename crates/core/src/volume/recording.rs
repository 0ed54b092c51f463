//! Receipts on their way to the audit log.
//!
//! Invariants:
//! 1. A receipt is handed out only when the commit that met its obligation is durable,
//!    and while no copy can be left of what it is for.
//! 2. A receipt stays in the journal until the audit log has made it durable.
//! 3. Receipts take room that obligations have too. Deaths wait for room; tasks go on a
//!    while, because each turns obligations into receipts; an audit log that cannot take
//!    them for long latches the disk. So nobody waits for ever, and memory is bounded.

use super::{Command, Volume};
use crate::journal::Change;
use crate::mutant::{self, Mutant};
use crate::receipts::LogHead;
use std::collections::VecDeque;

/// How far receipts have come, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Recording {
    /// The journal has those before durably.
    durable: u64,
    /// The commits that make more of them durable, in order: its number, and up to which.
    committing: VecDeque<(u64, u64)>,
    /// Those before were handed out.
    given: u64,
    /// Why the audit log cannot be written, since the last time that it could.
    stuck: Option<String>,
}

impl Recording {
    /// After a start: the journal's receipts are all to be handed out.
    pub(super) fn resume(first: u64, end: u64) -> Self {
        Self { durable: end, given: first, ..Self::default() }
    }

    /// Commit `seq` has those before `end`.
    pub(super) fn note(&mut self, seq: u64, end: u64) {
        if mutant::is(Mutant::ReceiptBeforeCommit) {
            self.durable = end;
        }
        match self.committing.back_mut() {
            Some((last, to)) if *last == seq => *to = end,
            _ => self.committing.push_back((seq, end)),
        }
    }

    /// Commit `seq` is durable.
    pub(super) fn committed(&mut self, seq: u64) {
        while let Some((_, end)) = self.committing.pop_front_if(|(first, _)| *first <= seq) {
            self.durable = end;
        }
    }
}

impl Volume {
    /// Hands receipts out, once no copy can be left of what they are for.
    pub(super) fn give_receipts(&mut self, out: &mut Vec<Command>) {
        if !self.has_receipts_to_give() || self.store.has_residue() {
            return;
        }
        let (from, to) = (self.commits.recording.given, self.commits.recording.durable);
        let skipped = from - self.first_receipt();
        let receipts = self.state.receipts.iter().skip(skipped as usize).copied();
        out.extend((from..to).zip(receipts).map(|(number, receipt)| Command::Receipt(number, receipt)));
        self.commits.recording.given = to;
    }

    pub(super) fn has_receipts_to_give(&self) -> bool {
        self.commits.recording.given < self.commits.recording.durable
    }

    /// The audit log, which ends with `head`, has all receipts before number `receipts`.
    pub(super) fn recorded(&mut self, receipts: u64, head: LogHead) {
        let first = self.first_receipt();
        // No further than to what can be in the log.
        let receipts = receipts.clamp(first, self.commits.recording.durable);
        self.commits.recording.stuck = None;
        self.commits.recording.given = self.commits.recording.given.max(receipts);
        if self.config.read_only || (receipts == first && head == self.state.log) {
            return;
        }
        self.state.log = head;
        self.change(Change::Recorded(receipts - first));
    }

    pub(super) fn record_stuck(&mut self, reason: String) {
        self.commits.recording.stuck = Some(reason);
    }

    /// The disk can go on no longer without the audit log.
    pub(super) fn check_log(&mut self, out: &mut Vec<Command>) {
        if self.state.receipts.len() < self.commits.journal.shape().entries_max() / 4 {
            return;
        }
        if let Some(reason) = self.commits.recording.stuck.take() {
            let receipts = self.state.receipts.len();
            self.latch(
                &format!("the audit log cannot be written, and {receipts} receipts wait: {reason}"),
                out,
            );
        }
    }

    /// Whether tasks may make receipts: what they add to the journal has an end.
    pub(super) fn may_owe_receipts(&self) -> bool {
        self.entries() < self.commits.journal.shape().entries_max() / 2 * 3
    }

    /// Entries of the ledger, and receipts, which take the same room.
    pub(super) fn entries(&self) -> usize {
        self.state.ledger.len() + self.state.owed.len() + self.state.receipts.len()
    }

    fn first_receipt(&self) -> u64 {
        self.state.counters.receipts - self.state.receipts.len() as u64
    }
}
