//! Checkpoints: making durable what was written, and where it lies.
//!
//! Where content has a fixed place, a checkpoint is one sync. Else it syncs the content, writes the map
//! as it was before that sync, and syncs the map: so the durable map never names what a crash may have
//! lost. The writes come in phases with a sync after each, and a phase in batches, of which one is in memory at a time. One checkpoint is under way at a time; a request that comes meanwhile shares the next. When the host has
//! no space for the map, the next checkpoint writes all of it again, and nothing that the durable map may
//! name is used before. A store whose log alone makes durable what was asked for goes on with short checkpoints
//! meanwhile.

use crate::base::buf::Buf;
use crate::media::MediumId;
use crate::media::medium::MediumError;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::{Batch, MapState};
use crate::volume::disk::Disk;
use crate::volume::origin::Origin;
use crate::volume::{Command, Purpose, Volume, io::IoOp};

/// The checkpoint under way, and who waits for it and for the next one.
#[derive(Debug, Default)]
pub(in crate::volume) struct Checkpoints {
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
    /// The waiter that shares the next checkpoint, and asks for none.
    sharing: Option<Waiter>,
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
pub(in crate::volume) enum Waiter {
    /// A request that was carried out.
    Request(Origin),
    /// The task under way.
    Task,
    /// The watcher's evidence.
    Proof,
    /// Nothing: the checkpoint is due.
    Nothing,
}

impl Disk {
    /// Whether a checkpoint would change nothing before a background job has ended.
    pub(in crate::volume) fn map_waits(&self) -> bool {
        self.store.map_state() == MapState::Waits
    }

    /// Whether an operation of the checkpoint that fails may lose what was written over dead bytes: any but those of keys, which are
    /// written again.
    pub(in crate::volume) fn loses_overwritten(&self) -> bool {
        let is_of_keys = self.dies_by_key() && matches!(self.checkpoints.step, Step::Map | Step::MapSync);
        self.state.ledger.has_overwritten() && !is_of_keys
    }

    fn is_map_durable(&self) -> bool {
        self.store.map_state() == MapState::Durable
    }

    /// Whether the durable map and journal say of all content where it lies, and that it is alive. A disk that
    /// is read-only leaves them as they are.
    pub(in crate::volume) fn is_checkpointed(&self) -> bool {
        self.config.read_only || self.is_map_durable() && self.is_overwritten_met()
    }
}

/// The end of a checkpoint, and who waited for it.
#[derive(Debug)]
pub(in crate::volume) enum Ended {
    /// All is durable that had been written when it began.
    Done(Vec<Waiter>),
    /// The host had no space. Unless a short checkpoint may have its space, who waits is told.
    NoSpace { error: MediumError, may_be_short: bool, waiters: Vec<Waiter> },
}

impl Disk {
    /// Asks for a checkpoint of all that has been written by now; `waiter` is told of its end. A disk that is latched makes
    /// no checkpoint any more: the requests that wait are refused at the end of the event.
    pub(in crate::volume) fn want_checkpoint(&mut self, waiter: Waiter, out: &mut Vec<Command>) {
        self.checkpoints.next.push(waiter);
        self.begin_checkpoint(out);
    }

    /// Has `waiter` told of the end of the next checkpoint that another waiter asks for.
    pub(in crate::volume) fn share_checkpoint(&mut self, waiter: Waiter) {
        assert!(self.checkpoints.sharing.is_none(), "one at a time shares what others ask for");
        self.checkpoints.sharing = Some(waiter);
    }

    /// Asks for the checkpoint that a waiter is to share, if it has not begun.
    pub(in crate::volume) fn want_shared_checkpoint(&mut self, out: &mut Vec<Command>) {
        if let Some(waiter) = self.checkpoints.sharing.take() {
            self.want_checkpoint(waiter, out);
        }
    }

    /// Begins the next checkpoint, if one is wanted and none is under way.
    pub(in crate::volume) fn begin_checkpoint(&mut self, out: &mut Vec<Command>) {
        let rests = self.checkpoints_rest();
        let checkpoints = &mut self.checkpoints;
        let rests_all = rests && checkpoints.lacks_all;
        let may_rest = |waiter: &Waiter| rests_all && matches!(waiter, Waiter::Proof | Waiter::Nothing);
        if checkpoints.step != Step::Rest || checkpoints.next.iter().all(may_rest) || self.latched.is_some() {
            return;
        }
        assert!(checkpoints.waiters.is_empty(), "the last checkpoint has told who waited for it");
        assert!(checkpoints.unsynced.is_empty(), "the last checkpoint has synced what it wrote");
        assert!(checkpoints.failed.is_none(), "the last checkpoint has told why it failed");
        assert!(!self.config.read_only, "the map of a disk that is read-only stays as it is");
        checkpoints.waiters = std::mem::take(&mut checkpoints.next);
        checkpoints.waiters.extend(checkpoints.sharing.take());
        self.begin_overwritten_sync();
        let checkpoints = &mut self.checkpoints;
        checkpoints.has_writes = self.store.mapped_mut().is_some_and(|it| it.begin_checkpoint(rests));
        assert!(
            checkpoints.after <= self.commits.left_seq,
            "the commit that a map waits for is never an older one"
        );
        checkpoints.after = self.commits.left_seq;
        checkpoints.step = Step::Content;
        let is_map_alone = mutant::is(Mutant::CheckpointMapAlone) || mutant::is(Mutant::FrameBeforeData);
        let content = if is_map_alone { MediumId::Nowhere } else { MediumId::Data };
        self.io(Purpose::Checkpoint, Place::all_of(content), IoOp::Sync, out);
    }

