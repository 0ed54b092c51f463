//! Where the journal lies: the blocks of its inode, in their order.
//!
//! Linux goes by the inode, not by the copy of its pointers in the superblock.

use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::ext2::{Ext, children};
use crate::formats::format::{Block, Contents, Probe, Reason};
use crate::input::sets::join;
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;

/// Most bytes of blocks of pointers to read for a journal.
const NODES_BYTES_MAX: u64 = 16 << 20;

/// A superblock's fields about the journal. If any of them changes, the journal may be another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// Inode number of the journal; 0: external journal.
    s_journal_inum: u32,
    /// UUID of an external journal, whose device number may change at a mount.
    s_journal_uuid: [u8; 16],
    /// Copy of the inode's pointers.
    s_jnl_blocks: [u8; 68],
}

impl Claim {
    pub(super) fn of(superblock: &RawSuperblock) -> Self {
        Self {
            s_journal_inum: superblock.s_journal_inum.get(),
            s_journal_uuid: superblock.s_journal_uuid,
            s_jnl_blocks: superblock.s_jnl_blocks,
        }
    }

    pub(super) fn is_external(&self) -> bool {
        self.s_journal_inum == 0
    }
}

/// A walk along the pointers of the journal's inode.
struct Walk<'a> {
    ext: &'a Ext,
    contents: &'a Contents,
    missing: Vec<Extent<Addr>>,
    pieces: Vec<Range<Block>>,
    nodes_bytes: u64,
    /// Number of blocks still to be found.
    left: u64,
}

fn lies() -> Reason {
    Reason("the journal's inode is invalid".into())
}

/// The blocks of the journal of `ext`, whose superblock has `claim`.
pub(super) fn find(ext: &Ext, claim: &Claim, contents: &Contents) -> Result<Vec<Range<Block>>, Probe> {
    let s_journal_inum = claim.s_journal_inum;
    let (block, slot) = ext.place_of_inode(s_journal_inum).ok_or_else(lies)?;
    let table = contents.needed(ext.extent_of(block))?;
    let inode = ext.inode(s_journal_inum, ext.slot(table, slot));
    let (i_size, pointers) = inode.file().ok_or_else(lies)?;
    let left = i_size / u64::from(ext.superblock.block_bytes());
    let (missing, pieces) = (Vec::new(), Vec::new());
    let mut walk = Walk { ext, contents, missing, pieces, nodes_bytes: 0, left };
    pointers.iter().try_for_each(|pointer| walk.follow(pointer))?;
    walk.finish()
}

impl Walk<'_> {
    fn follow(&mut self, pointer: &Pointer) -> Result<(), Reason> {
        if self.left == 0 || pointer.blocks.is_empty() {
            return Ok(());
        }
        let blocks = self.ext.accept(pointer).ok_or_else(lies)?;
        if pointer.level == 0 {
            self.found(blocks);
            return Ok(());
        }
        let place = self.ext.extent_of(blocks.start);
        self.nodes_bytes += place.len;
        if self.nodes_bytes > NODES_BYTES_MAX {
            return Err(lies());
        }
        let Some(content) = self.contents.get(place) else {
            self.missing.push(place);
            return Ok(());
        };
        children(pointer.level, content).try_for_each(|child| self.follow(&child))
    }

    fn found(&mut self, blocks: Range<Block>) {
        let len = self.left.min(blocks.len() as u64);
        self.left -= len;
        join(&mut self.pieces, blocks.start..blocks.start + len as u32);
    }

    fn finish(self) -> Result<Vec<Range<Block>>, Probe> {
        if !self.missing.is_empty() {
            return Err(Probe::Needs(self.missing));
        }
        let mut sorted = self.pieces.clone();
        sorted.sort_unstable_by_key(|piece| piece.start);
        let is_twice = sorted.windows(2).any(|pair| pair[0].end > pair[1].start);
        if self.left > 0 || is_twice || self.pieces.is_empty() {
            return Err(lies().into());
        }
        Ok(self.pieces)
    }
}

impl Ext {
    /// The block of inode `number`, and its index there.
    pub(super) fn place_of_inode(&self, number: u32) -> Option<(Block, u32)> {
        let n = number.checked_sub(1).filter(|n| *n < self.superblock.s_inodes_count)?;
        let (group, n) = (n / self.superblock.s_inodes_per_group, n % self.superblock.s_inodes_per_group);
        let table = self.descriptors.get(group as usize)?.bg_inode_table;
        let in_block = self.superblock.inodes_in_block();
        Some((table + n / in_block, n % in_block))
    }

    fn extent_of(&self, block: Block) -> Extent<Addr> {
        let bytes = u64::from(self.superblock.block_bytes());
        Extent::new(u64::from(block) * bytes, bytes)
    }
}

#[cfg(test)]
mod tests;
