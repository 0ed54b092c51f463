//! Which blocks bytes are of, and which bytes blocks have.

use super::RuleE;
use crate::format::{Block, Format, Kind, Shown};
use quietus_core::units::{Addr, Extent};
use quietus_core::watch::Content;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

impl RuleE {
    pub(super) fn extent_of(&self, block: Block) -> Extent<Addr> {
        let bytes = u64::from(self.format.block_bytes());
        Extent::new(u64::from(block) * bytes, bytes)
    }

    pub(super) fn extent_of_run(&self, run: &RangeInclusive<Block>) -> Extent<Addr> {
        Extent::between(self.extent_of(*run.start()).start.0, self.extent_of(*run.end()).end())
    }

    /// The blocks that `extent` touches.
    pub(super) fn touched(&self, extent: Extent<Addr>) -> Option<RangeInclusive<Block>> {
        let bytes = u64::from(self.format.block_bytes());
        self.blocks(extent.start.0 / bytes, extent.end().div_ceil(bytes))
    }

    /// The blocks that lie wholly within `extent`.
    pub(super) fn covered(&self, extent: Extent<Addr>) -> Option<RangeInclusive<Block>> {
        let bytes = u64::from(self.format.block_bytes());
        self.blocks(extent.start.0.div_ceil(bytes), extent.end() / bytes)
    }

    pub(super) fn blocks(&self, first: u64, end: u64) -> Option<RangeInclusive<Block>> {
        let end = end.min(u64::from(self.format.blocks()));
        (first < end).then(|| first as Block..=(end - 1) as Block)
    }

    /// The part of `bytes`, at `extent`, that is of `block`, and what reaches
    /// beyond that, if any of it is.
    pub(super) fn part<'a>(
        &self,
        block: Block,
        extent: Extent<Addr>,
        bytes: &'a [u8],
        reach_bytes: u64,
    ) -> Option<(Extent<Addr>, &'a [u8])> {
        let place = self.extent_of(block);
        let at = Extent::new(place.start.0, place.len + reach_bytes).overlap(extent)?;
        let from = (at.start.0 - extent.start.0) as usize;
        Some((at, bytes.get(from..from + at.len as usize)?))
    }
}

/// The blocks whose place makes them of one of `kinds`.
pub(super) fn placed<const N: usize>(format: &dyn Format, kinds: [Kind; N]) -> RoaringBitmap {
    let mut blocks = RoaringBitmap::new();
    for range in kinds.into_iter().flat_map(|kind| format.survey(kind)) {
        blocks.insert_range(range);
    }
    blocks
}

/// `old`, the content of `whole`, with as much of `content` over it as goes there.
pub(super) fn overlaid(
    whole: Extent<Addr>,
    old: &[u8],
    extent: Extent<Addr>,
    content: Content<'_>,
) -> Vec<u8> {
    let mut new = old.to_vec();
    if let Some(part) = whole.overlap(extent) {
        let to = (part.start.0 - whole.start.0) as usize;
        let from = (part.start.0 - extent.start.0) as usize;
        let len = part.len as usize;
        match content {
            Content::Bytes(bytes) => new[to..to + len].copy_from_slice(&bytes[from..from + len]),
            Content::Zeros => new[to..to + len].fill(0),
        }
    }
    new
}

/// What is shown allocated, and what free.
pub(super) fn split(shown: &[Shown]) -> (RoaringBitmap, RoaringBitmap) {
    let (mut allocated, mut free) = (RoaringBitmap::new(), RoaringBitmap::new());
    for part in shown {
        let set = if part.allocated { &mut allocated } else { &mut free };
        set.insert_range(part.blocks.clone());
    }
    (allocated, free)
}
