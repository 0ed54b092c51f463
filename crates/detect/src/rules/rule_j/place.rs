//! Where the blocks of a journal lie.

use crate::formats::format::Block;
use crate::input::sets::set_of;
use roaring::RoaringBitmap;
use std::ops::Range;

/// The blocks of a journal, in its own order.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Pieces contiguous in both the journal and the file system, in the journal's order, with
    /// their place in the journal.
    pieces: Vec<(u32, Range<Block>)>,
    /// The same pieces in the file system's order.
    sorted: Vec<(u32, Range<Block>)>,
    pub(super) len: u32,
}

impl Place {
    pub(super) fn new(blocks: Vec<Range<Block>>) -> Self {
        let mut pieces = Vec::new();
        let mut len = 0_u32;
        for range in blocks {
            let start = len;
            len = len.saturating_add(range.end.saturating_sub(range.start));
            pieces.push((start, range));
        }
        let mut sorted = pieces.clone();
        sorted.sort_unstable_by_key(|(_, range)| range.start);
        Self { pieces, sorted, len }
    }

    /// The journal's number for `block`.
    pub(super) fn index(&self, block: Block) -> Option<u32> {
        let next = self.sorted.partition_point(|(_, range)| range.start <= block);
        let (start, range) = self.sorted.get(next.checked_sub(1)?)?;
        range.contains(&block).then(|| start + (block - range.start))
    }

    /// The place of the journal's block `index`.
    pub(super) fn block(&self, index: u32) -> Option<Block> {
        let next = self.pieces.partition_point(|(start, _)| *start <= index);
        let (start, range) = self.pieces.get(next.checked_sub(1)?)?;
        Some(range.start + (index - start)).filter(|block| range.contains(block))
    }

    /// The places of the journal's blocks `indices`.
    pub(super) fn blocks(&self, indices: &RoaringBitmap) -> RoaringBitmap {
        let mut blocks = RoaringBitmap::new();
        for (start, range) in &self.pieces {
            let end = start + (range.end - range.start);
            let mut within = indices.range(*start..end);
            while let Some(run) = within.next_range() {
                blocks.insert_range(range.start + (run.start() - start)..=range.start + (run.end() - start));
            }
        }
        blocks
    }

    pub(super) fn all(&self) -> RoaringBitmap {
        set_of(self.pieces.iter().map(|(_, range)| range.clone()))
    }
}
