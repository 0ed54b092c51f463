//! Pointers, as inodes and blocks of pointers hold them.

use std::ops::Range;

/// A pointer to some blocks, one behind the other. Whether it can be true is
/// not known yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pointer {
    /// By 64 bits, as an extent counts them.
    pub blocks: Range<u64>,
    /// 0 to data, else to pointers of that level.
    pub level: u8,
    /// Where the first of them is among what the owner has: with it, a block
    /// changes its meaning.
    pub at: u64,
}

impl Pointer {
    /// A pointer to one block; 0 is a hole.
    pub(super) fn to(block: u32, level: u8, at: usize) -> Self {
        let block = u64::from(block);
        Self { blocks: block..block + u64::from(block != 0), level, at: at as u64 }
    }

    /// How far the blocks lie from their places. It is the same for all parts
    /// of one extent.
    pub(super) fn shift(&self) -> u64 {
        self.blocks.start.wrapping_sub(self.at)
    }
}
