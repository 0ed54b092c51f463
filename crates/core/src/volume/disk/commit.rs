//! The journal's commits, one at a time, and who waits for each.

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, Extent, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::owed::journal::{Change, FrameId, Journal, SECTOR_BYTES, State};
use crate::volume::disk::Disk;
use crate::volume::disk::recording::Recording;
use crate::volume::origin::Origin;
use crate::volume::{Command, Purpose, Volume, io::IoOp};

/// The journal, and how far its commits and receipts are.
#[derive(Debug)]
pub(in crate::volume) struct Commits {
    pub(in crate::volume) journal: Journal,
    pub(in crate::volume) recording: Recording,
    under_way: Option<Committing>,
    /// All frames up to this one are durable.
    pub(in crate::volume) durable: FrameId,
    pub(in crate::volume) undurable: Undurable,
    /// The number of the last commit that moved dead content to a place.
    pub(in crate::volume) left_seq: u64,
}

impl Commits {
    pub(in crate::volume) fn new(journal: Journal, recording: Recording) -> Self {
        let durable = journal.position();
        Self { journal, recording, under_way: None, durable, undurable: Undurable::default(), left_seq: 0 }
    }

    pub(in crate::volume) fn is_durable(&self, seq: u64) -> bool {
        seq <= self.durable.seq
    }

    /// Lets request `id` wait until commit `seq` is durable, which is under way or the next one.
    pub(in crate::volume) fn wait_for(&mut self, seq: u64, id: Origin) {
        let made = self.journal.position().seq;
        assert!(
            !self.is_durable(seq) && seq <= made + 1,
            "a request waits for a commit that is still to end"
        );
        let is_made = seq == made;
        let batch = if is_made { &mut self.undurable.under_way } else { &mut self.undurable.next };
        batch.waiters.push(id);
    }

    /// Begins the next commit, with everything in `state`. Returns its write.
    fn begin(&mut self, state: &State) -> (Pos, Vec<u8>) {
        // Only the last frame can be torn, and only if no other one is being written.
        assert!(self.under_way.is_none(), "one commit at a time");
        assert!(self.journal.has_pending(), "a commit has a change");
        assert!(
            state.receipts.len() as u64 <= state.counters.receipts,
            "each receipt that waits was counted"
        );
        let commit = self.journal.commit(state);
        assert!(commit.seq == self.durable.seq + 1, "a commit follows the one that is durable");
        let is_snapshot = self.journal.position().generation > self.durable.generation;
        assert!(commit.mark.is_some() == is_snapshot, "a snapshot, and no other frame, begins a generation");
        self.undurable.begin();
        self.under_way = Some(Committing { seq: commit.seq, mark: commit.mark });
        (commit.pos, commit.bytes)
    }

    /// Ends a write of the commit under way. Returns the write that follows.
    fn write_done(&mut self) -> (u64, Option<(Pos, Vec<u8>)>) {
        let mut committing = self.under_way.take().expect("a commit ends once");
        assert!(
            committing.seq == self.journal.position().seq,
            "no commit is made while another is under way"
        );
        let (seq, mark) = (committing.seq, committing.mark.take());
        self.under_way = mark.is_some().then_some(committing);
        (seq, mark)
    }

    /// Notes that commit `seq` is durable. Returns what was in it, and who waited for that; `None` if it was known before.
    fn confirm(&mut self, seq: u64) -> Option<Batch> {
        let is_news = seq > self.durable.seq;
        if is_news {
            assert!(self.journal.position() > self.durable, "frames only go forward");
            self.durable = self.journal.position();
            assert!(self.durable.seq == seq, "no commit is made while another one is under way");
            self.recording.committed(seq);
        }
        is_news.then(|| std::mem::take(&mut self.undurable.under_way))
    }
}

/// A commit under way.
#[derive(Debug)]
struct Committing {
    seq: u64,
    /// The mark to be written after the frame.
    mark: Option<(Pos, Vec<u8>)>,
}

/// Deaths that are not durable, and who waits for them: those of the commit under way, and those of the
/// next one.
#[derive(Debug, Default)]
pub(in crate::volume) struct Undurable {
    under_way: Batch,
    next: Batch,
}

#[derive(Debug, Default)]
struct Batch {
    deaths: ExtentMap<Addr, ()>,
    /// The places of the data medium that something is owed at since then.
    places: ExtentMap<Pos, ()>,
    waiters: Vec<Origin>,
}

impl Undurable {
    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.under_way.deaths.is_empty() && self.next.deaths.is_empty()
    }

    /// Notes that `extent` has died.
    pub(in crate::volume) fn note(&mut self, extent: Extent<Addr>) {
        self.next.deaths.insert(extent, ());
    }

    /// Notes that the content of `place` is owed.
    fn note_place(&mut self, place: Place) {
        if place.on == MediumId::Data {
            self.next.places.insert(place.extent, ());
        }
    }

    /// Whether something is owed at `place` that the journal does not say durably yet.
    pub(in crate::volume) fn has(&self, place: Place) -> bool {
        let has = |it: &Batch| it.places.overlaps(place.extent);
        place.on == MediumId::Data && (has(&self.next) || has(&self.under_way))
    }

    pub(in crate::volume) fn overlaps(&self, extent: Extent<Addr>) -> bool {
        self.next.deaths.overlaps(extent) || self.under_way.deaths.overlaps(extent)
    }

    /// Whether request `id` has to wait for a death within `extent`. If so, the request is returned when the
    /// death is durable.
    pub(in crate::volume) fn must_wait_for(&mut self, id: Origin, extent: Extent<Addr>) -> bool {
        let batches = [&mut self.next, &mut self.under_way];
        let last = batches.into_iter().find(|it| it.deaths.overlaps(extent));
        last.map(|it| it.waiters.push(id)).is_some()
    }

    /// Moves all deaths to the commit that begins.
    fn begin(&mut self) {
        let last = &self.under_way;
        assert!(
            last.deaths.is_empty() && last.places.is_empty() && last.waiters.is_empty(),
            "the last commit has told who waited for it"
        );
        self.under_way = std::mem::take(&mut self.next);
    }

    /// Forgets who waits: the medium has failed.
    pub(in crate::volume) fn give_up(&mut self) {
        self.next.waiters.clear();
        self.under_way.waiters.clear();
    }
}

