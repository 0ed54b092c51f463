//! Writes over dead bytes where the new content goes to the same place. With a policy of one pass
//! such a write is itself the pass, and waits for nothing.
//!
//! Invariants:
//! 1. Bytes are dead until the write over them has ended and a [note](crate::owed::journal::Note) says
//!    so. The old content is not read any more, and a kill of the server undoes nothing that was shown.
//!    No erase task begins there meanwhile.
//! 2. A sync that began after the write had ended completes the obligation. Until then the
//!    journal calls the bytes dead, and after a power cut they are.
//! 3. A FUA write or a flush is answered when the journal says durably that the obligation is
//!    completed. Otherwise a power cut would undo what was promised.

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, Extent, Millis};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::owed::journal::{Change, NOTES};
use crate::owed::receipts::Done;
use crate::volume::disk::Disk;
use crate::volume::io::IoOp;
use crate::volume::{Command, Purpose};
use std::collections::BTreeSet;

/// How long such a write may wait for a sync that no request asks for, in milliseconds.
const UNSYNCED_MS_MAX: u64 = 1000;
/// Entries of the ledger that one more write over dead bytes may need: the dead parts before and behind,
/// and two for its own bytes.
const ENTRIES_NEEDED: usize = 4;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::volume) struct Overwriting {
    /// The dead bytes that writes under way go to.
    pub(in crate::volume) under_way: ExtentMap<Addr, ()>,
    /// When the first write ended that no sync covers, if there is one.
    pub(in crate::volume) since: Millis,
    /// The number of the last commit that completes such obligations.
    pub(in crate::volume) completed_seq: u64,
    pub(in crate::volume) notes: Notes,
}

/// The notes that are still needed, by their numbers.
#[derive(Debug, Default)]
pub(in crate::volume) struct Notes {
    next: u64,
    /// The writes under way whose notes have no number yet.
    awaited: u64,
    /// The notes that are being written.
    under_way: BTreeSet<u64>,
    /// The sync under way, or the last one, covers the notes before this number.
    syncing: u64,
    /// The commit after the last sync covers the notes before this number.
    completed: u64,
    /// The notes before this number are needed no more.
    done: u64,
}

impl Notes {
    fn has_room(&self) -> bool {
        assert!(self.done <= self.next, "only notes that were taken are free again");
        self.next - self.done + self.awaited < NOTES
    }

    /// The number of the next note, which is about to be written.
    pub(in crate::volume) fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        assert!(self.next - self.done <= NOTES, "a note that is needed is not overwritten");
        assert!(self.under_way.insert(number), "a note is under way once");
        number
    }

    /// Note `number` is written.
    pub(in crate::volume) fn written(&mut self, number: u64) {
        assert!(self.under_way.remove(&number), "a note is under way until it is written");
    }

    /// Whether so many notes are in use that a sync is wanted.
    fn is_crowded(&self) -> bool {
        assert!(self.syncing <= self.next, "a sync covers only notes that were taken");
        self.next - self.syncing >= NOTES / 2
    }
}

impl Overwriting {
    /// The state at a start. What a kill of the server left unsynced is in the ledger, counts from `now` on, and
    /// waits for a sync as ever.
    pub(in crate::volume) fn new(now: Millis) -> Self {
        Self { since: now, ..Self::default() }
    }
}

impl Disk {
    /// Whether new content destroys what lies in its place: it goes there, and the policy wants no more than one pass.
    fn overwriting_destroys(&self) -> bool {
        self.store.same_place() && !self.erases(MediumId::Data) && self.config.policy.passes().len() == 1
    }

    /// Makes all notes invalid: the medium failed, and content with a note may be lost when the host's cache
    /// forgets it.
    pub(in crate::volume) fn invalidate_notes(&mut self, out: &mut Vec<Command>) {
        if self.state.ledger.has_overwritten() {
            self.zero_notes(out);
        }
    }

    /// The same, whatever is known of notes: one that was being written when the medium failed is on it now.
    pub(in crate::volume) fn zero_notes(&mut self, out: &mut Vec<Command>) {
        let place = Place { on: MediumId::Journal, extent: self.commits.journal.shape().notes() };
        self.io(Purpose::InvalidateNotes, place, IoOp::Zero, out);
    }

    /// Whether a write of `extent` destroys all that is owed there, leaves it elsewhere, or goes under other keys; and may begin.
    pub(in crate::volume) fn can_overwrite(&self, extent: Extent<Addr>) -> bool {
        let extent = self.with_gone(extent);
        let may_go_over = || self.state.ledger.within(extent).all(|(_, it)| self.may_go_over(it.due));
        let has_room = || self.overwriting.notes.has_room() && self.has_room_for(ENTRIES_NEEDED);
        let is_possible = || self.overwriting_destroys() || self.leaves_older() || self.can_renew(extent);
        may_go_over() && !self.commits.undurable.overlaps(extent) && has_room() && is_possible()
    }

    /// Whether a write over dead bytes is noted, so that a kill undoes nothing that was shown. One under another key is lost with the
    /// memory that has the key, and one to a medium that erases with the memory that the medium collects writes in.
    pub(in crate::volume) fn takes_notes(&self) -> bool {
        !self.dies_by_key() && !self.erases(MediumId::Data)
    }

