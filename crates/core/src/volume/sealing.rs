//! Making durable what was written, and where it is.
//!
//! Where content has a fixed place that is a sync. Else the content is synced
//! first, then the map is written as it was before that, and synced: so that it
//! never names what a crash may have lost. One goes on at a time; who comes
//! meanwhile shares the next.

use super::{Purpose, Volume, io::IoOp};
use crate::media::MediumId;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::request::RequestId;
use crate::store::MapState;

/// What is being made durable, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    step: Step,
    /// Of the map, to be written; none where it is zeros.
    writes: Vec<(Place, Option<Vec<u8>>)>,
    /// The commit that has to be durable before.
    after: u64,
    /// Writes under way.
    under_way: usize,
    waiters: Vec<Waiter>,
    /// They wait for the next one.
    next: Vec<Waiter>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    Rest,
    /// The content is synced.
    Content,
    /// The journal is to say first what the map does not name any more.
    Journal,
    /// The map is written.
    Map,
    /// It is synced, or written so that it is durable.
    MapSync,
}

/// Who waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    /// A request, that was carried out.
    Request(RequestId),
    /// The act under way.
    Act,
    /// The watcher's evidence.
    Proof,
    /// Nobody: it is time.
    Nobody,
}

impl Volume {
    /// Makes durable all that has been written by now; `waiter` is told.
    pub(super) fn seal(&mut self, waiter: Waiter, out: &mut Vec<super::Command>) {
        match (waiter, self.latched.is_some()) {
            (Waiter::Request(id), true) => self.finish(id, Err(self.frozen()), out),
            _ => self.sealing.next.push(waiter),
        }
        self.begin_seal(out);
    }

    fn begin_seal(&mut self, out: &mut Vec<super::Command>) {
        let sealing = &mut self.sealing;
        if sealing.step != Step::Rest || sealing.next.is_empty() || self.latched.is_some() {
            return;
        }
        sealing.waiters = std::mem::take(&mut sealing.next);
        sealing.writes = self.store.begin_checkpoint();
        sealing.after = self.left_seq;
        sealing.step = Step::Content;
        let content = if mutant::is(Mutant::SealMapAlone) { MediumId::Nowhere } else { MediumId::Data };
        self.io(Purpose::Seal, Place::all_of(content), IoOp::Sync, out);
    }

    pub(super) fn seal_io_done(&mut self, out: &mut Vec<super::Command>) {
        if self.latched.is_some() {
            return;
        }
        let sealing = &mut self.sealing;
        match sealing.step {
            Step::Content if !sealing.writes.is_empty() => {
                sealing.step = Step::Journal;
                self.seal_map(out);
            }
            Step::Map if sealing.under_way > 1 => sealing.under_way -= 1,
            Step::Map => {
                sealing.step = Step::MapSync;
                self.io(Purpose::Seal, Place::all_of(MediumId::Map), IoOp::Sync, out);
            }
            _ => self.sealed(out),
        }
    }

    /// Writes the map, once its turn has come and the journal knows what it does
    /// not name any more.
    pub(super) fn seal_map(&mut self, out: &mut Vec<super::Command>) {
        let sealing = &mut self.sealing;
        let may_begin = sealing.step == Step::Journal && self.latched.is_none();
        if !may_begin || self.durable_seq < sealing.after && !mutant::is(Mutant::SealBeforeOwed) {
            return;
        }
        let writes = std::mem::take(&mut sealing.writes);
        sealing.under_way = writes.len();
        // One write can be durable by itself, which takes less than a sync.
        let durable = matches!(writes[..], [(_, Some(_))]);
        sealing.step = if durable { Step::MapSync } else { Step::Map };
        for (place, data) in writes {
            let op = data.map_or(IoOp::Clear, |data| IoOp::Write { data: data.into(), durable });
            self.io(Purpose::Seal, place, op, out);
        }
    }

    fn sealed(&mut self, out: &mut Vec<super::Command>) {
        self.sealing.step = Step::Rest;
        self.store.end_checkpoint();
        for waiter in std::mem::take(&mut self.sealing.waiters) {
            match waiter {
                Waiter::Request(id) => self.request_sealed(id, out),
                Waiter::Act => self.act_sealed(),
                Waiter::Proof => self.proof_done(),
                Waiter::Nobody => {}
            }
        }
        self.begin_seal(out);
    }

    /// Seals what nobody asked for, when it is time.
    pub(super) fn drive_sealing(&mut self, out: &mut Vec<super::Command>) {
        if self.sealing.step != Step::Rest {
            return;
        }
        let is_time = match self.store.map_state() {
            MapState::Durable => false,
            MapState::Behind => self.stopping || !self.halting && self.is_due_since(self.now),
            MapState::Due => true,
        };
        if is_time {
            self.seal(Waiter::Nobody, out);
        }
    }

    /// Whether it is durable where all content is.
    pub(super) fn is_sealed(&self) -> bool {
        self.store.map_state() == MapState::Durable
    }
}

impl Sealing {
    /// The medium failed.
    pub(super) fn give_up(&mut self) {
        (self.waiters, self.next) = (Vec::new(), Vec::new());
    }
}