impl Disk {
    /// Applies `change` in memory, and adds it to the next commit. Returns that commit's number.
    pub(in crate::volume) fn change(&mut self, change: Change) -> u64 {
        assert!(!self.config.read_only, "the journal of a disk that is read-only stays as it is");
        if let Change::Complete(run, ..) | Change::Clear(run) = change {
            self.remaining.runs.remove(run);
        }
        if let Change::Owe(place, ..) = change {
            self.commits.undurable.note_place(place);
        }
        self.purging.changed(change);
        assert!(change.is_within(self.store.geometry().size), "{change:?} is one that a start takes");
        let receipts = self.state.counters.receipts;
        self.state.apply(change, self.schedule.now);
        let seq = self.commits.journal.push(change);
        assert!(!self.commits.is_durable(seq), "a change is of a commit to come");
        if self.state.counters.receipts > receipts {
            self.commits.recording.note(seq, self.state.counters.receipts);
        }
        seq
    }

    pub(in crate::volume) fn commit_pending(&mut self, out: &mut Vec<Command>) {
        if self.commits.under_way.is_some() || !self.commits.journal.has_pending() || self.latched.is_some() {
            return;
        }
        let (pos, data) = self.commits.begin(&self.state);
        self.write_journal(pos, data, true, out);
    }

    fn write_journal(&mut self, pos: Pos, data: Vec<u8>, durable: bool, out: &mut Vec<Command>) {
        let extent = Extent::new(pos.0, data.len() as u64);
        let are_sectors = [pos.0, extent.len].iter().all(|it| it.is_multiple_of(SECTOR_BYTES));
        assert!(are_sectors, "a commit that is torn leaves the sectors of all others alone");
        let halves = self.commits.journal.shape().halves();
        assert!(
            extent.overlap(halves) == Some(extent),
            "a commit leaves the head, the slots and the notes alone"
        );
        let place = Place { on: MediumId::Journal, extent };
        self.io(Purpose::Commit, place, IoOp::Write { data: data.into(), durable }, out);
    }
}

impl Volume {
    pub(in crate::volume) fn commit_done(&mut self, out: &mut Vec<Command>) {
        let (seq, mark) = self.disk.commits.write_done();
        if let Some((pos, data)) = mark {
            self.disk.write_journal(pos, data, false, out);
        }
        if let Some(Batch { deaths, places, waiters }) = self.disk.commits.confirm(seq) {
            if self.disk.dies_by_key() || self.disk.leaves_older() {
                // A write over what is dead waits for nothing once its death is durable.
                let geometry = self.disk.store.geometry();
                let blocks = deaths.iter().map(|(run, ())| geometry.together(run));
                blocks.for_each(|run| self.requests.waiting.obligations_ended(run));
            }
            let places: Vec<_> = places.iter().map(|(place, ())| place).collect();
            if let Some(mapped) = self.disk.store.mapped_mut() {
                mapped.owed_durably(&places);
            }
            for id in waiters {
                self.on_requests(out, |requests, others| requests.finish_with_buf(others, id));
            }
            self.disk.free_notes();
            self.erasing.task_committed(&mut self.disk, &mut self.requests, seq, out);
            if let Some(ended) = self.disk.write_map(out) {
                self.checkpoint_ended(ended, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owed::journal::Shape;

    #[test]
    fn who_waits_for_a_death_is_set_free_once_by_the_commit_that_it_is_in() {
        let shape = Shape { half_bytes: 64 << 10, slots: 16 };
        let mut commits = Commits::new(Journal::resume(shape, 0, 1, 7), Recording::default());
        assert!(commits.is_durable(7));
        let (dead, alive) = (Extent::new(0, 8), Extent::new(8, 8));
        let seq = commits.journal.push(Change::Release);
        commits.undurable.note(dead);
        assert!(commits.undurable.must_wait_for(Origin::Own(1), dead));
        assert!(!commits.undurable.must_wait_for(Origin::Own(2), alive));
        commits.begin(&State::default());
        commits.undurable.note(alive);
        assert!(commits.undurable.must_wait_for(Origin::Own(3), alive));
        let (ended, mut mark) = commits.write_done();
        assert!(ended == seq && !commits.is_durable(seq));
        assert_eq!(commits.confirm(ended).map(|it| it.waiters), Some(vec![Origin::Own(1)]));
        while mark.is_some() {
            let ended;
            (ended, mark) = commits.write_done();
            assert!(commits.confirm(ended).is_none());
        }
        assert!(commits.is_durable(seq) && commits.under_way.is_none());
        assert!(!commits.undurable.overlaps(dead) && commits.undurable.overlaps(alive));
    }
}
