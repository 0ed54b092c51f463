//! ext2, ext3 and ext4: the places of their metadata, and the meaning of a change; and the device
//! of an external journal ([`device`]).
//!
//! The structures read, and the behaviour relied on: `docs/formats/ext.md`.
//!
//! 1. The names in a block are a function of its place and its content alone: the exact inverse
//!    unlinks later whatever was linked.
//! 2. Only blocks that may hold data are ever named: no block beyond the file system, and no fixed
//!    metadata.
//! 3. Fixed metadata is always allocated: a map that shows it free is not valid.
//! 4. A map counts as it lies on the disk, unless the descriptor of its group marks it as never
//!    written. That mark is trusted only at rest, as a map may be written before its descriptor.
//! 5. No input can cause a panic, or take more memory than the groups that it describes.

use crate::formats::difference::Difference;
use crate::formats::ext2::device::Device;
use crate::formats::ext2::inode::Inode;
use crate::formats::ext2::journal::Claim;
use crate::formats::ext2::layout::{Descriptor, Layout, Region};
use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::ext2::scan::Scan;
use crate::formats::ext2::state::State;
use crate::formats::ext2::superblock::{SUPERBLOCK_AT, SUPERBLOCK_BYTES, Superblock};
use crate::formats::format::{
    Block, Change, Contents, Format, Geometry, Kind, Marking, Probe, Reason, Shown,
};
use crate::formats::properties::{EXT2, EXT3_WRITEBACK, Properties};
use crate::input::bits;
use crate::input::bytes::{all, head};
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;
use zerocopy::little_endian::U32;

pub mod raw;

mod device;
mod extents;
mod features;
mod inode;
mod journal;
mod layout;
mod marking;
mod names;
mod scan;
mod state;
mod superblock;

pub use features::name;

/// Levels of pointers.
const LEVELS_MAX: u8 = 3;

/// A file system from the first byte of the disk on.
#[derive(Debug)]
pub struct Ext {
    superblock: Superblock,
    descriptors: Vec<Descriptor>,
    layout: Layout,
    disk_bytes: u64,
    /// The blocks of the journal, unless it is external.
    journal: Option<Vec<Range<Block>>>,
}

/// Looks for ext2, ext3 or ext4: asks for the superblock, then for the group descriptors. Where
/// there is a journal, asks for its inode and the pointers to its blocks; on the device of an
/// external journal, for the journal's superblock. Revisions 0 and 1, blocks of 1 to 64 KiB.
#[must_use]
pub fn probe(disk_bytes: u64, contents: &Contents) -> Probe {
    let bytes = contents.head(SUPERBLOCK_AT, SUPERBLOCK_BYTES, disk_bytes);
    match bytes.and_then(|it| RawSuperblock::from_bytes(it).ok_or(Probe::IsNot)) {
        Ok(raw) if features::is_journal(raw) => Probe::of(Device::find(raw, disk_bytes, contents)),
        Ok(raw) => Probe::of(Ext::find(raw, disk_bytes, contents)),
        Err(ended) => ended,
    }
}

/// The pointers in a block of pointers of `level`, in the order of the file; `None` if there is no such level.
fn children(level: u8, content: &[u8]) -> impl Iterator<Item = Pointer> {
    let words = if (1..=LEVELS_MAX).contains(&level) { all::<U32>(content) } else { &[] };
    let words = words.iter().enumerate().map(move |(n, block)| Pointer::to(block.get(), level - 1, n));
    let nodes = extents::depth_of(level).into_iter();
    words.chain(nodes.flat_map(move |depth| extents::pointers(content, depth)))
}

impl Ext {
    fn find(raw: &RawSuperblock, disk_bytes: u64, contents: &Contents) -> Result<Self, Probe> {
        let superblock = Superblock::new(raw, disk_bytes)?;
        let places: Vec<_> = superblock.descriptors().collect();
        let mut descriptors = Vec::new();
        for block in contents.all_needed(&places)? {
            let left = superblock.groups() as usize - descriptors.len();
            descriptors.extend(Descriptor::all_from_bytes(&superblock, block)?.into_iter().take(left));
        }
        let layout = Layout::new(&superblock, &descriptors)?;
        let mut ext = Self { superblock, descriptors, layout, disk_bytes, journal: None };
        if let Some(claim) = ext.superblock.journal.as_ref().filter(|it| !it.is_external()) {
            ext.journal = Some(journal::find(&ext, claim, contents)?);
        }
        Ok(ext)
    }

