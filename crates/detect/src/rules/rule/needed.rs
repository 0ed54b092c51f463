//! Blocks whose content is needed, and those of them that are yet to be asked for.

use crate::formats::format::Block;
use roaring::RoaringBitmap;
use std::ops::{Range, RangeInclusive};

/// Needed blocks, whether or not a read of them is under way.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    all: RoaringBitmap,
    unasked: RoaringBitmap,
}

impl Needed {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn within(&self, blocks: RangeInclusive<Block>) -> impl Iterator<Item = Block> {
        self.all.range(blocks)
    }

    /// Asks for the content of `block`, once more if a read is under way.
    pub(crate) fn want(&mut self, block: Block) {
        self.all.insert(block);
        self.unasked.insert(block);
    }

    /// As [`Needed::want`], for all of `blocks`.
    pub(crate) fn want_all(&mut self, blocks: Range<Block>) {
        self.all.insert_range(blocks.clone());
        self.unasked.insert_range(blocks);
    }

    /// Takes the present content of `block`. Returns whether it was needed.
    pub(crate) fn take(&mut self, block: Block) -> bool {
        self.unasked.remove(block);
        self.all.remove(block)
    }

    /// Takes the answer to a read of `block`, which is older than whatever made it needed once more.
    pub(crate) fn answer(&mut self, block: Block) {
        if !self.unasked.contains(block) {
            self.all.remove(block);
        }
    }

    /// The next contiguous blocks to read, at most `most`.
    pub(crate) fn next_read(&mut self, most: u32) -> Option<RangeInclusive<Block>> {
        let run = self.unasked.iter().next_range()?;
        let run = *run.start()..=(*run.end()).min(run.start().saturating_add(most.max(1) - 1));
        self.unasked.remove_range(run.clone());
        Some(run)
    }
}
