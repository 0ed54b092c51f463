//! The bytes of a disk that have data, to the sector.

use crate::base::blocks::BlockSet;
use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES, Extent};

/// Most gaps that are remembered. Others count as data.
const GAPS_MAX: usize = 1 << 16;
/// Bytes in a sector, which has data as a whole or not at all.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The bytes that have data, or may have some.
///
/// Invariant: a gap lies in blocks that are allocated; a block that is all gaps is
/// not allocated.
#[derive(Clone, Debug)]
pub(super) struct Allocated {
    /// The size of the disk, in bytes.
    size: u64,
    blocks: BlockSet,
    /// Parts of allocated blocks that have no data. A forgotten gap counts as data.
    gaps: ExtentMap<Addr, ()>,
}

impl Allocated {
    /// A disk of `size` bytes of which `blocks` may have data.
    pub(super) fn new(size: u64, blocks: BlockSet) -> Self {
        Self { size, blocks, gaps: ExtentMap::default() }
    }

    /// The blocks.
    pub(super) fn blocks(&self) -> &BlockSet {
        &self.blocks
    }

    /// Notes that `extent` is about to have data.
    pub(super) fn allocate(&mut self, extent: Extent<Addr>) {
        assert!(extent.end() <= self.size.next_multiple_of(BLOCK_BYTES), "data lies on the disk");
        self.leave_gaps(extent);
        self.blocks.insert(extent);
        if !self.gaps.is_empty() {
            self.gaps.remove(outward(extent, SECTOR_BYTES));
        }
    }

    /// Notes that `extent` has no data any more.
    pub(super) fn unmap(&mut self, extent: Extent<Addr>) {
        assert!(extent.end() <= self.size.next_multiple_of(BLOCK_BYTES), "data lies on the disk");
        let extent = self.padded(extent);
        for block in edges(extent, BLOCK_BYTES) {
            if let Some(part) = block.overlap(extent) {
                self.unmap_part(part, block);
            }
        }
        if let Some(blocks) = self.whole_blocks(extent) {
            self.unmap_blocks(blocks);
        }
    }

    /// `extent`, or, if that ends with the disk, `extent` up to the end of the last block.
    pub(super) fn padded(&self, extent: Extent<Addr>) -> Extent<Addr> {
        let end =
            if extent.end() == self.size { self.size.next_multiple_of(BLOCK_BYTES) } else { extent.end() };
        Extent::between(extent.start.0, end)
    }

    /// The blocks that `extent` covers as far as the disk goes.
    pub(super) fn whole_blocks(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        let from = extent.start.0.next_multiple_of(BLOCK_BYTES);
        let to = self.padded(extent).end() / BLOCK_BYTES * BLOCK_BYTES;
        (from < to).then(|| Extent::between(from, to))
    }

    /// The first run within `extent` that has data, or may have some.
    pub(super) fn first(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        let mut rest = extent;
        loop {
            let run = self.blocks.first_run(rest)?;
            let Some((gap, ())) = self.gaps.within(run).next() else { return Some(run) };
            if gap.start != run.start {
                return Some(Extent::between(run.start.0, gap.start.0));
            }
            rest = Extent::between(gap.end(), extent.end());
        }
    }

    /// The number of bytes in blocks that have data, or may have some.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.len() * BLOCK_BYTES
    }

    fn has(&self, block: Extent<Addr>) -> bool {
        self.blocks.contains(block.start.0 / BLOCK_BYTES)
    }

    /// Notes gaps where `extent` covers a part of a block without data: the rest still has none.
    fn leave_gaps(&mut self, extent: Extent<Addr>) {
        for block in edges(extent, BLOCK_BYTES) {
            if !self.has(block) {
                self.add_gap(Extent::between(block.start.0, extent.start.0.max(block.start.0)));
                self.add_gap(Extent::between(extent.end().min(block.end()), block.end()));
            }
        }
    }

    fn add_gap(&mut self, extent: Extent<Addr>) {
        let from = extent.start.0.next_multiple_of(SECTOR_BYTES);
        let to = extent.end() / SECTOR_BYTES * SECTOR_BYTES;
        if from < to && self.gaps.len() < GAPS_MAX {
            self.gaps.insert(Extent::between(from, to), ());
        }
    }

    fn unmap_part(&mut self, part: Extent<Addr>, block: Extent<Addr>) {
        if !self.has(block) {
            return;
        }
        self.add_gap(part);
        let gap_bytes: u64 = self.gaps.within(block).map(|(gap, ())| gap.len).sum();
        assert!(gap_bytes <= block.len, "the gaps of a block are a part of it");
        if gap_bytes == block.len {
            self.unmap_blocks(block);
        }
    }

    fn unmap_blocks(&mut self, blocks: Extent<Addr>) {
        let are_whole = [blocks.start.0, blocks.len].iter().all(|it| it.is_multiple_of(BLOCK_BYTES));
        assert!(are_whole, "blocks and their gaps go together");
        self.blocks.remove(blocks);
        self.gaps.remove(blocks);
    }
}

/// The blocks of `bytes` that `extent` covers only in part, at most two.
pub(super) fn edges(extent: Extent<Addr>, bytes: u64) -> impl Iterator<Item = Extent<Addr>> + use<> {
    let first = extent.start.0 / bytes * bytes;
    let last = extent.end() / bytes * bytes;
    let head = (first != extent.start.0).then_some(first);
    let tail = (last != extent.end() && Some(last) != head).then_some(last);
    head.into_iter().chain(tail).map(move |start| Extent::new(start, bytes))
}

/// `extent`, made larger until it begins and ends at a multiple of `bytes`.
pub(super) fn outward(extent: Extent<Addr>, bytes: u64) -> Extent<Addr> {
    Extent::between(extent.start.0 / bytes * bytes, extent.end().next_multiple_of(bytes))
}

#[cfg(test)]
mod tests;
