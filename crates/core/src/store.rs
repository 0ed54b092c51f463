//! The only part that knows where bytes live.

use crate::blocks::BlockSet;
use crate::extents::ExtentMap;
use crate::units::{Addr, BLOCK_BYTES, Extent, Pos};

/// Where the content of the disk lives on the medium, and which of it is data.
pub trait Store {
    /// Bytes of the disk that the guest sees.
    fn size(&self) -> u64;

    /// Where `extent` lives.
    fn place(&self, extent: Extent<Addr>) -> Extent<Pos>;

    /// `extent` is about to hold data.
    fn hold(&mut self, extent: Extent<Addr>);

    /// `extent` reads as zeros, and holds no data any more.
    fn void(&mut self, extent: Extent<Addr>);

    /// The first run within `extent` that holds data, or may hold some.
    fn first_held(&self, extent: Extent<Addr>) -> Option<Extent<Addr>>;

    /// Bytes in blocks that hold data, or may hold some.
    fn held_bytes(&self) -> u64;
}

/// Parts of blocks that are known to hold nothing while the rest does. With one
/// more, some are forgotten.
const GAPS_MAX: usize = 1 << 16;
/// What begins and ends within such a sector counts as all of it.
const SECTOR_BYTES: u64 = 512;

/// The disk image or block device as it is: byte n lives at n.
///
/// Invariants:
/// 1. What holds no data reads as zeros.
/// 2. A gap lies in blocks of `held`; a block that is all gaps is not held.
#[derive(Clone, Debug)]
pub struct InPlace {
    size: u64,
    held: BlockSet,
    /// Parts of held blocks that hold nothing. They may be forgotten: then they
    /// are taken for data.
    gaps: ExtentMap<Addr, ()>,
}

impl InPlace {
    /// A disk of `size` bytes of which `held` may hold data.
    #[must_use]
    pub fn new(size: u64, held: BlockSet) -> Self {
        Self { size, held, gaps: ExtentMap::default() }
    }

    /// The blocks that hold data, or may hold some.
    #[must_use]
    pub fn held(&self) -> &BlockSet {
        &self.held
    }

    fn holds(&self, block: Extent<Addr>) -> bool {
        self.held.first_run(block).is_some()
    }

    /// Where `extent` covers a part of a block that held nothing, the rest goes
    /// on to hold nothing.
    fn leave_gaps(&mut self, extent: Extent<Addr>) {
        for block in edges(extent) {
            if !self.holds(block) {
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

    fn void_part(&mut self, part: Extent<Addr>, block: Extent<Addr>) {
        if !self.holds(block) {
            return;
        }
        self.add_gap(part);
        let gap_bytes: u64 = self.gaps.within(block).map(|(gap, ())| gap.len).sum();
        if gap_bytes == block.len {
            self.void_blocks(block);
        }
    }

    fn void_blocks(&mut self, blocks: Extent<Addr>) {
        self.held.remove(blocks);
        self.gaps.remove(blocks);
    }
}

impl Store for InPlace {
    fn size(&self) -> u64 {
        self.size
    }

    fn place(&self, extent: Extent<Addr>) -> Extent<Pos> {
        Extent::new(extent.start.0, extent.len)
    }

    fn hold(&mut self, extent: Extent<Addr>) {
        self.leave_gaps(extent);
        self.held.insert(extent);
        if !self.gaps.is_empty() {
            self.gaps.remove(outward(extent, SECTOR_BYTES));
        }
    }

    fn void(&mut self, extent: Extent<Addr>) {
        // The last block may be cut off by the end of the disk.
        let end =
            if extent.end() == self.size { extent.end().next_multiple_of(BLOCK_BYTES) } else { extent.end() };
        let extent = Extent::between(extent.start.0, end);
        for block in edges(extent) {
            if let Some(part) = block.overlap(extent) {
                self.void_part(part, block);
            }
        }
        let (from, to) = (extent.start.0.next_multiple_of(BLOCK_BYTES), end / BLOCK_BYTES * BLOCK_BYTES);
        if from < to {
            self.void_blocks(Extent::between(from, to));
        }
    }

    fn first_held(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        let mut rest = extent;
        loop {
            let run = self.held.first_run(rest)?;
            let Some((gap, ())) = self.gaps.within(run).next() else { return Some(run) };
            if gap.start != run.start {
                return Some(Extent::between(run.start.0, gap.start.0));
            }
            rest = Extent::between(gap.end(), extent.end());
        }
    }

    fn held_bytes(&self) -> u64 {
        self.held.len() * BLOCK_BYTES
    }
}

/// The blocks of which `extent` covers a part only: none, one or two.
fn edges(extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
    let first = extent.start.0 / BLOCK_BYTES * BLOCK_BYTES;
    let last = extent.end() / BLOCK_BYTES * BLOCK_BYTES;
    let head = (first != extent.start.0).then_some(first);
    let tail = (last != extent.end() && Some(last) != head).then_some(last);
    head.into_iter().chain(tail).map(|start| Extent::new(start, BLOCK_BYTES))
}

/// `extent`, made larger until it begins and ends at a multiple of `bytes`.
fn outward(extent: Extent<Addr>, bytes: u64) -> Extent<Addr> {
    Extent::between(extent.start.0 / bytes * bytes, extent.end().next_multiple_of(bytes))
}

#[cfg(test)]
mod tests;
