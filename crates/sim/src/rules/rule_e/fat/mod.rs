//! A FAT small enough that all of its states can be enumerated.
//!
//! | block | what |
//! | --- | --- |
//! | 0 | the superblock, as in [`crate::rules::rule_e::toy`] |
//! | 1, 2 | the table: [`ENTRIES`] entries of one byte in each, one a block of the disk |
//! | then | data |
//! | the last | the root directory, where the table is final: a head and its generation a file |
//!
//! An entry of 0 is a free block, of a block's number the next one of its
//! chain, anything else the end of one.

pub mod fuzz;

use crate::rules::rule_e::toy::{Bytes, Toy, page};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::{Block, Change, Kind, Link};

/// Entries in a block of the table.
pub const ENTRIES: usize = 4;
pub const TABLE: Block = 1;
pub const DATA: Block = 3;
/// Bytes of an entry of the directory: the first block of a file, and its generation.
pub const HEAD_BYTES: usize = 2;

/// Block `n` of the table that has `entries`, one for each block of the disk.
pub fn table(n: Block, entries: &[u8]) -> Bytes {
    page(entries.iter().skip(n as usize * ENTRIES).take(ENTRIES).copied())
}

pub fn entries(disk: &[Bytes]) -> Vec<u8> {
    let table = disk[TABLE as usize..DATA as usize].iter().flat_map(|it| &it[..ENTRIES]);
    table.copied().take(disk.len()).collect()
}

impl Toy {
    pub fn directory(&self) -> Block {
        self.blocks - 1
    }

    fn link(&self, entry: u8) -> Option<Link> {
        let block = Block::from(entry);
        self.data().contains(&block).then(|| Link { blocks: block..block + 1, kind: Kind::Data })
    }

    /// The entries in `bytes` at `at`, and the blocks that they are of.
    pub(super) fn entries_in(&self, at: Extent<Addr>, bytes: &[u8]) -> Vec<(u8, Block)> {
        let byte = |block: Block| {
            let table = u64::from(TABLE + block / ENTRIES as Block) * u64::from(self.block_bytes);
            let entry = table + u64::from(block) % ENTRIES as u64;
            bytes.get(entry.checked_sub(at.start.0)? as usize).copied()
        };
        (0..self.directory()).filter_map(|block| Some((byte(block)?, block))).collect()
    }

    pub(super) fn diff_fat(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        let first = || (block - TABLE) as usize * ENTRIES;
        let is_of_data = |n: &usize| self.data().contains(&((first() + n) as Block));
        let named: Vec<usize> = match kind {
            Kind::Map => (0..ENTRIES).filter(is_of_data).filter(|n| old[*n] != new[*n]).collect(),
            Kind::Inodes => {
                let heads = old.chunks_exact(HEAD_BYTES).zip(new.chunks_exact(HEAD_BYTES)).enumerate();
                heads.filter(|(_, (old, new))| old != new).map(|(n, _)| n * HEAD_BYTES).collect()
            }
            _ => return Vec::new(),
        };
        let lost = named.iter().filter_map(|n| self.link(old[*n])).map(Change::Unlinked);
        lost.chain(named.iter().filter_map(|n| self.link(new[*n])).map(Change::Linked)).collect()
    }
}
