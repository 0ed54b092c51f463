//! Where the blocks of a file system lie on the disk.

use crate::formats::format::{Block, Format};
use crate::input::sets::runs;
use crate::rules::rule::READ_BYTES_MAX;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::Class;
use std::ops::RangeInclusive;

/// The blocks of one file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    block_bytes: u32,
    blocks: Block,
}

impl Grid {
    pub(crate) fn of(format: &dyn Format) -> Self {
        Self { block_bytes: format.block_bytes(), blocks: format.blocks() }
    }

    /// Whether blocks have the same places in `other`.
    pub(crate) fn is_like(self, other: Self) -> bool {
        self.block_bytes == other.block_bytes
    }

    /// The first byte behind the blocks.
    pub(crate) fn end(self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_bytes)
    }

    pub(crate) fn extent_of(self, block: Block) -> Extent<Addr> {
        let bytes = u64::from(self.block_bytes);
        Extent::new(u64::from(block) * bytes, bytes)
    }

    pub(crate) fn extent_of_run(self, run: &RangeInclusive<Block>) -> Extent<Addr> {
        Extent::between(self.extent_of(*run.start()).start.0, self.extent_of(*run.end()).end())
    }

    /// The blocks that `extent` touches.
    pub(crate) fn touched(self, extent: Extent<Addr>) -> Option<RangeInclusive<Block>> {
        let bytes = u64::from(self.block_bytes);
        self.within(extent.start.0 / bytes, extent.end().div_ceil(bytes))
    }

    /// The blocks that lie wholly within `extent`.
    pub(crate) fn covered(self, extent: Extent<Addr>) -> Option<RangeInclusive<Block>> {
        let bytes = u64::from(self.block_bytes);
        self.within(extent.start.0.div_ceil(bytes), extent.end() / bytes)
    }

    fn within(self, first: u64, end: u64) -> Option<RangeInclusive<Block>> {
        let end = end.min(u64::from(self.blocks));
        (first < end).then(|| first as Block..=(end - 1) as Block)
    }

    /// The part of `bytes`, at `extent`, that lies in `block` or in the `reach_bytes` after it,
    /// with its place; `None` if they do not meet.
    pub(crate) fn part(
        self,
        block: Block,
        extent: Extent<Addr>,
        bytes: &[u8],
        reach_bytes: u64,
    ) -> Option<(Extent<Addr>, &[u8])> {
        let place = self.extent_of(block);
        let at = Extent::new(place.start.0, place.len + reach_bytes).overlap(extent)?;
        let from = (at.start.0 - extent.start.0) as usize;
        Some((at, bytes.get(from..from + at.len as usize)?))
    }

    /// The ascending `blocks` as extents, each for one read.
    pub(crate) fn runs(self, blocks: impl IntoIterator<Item = Block>) -> Vec<Extent<Addr>> {
        let mut runs: Vec<Extent<Addr>> = Vec::new();
        for block in blocks {
            let found = self.extent_of(block);
            match runs.last_mut() {
                Some(run) if run.end() == found.start.0 && run.len < READ_BYTES_MAX => run.len += found.len,
                _ => runs.push(found),
            }
        }
        runs
    }

    /// The blocks of `set` as runs, cut to `extent`.
    pub(crate) fn parts(self, set: &roaring::RoaringBitmap, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        self.all_runs(set).filter_map(|run| run.overlap(extent)).collect()
    }

    /// Adds the blocks of `found` to `suspicious`, but for those that `extent` covers: those are destroyed
    /// before it is written. Returns the parts of `extent` in `found`.
    pub(crate) fn suspect(
        self,
        suspicious: &mut roaring::RoaringBitmap,
        found: &roaring::RoaringBitmap,
        extent: Extent<Addr>,
    ) -> Vec<Extent<Addr>> {
        *suspicious |= found;
        if let Some(whole) = self.covered(extent) {
            suspicious.remove_range(whole);
        }
        self.parts(found, extent)
    }

    /// Runs of `extent` of one class each, in order; what is beyond the file system is sensitive.
    pub(crate) fn classes(
        self,
        extent: Extent<Addr>,
        class_of: impl Fn(Block) -> Class,
    ) -> Vec<(Extent<Addr>, Class)> {
        let mut runs: Vec<(Extent<Addr>, Class)> = Vec::new();
        let mut add = |part: Extent<Addr>, class| match runs.last_mut() {
            Some((run, last)) if *last == class => run.len += part.len,
            _ => runs.push((part, class)),
        };
        let blocks = self.touched(extent);
        let end = blocks.as_ref().map_or(extent.start.0, |it| self.extent_of_run(it).end().min(extent.end()));
        for block in blocks.into_iter().flatten() {
            if let Some(part) = self.extent_of(block).overlap(extent) {
                add(part, class_of(block));
            }
        }
        if end < extent.end() {
            add(Extent::between(end, extent.end()), Class::Sensitive);
        }
        runs
    }

    /// The blocks of `set`, as runs.
    pub(crate) fn all_runs(self, set: &roaring::RoaringBitmap) -> impl Iterator<Item = Extent<Addr>> {
        runs(set).map(move |run| self.extent_of_run(&run))
    }
}
