//! A full host: what is refused, what stays owed, and when that is tried again.
//!
//! Invariants:
//! 1. A write begins only when the pages of the map that it changes have space on the
//!    host ([`Mapped::lacks_space`](crate::store::Mapped::lacks_space)). So a flush after it
//!    needs none, where the host keeps what it gave.
//! 2. Lack of space alone does not latch the disk. A request that asked is refused; what no request asked for
//!    stays owed, and is tried again after [`RETRY_MS`].

use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::request::{Op, Request};
use crate::units::{Addr, Extent, Millis};
use crate::volume::bytes::all_zeros;
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::requests::Others;
use crate::volume::requests::Requests;
use crate::volume::requests::waiting::{Obstacle, Unseen, Waiting};
use crate::volume::watching::Watching;
use crate::volume::{Command, refusal};

/// How long work that lacked space rests before it is tried again, in milliseconds.
pub(in crate::volume) const RETRY_MS: u64 = 10_000;

/// The work that lacked space, and until when it rests.
#[derive(Debug, Default)]
pub(in crate::volume) struct Shortage {
    /// When erase tasks that no request waits for may begin again.
    tasks: Millis,
    /// When pages of the map are written again for deaths, and for checkpoints that no request waits for.
    map: Millis,
    /// Whether nothing else is due.
    is_all: bool,
}

impl Disk {
    /// The part of the map that needs space before `request` may begin.
    pub(in crate::volume) fn lacks_space(&self, request: &Request) -> Option<Obstacle> {
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
    pub(in crate::volume) fn must_wait(&self, run: Extent<Addr>) -> bool {
        self.schedule.now < self.schedule.shortage.map && self.store.lacks_space(run, true).is_some()
    }

    /// Whether erase tasks that no request waits for rest, because one lacked space just now.
    pub(in crate::volume) fn tasks_rest(&self) -> bool {
        self.schedule.now < self.schedule.shortage.tasks
    }

    /// Whether checkpoints that no request waits for rest, because one lacked space just now.
    pub(in crate::volume) fn checkpoints_rest(&self) -> bool {
        self.schedule.now < self.schedule.shortage.map
    }

    /// When work may begin again, if all due work waits for space.
    pub(in crate::volume) fn shortage_ends(&self) -> Millis {
        let Shortage { tasks, map, is_all } = self.schedule.shortage;
        let ends = [tasks, map].into_iter().filter(|end| is_all && *end > self.schedule.now);
        ends.min().unwrap_or_default()
    }

    /// The same without a refusal: the task under way cannot be given up, and goes on once it has rested.
    pub(in crate::volume) fn rest_tasks(&mut self) {
        self.schedule.shortage.tasks = self.retry_at();
    }

    pub(in crate::volume) fn tasks_rest_until(&self) -> Millis {
        self.schedule.shortage.tasks
    }

    pub(in crate::volume) fn retry_at(&self) -> Millis {
        Millis(self.schedule.now.0.saturating_add(RETRY_MS))
    }
}

impl Erasing {
    /// Notes whether all due work waits for space, after everything that could begin has begun.
    pub(in crate::volume) fn note_shortage(&mut self, disk: &mut Disk) {
        let is_short = disk.tasks_rest() || disk.checkpoints_rest();
        disk.schedule.shortage.is_all =
            is_short && disk.outstanding.is_empty() && (disk.schedule.halting || self.is_due(disk));
    }
}

impl Requests {
    /// Lets erase tasks rest: one lacked space.
    pub(in crate::volume) fn put_off_tasks(&mut self, others: &mut Others<'_>, error: &MediumError) {
        others.disk.rest_tasks();
        self.refuse_demands(others, error);
        self.refuse_obliging(others.disk, others.watching, error, others.out);
    }

    /// Lets changes of the map rest: a page lacked space.
    pub(in crate::volume) fn put_off_map(
        &mut self,
        disk: &mut Disk,
        watching: &mut Watching,
        error: &MediumError,
        out: &mut Vec<Command>,
    ) {
        disk.schedule.shortage.map = disk.retry_at();
        self.refuse_obliging(disk, watching, error, out);
        if !disk.state.ledger.dead().is_empty() || !disk.can_close() {
            self.refuse_closes(disk, watching, error, out);
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
        self.refuse_obliging(others.disk, others.watching, error, others.out);
        if !others.disk.has_room() {
            for waiting in self.waiting.take_roomless() {
                self.refuse_waiting(others, &waiting, error);
            }
        }
    }

    /// Refuses the deaths that wait for room in the ledger, which may not come before there is space.
    fn refuse_obliging(
        &mut self,
        disk: &mut Disk,
        watching: &mut Watching,
        error: &MediumError,
        out: &mut Vec<Command>,
    ) {
        if !disk.has_room() {
            for id in std::mem::take(&mut self.obliging) {
                self.request_failed(disk, watching, id, error.clone(), out);
            }
            self.refuse_closes(disk, watching, error, out);
        }
    }

    /// Refuses a request that did not begin.
    pub(in crate::volume) fn refuse_waiting(
        &mut self,
        others: &mut Others<'_>,
        waiting: &Waiting,
        error: &MediumError,
    ) {
        let was_shown = matches!(waiting.unseen, Unseen::Left(_));
        self.refuse_unbegun(
            others,
            waiting.id,
            waiting.request.extent,
            was_shown,
            refusal(&error.clone().into()),
        );
    }
}
