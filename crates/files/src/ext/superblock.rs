//! The superblock: the fields that decide where inodes and blocks lie, and the features.

use crate::Error;
use crate::ext::units::{FsBlock, Ino};
use quietus_detect::formats::ext2::name;
use quietus_detect::formats::ext2::raw::RawSuperblock;
use quietus_detect::formats::features::{Word, unknown};
use std::fmt::Display;

/// Where the superblock lies, and how many bytes it has.
pub(super) const SUPERBLOCK_AT: u64 = 1024;
pub(super) const SUPERBLOCK_BYTES: u64 = 1024;

const HAS_JOURNAL: u32 = 0x4;
const SPARSE_SUPER2: u32 = 0x200;
const FILETYPE: u32 = 0x2;
const RECOVER: u32 = 0x4;
const JOURNAL_DEV: u32 = 0x8;
const META_BG: u32 = 0x10;
const EXTENTS: u32 = 0x40;
const WIDE: u32 = 0x80;
const MMP: u32 = 0x100;
const FLEX_BG: u32 = 0x200;
const EA_INODE: u32 = 0x400;
const CSUM_SEED: u32 = 0x2000;
const LARGE_DIR: u32 = 0x4000;
const INLINE_DATA: u32 = 0x8000;
const ENCRYPT: u32 = 0x1_0000;
const CASEFOLD: u32 = 0x2_0000;
const SPARSE_SUPER: u32 = 0x1;
const HUGE_FILE: u32 = 0x8;
const GDT_CSUM: u32 = 0x10;
const METADATA_CSUM: u32 = 0x400;

/// The incompatible features that are understood. The others change only what a writer has to know.
const INCOMPAT: u32 = FILETYPE
    | RECOVER
    | META_BG
    | EXTENTS
    | WIDE
    | MMP
    | FLEX_BG
    | EA_INODE
    | CSUM_SEED
    | LARGE_DIR
    | INLINE_DATA
    | ENCRYPT
    | CASEFOLD;
const NOT_UNDERSTOOD: [(u32, &str); 3] =
    [(0x1, "compression"), (JOURNAL_DEV, "journal_dev"), (0x1000, "dirdata")];
const WORDS: [Word; 3] = [('C', u32::MAX, &[]), ('I', INCOMPAT, &NOT_UNDERSTOOD), ('R', u32::MAX, &[])];

const EXT2_GOOD_OLD_REV: u32 = 0;
const EXT2_DYNAMIC_REV: u32 = 1;
const EXT2_GOOD_OLD_INODE_SIZE: u32 = 128;
const EXT2_MIN_DESC_SIZE: u32 = 32;
const EXT2_MIN_DESC_SIZE_64BIT: u32 = 64;
/// The largest cluster has 1 GiB.
const LOG_CLUSTER_SIZE_MAX: u32 = 20;
/// The largest block has 64 KiB.
const LOG_BLOCK_SIZE_MAX: u32 = 6;

/// Features that decide where structures lie, or what they mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Features {
    pub has_journal: bool,
    pub sparse_super: bool,
    pub sparse_super2: bool,
    pub needs_recovery: bool,
    pub meta_bg: bool,
    /// `64bit`: block numbers have upper halves.
    pub wide: bool,
    pub filetype: bool,
    pub ea_inode: bool,
    pub large_dir: bool,
    pub huge_file: bool,
    /// `gdt_csum` or `metadata_csum`: descriptors say which inodes were never used.
    pub group_csum: bool,
}

