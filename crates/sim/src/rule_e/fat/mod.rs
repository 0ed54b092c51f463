//! A FAT small enough that all of its states can be enumerated.
//!
//! | block | what |
//! | --- | --- |
//! | 0 | the superblock, as in [`crate::rule_e::toy`] |
//! | 1, 2 | the table: [`ENTRIES`] entries of one byte in each, one a block of the disk |
//! | then | data |
//! | the last | the root directory, where the table is final: a head and its generation a file |
//!
//! An entry of 0 is a free block, of a block's number the next one of its
//! chain, anything else the end of one.

pub mod fuzz;

use crate::rule_e::toy::{BLOCK_BYTES, Bytes, SUPER, Super, geometry, page};
use quietus_core::units::{Addr, Extent};
use quietus_detect::format::{Block, Change, Format, Geometry, Kind, Link, Reason, Shown};
use quietus_detect::properties::{Properties, VFAT};
use std::iter;
use std::ops::Range;

/// Entries in a block of the table.
pub const ENTRIES: usize = 4;
/// The first block of the table.
pub const TABLE: Block = 1;
/// The first block of data.
pub const DATA: Block = 3;
/// The end of a chain.
pub const END: u8 = 0xFF;
/// Bytes of an entry of the directory: the first block of a file, and its generation.
pub const HEAD_BYTES: usize = 2;

/// Where everything lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FatToy {
    /// Blocks of the disk, with the directory; at most twice [`ENTRIES`].
    pub blocks: Block,
    /// The superblock said that it was clean when it was probed.
    pub was_clean: bool,
    /// The table is final, as in FAT; else it needs rest, as in exFAT.
    pub is_final: bool,
    /// Bytes of a block, as in [`crate::rule_e::toy::Toy`].
    pub block_bytes: u32,
}

/// Block `n` of the table that has `entries`, one for each block of the disk.
pub fn table(n: Block, entries: &[u8]) -> Bytes {
    page(entries.iter().skip(n as usize * ENTRIES).take(ENTRIES).copied())
}

/// The entries that lie on `disk`.
pub fn entries(disk: &[Bytes]) -> Vec<u8> {
    let table = disk[TABLE as usize..DATA as usize].iter().flat_map(|it| &it[..ENTRIES]);
    table.copied().take(disk.len()).collect()
}

impl FatToy {
    pub fn data(&self) -> Range<Block> {
        DATA..self.directory()
    }

    pub fn directory(&self) -> Block {
        self.blocks - 1
    }

    /// An empty file system.
    pub fn disk(&self) -> Vec<Bytes> {
        let mut disk = vec![[0; BLOCK_BYTES]; self.blocks as usize];
        disk[SUPER as usize] = Super { is_clean: self.was_clean, mended: 0, mounts: 0 }.bytes();
        disk[TABLE as usize][..DATA as usize].fill(END);
        disk
    }

    fn link(&self, entry: u8) -> Option<Link> {
        let block = Block::from(entry);
        self.data().contains(&block).then(|| Link { blocks: block..block + 1, kind: Kind::Data })
    }

    fn diff_directory(&self, old: &[u8], new: &[u8]) -> Vec<Change> {
        let heads = old.chunks_exact(HEAD_BYTES).zip(new.chunks_exact(HEAD_BYTES));
        let changed: Vec<_> = heads.filter(|(old, new)| old != new).collect();
        let lost = changed.iter().filter_map(|(old, _)| self.link(old[0])).map(Change::Unlinked);
        lost.chain(changed.iter().filter_map(|(_, new)| self.link(new[0])).map(Change::Linked)).collect()
    }
}

impl Format for FatToy {
    fn name(&self) -> &'static str {
        "fat toy"
    }

    fn properties(&self) -> Properties {
        VFAT
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn blocks(&self) -> Block {
        self.blocks
    }

    fn was_clean(&self) -> bool {
        self.was_clean
    }

    fn kind(&self, block: Block) -> Kind {
        match block {
            SUPER => Kind::Geometry,
            TABLE..DATA => Kind::Map,
            _ if block != self.directory() => Kind::Data,
            _ if self.is_final => Kind::Inodes,
            _ => Kind::Fixed,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        let root = self.is_final.then(|| self.directory()..self.blocks);
        match kind {
            Kind::Geometry => iter::once(SUPER..SUPER + 1).collect(),
            Kind::Map => iter::once(TABLE..DATA).collect(),
            Kind::Inodes => iter::once(TABLE..DATA).chain(root).collect(),
            _ => Vec::new(),
        }
    }

    fn map_is_final(&self) -> bool {
        self.is_final
    }

    fn map_needs_rest(&self) -> bool {
        !self.is_final
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let byte = |block: Block| {
            let table = u64::from(TABLE + block / ENTRIES as Block) * u64::from(self.block_bytes);
            let entry = table + u64::from(block) % ENTRIES as u64;
            bytes.get(entry.checked_sub(at.start.0)? as usize).copied()
        };
        let shown = (0..self.directory()).filter_map(|block| Some((block, byte(block)?)));
        let shown: Vec<_> =
            shown.map(|(it, entry)| Shown { blocks: it..it + 1, allocated: entry != 0 }).collect();
        match shown.iter().find(|it| !it.allocated && it.blocks.start < DATA) {
            Some(lie) => Err(Reason(format!("block {} is metadata and free", lie.blocks.start))),
            None => Ok(shown),
        }
    }

    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        match kind {
            Kind::Map => {}
            Kind::Inodes => return self.diff_directory(&old[..BLOCK_BYTES], &new[..BLOCK_BYTES]),
            _ => return Vec::new(),
        }
        let first = (block - TABLE) as usize * ENTRIES;
        let is_of_data = |n: &usize| self.data().contains(&((first + n) as Block));
        let changed: Vec<_> = (0..ENTRIES).filter(is_of_data).filter(|n| old[*n] != new[*n]).collect();
        let lost = changed.iter().filter_map(|n| self.link(old[*n])).map(Change::Unlinked);
        lost.chain(changed.iter().filter_map(|n| self.link(new[*n])).map(Change::Linked)).collect()
    }

    fn geometry(&self, _: Block, old: &[u8], new: &[u8]) -> Geometry {
        geometry(old, new)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
