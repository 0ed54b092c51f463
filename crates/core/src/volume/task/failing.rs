//! Erase tasks that fail: what is given up and tried again, and what stops the disk.

use super::{EraseTask, Kind};
use crate::buf::Buf;
use crate::medium::{MediumError, MediumErrorKind};
use crate::volume::{Command, Volume};

impl Volume {
    /// A job that cannot read gives up, and whatever there is no space for is tried again later: the whole
    /// task, or only its present step where content may be in the staging slots alone. Any other failure
    /// latches, but for what [remains](super::super::remaining).
    pub(in crate::volume) fn task_failed(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let no_space = error.kind == MediumErrorKind::NoSpace;
        let Some(task) = &mut self.erasing.task else { return };
        let is_job = matches!(task.kind, Kind::Job);
        if no_space && is_job && task.steps.is_checkpointing() {
            // The content that moved is at its new place; the next checkpoint frees the old place.
            return self.task_done(Buf::new());
        }
        if no_space && matches!(task.kind, Kind::Rewrite { .. }) && !task.steps.is_reserving() {
            task.steps.postponed();
            return self.rest_tasks();
        }
        if !(no_space || is_job && task.steps.is_reading()) {
            return self.latch(&format!("destroying: {error}"), out);
        }
        task.steps.failed();
        if is_job { self.put_off_jobs() } else { self.put_off_tasks(error, out) }
    }

    /// Lets the task under way go on that lacked space for its present step, once it has rested.
    pub(in crate::volume) fn retry_task(&mut self) {
        if !self.tasks_rest()
            && let Some(task) = &mut self.erasing.task
        {
            task.steps.retry();
        }
    }

    /// When the task under way goes on that lacked space for its present step, if there is one.
    pub(in crate::volume) fn retry_wakeup(&self) -> Option<crate::units::Millis> {
        let rests = self.erasing.task.as_ref().is_some_and(|task| task.steps.is_resting());
        rests.then(|| self.tasks_rest_until())
    }

    /// Gives up a shred for which the map lacks space on the host, until there may be some. Where dead content leaves at once,
    /// the same goes for dead blocks that are to leave their places.
    pub(in crate::volume) fn task_lacks_map(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let lacks = |run: &crate::units::Extent<_>| self.store.lacks_space(*run, true).is_some();
        let is_lacking = |task: &EraseTask| matches!(task.kind, Kind::Shred) && task.runs.iter().any(lacks);
        if self.dead_leave() && !self.state.ledger.dead().is_empty() {
            self.put_off_map(error, out);
        } else if self.erasing.task.as_ref().is_some_and(is_lacking) {
            if let Some(task) = &mut self.erasing.task {
                task.steps.give_up();
            }
            self.put_off_map(error, out);
        }
    }

    /// Drops the task under way: the medium failed. A task that keeps content stays, because that content
    /// may be in the staging slots only: its bytes stay closed.
    pub(in crate::volume) fn abandon_task(&mut self) {
        self.erasing.task.take_if(|task| !matches!(task.kind, Kind::Rewrite { .. }));
    }
}
