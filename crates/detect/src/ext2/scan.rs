//! All that a block names, where nothing is known of it yet: the difference to
//! zeros, without the other side. An attach to what was there before does
//! little else, a million times, so that nothing is allocated for an inode here.
//!
//! 1. Each block is named as often, and as the same kind, as the difference to
//!    zeros names it. Only the order is another, and neighbours of two owners
//!    may be one link.

use super::Ext2;
use super::bytes::u32_at;
use super::names::Pointer;
use crate::format::{Block, Change, Kind, Link};
use std::ops::Range;

/// What has been found in a block so far.
pub(super) struct Scan<'a> {
    format: &'a Ext2,
    /// Blocks that may be named: those around the last that was looked up.
    gap: Range<Block>,
    found: Vec<Change>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(format: &'a Ext2) -> Self {
        Self { format, gap: 0..0, found: Vec::new() }
    }

    /// `content`, of a block of pointers of `level`.
    pub(super) fn pointers(mut self, level: u8, content: &[u8]) -> Vec<Change> {
        for at in (0..content.len()).step_by(4) {
            self.add(Pointer { block: u32_at(content, at), level: level - 1 });
        }
        self.found
    }

    /// `content`, of a `block` of inodes.
    pub(super) fn inodes(mut self, block: Block, content: &[u8]) -> Vec<Change> {
        let format = self.format;
        let slots = content.chunks_exact(format.superblock.s_inode_size as usize);
        for (number, bytes) in format.numbers(block).zip(slots) {
            format.inode(number, bytes).pointers(|pointer| self.add(pointer));
        }
        self.found
    }

    fn add(&mut self, pointer: Pointer) {
        let block = pointer.block;
        if block == 0 || !self.may_be_named(block) {
            return;
        }
        match (self.found.last_mut(), pointer.kind()) {
            (Some(Change::Linked(last)), Kind::Data)
                if (last.kind, last.blocks.end) == (Kind::Data, block) =>
            {
                last.blocks.end += 1;
            }
            (_, kind) => self.found.push(Change::Linked(Link { blocks: block..block + 1, kind })),
        }
    }

    fn may_be_named(&mut self, block: Block) -> bool {
        if !self.gap.contains(&block) {
            let gap = self.format.layout.gap(block);
            self.gap = gap.start..gap.end.min(self.format.superblock.s_blocks_count);
        }
        self.gap.contains(&block)
    }
}