    /// Notes that a write of `extent` begins.
    pub(in crate::volume) fn begin_overwrite(&mut self, extent: Extent<Addr>) {
        if self.goes_over(extent) {
            let before = self.overwriting.under_way.bytes();
            self.overwriting.under_way.insert(extent, ());
            let after = self.overwriting.under_way.bytes();
            assert!(after == before + extent.len, "one write at a time goes over the same bytes");
            let is_noted = self.takes_notes();
            let notes = &mut self.overwriting.notes;
            notes.awaited += u64::from(is_noted);
            assert!(
                notes.next - notes.done + notes.awaited <= NOTES,
                "each write over dead bytes has its note"
            );
            if mutant::is(Mutant::OverwriteEarly) {
                self.state.ledger.overwrite(extent);
            }
        }
    }

    /// Whether a write of `extent` leaves something owed until a sync.
    fn goes_over(&self, extent: Extent<Addr>) -> bool {
        let ledger = &self.state.ledger;
        ledger.dead().overlaps(extent) || self.leaves_older() && ledger.suspicious().overlaps(extent)
    }

    /// The write to `extent` has ended. Whether it went over dead bytes, and is to be noted.
    pub(in crate::volume) fn overwrite_ended(&mut self, extent: Extent<Addr>) -> bool {
        let is_over_dead = self.overwriting.under_way.overlaps(extent);
        if !self.takes_notes() {
            return is_over_dead;
        }
        let notes = &mut self.overwriting.notes;
        assert!(!is_over_dead || notes.awaited > 0, "a write over dead bytes awaits its note until it ends");
        notes.awaited -= u64::from(is_over_dead);
        is_over_dead
    }

    /// Notes that a write of `extent` has failed: dead bytes there stay dead.
    pub(in crate::volume) fn give_up_overwrite(&mut self, extent: Extent<Addr>) {
        self.overwriting.under_way.remove(extent);
    }

    /// Notes that a sync begins.
    pub(in crate::volume) fn begin_overwritten_sync(&mut self) {
        if mutant::is(Mutant::NameUnended) {
            self.overwriting.under_way.iter().for_each(|(run, ())| self.state.ledger.overwrite(run));
        }
        self.state.ledger.begin_sync();
        let notes = &mut self.overwriting.notes;
        notes.syncing = notes.under_way.first().copied().unwrap_or(notes.next);
        assert!(notes.completed <= notes.syncing && notes.syncing <= notes.next, "notes are synced in order");
        if mutant::is(Mutant::OverwrittenUnsynced) {
            self.end_overwritten_sync();
        }
    }

    /// Completes the obligations that the sync covers, which has ended.
    pub(in crate::volume) fn end_overwritten_sync(&mut self) {
        self.meet_overwritten(&self.state.ledger.synced());
        assert!(self.state.ledger.synced().is_empty(), "a sync that has ended owes no completion");
        let notes = &mut self.overwriting.notes;
        assert!(notes.completed <= notes.syncing, "notes that are completed stay so");
        notes.completed = notes.syncing;
        self.free_notes();
    }

    /// Frees the notes of all obligations that are durably completed.
    pub(in crate::volume) fn free_notes(&mut self) {
        if self.is_met_durable() {
            let notes = &mut self.overwriting.notes;
            assert!(notes.done <= notes.completed, "a note that is free stays so");
            notes.done = notes.completed;
        }
    }

    pub(in crate::volume) fn meet_overwritten(&mut self, runs: &[Extent<Addr>]) {
        for run in runs {
            let owed = self.state.ledger.overwritten_within(*run).map(|(part, _)| part.len).sum::<u64>();
            assert!(owed == run.len, "only what was written over is completed so");
            let leaves_older = self.leaves_older() && !mutant::is(Mutant::ForgetOlder);
            let seq = if self.dies_by_key() || leaves_older {
                self.owe_overwritten(*run)
            } else {
                self.state.counters.destroyed_bytes += run.len;
                self.change(Change::Complete(*run, Done::Overwritten, 1))
            };
            assert!(
                self.overwriting.completed_seq <= seq,
                "a completion is in the last commit, or in a later one"
            );
            self.overwriting.completed_seq = seq;
        }
        if !runs.is_empty() {
            self.note_keys();
        }
    }

    /// Whether all obligations of bytes that were written over are durably completed.
    pub(in crate::volume) fn is_overwritten_met(&self) -> bool {
        !self.state.ledger.has_overwritten() && self.is_met_durable()
    }

    pub(in crate::volume) fn is_met_durable(&self) -> bool {
        self.commits.durable.seq >= self.overwriting.completed_seq
            || mutant::is(Mutant::FlushBeforeCompletion)
    }

    /// Whether bytes that were written over should be synced although no request asks.
    pub(in crate::volume) fn wants_overwritten_sync(&self) -> bool {
        let is_crowded = self.overwriting.notes.is_crowded() || !self.has_room();
        let is_old = self.schedule.now.since(self.overwriting.since) >= UNSYNCED_MS_MAX;
        self.state.ledger.has_unsynced() && (is_crowded || is_old)
    }

    /// When such a sync is due at the latest.
    pub(in crate::volume) fn overwritten_wakeup(&self) -> Option<Millis> {
        let latest = Millis(self.overwriting.since.0.saturating_add(UNSYNCED_MS_MAX));
        self.state.ledger.has_unsynced().then_some(latest)
    }
}
