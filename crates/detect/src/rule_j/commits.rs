//! Commits that were received, until all their maps have been seen.

use crate::format::Block;
use roaring::RoaringBitmap;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Most commits that wait for their maps.
const WAITING_MAX: usize = 64;

/// The commits, and what was written since.
#[derive(Debug, Default)]
pub(super) struct Commits {
    queue: VecDeque<Commit>,
    /// Written since the newest was received.
    written: RoaringBitmap,
    /// How many were received.
    received: u64,
}

/// A commit that was received.
#[derive(Debug)]
struct Commit {
    /// Written before it was received, and after the one before it was.
    written: RoaringBitmap,
    left: usize,
    maps: Vec<Map>,
}

/// What a map says.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// Where it lies in place.
    pub(super) block: Block,
    pub(super) allocated: RoaringBitmap,
    pub(super) free: RoaringBitmap,
}

/// A commit whose maps have all been seen.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) maps: Vec<Map>,
    /// Written since the commit before it was received.
    pub(super) written: RoaringBitmap,
}

impl Commits {
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn are_settled(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn write(&mut self, run: RangeInclusive<Block>) {
        self.written.insert_range(run);
    }

    /// All of `blocks` count as written just now.
    pub(super) fn write_all(&mut self, blocks: Block) {
        self.written.insert_range(0..blocks);
    }

    pub(super) fn written(&self) -> &RoaringBitmap {
        &self.written
    }

    /// As after a clean stop: these were written since the newest.
    pub(super) fn resume(&mut self, written: RoaringBitmap) {
        self.written = written;
    }

    /// Another commit, with so many maps to be seen: its serial number, unless
    /// too many wait. If it is `late`, what was written before it may have been
    /// written after it.
    pub(super) fn push(&mut self, maps: usize, late: bool) -> Option<u64> {
        if self.queue.len() >= WAITING_MAX {
            return None;
        }
        let written = if late { self.written.clone() } else { std::mem::take(&mut self.written) };
        self.queue.push_back(Commit { written, left: maps, maps: Vec::new() });
        self.received += 1;
        Some(self.received)
    }

    /// A map of commit `serial` has been seen.
    pub(super) fn seen(&mut self, serial: u64, map: Map) {
        let behind = (self.received - serial) as usize;
        let commit = self.queue.len().checked_sub(behind + 1).and_then(|at| self.queue.get_mut(at));
        if let Some(commit) = commit {
            commit.left = commit.left.saturating_sub(1);
            commit.maps.push(map);
        }
    }

    /// The oldest commit, if all its maps have been seen.
    pub(super) fn pop(&mut self) -> Option<Settled> {
        let commit = if self.queue.front()?.left == 0 { self.queue.pop_front()? } else { return None };
        let later = self.queue.iter().map(|it| &it.written).chain([&self.written]);
        let written = later.fold(commit.written, |all, written| all | written);
        Some(Settled { maps: commit.maps, written })
    }

    /// No commit waits any more: what was written before them counts as
    /// written since the newest.
    pub(super) fn lose(&mut self) {
        for commit in std::mem::take(&mut self.queue) {
            self.written |= commit.written;
        }
    }
}