    /// The blocks of `pointer`, unless it is a hole or impossible (invariant 2).
    fn accept(&self, pointer: &Pointer) -> Option<Range<Block>> {
        let Range { start, end } = pointer.blocks;
        let is_within = 0 < start && start < end && end <= u64::from(self.superblock.s_blocks_count);
        let blocks = is_within.then_some(start as Block..end as Block)?;
        self.layout.within(blocks.clone()).next().is_none().then_some(blocks)
    }

    fn diff_inodes(&self, block: Block, old: &[u8], new: &[u8]) -> Difference {
        let mut difference = Difference::default();
        for (n, number) in (0..).zip(self.numbers(block)) {
            let (old, new) = (self.slot(old, n), self.slot(new, n));
            if old != new {
                self.diff_inode(&self.inode(number, old), &self.inode(number, new), &mut difference);
            }
        }
        difference
    }

    /// The numbers of the inodes in `block`; `None` if it holds no inodes.
    fn numbers(&self, block: Block) -> impl Iterator<Item = u32> {
        let table = self.layout.region(block).filter(|region| region.kind == Kind::Inodes);
        table.into_iter().flat_map(move |table| {
            let first = (block - table.blocks.start) * self.superblock.inodes_in_block();
            let end = self.superblock.s_inodes_per_group.min(first + self.superblock.inodes_in_block());
            let before = table.group * self.superblock.s_inodes_per_group;
            before + first + 1..=before + end
        })
    }

