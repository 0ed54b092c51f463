//! The journal's commits: one at a time, and what each one's end sets free.

use super::{Command, Purpose, Volume, io::IoOp};
use crate::extents::ExtentMap;
use crate::journal::Change;
use crate::media::MediumId;
use crate::place::Place;
use crate::request::RequestId;
use crate::units::{Addr, Extent, Pos};

/// A commit under way.
#[derive(Debug)]
pub(super) struct Committing {
    seq: u64,
    /// To be written after it.
    mark: Option<(Pos, Vec<u8>)>,
}

/// Deaths that are not durable, and who waits for that. Those of one commit share
/// its end, and there are two at most: the one under way, and the next.
#[derive(Debug, Default)]
pub(super) struct Undurable {
    under_way: Batch,
    next: Batch,
}

#[derive(Debug, Default)]
struct Batch {
    deaths: ExtentMap<Addr, ()>,
    /// What is owed by place since then.
    places: ExtentMap<Pos, ()>,
    waiters: Vec<RequestId>,
}

impl Undurable {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.deaths.is_empty() && self.next.deaths.is_empty()
    }

    /// `extent` has died.
    pub(super) fn note(&mut self, extent: Extent<Addr>) {
        self.next.deaths.insert(extent, ());
    }

    /// What lies at `place` is owed.
    pub(super) fn note_place(&mut self, place: Place) {
        if place.on == MediumId::Data {
            self.next.places.insert(place.extent, ());
        }
    }

    /// Whether it is not durable yet that something is owed at `place`.
    pub(super) fn has(&self, place: Place) -> bool {
        let has = |it: &Batch| it.places.overlaps(place.extent);
        place.on == MediumId::Data && (has(&self.next) || has(&self.under_way))
    }

    pub(super) fn overlaps(&self, extent: Extent<Addr>) -> bool {
        self.next.deaths.overlaps(extent) || self.under_way.deaths.overlaps(extent)
    }

    /// Whether request `id` has to wait for a death within `extent`; then it is
    /// handed out when that is durable.
    pub(super) fn holds_up(&mut self, id: RequestId, extent: Extent<Addr>) -> bool {
        let batches = [&mut self.next, &mut self.under_way];
        let last = batches.into_iter().find(|it| it.deaths.overlaps(extent));
        last.map(|it| it.waiters.push(id)).is_some()
    }

    /// All that has died is in the commit that begins.
    fn begin(&mut self) {
        self.under_way = std::mem::take(&mut self.next);
    }

    /// The commit is durable; returns who waited for it.
    fn end(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.under_way).waiters
    }

    /// Nobody waits any more: the medium has failed.
    pub(super) fn give_up(&mut self) {
        self.next.waiters.clear();
        self.under_way.waiters.clear();
    }
}

impl Volume {
    /// Makes `change` now in memory, and with the next commit on the medium.
    /// Returns that commit's number.
    pub(super) fn change(&mut self, change: Change) -> u64 {
        self.state.apply(change, self.now);
        self.journal.push(change)
    }

    pub(super) fn commit_pending(&mut self, out: &mut Vec<Command>) {
        if self.committing.is_some() || !self.journal.has_pending() || self.latched.is_some() {
            return;
        }
        let commit = self.journal.commit(&self.state);
        self.undurable.begin();
        self.committing = Some(Committing { seq: commit.seq, mark: commit.mark });
        self.write_journal(commit.pos, commit.bytes, true, out);
    }

    pub(super) fn commit_done(&mut self, out: &mut Vec<Command>) {
        let mut committing = self.committing.take().expect("a commit ends once");
        let seq = committing.seq;
        if let Some((pos, data)) = committing.mark.take() {
            self.committing = Some(committing);
            self.write_journal(pos, data, false, out);
        }
        if seq > self.durable_seq {
            self.durable_seq = seq;
            for id in self.undurable.end() {
                self.finish_with_buf(id, out);
            }
            self.act_committed(seq, out);
            self.seal_map(out);
        }
    }

    fn write_journal(&mut self, pos: Pos, data: Vec<u8>, durable: bool, out: &mut Vec<Command>) {
        let place = Place { on: MediumId::Journal, extent: Extent::new(pos.0, data.len() as u64) };
        self.io(Purpose::Commit, place, IoOp::Write { data: data.into(), durable }, out);
    }
}
