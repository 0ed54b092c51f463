//! Requests that are refused: the host or the medium cannot do what they wait for.

use crate::media::medium::MediumError;
use crate::request::Op;
use crate::volume::disk::Disk;
use crate::volume::disk::remaining::Remaining;
use crate::volume::refusal;
use crate::volume::requests::waiting::{Unseen, Waiting};
use crate::volume::requests::{Others, Requests};

impl Requests {
    /// Lets erase tasks rest: one lacked space.
    pub(in crate::volume) fn put_off_tasks(&mut self, others: &mut Others<'_>, error: &MediumError) {
        others.disk.rest_tasks(error);
        self.refuse_demands(others, error);
        self.refuse_obliging(others, error);
    }

    /// Lets changes of the map rest: a page lacked space.
    pub(in crate::volume) fn put_off_map(&mut self, others: &mut Others<'_>, error: &MediumError) {
        others.disk.rest_map(error);
        self.refuse_obliging(others, error);
        if !others.disk.state.ledger.dead().is_empty() || !others.disk.can_close() {
            self.refuse_closes(others, error);
        }
    }

    /// Refuses, where content must leave before it is destroyed, what waits for a checkpoint that lacked space: the writes for which the log of
    /// stubs has no room, and, with `all`, those to blocks whose death waits for a commit.
    pub(in crate::volume) fn refuse_uncommitted(
        &mut self,
        others: &mut Others<'_>,
        all: bool,
        error: &MediumError,
    ) {
        if !others.disk.dead_leave() {
            return;
        }
        for waiting in self.waiting.take_closed() {
            self.refuse_waiting(others, &waiting, error);
        }
        if all {
            self.refuse_demands(others, error);
        }
    }

    /// Refuses the writes that need an erase task first.
    pub(in crate::volume) fn refuse_demands(&mut self, others: &mut Others<'_>, error: &MediumError) {
        for waiting in self.waiting.take_demands() {
            self.refuse_waiting(others, &waiting, error);
        }
    }

    /// Refuses all that waits for room in the ledger, which may not come.
    pub(in crate::volume) fn refuse_roomless(&mut self, others: &mut Others<'_>, error: &MediumError) {
        self.refuse_obliging(others, error);
        if !others.disk.has_room() {
            for waiting in self.waiting.take_roomless() {
                self.refuse_waiting(others, &waiting, error);
            }
        }
    }

    /// Refuses the deaths that wait for room in the ledger, which may not come before there is space.
    fn refuse_obliging(&mut self, others: &mut Others<'_>, error: &MediumError) {
        if !others.disk.has_room() {
            for id in std::mem::take(&mut self.obliging) {
                self.request_failed(others, id, error.clone());
            }
            self.refuse_closes(others, error);
        }
    }

    /// Refuses a request that did not begin.
    pub(in crate::volume) fn refuse_waiting(
        &mut self,
        others: &mut Others<'_>,
        waiting: &Waiting,
        error: &MediumError,
    ) {
        if waiting.request.op == Op::ReadForInference {
            self.leave(waiting.id);
            let failed = Err(error.clone().into());
            return others.watching.looked(others.disk, waiting.request.extent, &failed);
        }
        let was_shown = matches!(waiting.unseen, Unseen::Left(_));
        let refusal = refusal(&error.clone().into());
        self.refuse_unbegun(others, waiting.id, waiting.request.extent, was_shown, refusal);
    }

    /// Refuses the writes that wait for the destruction of something that remains, until that is tried again.
    pub(in crate::volume) fn refuse_above_remaining(&mut self, others: &mut Others<'_>) {
        let Remaining { runs, why: Some(why), .. } = &others.disk.remaining else { return };
        let (why, geometry) = (why.clone(), others.disk.store.geometry());
        for waiting in self.waiting.take_above(|extent| runs.overlaps(geometry.changed(extent))) {
            self.refuse_waiting(others, &waiting, &why);
        }
    }

    /// Whether a write waits for an erase task. Where dead blocks leave their places at once, no write does.
    pub(in crate::volume) fn is_task_awaited(&self, disk: &Disk) -> bool {
        !disk.dead_leave() && self.waiting.demands().next().is_some()
    }
}
