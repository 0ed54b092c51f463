//! An inode: what it names, if it is in use at all.

use super::bytes::{u16_at, u32_at};
use super::extents;
use super::names::Pointer;
use super::superblock::Superblock;
use std::ops::Range;

const EXT2_BAD_INO: u32 = 1;
const S_IFMT: u16 = 0xF000;
const S_IFDIR: u16 = 0x4000;
const S_IFREG: u16 = 0x8000;
const S_IFLNK: u16 = 0xA000;
/// `i_block` is the root of a tree of extents.
const EXT4_EXTENTS_FL: u32 = 0x8_0000;
/// `i_block` is content.
const EXT4_INLINE_DATA_FL: u32 = 0x1000_0000;
/// Where `i_block` is.
const I_BLOCK: Range<usize> = 0x28..0x64;
/// Direct pointers in `i_block`; one of each level of indirection follows.
const EXT2_NDIR_BLOCKS: usize = 12;
/// What `i_blocks` counts.
const SECTOR_BYTES: u32 = 512;

/// An inode's bytes, and what has to be known beside them.
pub(super) struct Inode<'a> {
    pub bytes: &'a [u8],
    pub number: u32,
    pub superblock: &'a Superblock,
}

impl Inode<'_> {
    /// What sets this inode apart from others of the same number. Only
    /// differences mean something: its start is random.
    pub(super) fn generation(&self) -> u32 {
        u32_at(self.bytes, 0x64)
    }

    /// Hands the pointers that it owns to `found`, in any order, without holes.
    pub(super) fn pointers(&self, mut found: impl FnMut(Pointer)) {
        if !self.is_in_use() {
            return;
        }
        let mut found = |pointer: Pointer| {
            if !pointer.blocks.is_empty() {
                found(pointer);
            }
        };
        found(self.i_file_acl());
        if self.has_pointers() {
            self.in_order(found);
        }
    }

    /// Hands all pointers in `i_block` to `found`, in the order of the file,
    /// holes too.
    fn in_order(&self, found: impl FnMut(Pointer)) {
        let i_block = self.bytes.get(I_BLOCK).unwrap_or_default();
        if self.i_flags() & EXT4_EXTENTS_FL != 0 {
            extents::depth_of_root(i_block)
                .into_iter()
                .flat_map(|depth| extents::pointers(i_block, depth))
                .for_each(found);
        } else {
            let words = i_block.chunks_exact(4).map(|word| u32_at(word, 0));
            words.enumerate().map(|(n, block)| Pointer::to(block, level(n), n)).for_each(found);
        }
    }

    /// The size and the pointers, in the order of the file, of a regular file
    /// that is in use.
    pub(super) fn file(&self) -> Option<(u64, Vec<Pointer>)> {
        let is_file = self.is_in_use() && u16_at(self.bytes, 0) & S_IFMT == S_IFREG && self.has_pointers();
        let i_size = u64::from(u32_at(self.bytes, 0x6C)) << 32 | u64::from(u32_at(self.bytes, 0x4));
        let mut pointers = Vec::new();
        self.in_order(|pointer| pointers.push(pointer));
        is_file.then_some((i_size, pointers))
    }

    /// A deleted inode keeps its pointers, but has no links. That of the bad
    /// blocks never has any.
    fn is_in_use(&self) -> bool {
        let (i_dtime, i_links_count) = (u32_at(self.bytes, 0x14), u16_at(self.bytes, 0x1A));
        i_dtime == 0 && (i_links_count > 0 || self.number == EXT2_BAD_INO)
    }

    /// Whether `i_block` holds pointers: else it holds a device's number, the
    /// text of a link, or content. Reserved inodes need no mode.
    fn has_pointers(&self) -> bool {
        self.i_flags() & EXT4_INLINE_DATA_FL == 0
            && match u16_at(self.bytes, 0) & S_IFMT {
                S_IFREG | S_IFDIR => true,
                S_IFLNK => self.i_flags() & EXT4_EXTENTS_FL != 0 || !self.is_fast_symlink(),
                0 => self.number < self.superblock.s_first_ino,
                _ => false,
            }
    }

    /// As Linux has it: no blocks but that of extended attributes; or, where
    /// attributes may have inodes of their own, by its length.
    fn is_fast_symlink(&self) -> bool {
        let (i_size, i_blocks) = (u32_at(self.bytes, 0x4), u32_at(self.bytes, 0x1C));
        if self.superblock.features.ea_inode {
            return (1..I_BLOCK.len() as u32).contains(&i_size);
        }
        let cluster_bytes = self.superblock.block_bytes() * self.superblock.cluster_blocks();
        let has_attributes = !self.i_file_acl().blocks.is_empty();
        i_blocks == if has_attributes { cluster_bytes / SECTOR_BYTES } else { 0 }
    }

    fn i_flags(&self) -> u32 {
        u32_at(self.bytes, 0x20)
    }

    fn i_file_acl(&self) -> Pointer {
        let high = if self.superblock.features.wide { u16_at(self.bytes, 0x76) } else { 0 };
        let block = u64::from(high) << 32 | u64::from(u32_at(self.bytes, 0x68));
        Pointer { blocks: block..block + u64::from(block != 0), level: 0, at: u64::MAX }
    }
}

/// Of what the `n`th word of `i_block` points to.
fn level(n: usize) -> u8 {
    (n + 1).saturating_sub(EXT2_NDIR_BLOCKS) as u8
}

#[cfg(test)]
mod tests;
