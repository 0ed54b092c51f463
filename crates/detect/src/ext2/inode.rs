//! An inode: what it names, if it is in use at all.

use super::bytes::{u16_at, u32_at};
use super::names::Pointer;

const EXT2_BAD_INO: u32 = 1;
const S_IFMT: u16 = 0xF000;
const S_IFDIR: u16 = 0x4000;
const S_IFREG: u16 = 0x8000;
const S_IFLNK: u16 = 0xA000;
/// `i_block` is the root of a tree of extents.
const EXT4_EXTENTS_FL: u32 = 0x8_0000;
/// `i_block` is content.
const EXT4_INLINE_DATA_FL: u32 = 0x1000_0000;
/// Direct pointers in `i_block`; one of each level of indirection follows.
const EXT2_NDIR_BLOCKS: usize = 12;
const EXT2_N_BLOCKS: usize = 15;
/// What `i_blocks` counts.
const SECTOR_BYTES: u32 = 512;

/// An inode's bytes, and what has to be known beside them.
pub(super) struct Inode<'a> {
    pub bytes: &'a [u8],
    pub number: u32,
    pub first_ino: u32,
    pub block_bytes: u32,
}

impl Inode<'_> {
    /// What sets this inode apart from others of the same number. Only
    /// differences mean something: its start is random.
    pub(super) fn generation(&self) -> u32 {
        u32_at(self.bytes, 0x64)
    }

    /// Hands the pointers that it owns to `found`, in any order, holes too.
    pub(super) fn pointers(&self, mut found: impl FnMut(Pointer)) {
        if !self.is_in_use() {
            return;
        }
        found(Pointer { block: self.i_file_acl(), level: 0 });
        if self.has_pointers() {
            (0..EXT2_N_BLOCKS).for_each(|n| found(self.i_block(n)));
        }
    }

    /// A deleted inode keeps its pointers, but has no links. That of the bad
    /// blocks never has any.
    fn is_in_use(&self) -> bool {
        let (i_dtime, i_links_count) = (u32_at(self.bytes, 0x14), u16_at(self.bytes, 0x1A));
        i_dtime == 0 && (i_links_count > 0 || self.number == EXT2_BAD_INO)
    }

    /// Whether `i_block` holds pointers: else it holds a device's number, the
    /// text of a link, or what is not understood. Reserved inodes need no mode.
    fn has_pointers(&self) -> bool {
        let i_flags = u32_at(self.bytes, 0x20);
        i_flags & (EXT4_EXTENTS_FL | EXT4_INLINE_DATA_FL) == 0
            && match u16_at(self.bytes, 0) & S_IFMT {
                S_IFREG | S_IFDIR => true,
                S_IFLNK => !self.is_fast_symlink(),
                0 => self.number < self.first_ino,
                _ => false,
            }
    }

    /// As Linux has it: no blocks but that of extended attributes.
    fn is_fast_symlink(&self) -> bool {
        let attributes = if self.i_file_acl() == 0 { 0 } else { self.block_bytes / SECTOR_BYTES };
        u32_at(self.bytes, 0x1C) == attributes
    }

    fn i_file_acl(&self) -> u32 {
        u32_at(self.bytes, 0x68)
    }

    fn i_block(&self, n: usize) -> Pointer {
        Pointer {
            block: u32_at(self.bytes, 0x28 + 4 * n),
            level: (n + 1).saturating_sub(EXT2_NDIR_BLOCKS) as u8,
        }
    }
}

#[cfg(test)]
mod tests;
