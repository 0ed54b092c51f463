//! The kind of each block, by its place.

use crate::formats::format::{Block, Kind, Reason};
use crate::formats::ntfs::volume::Volume;
use crate::input::sets::{join, ranges, set_of};
use quietus_core::base::units::{Addr, Extent};
use roaring::RoaringBitmap;
use std::ops::Range;

/// The places of everything but data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    geometry: RoaringBitmap,
    maps: RoaringBitmap,
    /// Blocks of `$MFT`, including those of the geometry.
    pub inodes: RoaringBitmap,
    /// The same blocks in the order of the records.
    mft: Vec<Range<Block>>,
}

impl Layout {
    pub(super) fn new(volume: &Volume) -> Result<Self, Reason> {
        let block_bytes = volume.boot.block_bytes();
        let blocks =
            |at: Extent<Addr>| (at.start.0 / block_bytes) as Block..at.end().div_ceil(block_bytes) as Block;
        let mut mft = Vec::new();
        volume.mft.extents(0, volume.mft_bytes).for_each(|at| join(&mut mft, blocks(at)));
        let bitmap_bytes = volume.boot.clusters.div_ceil(8);
        let maps = set_of(volume.bitmap.extents(0, bitmap_bytes).map(blocks));
        let geometry = set_of(volume.sources.iter().copied().map(blocks));
        let inodes = set_of(mft.iter().cloned());
        let claimed: u64 = mft.iter().map(|it| it.len() as u64).sum();
        if claimed != inodes.len() || !maps.is_disjoint(&(&inodes | &geometry)) {
            return Err(Reason("$MFT and $Bitmap claim the same clusters".into()));
        }
        Ok(Self { geometry, maps, inodes, mft })
    }

    pub(super) fn kind(&self, block: Block) -> Kind {
        match block {
            _ if self.geometry.contains(block) => Kind::Geometry,
            _ if self.maps.contains(block) => Kind::Map,
            _ if self.inodes.contains(block) => Kind::Inodes,
            _ => Kind::Data,
        }
    }

    pub(super) fn of(&self, kind: Kind) -> Vec<Range<Block>> {
        match kind {
            Kind::Geometry => ranges(&self.geometry),
            Kind::Map => ranges(&self.maps),
            Kind::Inodes => ranges(&self.inodes),
            _ => Vec::new(),
        }
    }

    /// Blocks of the geometry and of the bitmap, which are never free.
    pub(super) fn fixed(&self) -> impl Iterator<Item = Range<Block>> {
        [&self.geometry, &self.maps].into_iter().flat_map(ranges)
    }

    /// Whether `other` is the same, or its `$MFT` continues this one's.
    pub(super) fn goes_on_in(&self, other: &Self) -> bool {
        let is_same = self.geometry == other.geometry && self.maps == other.maps;
        let Some((last, before)) = self.mft.split_last() else { return is_same };
        let is_longer = |it: &Range<Block>| it.start == last.start && it.end >= last.end;
        is_same && other.mft.starts_with(before) && other.mft.get(before.len()).is_some_and(is_longer)
    }

    /// Number of blocks of `$MFT` before `block`, which belongs to it.
    pub(super) fn blocks_before(&self, block: Block) -> u64 {
        let mut before = 0;
        for range in &self.mft {
            if range.contains(&block) {
                return before + u64::from(block - range.start);
            }
            before += range.len() as u64;
        }
        before
    }
}
