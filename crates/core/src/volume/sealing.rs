//! Making durable what was written, and where it is.
//!
//! Where content has a fixed place that is a sync. Else the content is synced
//! first, then the map is written as it was before that, and synced: so that it
//! never names what a crash may have lost. One goes on at a time; who comes
//! meanwhile shares the next. Where the host has no space for the map, all of it is
//! written again by the next, and nothing that the durable map may name is used before.

use super::{Purpose, Volume, io::IoOp};
use crate::media::MediumId;
use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::request::{Buf, RequestId};
use crate::store::MapState;

/// What is being made durable, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    step: Step,
    /// Of the map, to be written.
    writes: Vec<(Place, Vec<u8>)>,
    /// The commit that has to be durable before.
    after: u64,
    /// Writes under way.
    under_way: usize,
    /// The host had no space for one of them.
    failed: Option<MediumError>,
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
        let rests = self.checkpoints_rest();
        let sealing = &mut self.sealing;
        let may_rest = |waiter: &Waiter| rests && matches!(waiter, Waiter::Proof | Waiter::Nobody);
        if sealing.step != Step::Rest || sealing.next.iter().all(may_rest) || self.latched.is_some() {
            return;
        }
        sealing.waiters = std::mem::take(&mut sealing.next);
        self.begin_overwritten_sync();
        let sealing = &mut self.sealing;
        sealing.writes = self.store.begin_checkpoint();
        sealing.after = self.commits.left_seq;
        sealing.step = Step::Content;
        let content = if mutant::is(Mutant::SealMapAlone) { MediumId::Nowhere } else { MediumId::Data };
        self.io(Purpose::Seal, Place::all_of(content), IoOp::Sync, out);
    }

    pub(super) fn seal_io_done(&mut self, failed: Option<MediumError>, out: &mut Vec<super::Command>) {
        if self.latched.is_some() {
            return;
        }
        let sealing = &mut self.sealing;
        sealing.failed = sealing.failed.take().or(failed);
        match sealing.step {
            Step::Content if !sealing.writes.is_empty() => {
                sealing.step = Step::Journal;
                self.seal_map(out);
            }
            Step::Map if sealing.under_way > 1 => sealing.under_way -= 1,
            _ if sealing.failed.is_some() => self.left_unsealed(out),
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
        if !may_begin || !self.commits.is_durable(sealing.after) && !mutant::is(Mutant::SealBeforeOwed) {
            return;
        }
        let writes = std::mem::take(&mut sealing.writes);
        sealing.under_way = writes.len();
        // One write can be durable by itself, which takes less than a sync.
        let durable = writes.len() == 1;
        sealing.step = if durable { Step::MapSync } else { Step::Map };
        for (place, data) in writes {
            self.io(Purpose::Seal, place, IoOp::Write { data: data.into(), durable }, out);
        }
    }

    /// The host had no space for some of the map: who asked is told, and the evidence of
    /// the watcher waits for the next time.
    fn left_unsealed(&mut self, out: &mut Vec<super::Command>) {
        let Some(error) = self.sealing.failed.take() else { return };
        self.sealing.step = Step::Rest;
        self.store.abort_checkpoint();
        self.put_off_map(&error, out);
        for waiter in std::mem::take(&mut self.sealing.waiters) {
            match waiter {
                Waiter::Request(id) => self.request_failed(id, &error, out),
                Waiter::Act => self.act_failed(&error, out),
                Waiter::Proof => self.sealing.next.push(waiter),
                Waiter::Nobody => {}
            }
        }
        self.begin_seal(out);
    }

    fn sealed(&mut self, out: &mut Vec<super::Command>) {
        self.sealing.step = Step::Rest;
        self.store.end_checkpoint();
        self.end_overwritten_sync();
        for waiter in std::mem::take(&mut self.sealing.waiters) {
            match waiter {
                Waiter::Request(id) => self.request_sealed(id, out),
                Waiter::Act => self.act_done(Buf::new()),
                Waiter::Proof => self.proof_done(),
                Waiter::Nobody => {}
            }
        }
        self.begin_seal(out);
    }

    /// Seals what nobody asked for, when it is time.
    pub(super) fn drive_sealing(&mut self, out: &mut Vec<super::Command>) {
        self.begin_seal(out);
        let has_nothing = self.is_map_sealed() && !self.state.ledger.has_overwritten();
        if self.sealing.step != Step::Rest || has_nothing || self.checkpoints_rest() {
            return;
        }
        let is_wanted = self.store.map_state() == MapState::Due || self.wants_overwritten_sync();
        let is_due = !self.schedule.halting && self.is_due_since(self.schedule.now);
        if is_wanted || self.schedule.stopping || is_due {
            self.seal(Waiter::Nobody, out);
        }
    }

    /// Whether a checkpoint that nobody asked for waits for space.
    pub(super) fn awaits_space(&self) -> bool {
        self.sealing.step == Step::Rest && !self.sealing.next.is_empty()
    }

    /// Whether it is durable where all content is, and that it is not dead.
    pub(super) fn is_sealed(&self) -> bool {
        self.is_map_sealed() && self.is_overwritten_met()
    }

    fn is_map_sealed(&self) -> bool {
        self.store.map_state() == MapState::Durable
    }
}

impl Sealing {
    /// The medium failed.
    pub(super) fn give_up(&mut self) {
        (self.waiters, self.next) = (Vec::new(), Vec::new());
    }
}
