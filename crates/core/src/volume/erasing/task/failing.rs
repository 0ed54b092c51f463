//! Erase tasks that fail: what is given up and tried again, and what stops the disk.

use super::{EraseTask, Kind};
use crate::buf::Buf;
use crate::medium::{MediumError, MediumErrorKind};
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::{Command, Volume};

impl Erasing {
    /// Lets the task under way go on that lacked space for its present step, once it has rested.
    pub(in crate::volume) fn retry_task(&mut self, disk: &Disk) {
        if !disk.tasks_rest()
            && let Some(task) = &mut self.task
        {
            task.steps.retry();
        }
    }

    /// When the task under way goes on that lacked space for its present step, if there is one.
    pub(in crate::volume) fn retry_wakeup(&self, disk: &Disk) -> Option<crate::units::Millis> {
        let rests = self.task.as_ref().is_some_and(|task| task.steps.is_resting());
        rests.then(|| disk.tasks_rest_until())
    }

    /// Drops the task under way: the medium failed. A task that keeps content stays, because that content
    /// may be in the staging slots only: its bytes stay closed.
    pub(in crate::volume) fn abandon_task(&mut self) {
        self.task.take_if(|task| !matches!(task.kind, Kind::Rewrite { .. }));
    }
}

impl Volume {
    /// A job that cannot read gives up, and whatever there is no space for is tried again later: the whole
    /// task, or only its present step where content may be in the staging slots alone. Any other failure
    /// latches, but for what [remains](crate::volume::erasing::remaining).
    pub(in crate::volume) fn task_failed(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let no_space = error.kind == MediumErrorKind::NoSpace;
        let Some(task) = &mut self.erasing.task else { return };
        let is_job = matches!(task.kind, Kind::Job);
        if no_space && is_job && task.steps.is_checkpointing() {
            // The content that moved is at its new place; the next checkpoint frees the old place.
            return self.erasing.task_done(&mut self.disk, &mut self.requests, Buf::new());
        }
        if no_space && matches!(task.kind, Kind::Rewrite { .. }) && !task.steps.is_reserving() {
            task.steps.postponed();
            return self.disk.rest_tasks();
        }
        if !(no_space || is_job && task.steps.is_reading()) {
            return self.disk.latch(&format!("destroying: {error}"), out);
        }
        task.steps.failed();
        if is_job {
            self.erasing.put_off_jobs(&self.disk)
        } else {
            self.on_requests(out, |requests, others| requests.put_off_tasks(others, error))
        }
    }

    /// Gives up a shred for which the map lacks space on the host, until there may be some. Where dead content leaves at once,
    /// the same goes for dead blocks that are to leave their places.
    pub(in crate::volume) fn task_lacks_map(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let lacks = |run: &crate::units::Extent<_>| self.disk.store.lacks_space(*run, true).is_some();
        let is_lacking = |task: &EraseTask| matches!(task.kind, Kind::Shred) && task.runs.iter().any(lacks);
        if self.disk.dead_leave() && !self.disk.state.ledger.dead().is_empty() {
            self.requests.put_off_map(&mut self.disk, &mut self.watching, error, out);
        } else if self.erasing.task.as_ref().is_some_and(is_lacking) {
            if let Some(task) = &mut self.erasing.task {
                task.steps.give_up();
            }
            self.requests.put_off_map(&mut self.disk, &mut self.watching, error, out);
        }
    }
}
