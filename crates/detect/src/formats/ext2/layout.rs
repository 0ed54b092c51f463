//! The places of fixed metadata: checked once, and searched by bisection.

use crate::formats::ext2::features::not_understood;
use crate::formats::ext2::superblock::Superblock;
use crate::formats::format::{Block, Kind, Reason};
use crate::input::bytes::head;
use crate::input::sets::join;
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const BG_INODE_UNINIT: u16 = 0x1;
const BG_BLOCK_UNINIT: u16 = 0x2;

/// Block numbers in a descriptor as it lies on the disk (`struct ext4_group_desc`): the lower
/// halves, or the upper ones.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPlaces {
    bg_block_bitmap: U32,
    bg_inode_bitmap: U32,
    bg_inode_table: U32,
}

/// A descriptor without the upper halves, which follow where block numbers have 64 bits.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDescriptor {
    low: RawPlaces,
    _from_0xc: [u8; 6],
    bg_flags: U16,
    _from_0x14: [u8; 12],
}

const _: () = assert!(offset_of!(RawDescriptor, bg_flags) == 0x12 && size_of::<RawDescriptor>() == 0x20);

/// The places of a group's metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    bg_block_bitmap: Block,
    bg_inode_bitmap: Block,
    pub bg_inode_table: Block,
    /// The map has never been written: every block that can be free is free.
    pub is_uninit: bool,
}

impl Descriptor {
    /// The descriptors in `block`, as many as fit.
    ///
    /// # Errors
    /// A group's maps are not on the disk (`lazy_bg`).
    pub(super) fn all_from_bytes(superblock: &Superblock, block: &[u8]) -> Result<Vec<Self>, Reason> {
        let descriptors = block.chunks_exact(superblock.s_desc_size as usize);
        descriptors.map(|bytes| Self::from_bytes(superblock, bytes)).collect()
    }

    fn from_bytes(superblock: &Superblock, bytes: &[u8]) -> Result<Self, Reason> {
        let raw: &RawDescriptor =
            head(bytes).ok_or_else(|| Reason("a group descriptor is cut off".into()))?;
        let high = bytes.get(size_of::<RawDescriptor>()..).and_then(head::<RawPlaces>);
        let high = high.filter(|_| superblock.features.wide);
        let (bg_flags, features) = (raw.bg_flags.get(), superblock.features);
        let is_lazy = bg_flags & (BG_INODE_UNINIT | BG_BLOCK_UNINIT) != 0;
        if features.lazy_bg && !features.group_csum && is_lazy {
            return Err(not_understood(&["`lazy_bg`".into()]));
        }
        let place = |of: fn(&RawPlaces) -> U32| place(of(&raw.low), high.map(of));
        Ok(Self {
            bg_block_bitmap: place(|it| it.bg_block_bitmap),
            bg_inode_bitmap: place(|it| it.bg_inode_bitmap),
            bg_inode_table: place(|it| it.bg_inode_table),
            is_uninit: features.group_csum && bg_flags & BG_BLOCK_UNINIT != 0,
        })
    }

    /// Whether `other` has its metadata in the same places.
    pub(super) fn is_at(self, other: Self) -> bool {
        Self { is_uninit: self.is_uninit, ..other } == self
    }
}

/// The block number of these halves; the largest number where 32 bits do not suffice.
fn place(low: U32, high: Option<U32>) -> Block {
    if high.is_some_and(|high| high != 0) { Block::MAX } else { low.get() }
}

/// Blocks with one purpose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub blocks: Range<Block>,
    pub kind: Kind,
    /// The group of a map or an inode table; for descriptors, the first group that they describe.
    pub group: u32,
}

/// All regions, ascending, disjoint, within the file system.
#[derive(Debug)]
pub(super) struct Layout(Vec<Region>);

impl Layout {
    /// The layout by superblock and descriptors, one for each group.
    ///
    /// # Errors
    /// Metadata lies outside the file system, or overlaps other metadata.
    pub(super) fn new(superblock: &Superblock, descriptors: &[Descriptor]) -> Result<Self, Reason> {
        let mut draft = Draft { blocks: superblock.s_blocks_count, regions: Vec::new() };
        draft.push(0, superblock.super_block(0), Kind::Fixed, 0)?;
        draft.push(superblock.s_mmp_block, u32::from(superblock.features.mmp), Kind::Fixed, 0)?;
        for (group, descriptor) in (0..superblock.groups()).zip(descriptors) {
            draft.superblock(superblock, group)?;
            draft.descriptors(superblock, group)?;
            draft.group(superblock, group, descriptor)?;
        }
        draft.finish()
    }

    pub(super) fn region(&self, block: Block) -> Option<&Region> {
        self.from(block).next().filter(|region| region.blocks.contains(&block))
    }

