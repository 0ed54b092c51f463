//! The steps of the erase task under way, and what follows from each.

use crate::base::buf::Buf;
use crate::erase::{Foreground, Point, Priority, Record, Work};
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::mutant::{self, Mutant};
use crate::owed::journal::Change;
use crate::owed::ledger::{Cause, Due};
use crate::store::{Job, JobEnd};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::jobs::method;
use crate::volume::erasing::restaging::checksums;
use crate::volume::erasing::task::{EraseTask, Kind};
use crate::volume::requests::Requests;
use crate::volume::{Command, Volume};

impl Erasing {
    /// The erase task of the next background job, if one is due.
    pub(in crate::volume) fn job_task(&mut self, disk: &mut Disk, requests: &Requests) -> Option<EraseTask> {
        assert!(self.task.is_none(), "one task at a time");
        if !self.may_begin_job(disk) {
            return None;
        }
        let job = disk.store.mapped_mut()?.background(disk.schedule.all_due)?;
        if let Job::Move { contents, .. } = &job
            && contents.iter().any(|run| requests.is_busy(*run))
        {
            disk.store.background_done(JobEnd::GivenUp);
            return None;
        }
        let runs = if let Job::Move { contents, .. } = &job { contents.clone() } else { Vec::new() };
        let method = method(&job, disk.limits());
        let kind = if matches!(job, Job::Turn(_)) { Kind::Turn } else { Kind::Job };
        Some(disk.erase_task(kind, runs, method, Priority::Background))
    }

    /// Ends the task under way, which is over or given up. Requests that it excluded are tried again.
    fn end_task(&mut self, requests: &mut Requests) -> Option<EraseTask> {
        let task = self.task.take()?;
        assert!(task.steps.is_at_rest(), "a task ends when nothing of it is under way");
        assert!(task.recording.is_none(), "a task ends when it waits for no commit");
        requests.waiting.task_ended(&task.runs);
        Some(task)
    }

    /// Notes that work of the task has ended, and what that work read. Ends a task that is over.
    pub(in crate::volume) fn task_done(&mut self, disk: &mut Disk, requests: &mut Requests, read: Buf) {
        let Some(task) = &mut self.task else {
            assert!(disk.latched.is_some(), "a task is there until its last operation has ended");
            return;
        };
        assert!(task.recording.is_none(), "a task that waits for a commit does nothing else");
        let read = renewing(task, disk, read);
        task.steps.done(read);
        if !task.steps.is_over() {
            return;
        }
        let Some(task) = self.end_task(requests) else { return };
        match task.kind {
            Kind::Job | Kind::Turn => {
                let read = task.steps.contents().first().map_or(&[][..], |read| read);
                disk.store.background_done(JobEnd::Done(read));
                if disk.end_purge() {
                    // The log of keys has room again.
                    requests.waiting.retry_demands();
                }
            }
            _ => self.gave_back(&task.runs),
        }
    }

    pub(in crate::volume) fn task_committed(
        &mut self,
        disk: &mut Disk,
        requests: &mut Requests,
        seq: u64,
        out: &mut Vec<Command>,
    ) {
        let Some(task) = self.task.as_mut().filter(|task| task.recording.is_some_and(|waits| waits <= seq))
        else {
            return;
        };
        task.recording = None;
        assert!(!task.steps.is_at_rest(), "a task waits for its record");
        task.steps.done(Buf::new());
        if task.steps.is_over()
            && let Some(EraseTask { kind: Kind::DestroyOwed { places, .. }, .. }) = self.end_task(requests)
        {
            disk.owed_destroyed(&places);
        }
        disk.give_receipts(out);
    }
}

/// Notes what a step of a task has done that puts blocks under fresh keys. Returns the content as it is to be.
fn renewing(task: &mut EraseTask, disk: &Disk, read: Buf) -> Buf {
    let Kind::Restage { patches, staged, logging } = &mut task.kind else { return read };
    *logging = None;
    if task.steps.is_reading() {
        let block = task.runs[task.steps.contents().len()];
        return disk.renewed(block, read, patches);
    }
    if task.steps.is_saving() {
        *staged = checksums(&task.runs, &read);
    }
    read
}

