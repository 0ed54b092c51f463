//! A full host: what is refused, what stays owed, and when that is tried again.
//!
//! Invariants:
//! 1. A write begins only when the pages of the map that it changes have space on the
//!    host ([`Mapped::lacks_space`](crate::store::Mapped::lacks_space)). So a flush after it
//!    needs none, where the host keeps what it gave.
//! 2. Lack of space alone does not latch the disk. Whoever asked is told; what nobody asked for
//!    stays owed, and is tried again after [`RETRY_MS`].

use super::admit::all_zeros;
use super::waiting::{Obstacle, Unseen, Waiting};
use super::{Command, Volume, refusal};
use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::request::{Op, Request};
use crate::units::{Addr, Extent, Millis};

/// How long work that lacked space rests before it is tried again, in milliseconds.
pub(super) const RETRY_MS: u64 = 10_000;

/// The work that lacked space, and until when it rests.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    /// When erase tasks that nobody waits for may begin again.
    tasks: Millis,
    /// When pages of the map are written again for deaths, and for checkpoints that nobody waits for.
    map: Millis,
    /// Whether nothing else is due.
    is_all: bool,
}

impl Volume {
    /// The part of the map that needs space before `request` may begin.
    pub(super) fn lacks_space(&self, request: &Request) -> Option<Obstacle> {
        let place = match &request.op {
            _ if mutant::is(Mutant::AnswerBeforeSpace) => None,
            Op::Write(data) => {
                let whole = self.store.geometry().together(request.extent);
                self.store.lacks_space(whole, false)?;
                let dies = self.config.detect_zeroes && all_zeros(request.extent, data);
                self.store.lacks_space(whole, dies)
            }
            // The journal keeps the death of a whole block.
            _ => self.to_write(request).into_iter().find_map(|block| self.store.lacks_space(block, false)),
        };
        place.map(Obstacle::Space)
    }

    /// Whether the death of `run` has to rest: it needs a page of the map that lacked space just now.
    pub(super) fn must_wait(&self, run: Extent<Addr>) -> bool {
        self.schedule.now < self.schedule.shortage.map && self.store.lacks_space(run, true).is_some()
    }

    /// Whether erase tasks that nobody waits for rest, because one lacked space just now.
    pub(super) fn tasks_rest(&self) -> bool {
        self.schedule.now < self.schedule.shortage.tasks
    }

    /// Whether checkpoints that nobody waits for rest, because one lacked space just now.
    pub(super) fn checkpoints_rest(&self) -> bool {
        self.schedule.now < self.schedule.shortage.map
    }

    /// Notes whether all due work waits for space, after everything that could begin has begun.
    pub(super) fn note_shortage(&mut self) {
        let is_short = self.tasks_rest() || self.checkpoints_rest();
        self.schedule.shortage.is_all =
            is_short && self.outstanding.is_empty() && (self.schedule.halting || self.is_due());
    }

    /// When work may begin again, if all due work waits for space.
    pub(super) fn shortage_ends(&self) -> Millis {
        let Shortage { tasks, map, is_all } = self.schedule.shortage;
        let ends = [tasks, map].into_iter().filter(|end| is_all && *end > self.schedule.now);
        ends.min().unwrap_or_default()
    }

    /// Lets erase tasks rest: one lacked space.
    pub(super) fn put_off_tasks(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        self.rest_tasks();
        self.refuse_demands(error, out);
        self.refuse_obliging(error, out);
    }

    /// The same, where nobody is refused: the task under way cannot be given up, and goes on once it has rested.
    pub(super) fn rest_tasks(&mut self) {
        self.schedule.shortage.tasks = self.retry_at();
    }

    pub(super) fn tasks_rest_until(&self) -> Millis {
        self.schedule.shortage.tasks
    }

    /// Lets changes of the map rest: a page lacked space.
    pub(super) fn put_off_map(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        self.schedule.shortage.map = self.retry_at();
        self.refuse_obliging(error, out);
        if !self.state.ledger.dead().is_empty() || !self.can_close() {
            self.refuse_closes(error, out);
        }
    }

    /// Refuses, where content must leave before it is destroyed, what waits for a checkpoint that lacked space: the writes for which the log of
    /// stubs has no room, and, with `all`, those to blocks whose death waits for a commit.
    pub(super) fn refuse_uncommitted(&mut self, all: bool, error: &MediumError, out: &mut Vec<Command>) {
        if !self.dead_leave() {
            return;
        }
        for waiting in self.requests.waiting.take_closed() {
            self.refuse_waiting(&waiting, error, out);
        }
        if all {
            self.refuse_demands(error, out);
        }
    }

    pub(super) fn retry_at(&self) -> Millis {
        Millis(self.schedule.now.0.saturating_add(RETRY_MS))
    }

    /// Refuses the writes that need an erase task first.
    pub(super) fn refuse_demands(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        for waiting in self.requests.waiting.take_demands() {
            self.refuse_waiting(&waiting, error, out);
        }
    }

    /// Refuses all that waits for room in the ledger, which may not come.
    pub(super) fn refuse_roomless(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        self.refuse_obliging(error, out);
        if !self.has_room() {
            for waiting in self.requests.waiting.take_roomless() {
                self.refuse_waiting(&waiting, error, out);
            }
        }
    }

    /// Refuses the deaths that wait for room in the ledger, which may not come before there is space.
    fn refuse_obliging(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        if !self.has_room() {
            for id in std::mem::take(&mut self.requests.obliging) {
                self.request_failed(id, error.clone(), out);
            }
            self.refuse_closes(error, out);
        }
    }

    /// Refuses a request that did not begin.
    pub(super) fn refuse_waiting(&mut self, waiting: &Waiting, error: &MediumError, out: &mut Vec<Command>) {
        let was_shown = matches!(waiting.unseen, Unseen::Left(_));
        self.refuse_unbegun(
            waiting.id,
            waiting.request.extent,
            was_shown,
            refusal(&error.clone().into()),
            out,
        );
    }
}