impl Features {
    fn of(raw: &RawSuperblock) -> Result<Self, Error> {
        let [compat, incompat, ro_compat] = raw.features();
        match unknown(&WORDS, [compat, incompat, ro_compat]).as_slice() {
            [] => {}
            names => return Err(not_understood(names, incompat)),
        }
        Ok(Self {
            has_journal: compat & HAS_JOURNAL != 0,
            sparse_super: ro_compat & SPARSE_SUPER != 0,
            sparse_super2: compat & SPARSE_SUPER2 != 0,
            needs_recovery: incompat & RECOVER != 0,
            meta_bg: incompat & META_BG != 0,
            wide: incompat & WIDE != 0,
            filetype: incompat & FILETYPE != 0,
            ea_inode: incompat & EA_INODE != 0,
            large_dir: incompat & LARGE_DIR != 0,
            huge_file: ro_compat & HUGE_FILE != 0,
            group_csum: ro_compat & (GDT_CSUM | METADATA_CSUM) != 0,
        })
    }
}

fn not_understood(names: &[String], incompat: u32) -> Error {
    if incompat & JOURNAL_DEV != 0 {
        return Error::Unknown("the external journal of an ext3 or ext4 file system has no files".into());
    }
    let names = names.join(", ");
    Error::Unsupported(format!("ext: s_feature_incompat {incompat:#x} has {names}, which is not understood"))
}

/// The layout that a superblock describes, consistent in itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    pub s_inodes_count: u32,
    pub s_blocks_count: u64,
    pub s_first_data_block: u32,
    pub s_log_block_size: u32,
    pub s_log_cluster_size: u32,
    pub s_blocks_per_group: u32,
    pub s_inodes_per_group: u32,
    pub s_inode_size: u32,
    pub s_desc_size: u32,
    pub s_first_meta_bg: u32,
    pub s_backup_bgs: [u32; 2],
    pub s_journal_inum: u32,
    /// The block of multiple mount protection.
    pub s_mmp_block: Option<u64>,
    pub features: Features,
    pub name: &'static str,
}

fn ensure(holds: bool, field: &str, value: impl Display) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Damaged(format!("superblock: {field} {value}"))) }
}

