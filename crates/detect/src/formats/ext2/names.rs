//! Pointers, as inodes and blocks of pointers hold them.

use std::ops::Range;

/// A pointer to contiguous blocks, not validated yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pointer {
    /// Block numbers of 64 bits, as in an extent.
    pub blocks: Range<u64>,
    /// Level of the blocks: 0 for data, otherwise pointers of that level.
    pub level: u8,
    /// Index of the first block among the owner's blocks: at another index, a block has another
    /// meaning.
    pub at: u64,
}

impl Pointer {
    /// A pointer to one block; 0 is a hole.
    pub(super) fn to(block: u32, level: u8, at: usize) -> Self {
        let block = u64::from(block);
        Self { blocks: block..block + u64::from(block != 0), level, at: at as u64 }
    }

    /// Distance of the blocks from their index; the same for all parts of one extent.
    pub(super) fn shift(&self) -> u64 {
        self.blocks.start.wrapping_sub(self.at)
    }
}
