//! What differs between the file systems of guests.

use super::truth::Truth;
use super::{ext2, fat};
use crate::rule_e::fat::FatToy;
use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::guest::{Mark, Owner};
use crate::rule_e::toy::{Bytes, Super, Toy};
use crate::rule_e::wide::Wide;
use quietus_core::units::{BLOCK_BYTES, Extent};
use quietus_detect::format::{Block, Format, Probe, Prober};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Place of the label in the superblock, behind its fields.
pub(super) const LABEL: usize = 4;

/// Finds the file systems of these guests.
pub(super) const PROBER: Prober = |disk_bytes, contents| {
    let place = Extent::new(0, BLOCK_BYTES);
    let Some(bytes) = contents.get(place) else { return Probe::Needs(vec![place]) };
    let Some(Super { is_clean: was_clean, .. }) = Super::from_bytes(bytes) else { return Probe::IsNot };
    let blocks = (disk_bytes / BLOCK_BYTES) as Block;
    match bytes[LABEL] {
        ext2::LABEL => Probe::Is(wide(Toy { blocks, inode_blocks: 1, journal: 0, was_clean })),
        fat::LABEL => Probe::Is(wide(FatToy { blocks, was_clean, is_final: true })),
        _ => Probe::IsNot,
    }
};

fn wide(toy: impl Format + 'static) -> Box<dyn Format> {
    Box::new(Wide { toy, block_bytes: BLOCK_BYTES as u32, has_external_journal: false })
}

/// A file system: in the memory of a guest, if it is mounted.
pub(super) trait System: Debug {
    /// The byte of the superblock by which [`PROBER`] knows the file system.
    fn label(&self) -> u8;

    /// Number of blocks.
    fn blocks(&self) -> Block;

    /// Whether `block` holds content of files, which may be gone one day.
    fn is_data(&self, block: Block) -> bool;

    /// An empty file system, as it lies on the disk.
    fn disk(&self) -> Vec<Bytes>;

    /// Whether the file system is mounted.
    fn is_mounted(&self) -> bool;

    /// The superblock to write at a mount, if the disk's says `before`; none: it is not written.
    fn in_use(&self, before: Super) -> Option<Super>;

    /// Reads what lies on the disk into memory.
    fn mount(&mut self, seen: &[Bytes]);

    /// The superblock to write at last, after one that said `was_clean` at the mount.
    fn at_last(&self, was_clean: bool) -> Option<Super>;

    /// Forgets all that is in memory.
    fn leave(&mut self);

    /// Blocks that differ from the disk, or may.
    fn dirty(&self) -> BTreeSet<Block>;

    /// A block that is dirty, as it is in memory.
    fn write_back(&mut self, block: Block) -> Bytes;

    /// The blocks that a check writes that finds `seen`; the superblock last.
    fn mend(&mut self, seen: &[Bytes]) -> Vec<(Block, Bytes)>;

    /// Blocks that may be allocated.
    fn free(&self) -> Vec<Block>;

    /// All that processes can do to files, but for writing something again.
    fn deeds(&self) -> Vec<Deed>;

    /// Does `deed`, if it can be done.
    fn does(&mut self, deed: Deed, truth: &mut Truth);

    /// The owner of each block, in memory.
    fn owners(&self) -> Option<BTreeMap<Block, Owner>>;

    /// The owner of each block, as it follows from what lies on the disk.
    fn owners_on(&self, seen: &[Bytes]) -> BTreeMap<Block, Owner>;

    /// The part of the map that is `page` of `block`: which blocks are allocated.
    fn shown(&self, block: Block, page: &Bytes) -> Vec<(Block, bool)>;

    /// Everybody who names each block, as far as pointers on the disk tell.
    fn namers(&self, seen: &[Bytes]) -> Vec<BTreeSet<Owner>>;

    /// Whether some mixture of what is possible in each block after a crash gives `block` to the
    /// stay in `mark`.
    fn may_be_recovered(&self, block: Block, mark: Mark, truth: &Truth, possible: &[Vec<Bytes>]) -> bool;
}
