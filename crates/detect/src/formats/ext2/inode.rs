//! An inode: the blocks that it names, if it is in use.

use crate::formats::ext2::extents;
use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::superblock::Superblock;
use crate::input::bytes::head;
use crate::mutant::{self, Mutant};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute_ref};

const EXT2_BAD_INO: u32 = 1;
const S_IFMT: u16 = 0xF000;
const S_IFDIR: u16 = 0x4000;
const S_IFREG: u16 = 0x8000;
const S_IFLNK: u16 = 0xA000;
/// Secure deletion (`chattr +s`).
const EXT2_SECRM_FL: u32 = 0x1;
/// `i_block` is the root of a tree of extents.
const EXT4_EXTENTS_FL: u32 = 0x8_0000;
/// `i_block` is the file's content.
const EXT4_INLINE_DATA_FL: u32 = 0x1000_0000;
/// Number of direct pointers in `i_block`; one pointer of each level of indirection follows.
const EXT2_NDIR_BLOCKS: usize = 12;
/// The unit of `i_blocks`, in bytes.
const SECTOR_BYTES: u32 = 512;

/// The fields of an inode that are read, as they lie on the disk (`struct ext4_inode`).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInode {
    i_mode: U16,
    _from_0x2: [u8; 2],
    i_size_lo: U32,
    _from_0x8: [u8; 12],
    i_dtime: U32,
    _from_0x18: [u8; 2],
    i_links_count: U16,
    i_blocks_lo: U32,
    i_flags: U32,
    _from_0x24: [u8; 4],
    i_block: [U32; 15],
    i_generation: U32,
    i_file_acl_lo: U32,
    i_size_high: U32,
    _from_0x70: [u8; 6],
    i_file_acl_high: U16,
    _from_0x78: [u8; 8],
}

const _: () = {
    assert!(offset_of!(RawInode, i_dtime) == 0x14 && offset_of!(RawInode, i_links_count) == 0x1A);
    assert!(offset_of!(RawInode, i_block) == 0x28 && offset_of!(RawInode, i_generation) == 0x64);
    assert!(offset_of!(RawInode, i_file_acl_high) == 0x76 && size_of::<RawInode>() == 0x80);
};

/// The index of the block of extended attributes, which is no part of the file's content.
pub(super) const OF_ATTRIBUTES: u64 = u64::MAX;

/// Stands for an inode that is cut off: not in use.
static CLEAR: [u8; size_of::<RawInode>()] = [0; size_of::<RawInode>()];

/// An inode, and its surroundings.
pub(super) struct Inode<'a> {
    raw: &'a RawInode,
    number: u32,
    superblock: &'a Superblock,
}

impl<'a> Inode<'a> {
    pub(super) fn new(bytes: &'a [u8], number: u32, superblock: &'a Superblock) -> Self {
        Self { raw: head(bytes).unwrap_or(transmute_ref!(&CLEAR)), number, superblock }
    }

    /// A number that sets this inode apart from others of the same inode number. Only differences
    /// mean something: it starts at random.
    pub(super) fn generation(&self) -> u32 {
        self.raw.i_generation.get()
    }

    /// Calls `found` for each pointer that the inode owns, in any order, without holes.
    pub(super) fn pointers(&self, found: impl FnMut(Pointer)) {
        if self.is_in_use() {
            self.all_pointers(found);
        }
    }

