//! Received commits that wait for their copies.

use crate::formats::format::Block;
use crate::rules::rule_j::journal::copies::Copy;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeInclusive};

/// Most commits in the queue.
const WAITING_MAX: usize = 64;
/// Most bytes of copies of inodes and of nodes that are kept for commits in the queue; further ones are read.
const CONTENTS_BYTES_MAX: usize = 16 << 20;

/// The commits, and what was written since.
#[derive(Debug, Default)]
pub(in super::super) struct Commits {
    queue: VecDeque<Commit>,
    /// Blocks written since the newest commit was received.
    pub(in super::super) written: RoaringBitmap,
    /// Those of them whose owner, if they have one in the next commit, wrote all that lies there.
    pub(in super::super) window: RoaringBitmap,
    /// Those of them that were written since the next commit began: their owner, if they have one in the commit
    /// after that one, wrote all that lies there, too.
    early: RoaringBitmap,
    /// Number of commits received.
    pub(in super::super) received: u64,
    contents_bytes: usize,
}

/// A commit that was received.
#[derive(Debug)]
struct Commit {
    /// Blocks written before this commit was received, and after the one before it was.
    written: RoaringBitmap,
    /// Those of them that were not written since, and whose owner, as of this commit, wrote all that lies there.
    window: RoaringBitmap,
    /// Copies that were not seen yet.
    left: usize,
    maps: Vec<Map>,
    /// What copies of blocks of inodes name as unwritten.
    unwritten: BTreeMap<Block, Vec<Range<Block>>>,
    /// Copies of other metadata that marks may lead to; `None` once they were taken.
    marked: Option<MarkedCopies>,
}

/// The copies in a commit that marks may lead to.
#[derive(Debug, Default)]
pub(in super::super) struct MarkedCopies {
    /// The copies that count in the log.
    pub(in super::super) copies: Vec<Copy>,
    /// The others: what they are copies of is in its place.
    pub(in super::super) in_place: Vec<Copy>,
    /// Contents of some of them.
    pub(in super::super) contents: BTreeMap<Block, Vec<u8>>,
}

/// The content of a map.
#[derive(Clone, Debug)]
pub(in super::super) struct Map {
    /// The block of the map in the file system.
    pub(in super::super) block: Block,
    pub(in super::super) allocated: RoaringBitmap,
    pub(in super::super) free: RoaringBitmap,
}

/// A commit with all its maps.
#[derive(Debug)]
pub(in super::super) struct Settled {
    /// How many commits had been received, with this one.
    pub(in super::super) number: u64,
    pub(in super::super) maps: Vec<Map>,
    pub(in super::super) unwritten: BTreeMap<Block, Vec<Range<Block>>>,
    /// Blocks written since the commit before it was received.
    pub(in super::super) written: RoaringBitmap,
    /// Those of them that were written since this one was.
    pub(in super::super) after: RoaringBitmap,
    /// Blocks whose content is that of their owner as of this commit, if they have one.
    pub(in super::super) window: RoaringBitmap,
}

impl Commits {
    pub(in super::super) fn are_settled(&self) -> bool {
        self.queue.is_empty()
    }

    /// Notes a write of `blocks`, of which those in `over` hold nothing else of files that may be marked. If the next
    /// commit `has_begun`, whatever it frees was written before.
    pub(in super::super) fn write_window(
        &mut self,
        blocks: RangeInclusive<Block>,
        over: &RoaringBitmap,
        has_begun: bool,
    ) {
        for commit in &mut self.queue {
            commit.window.remove_range(blocks.clone());
        }
        self.window |= over;
        if has_begun {
            self.early |= over;
        } else {
            self.early.remove_range(blocks);
        }
    }

    /// Takes nothing that lies in `blocks` for that of its owner as of a commit.
    pub(in super::super) fn close_window(&mut self, blocks: RangeInclusive<Block>) {
        for commit in &mut self.queue {
            commit.window.remove_range(blocks.clone());
        }
        self.window.remove_range(blocks.clone());
        self.early.remove_range(blocks);
    }

    /// Takes nothing that has been written for that of its owner as of a commit.
    pub(in super::super) fn close_windows(&mut self) {
        self.window.clear();
        self.early.clear();
        self.queue.iter_mut().for_each(|commit| commit.window.clear());
    }

    /// Counts all of `blocks` as written just now.
    pub(in super::super) fn write_all(&mut self, blocks: Block) {
        self.written.insert_range(0..blocks);
    }

    /// The windows of all commits that have not settled, and of the next.
    pub(in super::super) fn windows(&self) -> RoaringBitmap {
        self.queue.iter().fold(self.window.clone(), |all, commit| all | &commit.window)
    }

    /// Continues after a clean stop: `written` were written since the newest commit, and of them `window` as
    /// [`Commits::write_window`] has it.
    pub(in super::super) fn resume(&mut self, written: RoaringBitmap, window: RoaringBitmap) {
        (self.written, self.window) = (written, window);
    }