    /// The bytes of the `n`th inode in `block`; `None` if they are cut off.
    fn slot<'a>(&self, block: &'a [u8], n: u32) -> &'a [u8] {
        let bytes = self.superblock.s_inode_size as usize;
        block.chunks_exact(bytes).nth(n as usize).unwrap_or_default()
    }

    fn inode<'a>(&'a self, number: u32, bytes: &'a [u8]) -> Inode<'a> {
        Inode::new(bytes, number, &self.superblock)
    }

    fn diff_inode(&self, old: &Inode<'_>, new: &Inode<'_>, difference: &mut Difference) {
        old.pointers(|it| self.lose(&it, difference));
        if old.generation() != new.generation() {
            difference.settle();
        }
        new.pointers(|it| self.gain(&it, difference));
        difference.settle();
    }

    fn lose(&self, pointer: &Pointer, difference: &mut Difference) {
        if let Some(blocks) = self.accept(pointer) {
            difference.lose(blocks, pointer.level, pointer.shift());
        }
    }

    fn gain(&self, pointer: &Pointer, difference: &mut Difference) {
        if let Some(blocks) = self.accept(pointer) {
            difference.gain(blocks, pointer.level, pointer.shift());
        }
    }

    fn diff_pointers(&self, level: u8, old: &[u8], new: &[u8]) -> Difference {
        let mut difference = Difference::default();
        let [old, new] = [old, new].map(all::<U32>);
        for n in 0..old.len().max(new.len()) {
            let [was, is] = [old, new].map(|words| words.get(n).map_or(0, |word| word.get()));
            if was != is {
                self.lose(&Pointer::to(was, level - 1, n), &mut difference);
                self.gain(&Pointer::to(is, level - 1, n), &mut difference);
            }
        }
        difference.settle();
        difference
    }

    fn diff_extents(&self, depth: u8, old: &[u8], new: &[u8]) -> Difference {
        let mut difference = Difference::default();
        extents::pointers(old, depth).for_each(|it| self.lose(&it, &mut difference));
        extents::pointers(new, depth).for_each(|it| self.gain(&it, &mut difference));
        difference.settle();
        difference
    }

    /// The group whose map has a part at `at`, and the index of the first bit in that part.
    fn map_part(&self, at: Addr, len: usize) -> Result<(u32, usize), Reason> {
        let block_bytes = u64::from(self.superblock.block_bytes());
        let block = Block::try_from(at.0 / block_bytes).ok();
        let region = block.and_then(|block| self.layout.region(block));
        let offset = at.0 % block_bytes;
        match region {
            Some(Region { kind: Kind::Map, group, .. }) if offset + len as u64 <= block_bytes => {
                Ok((*group, offset as usize * 8))
            }
            _ => Err(Reason(format!("no map lies at byte {}", at.0))),
        }
    }

    /// Checks a part of a map: fixed metadata is not free (invariant 3), and the bits after the
    /// last block of a group are all set, as the standard tools write them, or all clear, which
    /// Linux accepts too.
    fn check_map(&self, group: u32, blocks: Range<Block>, bytes: &[u8]) -> Result<(), Reason> {
        let is_free =
            |fixed: Range<Block>| bits::runs(bytes, self.bits(&blocks, &fixed)).any(|(_, is_set)| !is_set);
        if self.layout.within(blocks.clone()).any(is_free) {
            return Err(Reason(format!("the map of group {group} shows metadata as free")));
        }
        if bits::runs(bytes, self.bits(&blocks, &blocks).end..bytes.len() * 8).count() > 1 {
            return Err(Reason(format!("the map of group {group} has mixed bits after its last block")));
        }
        Ok(())
    }

    /// The bits that stand for `part`, in a map of `blocks`.
    fn bits(&self, blocks: &Range<Block>, part: &Range<Block>) -> Range<usize> {
        let cluster = self.superblock.cluster_blocks();
        let (first, end) = (part.start - blocks.start, part.end - blocks.start);
        (first / cluster) as usize..end.div_ceil(cluster) as usize
    }

    /// The blocks that `bits` stand for, in a map of `blocks`.
    fn clusters(&self, blocks: &Range<Block>, bits: &Range<usize>) -> Range<Block> {
        let cluster = u64::from(self.superblock.cluster_blocks());
        let at =
            |bit: usize| (u64::from(blocks.start) + bit as u64 * cluster).min(blocks.end.into()) as Block;
        at(bits.start)..at(bits.end)
    }

    /// The map of `group` before anything was allocated.
    fn first_map(&self, group: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.superblock.block_bytes() as usize];
        let blocks = self.superblock.group(group);
        for fixed in self.layout.within(blocks.clone()) {
            self.bits(&blocks, &fixed).for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
        }
        bytes
    }

    fn superblock_change(&self, old: &[u8], new: &[u8]) -> Geometry {
        let at = (SUPERBLOCK_AT % u64::from(self.superblock.block_bytes())) as usize;
        let [old, new] = [old, new].map(|block| block.get(at..).unwrap_or_default());
        let new = RawSuperblock::from_bytes(new).and_then(|it| Superblock::new(it, self.disk_bytes).ok());
        match (head::<RawSuperblock>(old), new) {
            (Some(old), Some(new)) if self.superblock.is_same(&new) => new.state.since(State::of(old)),
            _ => Geometry::Changed,
        }
    }

    fn descriptors_change(&self, first: u32, block: &[u8]) -> Geometry {
        let known = self.descriptors.get(first as usize..).unwrap_or_default();
        let known = &known[..known.len().min(self.superblock.descriptors_in_block() as usize)];
        let described = known.len() * self.superblock.s_desc_size as usize;
        let new = block.get(..described).map(|bytes| Descriptor::all_from_bytes(&self.superblock, bytes));
        match new {
            Some(Ok(new)) if known.iter().zip(&new).all(|(known, new)| known.is_at(*new)) => Geometry::Same,
            _ => Geometry::Changed,
        }
    }
}

