//! Received commits that wait for their copies.

use crate::format::Block;
use roaring::RoaringBitmap;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Most commits in the queue.
const WAITING_MAX: usize = 64;

/// The commits, and what was written since.
#[derive(Debug, Default)]
pub(super) struct Commits {
    queue: VecDeque<Commit>,
    /// Blocks written since the newest commit was received.
    written: RoaringBitmap,
    /// Number of commits received.
    received: u64,
}

/// A commit that was received.
#[derive(Debug)]
struct Commit {
    /// Blocks written before this commit was received, and after the one before it was.
    written: RoaringBitmap,
    /// Copies that were not seen yet.
    left: usize,
    maps: Vec<Map>,
}

/// The content of a map.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// The block of the map in the file system.
    pub(super) block: Block,
    pub(super) allocated: RoaringBitmap,
    pub(super) free: RoaringBitmap,
}

/// A commit with all its maps.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) maps: Vec<Map>,
    /// Blocks written since the commit before it was received.
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

    /// Counts all of `blocks` as written just now.
    pub(super) fn write_all(&mut self, blocks: Block) {
        self.written.insert_range(0..blocks);
    }

    pub(super) fn written(&self) -> &RoaringBitmap {
        &self.written
    }

    /// Continues after a clean stop: `written` were written since the newest commit.
    pub(super) fn resume(&mut self, written: RoaringBitmap) {
        self.written = written;
    }

    /// Adds a commit that waits for `copies` copies. Returns its serial number, unless too many wait.
    /// If the commit is `late`, writes that arrived before it may have been sent after it.
    pub(super) fn push(&mut self, copies: usize, late: bool) -> Option<u64> {
        if self.queue.len() >= WAITING_MAX {
            return None;
        }
        let written = if late { self.written.clone() } else { std::mem::take(&mut self.written) };
        self.queue.push_back(Commit { written, left: copies, maps: Vec::new() });
        self.received += 1;
        Some(self.received)
    }

    /// Notes a copy of commit `serial`, and adds it if it is of a map.
    pub(super) fn copy_read(&mut self, serial: u64, map: Option<Map>) {
        let behind = (self.received - serial) as usize;
        let commit = self.queue.len().checked_sub(behind + 1).and_then(|at| self.queue.get_mut(at));
        if let Some(commit) = commit {
            commit.left = commit.left.saturating_sub(1);
            commit.maps.extend(map);
        }
    }

    /// Takes the oldest commit, if it has all its copies.
    pub(super) fn pop(&mut self) -> Option<Settled> {
        let commit = if self.queue.front()?.left == 0 { self.queue.pop_front()? } else { return None };
        let later = self.queue.iter().map(|it| &it.written).chain([&self.written]);
        let written = later.fold(commit.written, |all, written| all | written);
        Some(Settled { maps: commit.maps, written })
    }

    /// Drops all waiting commits: their blocks count as written since the newest.
    pub(super) fn lose(&mut self) {
        for commit in std::mem::take(&mut self.queue) {
            self.written |= commit.written;
        }
    }
}
