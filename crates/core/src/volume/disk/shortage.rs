//! A full host: what is refused, what stays owed, and when that is tried again.
//!
//! Invariants:
//! 1. A write begins only when the pages of the map that it changes have space on the
//!    host ([`Mapped::lacks_space`](crate::store::Mapped::lacks_space)). So a flush after it
//!    needs no space, where the host keeps the space that it gave.
//! 2. Lack of space alone does not latch the disk. A request that asked is refused; what no request asked for
//!    stays owed, and is tried again after [`RETRY_MS`].

use crate::base::units::{Addr, Extent, Millis};
use crate::media::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::request::{Op, Request};
use crate::volume::bytes::all_zeros;
use crate::volume::disk::Disk;
use crate::volume::obstacle::Obstacle;

/// How long work that lacked space rests before it is tried again, in milliseconds.
pub(in crate::volume) const RETRY_MS: u64 = 10_000;

/// The work that lacked space, and until when it rests.
#[derive(Debug, Default)]
pub(in crate::volume) struct Shortage {
    /// When erase tasks that no request waits for may begin again.
    pub(in crate::volume) tasks: Millis,
    /// When pages of the map are written again for deaths, and for checkpoints that no request waits for.
    pub(in crate::volume) map: Millis,
    /// Whether nothing else is due.
    pub(in crate::volume) is_all: bool,
    /// Why the last work that no request asked for could not be done, and until when such work rests.
    why: Option<(Millis, String)>,
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
        let Shortage { tasks, map, is_all, .. } = self.schedule.shortage;
        let ends = [tasks, map].into_iter().filter(|end| is_all && *end > self.schedule.now);
        ends.min().unwrap_or_default()
    }

    /// Why work rests now, if any does.
    pub(in crate::volume) fn shortage(&self) -> Option<&str> {
        let (until, why) = self.schedule.shortage.why.as_ref()?;
        (self.schedule.now < *until).then_some(why)
    }

    /// Has everything tried again that rests.
    pub(in crate::volume) fn end_rests(&mut self) {
        self.schedule.shortage = Shortage::default();
    }

    /// Lets erase tasks that no request waits for rest. A task under way that cannot be given up goes on after that.
    pub(in crate::volume) fn rest_tasks(&mut self, error: &MediumError) {
        self.schedule.shortage.tasks = self.rest(error);
    }

    /// Lets changes of the map that no request waits for rest.
    pub(in crate::volume) fn rest_map(&mut self, error: &MediumError) {
        self.schedule.shortage.map = self.rest(error);
    }

    /// Until when work rests that has met `error`.
    pub(in crate::volume) fn rest(&mut self, error: &MediumError) -> Millis {
        let until = Millis(self.schedule.now.0.saturating_add(RETRY_MS));
        let Shortage { tasks, map, .. } = self.schedule.shortage;
        assert!(tasks.max(map) <= until, "a rest is made longer, and not shorter");
        self.schedule.shortage.why = Some((until, error.message.clone()));
        until
    }
}