    /// Goes on with the checkpoint under way after one of its I/O operations, which may have `failed`. Returns its end.
    pub(in crate::volume) fn checkpoint_io_done(
        &mut self,
        failed: Option<MediumError>,
        out: &mut Vec<Command>,
    ) -> Option<Ended> {
        if self.latched.is_some() {
            return None;
        }
        let checkpoints = &mut self.checkpoints;
        assert!(
            !matches!(checkpoints.step, Step::Rest | Step::Journal),
            "a checkpoint has no I/O operation at rest, or while it waits for the journal"
        );
        let has_begun = checkpoints.step != Step::Map || checkpoints.under_way > 0;
        assert!(has_begun, "a write of the map ends once");
        checkpoints.failed = checkpoints.failed.take().or(failed);
        if mutant::is(Mutant::ClearBeforeCell) {
            self.end_overwritten_sync();
        }
        let checkpoints = &mut self.checkpoints;
        match checkpoints.step {
            Step::Content if checkpoints.has_writes => {
                checkpoints.step = Step::Journal;
                self.write_map(out)
            }
            Step::Map if checkpoints.under_way > 1 => {
                checkpoints.under_way -= 1;
                None
            }
            _ if checkpoints.failed.is_some() => self.abort_checkpoint(),
            Step::Map if !checkpoints.ends_phase => self.write_batch(out),
            Step::Map | Step::MapSync => self.sync_map(out),
            _ => Some(self.end_checkpoint()),
        }
    }

    /// Writes the map, once the content is synced and the journal knows what the map does not name any more. Returns the
    /// end of the checkpoint, if there was nothing to write.
    pub(in crate::volume) fn write_map(&mut self, out: &mut Vec<Command>) -> Option<Ended> {
        let checkpoints = &mut self.checkpoints;
        let may_begin = checkpoints.step == Step::Journal && self.latched.is_none();
        if !may_begin
            || !self.commits.is_durable(checkpoints.after) && !mutant::is(Mutant::CheckpointBeforeOwed)
        {
            return None;
        }
        assert!(checkpoints.has_writes, "a checkpoint waits for the journal only to write the map");
        self.write_batch(out)
    }

    /// Writes the next batch of the map; the checkpoint is done after the last one.
    fn write_batch(&mut self, out: &mut Vec<Command>) -> Option<Ended> {
        let Some(Batch { writes, ends_phase }) = self.store.mapped_mut().and_then(|it| it.next_batch())
        else {
            return Some(self.end_checkpoint());
        };
        assert!(!writes.is_empty(), "a batch has a write, whose end the checkpoint goes on with");
        let is_own = |place: Place| place.on.is_changed() && place.on != MediumId::Journal;
        let are_own = writes.iter().flat_map(|(places, _)| places.iter()).all(is_own);
        assert!(are_own, "a store writes to media of its own, and not to the journal");
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
        None
    }

    /// Syncs the media of the phase one after the other, then goes on with the next phase.
    fn sync_map(&mut self, out: &mut Vec<Command>) -> Option<Ended> {
        assert!(self.checkpoints.failed.is_none(), "a checkpoint that failed is aborted");
        let Some(medium) = self.checkpoints.unsynced.pop() else { return self.write_batch(out) };
        self.checkpoints.step = Step::MapSync;
        self.io(Purpose::Checkpoint, Place::all_of(medium), IoOp::Sync, out);
        None
    }

    /// Ends a checkpoint for which the host had no space.
    fn abort_checkpoint(&mut self) -> Option<Ended> {
        let error = self.checkpoints.failed.take()?;
        assert!(!self.checkpoints.waiters.is_empty(), "a checkpoint is made for a waiter, who is told");
        self.checkpoints.step = Step::Rest;
        self.checkpoints.unsynced.clear();
        self.state.ledger.abort_sync();
        let may_be_short = self.store.mapped_mut().is_some_and(|it| it.abort_checkpoint());
        self.checkpoints.lacks_all = !may_be_short;
        Some(Ended::NoSpace { error, may_be_short, waiters: std::mem::take(&mut self.checkpoints.waiters) })
    }