impl Volume {
    pub(in crate::volume) fn drive_task(&mut self, out: &mut Vec<Command>) {
        if self.disk.config.read_only {
            return;
        }
        self.erasing.retry_task(&self.disk);
        let is_in_the_way = self.requests.is_task_awaited(&self.disk);
        let should_end = self.erasing.task.as_ref().is_some_and(|task| task.steps.should_end(is_in_the_way));
        if should_end
            || self.erasing.task.as_ref().is_some_and(EraseTask::gives_back)
                && !self.erasing.may_give_back(&mut self.disk)
        {
            if !self.erasing.task.as_ref().is_some_and(|task| task.steps.is_at_rest()) {
                return;
            }
            if let Some(EraseTask { kind: Kind::Job | Kind::Turn, remains, .. }) =
                self.erasing.end_task(&mut self.requests)
            {
                let is_refused = !remains.is_empty();
                let end = if is_refused { JobEnd::Remains(&remains) } else { JobEnd::GivenUp };
                self.disk.store.background_done(end);
            }
            self.on_requests(out, |requests, others| requests.settle(others));
        }
        if self.erasing.task.is_none() {
            self.erasing.task = self.erasing.choose(&mut self.disk, &mut self.requests, &self.watching);
            self.erasing.begun += u64::from(self.erasing.task.is_some());
            let can_end = |task: &EraseTask| !task.steps.is_over();
            assert!(self.erasing.task.as_ref().is_none_or(can_end), "a task has a step, whose end ends it");
            self.on_requests(out, |requests, others| requests.settle(others));
        }
        self.step(out);
    }

    /// Begins as much of the current step as may be under way at once.
    fn step(&mut self, out: &mut Vec<Command>) {
        let foreground =
            Foreground { is_due: self.erasing.may_go_on(&mut self.disk), is_at_work: self.disk.is_at_work() };
        while let Some(task) = &self.erasing.task {
            let sites = task.steps.next_sites(foreground).to_vec();
            let is_shred = matches!(task.kind, Kind::Shred | Kind::Free);
            // What dies by key is zeroed, and forgotten, at its address.
            let needs_no_map = is_shred && self.disk.dies_by_key();
            let is_known = |site: Site| match site {
                Site::Run(_) if needs_no_map => true,
                Site::Run(run) => {
                    self.disk.has_map(run, out) && (!is_shred || self.disk.has_map_space(run, out))
                }
                Site::Place(_) => true,
            };
            if !sites.into_iter().all(is_known) {
                return;
            }
            match self.erasing.task.as_mut().and_then(|task| task.steps.next(foreground)) {
                Some(Work::Io(io)) => self.erasing.begin_io(&mut self.disk, io, out),
                Some(Work::Point(point)) => self.pass_point(point, out),
                None => return,
            }
        }
    }

    fn pass_point(&mut self, point: Point<Site>, out: &mut Vec<Command>) {
        match point {
            Point::Forget(Site::Run(run)) => self.disk.store.unmap(run),
            Point::Rebind { from: Site::Run(content), to: Site::Place(to) } => {
                assert!(content.len == to.extent.len, "content moves as a whole");
                if let Some(mapped) = self.disk.store.mapped_mut() {
                    mapped.rebind(content, to.extent);
                }
            }
            Point::Forget(_) | Point::Rebind { .. } => unreachable!("the map is by address"),
            Point::Checkpoint => return self.disk.want_checkpoint(Waiter::Task, out),
            Point::Record(Record::Saved) if self.disk.dies_by_key() => {
                return self.erasing.record_restaged(&mut self.disk);
            }
            Point::Record(Record::Restored) if self.disk.dies_by_key() => {
                return self.erasing.record_renewed(&mut self.disk);
            }
            Point::Record(Record::Saved) => return self.erasing.record_staged(&mut self.disk),
            Point::Record(Record::Restored) => return self.erasing.record_restored(&mut self.disk),
            Point::Record(Record::Erased) => return self.erasing.record_met(&mut self.disk),
        }
        self.erasing.task_done(&mut self.disk, &mut self.requests, Buf::new());
    }

    /// A job that cannot read gives up, and whatever there is no space for is tried again later, or what a medium is too busy for: the whole
    /// task, or only its present step where content may be in the staging slots alone, or the keys of the whole disk are written. Any
    /// other failure latches, but for what [remains](crate::volume::disk::remaining).
    pub(in crate::volume) fn task_failed(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let no_space = error.kind == MediumErrorKind::NoSpace;
        let Some(task) = &mut self.erasing.task else {
            assert!(self.disk.latched.is_some(), "a task is there until its last operation has ended");
            return;
        };
        assert!(task.recording.is_none(), "a task that waits for a commit does nothing else");
        let is_job = match task.kind {
            Kind::Job => true,
            Kind::Turn => task.steps.is_putting() || mutant::is(Mutant::TurnTwice),
            _ => false,
        };
        let may_wait = no_space || error.kind == MediumErrorKind::Busy;
        if no_space && is_job && task.steps.is_checkpointing() {
            // The content that moved is at its new place; the next checkpoint frees the old place.
            return self.erasing.task_done(&mut self.disk, &mut self.requests, Buf::new());
        }
        let keeps = !is_job && matches!(task.kind, Kind::Rewrite { .. } | Kind::Restage { .. } | Kind::Turn);
        if may_wait && keeps && !task.steps.is_reserving() {
            task.steps.postponed();
            return self.disk.rest_tasks(error);
        }
        if !(may_wait || is_job && task.steps.is_reading()) {
            return self.disk.latch(&format!("destroying: {error}"), out);
        }
        task.steps.failed();
        if is_job {
            let until = self.disk.rest(error);
            self.erasing.jobs.put_off(until);
            if no_space && self.disk.dies_by_key() {
                // What waits for a purge would wait for space.
                self.on_requests(out, |requests, others| requests.refuse_demands(others, error));
            }
        } else {
            self.on_requests(out, |requests, others| requests.put_off_tasks(others, error))
        }
    }

