//! Checkpoints: making durable what was written, and where it lies.
//!
//! Where content has a fixed place, a checkpoint is one sync. Else it syncs the content, writes the map
//! as it was before that sync, and syncs the map: so the durable map never names what a crash may have
//! lost. The writes come in phases with a sync after each, and a phase in batches, of which one is in memory at a time. One checkpoint is under way at a time; whoever asks meanwhile shares the next. When the host has
//! no space for the map, the next checkpoint writes all of it again, and nothing that the durable map may
//! name is used before. A store whose log alone makes durable what was asked for goes on with short checkpoints
//! meanwhile.

use super::{Purpose, Volume, io::IoOp};
use crate::buf::Buf;
use crate::media::MediumId;
use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::request::RequestId;
use crate::store::{Batch, MapState};

/// The checkpoint under way, and who waits for it and for the next one.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    step: Step,
    /// Whether the map has writes.
    has_writes: bool,
    /// Whether the batch under way is the last one of its phase.
    ends_phase: bool,
    /// The media that have to be synced before the next phase.
    unsynced: Vec<MediumId>,
    /// The number of the commit that has to be durable before the map is written.
    after: u64,
    /// How many writes of the map are under way.
    under_way: usize,
    /// Why a write of the map failed: the host had no space.
    failed: Option<MediumError>,
    /// Whether the last checkpoint failed so, and a short one would have.
    lacks_all: bool,
    waiters: Vec<Waiter>,
    /// The waiters of the next checkpoint.
    next: Vec<Waiter>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    Rest,
    /// The content is being synced.
    Content,
    /// The journal has to say first what the map does not name any more.
    Journal,
    /// The map is being written.
    Map,
    /// The map is being synced, or its only write makes itself durable.
    MapSync,
}

/// Who waits for a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    /// A request that was carried out.
    Request(RequestId),
    /// The task under way.
    Task,
    /// The watcher's evidence.
    Proof,
    /// Nobody: the checkpoint is due.
    Nobody,
}

impl Volume {
    /// Asks for a checkpoint of all that has been written by now; `waiter` is told of its end.
    pub(super) fn want_checkpoint(&mut self, waiter: Waiter, out: &mut Vec<super::Command>) {
        match (waiter, self.latched.is_some()) {
            (Waiter::Request(id), true) => self.finish(id, Err(self.frozen()), out),
            _ => self.checkpoints.next.push(waiter),
        }
        self.begin_checkpoint(out);
    }

    fn begin_checkpoint(&mut self, out: &mut Vec<super::Command>) {
        let rests = self.checkpoints_rest();
        let checkpoints = &mut self.checkpoints;
        let rests_all = rests && checkpoints.lacks_all;
        let may_rest = |waiter: &Waiter| rests_all && matches!(waiter, Waiter::Proof | Waiter::Nobody);
        if checkpoints.step != Step::Rest || checkpoints.next.iter().all(may_rest) || self.latched.is_some() {
            return;
        }
        checkpoints.waiters = std::mem::take(&mut checkpoints.next);
        self.begin_overwritten_sync();
        let checkpoints = &mut self.checkpoints;
        checkpoints.has_writes = self.store.mapped_mut().is_some_and(|it| it.begin_checkpoint(rests));
        checkpoints.after = self.commits.left_seq;
        checkpoints.step = Step::Content;
        let content = if mutant::is(Mutant::CheckpointMapAlone) { MediumId::Nowhere } else { MediumId::Data };
        self.io(Purpose::Checkpoint, Place::all_of(content), IoOp::Sync, out);
    }

    pub(super) fn checkpoint_io_done(&mut self, failed: Option<MediumError>, out: &mut Vec<super::Command>) {
        if self.latched.is_some() {
            return;
        }
        let checkpoints = &mut self.checkpoints;
        checkpoints.failed = checkpoints.failed.take().or(failed);
        match checkpoints.step {
            Step::Content if checkpoints.has_writes => {
                checkpoints.step = Step::Journal;
                self.write_map(out);
            }
            Step::Map if checkpoints.under_way > 1 => checkpoints.under_way -= 1,
            _ if checkpoints.failed.is_some() => self.checkpoint_aborted(out),
            Step::Map if !checkpoints.ends_phase => self.write_batch(out),
            Step::Map | Step::MapSync => self.sync_map(out),
            _ => self.checkpoint_done(out),
        }
    }

    /// Writes the map, once the content is synced and the journal knows what the map does not name any more.
    pub(super) fn write_map(&mut self, out: &mut Vec<super::Command>) {
        let checkpoints = &mut self.checkpoints;
        let may_begin = checkpoints.step == Step::Journal && self.latched.is_none();
        if !may_begin
            || !self.commits.is_durable(checkpoints.after) && !mutant::is(Mutant::CheckpointBeforeOwed)
        {
            return;
        }
        self.write_batch(out);
    }