impl Format for Ext {
    fn name(&self) -> &'static str {
        self.superblock.name
    }

    fn properties(&self) -> Properties {
        // The disk does not show the mode of data (`data=`): this is the weakest.
        if self.journal.is_some() { EXT3_WRITEBACK } else { EXT2 }
    }

    fn journal(&self) -> Option<Vec<Range<Block>>> {
        self.journal.clone()
    }

    fn has_external_journal(&self) -> bool {
        self.superblock.journal.as_ref().is_some_and(Claim::is_external)
    }

    fn is_opened_by(&self, extent: Extent<Addr>) -> bool {
        self.superblock.superblocks(extent).any(|it| it.overlaps(extent))
    }

    fn map_needs_rest(&self) -> bool {
        self.has_external_journal()
    }

    fn block_bytes(&self) -> u32 {
        self.superblock.block_bytes()
    }

    fn blocks(&self) -> Block {
        self.superblock.s_blocks_count
    }

    fn was_clean(&self) -> bool {
        self.superblock.state.is_clean()
    }

    fn kind(&self, block: Block) -> Kind {
        self.layout.region(block).map_or(Kind::Data, |region| region.kind)
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        self.layout.of(kind)
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let (group, first_bit) = self.map_part(at.start, bytes.len())?;
        let whole = self.superblock.group(group);
        let start = self.clusters(&whole, &(first_bit..first_bit)).start;
        let blocks = self.clusters(&(start..whole.end), &(0..bytes.len() * 8));
        self.check_map(group, blocks.clone(), bytes)?;
        let shown = |(bits, allocated)| Shown { blocks: self.clusters(&blocks, &bits), allocated };
        Ok(bits::runs(bytes, self.bits(&blocks, &blocks)).map(shown).collect())
    }

    fn map_at_rest(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let (group, first_bit) = self.map_part(at.start, bytes.len())?;
        if !self.descriptors.get(group as usize).is_some_and(|it| it.is_uninit) {
            return self.map(at, bytes);
        }
        let part = first_bit / 8..first_bit / 8 + bytes.len();
        self.map(at, &self.first_map(group)[part])
    }

    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        let difference = match kind {
            Kind::Inodes => self.diff_inodes(block, old, new),
            Kind::Pointers(level @ 1..=LEVELS_MAX) => self.diff_pointers(level, old, new),
            Kind::Pointers(level) => match extents::depth_of(level) {
                Some(depth) => self.diff_extents(depth, old, new),
                None => Difference::default(),
            },
            _ => Difference::default(),
        };
        difference.changes()
    }

    fn pointers(&self, block: Block, kind: Kind, content: &[u8]) -> Vec<Change> {
        match kind {
            Kind::Inodes => Scan::new(self).inodes(block, content),
            Kind::Pointers(level) => Scan::new(self).pointers(level, content),
            _ => Vec::new(),
        }
    }

    fn has_unwritten(&self) -> bool {
        self.superblock.features.extents
    }

    fn unwritten(&self, block: Block, kind: Kind, content: &[u8]) -> Vec<Range<Block>> {
        let mut found = Vec::new();
        let mut add = |pointer: Pointer| found.extend(self.accept(&pointer));
        match kind {
            Kind::Inodes if self.superblock.features.extents => {
                for (n, number) in (0..).zip(self.numbers(block)) {
                    self.inode(number, self.slot(content, n)).unwritten(&mut add);
                }
            }
            Kind::Pointers(level) if extents::depth_of(level) == Some(0) => {
                extents::unwritten(content).for_each(add);
            }
            _ => {}
        }
        found
    }

    fn marking(&self) -> Option<&dyn Marking> {
        self.follows_marks().then_some(self)
    }

    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry {
        if old == new {
            return Geometry::Same;
        }
        if block == self.superblock.super_block(0) {
            return self.superblock_change(old, new);
        }
        match self.layout.region(block) {
            Some(Region { kind: Kind::Geometry, group, .. }) => self.descriptors_change(*group, new),
            _ => Geometry::Changed,
        }
    }

    fn learn(&mut self, block: Block, content: &[u8]) -> bool {
        if let Some(Region { kind: Kind::Geometry, group, .. }) = self.layout.region(block)
            && block != self.superblock.super_block(0)
            && let Ok(new) = Descriptor::all_from_bytes(&self.superblock, content)
        {
            let known = self.descriptors[*group as usize..].iter_mut();
            known.zip(new).for_each(|(known, new)| known.is_uninit = new.is_uninit);
        }
        false
    }

    fn identity(&self) -> Option<Vec<u8>> {
        Some(self.superblock.identity())
    }

    fn hidden(&self) -> &'static [&'static str] {
        match (self.has_unwritten(), self.has_external_journal(), self.journal().is_some()) {
            (true, true, _) => &["content in reserved space"],
            (true, false, true) => &["content in the reserved space of a file with more than four extents"],
            _ => &[],
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("file system blocks", self.superblock.s_blocks_count.into()),
            ("groups", self.superblock.groups().into()),
            ("inodes", self.superblock.s_inodes_count.into()),
            ("bytes in a block", self.superblock.block_bytes().into()),
            ("bytes in an inode", self.superblock.s_inode_size.into()),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests;