    /// A range of blocks without a region; `block` lies in it, if it has no region itself.
    pub(super) fn gap(&self, block: Block) -> Range<Block> {
        let behind = self.0.partition_point(|region| region.blocks.end <= block);
        let start = self.0[..behind].last().map_or(0, |region| region.blocks.end);
        start..self.0.get(behind).map_or(Block::MAX, |region| region.blocks.start)
    }

    /// The fixed metadata within `blocks`, ascending.
    pub(super) fn within(&self, blocks: Range<Block>) -> impl Iterator<Item = Range<Block>> {
        let Range { start, end } = blocks;
        self.from(start)
            .map(move |it| it.blocks.start.max(start)..it.blocks.end.min(end))
            .take_while(|it| !it.is_empty())
    }

    /// The blocks of all regions of `kind`, ascending, runs joined.
    pub(super) fn of(&self, kind: Kind) -> Vec<Range<Block>> {
        let mut found = Vec::new();
        let regions = self.0.iter().filter(|region| region.kind == kind);
        regions.for_each(|region| join(&mut found, region.blocks.clone()));
        found
    }

    fn from(&self, block: Block) -> impl Iterator<Item = &Region> {
        self.0[self.0.partition_point(|region| region.blocks.end <= block)..].iter()
    }
}

struct Draft {
    blocks: Block,
    regions: Vec<Region>,
}

impl Draft {
    fn push(&mut self, start: Block, len: u32, kind: Kind, group: u32) -> Result<(), Reason> {
        let end = start.checked_add(len).filter(|end| *end <= self.blocks);
        let end =
            end.ok_or_else(|| Reason(format!("metadata of group {group} lies outside of the file system")))?;
        if len > 0 {
            self.regions.push(Region { blocks: start..end, kind, group });
        }
        Ok(())
    }

    /// The superblock in force, and copies of it.
    fn superblock(&mut self, superblock: &Superblock, group: u32) -> Result<(), Reason> {
        if !superblock.has_super(group) {
            return Ok(());
        }
        let kind = if group == 0 { Kind::Geometry } else { Kind::Fixed };
        self.push(superblock.super_block(group), 1, kind, group)
    }

    fn descriptors(&mut self, superblock: &Superblock, group: u32) -> Result<(), Reason> {
        if superblock.is_meta_group(group) {
            self.meta_descriptors(superblock, group)
        } else if group == 0 {
            self.old_descriptors(superblock)
        } else if superblock.has_super(group) {
            let copies = superblock.old_descriptor_blocks() + reserved(superblock);
            self.push(superblock.super_block(group) + 1, copies, Kind::Fixed, group)
        } else {
            Ok(())
        }
    }

    /// The descriptors in force that follow the superblock, and reserved blocks.
    fn old_descriptors(&mut self, superblock: &Superblock) -> Result<(), Reason> {
        let first = superblock.super_block(0) + 1;
        let blocks = superblock.old_descriptor_blocks();
        for n in 0..blocks {
            self.push(first + n, 1, Kind::Geometry, n * superblock.descriptors_in_block())?;
        }
        self.push(first + blocks, reserved(superblock), Kind::Fixed, 0)
    }

    /// The first group's descriptors are in force; the second and the last have
    /// copies.
    fn meta_descriptors(&mut self, superblock: &Superblock, group: u32) -> Result<(), Reason> {
        let (place, groups) = (group % superblock.descriptors_in_block(), superblock.descriptors_in_block());
        if ![0, 1, groups - 1].contains(&place) {
            return Ok(());
        }
        let kind = if place == 0 { Kind::Geometry } else { Kind::Fixed };
        let block = superblock.super_block(group) + u32::from(superblock.has_super(group));
        self.push(block, 1, kind, group)
    }

    fn group(&mut self, superblock: &Superblock, group: u32, places: &Descriptor) -> Result<(), Reason> {
        self.push(places.bg_block_bitmap, 1, Kind::Map, group)?;
        self.push(places.bg_inode_bitmap, 1, Kind::Fixed, group)?;
        self.push(places.bg_inode_table, superblock.table_blocks(), Kind::Inodes, group)
    }

    fn finish(mut self) -> Result<Layout, Reason> {
        self.regions.sort_unstable_by_key(|region| region.blocks.start);
        self.regions.shrink_to_fit();
        match self.regions.windows(2).find(|pair| pair[0].blocks.end > pair[1].blocks.start) {
            Some(pair) => Err(Reason(format!("metadata of group {} overlaps other metadata", pair[1].group))),
            None => Ok(Layout(self.regions)),
        }
    }
}

/// Blocks reserved for more descriptors, behind the present ones.
fn reserved(superblock: &Superblock) -> u32 {
    if superblock.features.meta_bg { 0 } else { superblock.s_reserved_gdt_blocks }
}

#[cfg(test)]
mod tests;
