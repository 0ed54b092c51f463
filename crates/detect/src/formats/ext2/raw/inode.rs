//! The head of an inode, which every file system has (`fs/ext4/ext4.h`, `struct ext4_inode`).

use std::mem::offset_of;
use zerocopy::little_endian::{I32, U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The bits of `i_mode` that say what a file is.
pub const S_IFMT: u16 = 0xF000;
/// A folder.
pub const S_IFDIR: u16 = 0x4000;
/// A regular file.
pub const S_IFREG: u16 = 0x8000;
/// A symbolic link.
pub const S_IFLNK: u16 = 0xA000;
/// The flag of an inode whose `i_block` is the root of a tree of extents.
pub const EXT4_EXTENTS_FL: u32 = 0x8_0000;
/// The flag of an inode whose `i_block` is the file's content.
pub const EXT4_INLINE_DATA_FL: u32 = 0x1000_0000;
/// The unit of `i_blocks`, in bytes.
pub const SECTOR_BYTES: u32 = 512;
/// Bytes of `i_block`.
pub const I_BLOCK_BYTES: usize = 60;

/// The head of an inode.
#[allow(missing_docs, reason = "the names are those of the specification")]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawInode {
    pub i_mode: U16,
    pub i_uid: U16,
    i_size_lo: U32,
    pub i_atime: I32,
    pub i_ctime: I32,
    pub i_mtime: I32,
    pub i_dtime: U32,
    pub i_gid: U16,
    pub i_links_count: U16,
    pub i_blocks_lo: U32,
    pub i_flags: U32,
    _osd1: [u8; 4],
    pub i_block: [U32; 15],
    pub i_generation: U32,
    i_file_acl_lo: U32,
    i_size_high: U32,
    _i_obso_faddr: [u8; 4],
    pub l_i_blocks_high: U16,
    l_i_file_acl_high: U16,
    pub l_i_uid_high: U16,
    pub l_i_gid_high: U16,
    _from_0x7c: [u8; 4],
}

const _: () = {
    assert!(offset_of!(RawInode, i_dtime) == 0x14 && offset_of!(RawInode, i_links_count) == 0x1A);
    assert!(offset_of!(RawInode, i_block) == 0x28 && offset_of!(RawInode, i_generation) == 0x64);
    assert!(offset_of!(RawInode, l_i_blocks_high) == 0x74 && offset_of!(RawInode, l_i_file_acl_high) == 0x76);
    assert!(size_of::<RawInode>() == 0x80 && size_of::<[U32; 15]>() == I_BLOCK_BYTES);
};

impl RawInode {
    /// Size of the content in bytes; with `has_high` also its upper word, which only some kinds of files have.
    #[must_use]
    pub fn i_size(&self, has_high: bool) -> u64 {
        let high = if has_high { self.i_size_high.get() } else { 0 };
        u64::from(high) << 32 | u64::from(self.i_size_lo)
    }

    /// The block of extended attributes, or 0; `is_wide` where blocks have numbers of 48 bits.
    #[must_use]
    pub fn i_file_acl(&self, is_wide: bool) -> u64 {
        let high = if is_wide { self.l_i_file_acl_high.get() } else { 0 };
        u64::from(high) << 32 | u64::from(self.i_file_acl_lo)
    }

    /// Whether a symbolic link has its text in `i_block`, as Linux recognises it: no blocks but that of extended attributes;
    /// or, where attributes may have inodes of their own, by the length. `of_attributes` is what `i_blocks` counts for the block of
    /// attributes, if there is one.
    #[must_use]
    pub fn is_fast_symlink(&self, has_ea_inodes: bool, of_attributes: u64) -> bool {
        if has_ea_inodes {
            return (1..I_BLOCK_BYTES as u32).contains(&self.i_size_lo.get());
        }
        u64::from(self.i_blocks_lo) == of_attributes
    }
}