    /// Gives up a shred for which the map lacks space on the host, until there may be some. Where dead content leaves at once,
    /// the same goes for dead blocks that are to leave their places.
    pub(in crate::volume) fn task_lacks_map(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let lacks = |run: &crate::base::units::Extent<_>| self.disk.store.lacks_space(*run, true).is_some();
        let is_lacking = |task: &EraseTask| matches!(task.kind, Kind::Shred) && task.runs.iter().any(lacks);
        if self.disk.dead_leave() && !self.disk.state.ledger.dead().is_empty() {
            self.on_requests(out, |requests, others| requests.put_off_map(others, error));
        } else if self.erasing.task.as_ref().is_some_and(is_lacking) {
            if let Some(task) = &mut self.erasing.task {
                task.steps.give_up();
            }
            self.on_requests(out, |requests, others| requests.put_off_map(others, error));
        }
    }

    /// Gives up what a task does at part `part` of its present step, where the medium will not erase. Content that the
    /// task keeps is put back; what was owed stays owed.
    pub(in crate::volume) fn task_remains(
        &mut self,
        part: usize,
        error: &MediumError,
        out: &mut Vec<Command>,
    ) {
        let Some(task) = &mut self.erasing.task else {
            assert!(self.disk.latched.is_some(), "a task is there until its last operation has ended");
            return;
        };
        assert!(task.recording.is_none(), "a task that waits for a commit does nothing else");
        let sites = task.steps.destroys(part).map(<[Site]>::to_vec).unwrap_or_default();
        // Each task would put live content into the same staging slots.
        let is_erasing = task.steps.is_erasing();
        let is_staging = matches!(task.kind, Kind::Rewrite { .. }) && !task.steps.puts_back() && !is_erasing
            || matches!(task.kind, Kind::Restage { .. });
        if sites.is_empty() || is_staging {
            return self.disk.latch(&format!("destroying: {error}"), out);
        }
        if mutant::is(Mutant::ForgetRemains) {
            return self.erasing.task_done(&mut self.disk, &mut self.requests, Buf::new());
        }
        self.disk.remaining.refused(error, self.disk.schedule.now);
        match &task.kind {
            Kind::Rewrite { .. } if !is_erasing => {
                self.disk.remaining.note(&sites, task.is_careful);
                task.is_spared = true;
                task.runs.iter().for_each(|run| self.erasing.layers.forget(*run));
                return task.steps.skip();
            }
            Kind::Shred | Kind::Free | Kind::Rewrite { .. } | Kind::DestroyOwed { .. } => {
                self.disk.remaining.note(&sites, task.is_careful);
                if let Kind::Rewrite { suspicious: false } = task.kind {
                    // What a request is about to write is there already, above what was to be destroyed.
                    let (due, cause) = (Due::ConservativeOverwrite, Cause::ConservativeOverwrite);
                    task.runs.iter().for_each(|run| _ = self.disk.change(Change::Oblige(*run, due, cause)));
                }
            }
            // The space is not given back; the next start finds it.
            Kind::GiveBack => sites.iter().for_each(|site| {
                if let Site::Run(run) = site {
                    self.erasing.pending_punch.remove(*run);
                }
            }),
            Kind::Restage { .. } => unreachable!("a fresh key destroys nothing"),
            Kind::Job | Kind::Turn if sites.len() == 1 || task.is_careful => {
                task.remains.extend(sites.into_iter().filter_map(Site::place));
            }
            Kind::Job | Kind::Turn => self.disk.remaining.be_careful(),
        }
        task.steps.failed();
    }

    /// Has everything that remains tried again when it is time, and refuses the writes that wait for the destruction of some of
    /// it until then. What the task under way has found to remain is left out of the next one in any case.
    pub(in crate::volume) fn drive_remaining(&mut self, out: &mut Vec<Command>) {
        if self.disk.remains_rest() {
            self.on_requests(out, |requests, others| requests.refuse_above_remaining(others));
        } else if self.erasing.task.is_none() {
            self.disk.remaining.clear();
        }
    }
}