    /// As [`Inode::pointers`], for any inode with content.
    pub(super) fn all_pointers(&self, mut found: impl FnMut(Pointer)) {
        if !self.has_content() {
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

    /// Calls `found` for each pointer in `i_block`, in the order of the file, with holes.
    fn in_order(&self, found: impl FnMut(Pointer)) {
        if self.i_flags() & EXT4_EXTENTS_FL != 0 {
            let i_block = self.raw.i_block.as_bytes();
            extents::depth_of_root(i_block)
                .into_iter()
                .flat_map(|depth| extents::pointers(i_block, depth))
                .for_each(found);
        } else {
            let words = self.raw.i_block.iter().map(|word| word.get());
            words.enumerate().map(|(n, block)| Pointer::to(block, level(n), n)).for_each(found);
        }
    }

    /// Calls `found` for each pointer of a regular file in use, in `i_block` itself, to blocks that are not
    /// written yet.
    pub(super) fn unwritten(&self, found: impl FnMut(Pointer)) {
        let is_file = self.raw.i_mode.get() & S_IFMT == S_IFREG && self.number >= self.superblock.s_first_ino;
        let has_extents = self.i_flags() & EXT4_EXTENTS_FL != 0 && self.has_pointers();
        let i_block = self.raw.i_block.as_bytes();
        if is_file && has_extents && self.is_in_use() && extents::depth_of_root(i_block) == Some(0) {
            extents::unwritten(i_block).for_each(found);
        }
    }

    /// The size and the pointers, in the order of the file, of a regular file
    /// that is in use.
    pub(super) fn file(&self) -> Option<(u64, Vec<Pointer>)> {
        let is_file = self.is_in_use() && self.raw.i_mode.get() & S_IFMT == S_IFREG && self.has_pointers();
        let i_size = u64::from(self.raw.i_size_high) << 32 | u64::from(self.raw.i_size_lo);
        let mut pointers = Vec::new();
        self.in_order(|pointer| pointers.push(pointer));
        is_file.then_some((i_size, pointers))
    }

    /// Whether the file is marked for secure deletion.
    pub(super) fn is_marked(&self) -> bool {
        self.i_flags() & EXT2_SECRM_FL != 0 && !mutant::is(Mutant::FlagIgnored)
    }

    pub(super) fn is_folder(&self) -> bool {
        self.raw.i_mode.get() & S_IFMT == S_IFDIR
    }

    /// A deleted inode keeps its pointers, but has no links. The inode of bad blocks never has any.
    pub(super) fn is_in_use(&self) -> bool {
        self.raw.i_dtime == 0 && (self.raw.i_links_count != 0 || self.number == EXT2_BAD_INO)
    }

    /// Whether the inode is in use, or belongs to a file that is open and has no name any more, as only a file
    /// system with a journal notes it: `i_dtime` is the number of another such inode then, or 0.
    pub(super) fn has_content(&self) -> bool {
        let is_orphan = self.superblock.features.has_journal
            && self.raw.i_mode.get() != 0
            && self.raw.i_links_count == 0
            && self.raw.i_dtime.get() <= self.superblock.s_inodes_count;
        self.is_in_use() || is_orphan
    }

    /// Whether `i_block` holds pointers. Otherwise it holds a device's number, the text of a link,
    /// or content. Reserved inodes need no mode.
    fn has_pointers(&self) -> bool {
        self.i_flags() & EXT4_INLINE_DATA_FL == 0
            && match self.raw.i_mode.get() & S_IFMT {
                S_IFREG | S_IFDIR => true,
                S_IFLNK => self.i_flags() & EXT4_EXTENTS_FL != 0 || !self.is_fast_symlink(),
                0 => self.number < self.superblock.s_first_ino,
                _ => false,
            }
    }

    /// Recognised as in Linux: no blocks but that of extended attributes; or, where attributes may
    /// have inodes of their own, by its length.
    fn is_fast_symlink(&self) -> bool {
        if self.superblock.features.ea_inode {
            return (1..size_of_val(&self.raw.i_block) as u32).contains(&self.raw.i_size_lo.get());
        }
        let cluster_bytes = self.superblock.block_bytes() * self.superblock.cluster_blocks();
        let has_attributes = !self.i_file_acl().blocks.is_empty();
        self.raw.i_blocks_lo == if has_attributes { cluster_bytes / SECTOR_BYTES } else { 0 }
    }

    fn i_flags(&self) -> u32 {
        self.raw.i_flags.get()
    }

    fn i_file_acl(&self) -> Pointer {
        let high = if self.superblock.features.wide { self.raw.i_file_acl_high.get() } else { 0 };
        let block = u64::from(high) << 32 | u64::from(self.raw.i_file_acl_lo);
        Pointer { blocks: block..block + u64::from(block != 0), level: 0, at: OF_ATTRIBUTES }
    }
}

/// Level of the blocks that the `n`th word of `i_block` points to.
fn level(n: usize) -> u8 {
    (n + 1).saturating_sub(EXT2_NDIR_BLOCKS) as u8
}

#[cfg(test)]
mod tests;