    /// Adds a commit that waits for `copies` copies. Returns its serial number, unless too many wait.
    /// If the commit is `late`, writes that arrived before it may have been sent after it.
    pub(in super::super) fn push(&mut self, copies: usize, late: bool) -> Option<u64> {
        if self.queue.len() >= WAITING_MAX {
            return None;
        }
        let written = if late { self.written.clone() } else { std::mem::take(&mut self.written) };
        let early = std::mem::take(&mut self.early);
        let mut window = std::mem::replace(&mut self.window, early);
        if late {
            window.clear();
            self.window.clear();
        }
        let marked = Some(MarkedCopies::default());
        let (maps, unwritten) = Default::default();
        self.queue.push_back(Commit { written, window, left: copies, maps, unwritten, marked });
        self.received += 1;
        Some(self.received)
    }

    fn at(&mut self, serial: u64) -> Option<&mut Commit> {
        let behind = (self.received - serial) as usize;
        self.queue.len().checked_sub(behind + 1).and_then(|at| self.queue.get_mut(at))
    }

    /// Notes a copy of commit `serial` that marks may lead to.
    pub(in super::super) fn note(&mut self, serial: u64, copy: Copy) {
        if let Some(marked) = self.at(serial).and_then(|commit| commit.marked.as_mut()) {
            marked.copies.push(copy);
        }
    }

    /// Whether a noted copy lies in the log's block `index`, of a commit whose turn has not come.
    pub(in super::super) fn wait_for(&self, index: u32) -> bool {
        let waiting = self.queue.iter().filter_map(|commit| commit.marked.as_ref());
        waiting.flat_map(|it| &it.copies).any(|copy| copy.index == index)
    }

    /// Whether a commit whose turn has not come has a copy of `block`.
    pub(in super::super) fn have_copy(&self, block: Block) -> bool {
        let waiting = self.queue.iter().filter_map(|commit| commit.marked.as_ref());
        waiting.flat_map(|it| it.copies.iter().chain(&it.in_place)).any(|copy| copy.block() == block)
    }

    /// Notes that the copies in the log's blocks `indices` do not count any more.
    pub(in super::super) fn forget_copies(&mut self, indices: &RoaringBitmap) {
        for marked in self.queue.iter_mut().filter_map(|commit| commit.marked.as_mut()) {
            let is_gone = |copy: &mut Copy| indices.contains(copy.index);
            marked.in_place.extend(marked.copies.extract_if(.., is_gone));
        }
    }

    /// Notes the copy of a map in commit `serial`.
    pub(in super::super) fn map_read(&mut self, serial: u64, map: Map) {
        if let Some(commit) = self.at(serial) {
            commit.left = commit.left.saturating_sub(1);
            commit.maps.push(map);
        }
    }

    /// Notes what the copy of `table`, a block of inodes in commit `serial`, names as unwritten.
    pub(in super::super) fn unwritten_read(&mut self, serial: u64, table: Block, named: Vec<Range<Block>>) {
        if let Some(commit) = self.at(serial) {
            commit.unwritten.insert(table, named);
        }
    }

    /// Notes the copy of another `block` in commit `serial`, with its content if marks are followed.
    pub(in super::super) fn copy_read(&mut self, serial: u64, block: Block, content: Option<Vec<u8>>) {
        let bytes = self.contents_bytes + content.as_ref().map_or(0, Vec::len);
        let Some(commit) = self.at(serial) else { return };
        commit.left = commit.left.saturating_sub(1);
        let Some(content) = content else { return };
        if let Some(marked) = commit.marked.as_mut().filter(|_| bytes <= CONTENTS_BYTES_MAX) {
            marked.contents.insert(block, content);
            self.contents_bytes = bytes;
        }
    }

    /// If the oldest commit has all its copies, its maps, and once what marks may lead to.
    pub(in super::super) fn next_marked(&mut self) -> Option<(&[Map], MarkedCopies)> {
        let commit = self.queue.front_mut().filter(|commit| commit.left == 0)?;
        let marked = commit.marked.take()?;
        self.contents_bytes -= marked.contents.values().map(Vec::len).sum::<usize>();
        Some((&commit.maps, marked))
    }

    /// Takes the oldest commit, if it has all its copies.
    pub(in super::super) fn pop(&mut self) -> Option<Settled> {
        let commit = if self.queue.front()?.left == 0 { self.queue.pop_front()? } else { return None };
        let later = self.queue.iter().map(|it| &it.written);
        let after = later.fold(self.written.clone(), |all, written| all | written);
        Some(Settled {
            number: self.received - self.queue.len() as u64,
            maps: commit.maps,
            unwritten: commit.unwritten,
            written: commit.written | &after,
            after,
            window: commit.window,
        })
    }

    /// Drops all waiting commits: their blocks count as written since the newest.
    pub(in super::super) fn lose(&mut self) {
        for commit in std::mem::take(&mut self.queue) {
            self.written |= commit.written;
        }
        self.window.clear();
        self.early.clear();
        self.contents_bytes = 0;
    }
}
