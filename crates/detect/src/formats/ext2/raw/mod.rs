//! The structures as they lie on the disk, for detection and for those who read files. The names of fields are those of Linux.

mod extents;
mod inode;
mod superblock;

pub use extents::{
    ENTRY_BYTES, EXT4_EXT_MAGIC, EXT4_MAX_EXTENT_DEPTH, RawExtent, RawExtentHeader, RawExtentIndex,
};
pub use inode::{
    EXT4_EXTENTS_FL, EXT4_INLINE_DATA_FL, I_BLOCK_BYTES, RawInode, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG,
    SECTOR_BYTES,
};
pub use superblock::RawSuperblock;