impl Superblock {
    /// The superblock at the start of `bytes`.
    ///
    /// # Errors
    /// If `bytes` are no superblock, a feature is not understood, or a field is impossible.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let raw = RawSuperblock::from_bytes(bytes).ok_or_else(|| {
            Error::Unknown("no superblock of ext2, ext3 or ext4: s_magic is not 0xef53".into())
        })?;
        let features = Features::of(raw)?;
        ensure(raw.s_rev_level.get() <= EXT2_DYNAMIC_REV, "s_rev_level", raw.s_rev_level)?;
        let found = Self::of(raw, features);
        found.check_sizes()?;
        found.check_counts()?;
        Ok(found)
    }

    fn of(raw: &RawSuperblock, features: Features) -> Self {
        let is_old = raw.s_rev_level.get() == EXT2_GOOD_OLD_REV;
        let high = if features.wide { raw.s_blocks_count_hi.get() } else { 0 };
        Self {
            s_inodes_count: raw.s_inodes_count.get(),
            s_blocks_count: u64::from(high) << 32 | u64::from(raw.s_blocks_count),
            s_first_data_block: raw.s_first_data_block.get(),
            s_log_block_size: raw.s_log_block_size.get(),
            s_log_cluster_size: raw.s_log_cluster_size.get(),
            s_blocks_per_group: raw.s_blocks_per_group.get(),
            s_inodes_per_group: raw.s_inodes_per_group.get(),
            s_inode_size: if is_old { EXT2_GOOD_OLD_INODE_SIZE } else { raw.s_inode_size.into() },
            s_desc_size: if features.wide { raw.s_desc_size.into() } else { EXT2_MIN_DESC_SIZE },
            s_first_meta_bg: raw.s_first_meta_bg.get(),
            s_backup_bgs: raw.s_backup_bgs.map(|it| it.get()),
            s_journal_inum: raw.s_journal_inum.get(),
            s_mmp_block: (raw.features()[1] & MMP != 0).then(|| raw.s_mmp_block.get()),
            features,
            name: name(raw),
        }
    }

    fn check_sizes(&self) -> Result<(), Error> {
        ensure(self.s_log_block_size <= LOG_BLOCK_SIZE_MAX, "s_log_block_size", self.s_log_block_size)?;
        let clusters = self.s_log_block_size..=LOG_CLUSTER_SIZE_MAX;
        ensure(clusters.contains(&self.s_log_cluster_size), "s_log_cluster_size", self.s_log_cluster_size)?;
        let sizes = EXT2_GOOD_OLD_INODE_SIZE..=self.block_bytes();
        let is_size = self.s_inode_size.is_power_of_two() && sizes.contains(&self.s_inode_size);
        ensure(is_size, "s_inode_size", self.s_inode_size)?;
        let sizes = EXT2_MIN_DESC_SIZE_64BIT..=self.block_bytes();
        let is_size = self.s_desc_size.is_power_of_two() && sizes.contains(&self.s_desc_size);
        ensure(is_size || !self.features.wide, "s_desc_size", self.s_desc_size)
    }

    fn check_counts(&self) -> Result<(), Error> {
        let in_a_map = 1..=self.block_bytes() * 8;
        ensure(in_a_map.contains(&self.s_inodes_per_group), "s_inodes_per_group", self.s_inodes_per_group)?;
        ensure(self.s_blocks_per_group != 0, "s_blocks_per_group", self.s_blocks_per_group)?;
        ensure(self.s_first_data_block <= 1, "s_first_data_block", self.s_first_data_block)?;
        let first = u64::from(self.s_first_data_block);
        ensure(self.s_blocks_count > first, "s_blocks_count", self.s_blocks_count)?;
        let inodes = u128::from(self.groups()) * u128::from(self.s_inodes_per_group);
        ensure(u128::from(self.s_inodes_count) == inodes, "s_inodes_count", self.s_inodes_count)
    }

    /// Bytes of a block, 1,024 to 65,536.
    pub fn block_bytes(&self) -> u32 {
        1024 << self.s_log_block_size
    }

    /// Bytes of a cluster, the unit of allocation.
    pub fn cluster_bytes(&self) -> u64 {
        1024 << self.s_log_cluster_size
    }

    /// The number of groups.
    pub fn groups(&self) -> u64 {
        (self.s_blocks_count - u64::from(self.s_first_data_block)).div_ceil(self.s_blocks_per_group.into())
    }

    /// Whether `group` begins with a copy of the superblock.
    pub fn has_super(&self, group: u32) -> bool {
        if group == 0 {
            true
        } else if self.features.sparse_super2 {
            self.s_backup_bgs.contains(&group)
        } else {
            !self.features.sparse_super || [3, 5, 7].iter().any(|base| is_power(group, *base))
        }
    }

    /// The block of the descriptor of `group`, and the byte at which the descriptor begins there.
    pub fn descriptor(&self, group: u32) -> (FsBlock, usize) {
        let in_block = self.block_bytes() / self.s_desc_size;
        let at = (group % in_block * self.s_desc_size) as usize;
        let (number, first) = (group / in_block, group - group % in_block);
        let super_block = SUPERBLOCK_AT / u64::from(self.block_bytes());
        let block = if !self.features.meta_bg || number < self.s_first_meta_bg {
            super_block + 1 + u64::from(number)
        } else {
            let start =
                u64::from(self.s_first_data_block) + u64::from(first) * u64::from(self.s_blocks_per_group);
            start.max(if first == 0 { super_block } else { 0 }) + u64::from(self.has_super(first))
        };
        (FsBlock(block), at)
    }

    /// The group of an inode, and the inode's index there.
    pub fn place_of(&self, ino: Ino) -> Result<(u32, u32), Error> {
        let is_number = (1..=self.s_inodes_count).contains(&ino.0);
        let n = ino.0.checked_sub(1).filter(|_| is_number);
        let beyond = || ino.damaged(&format!("number beyond 1..={} (s_inodes_count)", self.s_inodes_count));
        n.map(|n| (n / self.s_inodes_per_group, n % self.s_inodes_per_group)).ok_or_else(beyond)
    }
}

/// Whether `number` is a power of `base`, 1 included.
fn is_power(mut number: u32, base: u32) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}