    fn end_checkpoint(&mut self) -> Ended {
        // What waits is about to be told that all of it is durable.
        assert!(self.latched.is_none(), "a checkpoint ends well only while all media are well");
        assert!(!self.checkpoints.waiters.is_empty(), "a checkpoint is made for a waiter, who is told");
        assert!(self.checkpoints.unsynced.is_empty(), "the last batch of a store ends its phase");
        assert!(self.checkpoints.failed.is_none(), "a checkpoint that failed is aborted");
        self.checkpoints.step = Step::Rest;
        self.checkpoints.lacks_all = false;
        if let Some(mapped) = self.store.mapped_mut() {
            mapped.end_checkpoint();
        }
        self.end_overwritten_sync();
        Ended::Done(std::mem::take(&mut self.checkpoints.waiters))
    }

    /// Begins a checkpoint that no request asked for, when it is due.
    pub(in crate::volume) fn drive_checkpoints(&mut self, out: &mut Vec<Command>) {
        self.begin_checkpoint(out);
        let has_nothing = self.config.read_only
            || (self.is_map_durable() || self.map_waits()) && !self.state.ledger.has_overwritten();
        if self.checkpoints.step != Step::Rest || has_nothing || self.checkpoints_rest() {
            return;
        }
        let is_wanted = self.store.map_state() == MapState::Due || self.wants_overwritten_sync();
        let is_due = !self.schedule.halting && self.is_due_since(self.schedule.now);
        if is_wanted || self.schedule.stopping || is_due {
            self.want_checkpoint(Waiter::Nothing, out);
        }
    }
}

impl Volume {
    /// Tells who waited for the checkpoint that has ended, and begins the next one.
    pub(in crate::volume) fn checkpoint_ended(&mut self, ended: Ended, out: &mut Vec<Command>) {
        match ended {
            Ended::Done(waiters) => {
                // The store's metadata may have room again.
                self.requests.waiting.task_ended(&[]);
                if self.disk.dies_by_key() {
                    self.requests.waiting.retry_demands();
                }
                waiters.into_iter().for_each(|waiter| self.checkpointed(waiter, out));
            }
            Ended::NoSpace { error, may_be_short, waiters } => {
                self.on_requests(out, |requests, others| {
                    requests.put_off_map(others, &error);
                    requests.refuse_uncommitted(others, !may_be_short, &error);
                });
                for waiter in waiters {
                    self.checkpoint_lacks_space(waiter, may_be_short, &error, out);
                }
            }
        }
        self.disk.begin_checkpoint(out);
    }

    fn checkpointed(&mut self, waiter: Waiter, out: &mut Vec<Command>) {
        match waiter {
            Waiter::Request(id) => {
                self.on_requests(out, |requests, others| requests.request_checkpointed(others, id))
            }
            Waiter::Task => {
                let task = self.erasing.task.as_ref();
                assert!(
                    task.is_some_and(|it| it.steps.is_checkpointing()),
                    "the task that waits is still there"
                );
                self.erasing.task_done(&mut self.disk, &mut self.requests, Buf::new())
            }
            Waiter::Proof => self.watching.proof_done(&self.disk),
            Waiter::Nothing => {}
        }
    }

    /// The evidence of the watcher waits for the next checkpoint, and so does everything for which a short one may have space.
    fn checkpoint_lacks_space(
        &mut self,
        waiter: Waiter,
        may_be_short: bool,
        error: &MediumError,
        out: &mut Vec<Command>,
    ) {
        match waiter {
            Waiter::Request(_) | Waiter::Task if may_be_short => self.disk.checkpoints.next.push(waiter),
            Waiter::Request(id) => {
                self.on_requests(out, |requests, others| requests.request_failed(others, id, error.clone()))
            }
            Waiter::Task => self.task_failed(error, out),
            Waiter::Proof => self.disk.checkpoints.next.push(waiter),
            Waiter::Nothing => {}
        }
    }
}

impl Checkpoints {
    /// Whether one that no request asked for waits for space.
    pub(in crate::volume) fn awaits_space(&self) -> bool {
        self.step == Step::Rest && !self.next.is_empty()
    }

    /// Whether no checkpoint is under way or wanted.
    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.step == Step::Rest && self.next.is_empty()
    }

    /// Whether a waiter is to share the next checkpoint.
    pub(in crate::volume) fn is_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// Forgets who waits: the medium failed.
    pub(in crate::volume) fn give_up(&mut self) {
        (self.waiters, self.next, self.sharing) = (Vec::new(), Vec::new(), None);
    }
}
