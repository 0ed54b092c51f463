//! An inode: the blocks that it names, if it is in use.

use crate::formats::ext2::extents;
use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::raw::{
    EXT4_EXTENTS_FL, EXT4_INLINE_DATA_FL, RawInode, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, SECTOR_BYTES,
};
use crate::formats::ext2::superblock::Superblock;
use crate::input::bytes::head;
use crate::mutant::{self, Mutant};
use zerocopy::{IntoBytes, transmute_ref};

const EXT2_BAD_INO: u32 = 1;
/// Secure deletion (`chattr +s`).
const EXT2_SECRM_FL: u32 = 0x1;
/// Number of direct pointers in `i_block`; one pointer of each level of indirection follows.
const EXT2_NDIR_BLOCKS: usize = 12;

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
        let mut pointers = Vec::new();
        self.in_order(|pointer| pointers.push(pointer));
        is_file.then_some((self.raw.i_size(true), pointers))
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

    fn is_fast_symlink(&self) -> bool {
        let cluster_bytes = self.superblock.block_bytes() * self.superblock.cluster_blocks();
        let has_attributes = !self.i_file_acl().blocks.is_empty();
        let of_attributes = if has_attributes { cluster_bytes / SECTOR_BYTES } else { 0 };
        self.raw.is_fast_symlink(self.superblock.features.ea_inode, of_attributes.into())
    }

    fn i_flags(&self) -> u32 {
        self.raw.i_flags.get()
    }

    fn i_file_acl(&self) -> Pointer {
        let block = self.raw.i_file_acl(self.superblock.features.wide);
        Pointer { blocks: block..block + u64::from(block != 0), level: 0, at: OF_ATTRIBUTES }
    }
}

/// Level of the blocks that the `n`th word of `i_block` points to.
fn level(n: usize) -> u8 {
    (n + 1).saturating_sub(EXT2_NDIR_BLOCKS) as u8
}

#[cfg(test)]
mod tests;
