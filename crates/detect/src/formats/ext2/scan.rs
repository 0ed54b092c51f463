//! All names in a block of which nothing is known: the difference to zeros, without the other side.
//! An attach to an existing file system does this a million times, so nothing is allocated for each
//! inode.
//!
//! 1. Each block is named as often, and as the same kind, as in the difference to zeros. Only the
//!    order differs, and neighbours of two owners may share one link.

use crate::formats::difference::kind;
use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::{Ext, children};
use crate::formats::format::{Block, Change, Kind, Link};
use std::ops::Range;

/// The names found in a block so far.
pub(super) struct Scan<'a> {
    format: &'a Ext,
    /// Blocks that may be named, around the last one looked up.
    gap: Range<Block>,
    found: Vec<Change>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(format: &'a Ext) -> Self {
        Self { format, gap: 0..0, found: Vec::new() }
    }

    /// Scans `content` of a block of pointers of `level`.
    pub(super) fn pointers(mut self, level: u8, content: &[u8]) -> Vec<Change> {
        children(level, content).for_each(|pointer| self.add(pointer));
        self.found
    }

    /// Scans `content` of a `block` of inodes.
    pub(super) fn inodes(mut self, block: Block, content: &[u8]) -> Vec<Change> {
        let format = self.format;
        let slots = content.chunks_exact(format.superblock.s_inode_size as usize);
        for (number, bytes) in format.numbers(block).zip(slots) {
            format.inode(number, bytes).pointers(|pointer| self.add(pointer));
        }
        self.found
    }

    fn add(&mut self, pointer: Pointer) {
        let Some(blocks) = self.accept(&pointer) else { return };
        match (self.found.last_mut(), kind(pointer.level)) {
            (Some(Change::Linked(last)), Kind::Data)
                if (last.kind, last.blocks.end) == (Kind::Data, blocks.start) =>
            {
                last.blocks.end = blocks.end;
            }
            (_, kind) => self.found.push(Change::Linked(Link { blocks, kind })),
        }
    }

    /// As [`Ext::accept`], mostly without a search.
    fn accept(&mut self, pointer: &Pointer) -> Option<Range<Block>> {
        let Range { start, end } = pointer.blocks;
        if start == 0 || start >= end {
            return None;
        }
        let (start, end) = (Block::try_from(start).ok()?, Block::try_from(end).ok()?);
        if !self.gap.contains(&start) {
            let gap = self.format.layout.gap(start);
            self.gap = gap.start..gap.end.min(self.format.superblock.s_blocks_count);
        }
        (self.gap.contains(&start) && end <= self.gap.end).then_some(start..end)
    }
}