    /// Writes the next batch of the map; the checkpoint is done after the last one.
    fn write_batch(&mut self, out: &mut Vec<super::Command>) {
        let Some(Batch { writes, ends_phase }) = self.store.mapped_mut().and_then(|it| it.next_batch())
        else {
            return self.checkpoint_done(out);
        };
        let checkpoints = &mut self.checkpoints;
        (checkpoints.under_way, checkpoints.ends_phase) = (writes.len(), ends_phase);
        // A phase of one write to one place can be durable by itself, which takes less than a sync.
        let is_one = matches!(&writes[..], [(places, _)] if places.iter().count() == 1);
        let durable = is_one && ends_phase && checkpoints.unsynced.is_empty();
        for place in writes.iter().filter(|_| !durable).flat_map(|(places, _)| places.iter()) {
            if !checkpoints.unsynced.contains(&place.on) {
                checkpoints.unsynced.push(place.on);
            }
        }
        checkpoints.step = if durable { Step::MapSync } else { Step::Map };
        for (places, data) in writes {
            self.io(Purpose::Checkpoint, places, IoOp::Write { data: data.into(), durable }, out);
        }
    }

    /// Syncs the media of the phase one after the other, then goes on with the next phase.
    fn sync_map(&mut self, out: &mut Vec<super::Command>) {
        let checkpoints = &mut self.checkpoints;
        let Some(medium) = checkpoints.unsynced.pop() else { return self.write_batch(out) };
        checkpoints.step = Step::MapSync;
        self.io(Purpose::Checkpoint, Place::all_of(medium), IoOp::Sync, out);
    }

    /// Ends a checkpoint for which the host had no space: whoever asked is told, unless a short checkpoint may have its
    /// space. The evidence of the watcher waits for the next one.
    fn checkpoint_aborted(&mut self, out: &mut Vec<super::Command>) {
        let Some(error) = self.checkpoints.failed.take() else { return };
        self.checkpoints.step = Step::Rest;
        self.checkpoints.unsynced.clear();
        let may_be_short = self.store.mapped_mut().is_some_and(|it| it.abort_checkpoint());
        self.checkpoints.lacks_all = !may_be_short;
        self.put_off_map(&error, out);
        self.refuse_uncommitted(!may_be_short, &error, out);
        for waiter in std::mem::take(&mut self.checkpoints.waiters) {
            match waiter {
                Waiter::Request(_) | Waiter::Task if may_be_short => self.checkpoints.next.push(waiter),
                Waiter::Request(id) => self.request_failed(id, error.clone(), out),
                Waiter::Task => self.task_failed(&error, out),
                Waiter::Proof => self.checkpoints.next.push(waiter),
                Waiter::Nobody => {}
            }
        }
        self.begin_checkpoint(out);
    }

    fn checkpoint_done(&mut self, out: &mut Vec<super::Command>) {
        self.checkpoints.step = Step::Rest;
        self.checkpoints.lacks_all = false;
        if let Some(mapped) = self.store.mapped_mut() {
            mapped.end_checkpoint();
        }
        self.end_overwritten_sync();
        // The store's metadata may have room again.
        self.requests.waiting.task_ended(&[]);
        for waiter in std::mem::take(&mut self.checkpoints.waiters) {
            match waiter {
                Waiter::Request(id) => self.request_checkpointed(id, out),
                Waiter::Task => self.task_done(Buf::new()),
                Waiter::Proof => self.proof_done(),
                Waiter::Nobody => {}
            }
        }
        self.begin_checkpoint(out);
    }

    /// Begins a checkpoint that nobody asked for, when it is due.
    pub(super) fn drive_checkpoints(&mut self, out: &mut Vec<super::Command>) {
        self.begin_checkpoint(out);
        let has_nothing = self.config.read_only
            || (self.is_map_durable() || self.map_waits()) && !self.state.ledger.has_overwritten();
        if self.checkpoints.step != Step::Rest || has_nothing || self.checkpoints_rest() {
            return;
        }
        let is_wanted = self.store.map_state() == MapState::Due || self.wants_overwritten_sync();
        let is_due = !self.schedule.halting && self.is_due_since(self.schedule.now);
        if is_wanted || self.schedule.stopping || is_due {
            self.want_checkpoint(Waiter::Nobody, out);
        }
    }

    /// Whether a checkpoint that nobody asked for waits for space.
    pub(super) fn awaits_space(&self) -> bool {
        self.checkpoints.step == Step::Rest && !self.checkpoints.next.is_empty()
    }

    /// Whether the durable map and journal say of all content where it lies, and that it is alive. A disk that
    /// is read-only leaves them as they are.
    pub(super) fn is_checkpointed(&self) -> bool {
        self.config.read_only || self.is_map_durable() && self.is_overwritten_met()
    }

    /// Whether a checkpoint would change nothing before a background job has ended.
    pub(super) fn map_waits(&self) -> bool {
        self.store.map_state() == MapState::Waits
    }

    fn is_map_durable(&self) -> bool {
        self.store.map_state() == MapState::Durable
    }
}

impl Checkpoints {
    /// Whether none is under way, and nobody waits for one.
    pub(super) fn is_empty(&self) -> bool {
        self.step == Step::Rest && self.next.is_empty()
    }

    /// Forgets who waits: the medium failed.
    pub(super) fn give_up(&mut self) {
        (self.waiters, self.next) = (Vec::new(), Vec::new());
    }
}
