//! What a file system leaves behind its end when it is made smaller.
//!
//! 1. Only space of a file system that was watched is ever called dead: the same file system, by its identity, is
//!    found with a nearer end. Nothing else lies there: it was the file system's own.
//! 2. What was written there since the file system was last in use may belong to something else that has the space by now
//!    (a partition, the superblock of an array): it lives.
//! 3. Nothing is called dead before the smaller file system was mounted, or the settling time has passed: by then
//!    the tool that made it smaller has written everything.
//! 4. All else behind an end is named, and stays.

use crate::formats::format::{Block, Format};
use crate::input::sets::set_of;
use crate::rules::rule::Grid;
use crate::rules::rule::deaths::Deaths;
use crate::rules::rule::history::{Clock, RecentBlocks};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Agenda, Moment, Scope, Verdict, WaitsFor};
use roaring::RoaringBitmap;

/// A file system that was watched, and may be found again with another end.
#[derive(Debug)]
pub(crate) struct Former {
    identity: Vec<u8>,
    grid: Grid,
    blocks: Block,
    /// Blocks written since the file system was last in use.
    written: RoaringBitmap,
}

impl Former {
    /// `None` if nothing tells `format` from another file system. Without `seen_from_start`, anything may have been
    /// written since the file system was last in use.
    pub(crate) fn of(format: &dyn Format, seen_from_start: bool) -> Option<Self> {
        let (grid, blocks) = (Grid::of(format), format.blocks());
        let written = if seen_from_start { RoaringBitmap::new() } else { set_of(Some(0..blocks)) };
        Some(Self { identity: format.identity()?, grid, blocks, written })
    }

    /// Notes a write to `extent` while the file system is not in use.
    pub(crate) fn written(&mut self, extent: Extent<Addr>) {
        if let Some(blocks) = self.grid.touched(extent) {
            self.written.insert_range(blocks);
        }
    }

    /// Notes that the file system is in use: what was written before is its own.
    pub(crate) fn used(&mut self) {
        self.written.clear();
    }

    /// What the file system gave up, if it is `format` now.
    pub(crate) fn given_up(self, format: &dyn Format, now: Millis) -> Option<Tail> {
        let is_same = format.identity() == Some(self.identity) && Grid::of(format).is_like(self.grid);
        if !is_same || !format.was_clean() || format.blocks() >= self.blocks {
            return None;
        }
        let left = set_of(Some(format.blocks()..self.blocks)) - self.written;
        Some(Tail {
            grid: self.grid,
            clock: Clock::new(now),
            left: RecentBlocks::kept(&left),
            deaths: Deaths::default(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Tail {
    grid: Grid,
    clock: Clock,
    /// Blocks that were given up, and may have yet to be left.
    left: RecentBlocks,
    deaths: Deaths,
}

impl Tail {
    /// Notes a change of `extent`, after which `settle_ms` of activity may have passed.
    pub(crate) fn arrived(&mut self, now: Millis, extent: Extent<Addr>, settle_ms: u64) {
        self.clock.change(now);
        let left = self.left.expire(self.clock.active_ms, settle_ms);
        self.condemn(left);
        if let Some(blocks) = self.grid.touched(extent) {
            self.left.remove(blocks.clone());
            self.deaths.revive(blocks);
        }
    }

    /// The smaller file system was mounted.
    pub(crate) fn mounted(&mut self) {
        let left = self.left.all();
        self.left.clear();
        self.condemn(left);
    }

    fn condemn(&mut self, left: RoaringBitmap) {
        self.deaths.condemn(left, self.clock.now);
    }

    /// A cache may have been there unseen: everything waits anew.
    pub(crate) fn distrust(&mut self) {
        let condemned = self.deaths.take_condemned();
        self.left.extend(&condemned);
        self.left.renew(self.clock.active_ms);
    }

    pub(crate) fn cut(&mut self, at: Moment) {
        self.clock.tick(at.now);
        self.deaths.cut();
    }

    pub(crate) fn proven(&mut self) {
        self.deaths.proven(&RoaringBitmap::new());
    }

    pub(crate) fn agenda(&self) -> Agenda {
        let is_working = !self.deaths.is_idle();
        Agenda { unproven_since: self.deaths.since, wakes_at: None, is_working }
    }

    pub(crate) fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        let (run, verdict) = self.deaths.next(true, scope, self.grid.extent_of(0).len)?;
        Some((self.grid.extent_of_run(&run), verdict))
    }

    /// The runs that wait, in no order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (WaitsFor, Extent<Addr>)> {
        let left: Vec<_> = self.grid.all_runs(&self.left.all()).collect();
        let left = left.into_iter().map(|run| (WaitsFor::Mount, run));
        self.deaths.waiting(self.grid, WaitsFor::Proof).chain(left)
    }

    /// The parts of `extent` about which nothing is known here.
    pub(crate) fn others(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let [condemned, _] = self.deaths.sets();
        let known = self.left.all() | condemned;
        let (mut others, mut at) = (Vec::new(), extent.start.0);
        for run in self.grid.parts(&known, extent) {
            others.extend((at < run.start.0).then(|| Extent::between(at, run.start.0)));
            at = run.end();
        }
        others.extend((at < extent.end()).then(|| Extent::between(at, extent.end())));
        others
    }
}
