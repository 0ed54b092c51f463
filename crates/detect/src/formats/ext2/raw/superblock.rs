//! The superblock as it lies on the disk (`fs/ext4/ext4.h`, `struct ext4_super_block`).

use crate::input::bytes::head;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const EXT2_MAGIC: u16 = 0xEF53;

/// The fields that are read, by the names that Linux gives them.
#[allow(missing_docs, reason = "the names are those of the specification")]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSuperblock {
    pub s_inodes_count: U32,
    pub s_blocks_count: U32,
    _from_0x8: [u8; 12],
    pub s_first_data_block: U32,
    pub s_log_block_size: U32,
    pub s_log_cluster_size: U32,
    pub s_blocks_per_group: U32,
    pub s_clusters_per_group: U32,
    pub s_inodes_per_group: U32,
    _from_0x2c: [u8; 8],
    pub s_mnt_count: U16,
    _from_0x36: [u8; 2],
    s_magic: U16,
    pub s_state: U16,
    _from_0x3c: [u8; 4],
    pub s_lastcheck: U32,
    _from_0x44: [u8; 4],
    pub s_creator_os: U32,
    pub s_rev_level: U32,
    _from_0x50: [u8; 4],
    pub s_first_ino: U32,
    pub s_inode_size: U16,
    _from_0x5a: [u8; 2],
    pub s_feature_compat: U32,
    pub s_feature_incompat: U32,
    pub s_feature_ro_compat: U32,
    pub s_uuid: [u8; 16],
    _from_0x78: [u8; 86],
    pub s_reserved_gdt_blocks: U16,
    pub s_journal_uuid: [u8; 16],
    pub s_journal_inum: U32,
    _from_0xe4: [u8; 26],
    pub s_desc_size: U16,
    pub s_default_mount_opts: U32,
    pub s_first_meta_bg: U32,
    pub s_mkfs_time: U32,
    pub s_jnl_blocks: [u8; 68],
    pub s_blocks_count_hi: U32,
    _from_0x154: [u8; 20],
    pub s_mmp_block: U64,
    _from_0x170: [u8; 144],
    pub s_mount_opts: [u8; 64],
    _from_0x240: [u8; 12],
    pub s_backup_bgs: [U32; 2],
    _from_0x254: [u8; 428],
}

const _: () = {
    assert!(offset_of!(RawSuperblock, s_mnt_count) == 0x34);
    assert!(offset_of!(RawSuperblock, s_first_ino) == 0x54);
    assert!(offset_of!(RawSuperblock, s_uuid) == 0x68);
    assert!(offset_of!(RawSuperblock, s_reserved_gdt_blocks) == 0xCE);
    assert!(offset_of!(RawSuperblock, s_desc_size) == 0xFE);
    assert!(offset_of!(RawSuperblock, s_blocks_count_hi) == 0x150);
    assert!(offset_of!(RawSuperblock, s_mmp_block) == 0x168);
    assert!(offset_of!(RawSuperblock, s_mount_opts) == 0x200);
    assert!(offset_of!(RawSuperblock, s_backup_bgs) == 0x24C);
    assert!(size_of::<RawSuperblock>() == 1024);
};

impl RawSuperblock {
    /// The superblock at the start of `bytes`, if the magic number is right.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<&Self> {
        head::<Self>(bytes).filter(|it| it.s_magic == EXT2_MAGIC)
    }

    /// The three feature words: compatible, incompatible, read-only compatible.
    #[must_use]
    pub fn features(&self) -> [u32; 3] {
        [self.s_feature_compat, self.s_feature_incompat, self.s_feature_ro_compat].map(U32::get)
    }
}
