//! The superblock: the fields that decide where everything lies.

use crate::formats::ext2::features;
use crate::formats::ext2::features::Features;
use crate::formats::ext2::journal::Claim;
use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::ext2::state::State;
use crate::formats::format;
use crate::formats::format::{Block, Reason};
use quietus_core::base::units::{Addr, Extent};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use zerocopy::little_endian::U32;

/// The first byte of the superblock on the disk.
pub(super) const SUPERBLOCK_AT: u64 = 1024;
pub(super) const SUPERBLOCK_BYTES: u64 = 1024;
/// Bytes of a group descriptor without `64bit`.
const EXT2_MIN_DESC_SIZE: u32 = 32;
/// Sizes of a group descriptor with `64bit`.
const EXT4_DESC_SIZES_64BIT: RangeInclusive<u32> = 64..=1024;
/// The largest cluster has 1 GiB.
const LOG_CLUSTER_SIZE_MAX: u32 = 20;
/// Most groups: the most blocks in the smallest natural groups.
const GROUPS_MAX: u64 = 1 << 19;

/// Bits of the default mount options that say how data is journaled, and their value for `data=writeback`.
const EXT4_DEFM_JMODE: u32 = 0x60;
const EXT4_DEFM_JMODE_WBACK: u32 = 0x60;
/// The same among the mount options that the superblock holds as text.
const WRITEBACK: &[u8] = b"data=writeback";

const EXT2_OS_HURD: u32 = 1;
const EXT2_GOOD_OLD_REV: u32 = 0;
const EXT2_DYNAMIC_REV: u32 = 1;
const EXT2_GOOD_OLD_INODE_SIZE: u32 = 128;
const EXT2_GOOD_OLD_FIRST_INO: u32 = 11;

/// A superblock's layout, consistent in itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    pub s_inodes_count: u32,
    pub s_blocks_count: u32,
    pub s_first_data_block: u32,
    pub s_log_block_size: u32,
    pub s_log_cluster_size: u32,
    pub s_blocks_per_group: u32,
    pub s_inodes_per_group: u32,
    pub s_first_ino: u32,
    pub s_inode_size: u32,
    pub s_reserved_gdt_blocks: u32,
    pub s_desc_size: u32,
    /// 0 without the feature `mmp`.
    pub s_mmp_block: Block,
    pub s_first_meta_bg: u32,
    pub s_backup_bgs: [u32; 2],
    pub features: Features,
    pub state: State,
    pub name: &'static str,
    pub journal: Option<Claim>,
    /// Data is written without any order (`data=writeback`), unless the mount says otherwise.
    pub is_writeback: bool,
    /// Time of creation, and UUID.
    birth: (u32, [u8; 16]),
}

pub(super) fn ensure(holds: bool, field: &str, value: impl Display) -> Result<(), Reason> {
    format::ensure(holds, "the superblock", field, value)
}

fn is_writeback(raw: &RawSuperblock) -> bool {
    let mode = raw.s_default_mount_opts.get() & EXT4_DEFM_JMODE;
    mode == EXT4_DEFM_JMODE_WBACK || raw.s_mount_opts.windows(WRITEBACK.len()).any(|it| it == WRITEBACK)
}

/// Block numbers have 32 bits here.
fn check_width(raw: &RawSuperblock, features: Features) -> Result<(), Reason> {
    if features.wide && raw.s_blocks_count_hi != 0 {
        return Err(Reason("it has 2^32 blocks or more, which is not supported".into()));
    }
    ensure(raw.s_blocks_count_hi == 0, "s_blocks_count_hi", raw.s_blocks_count_hi)?;
    ensure(!features.mmp || Block::try_from(raw.s_mmp_block.get()).is_ok(), "s_mmp_block", raw.s_mmp_block)
}

impl Superblock {
    /// Checks `raw`, on a disk of `disk_bytes`.
    pub(super) fn new(raw: &RawSuperblock, disk_bytes: u64) -> Result<Self, Reason> {
        let features = Features::of(raw)?;
        if raw.s_creator_os == EXT2_OS_HURD {
            return Err(Reason("it was made for the Hurd, whose translators are not understood".into()));
        }
        ensure(raw.s_rev_level.get() <= EXT2_DYNAMIC_REV, "s_rev_level", raw.s_rev_level)?;
        check_width(raw, features)?;
        let found = Self::read(raw, features);
        found.check_sizes()?;
        found.check_clusters(raw.s_clusters_per_group.get())?;
        found.check_counts()?;
        if found.state.lacks_its_journal() {
            return Err(Reason("it was mounted without its journal, and not unmounted".into()));
        }
        if found.bytes() > disk_bytes {
            return Err(Reason("the file system ends beyond the disk".into()));
        }
        Ok(found)
    }

    fn read(raw: &RawSuperblock, features: Features) -> Self {
        let is_old = raw.s_rev_level == EXT2_GOOD_OLD_REV;
        Self {
            s_inodes_count: raw.s_inodes_count.get(),
            s_blocks_count: raw.s_blocks_count.get(),
            s_first_data_block: raw.s_first_data_block.get(),
            s_log_block_size: raw.s_log_block_size.get(),
            s_log_cluster_size: raw.s_log_cluster_size.get(),
            s_blocks_per_group: raw.s_blocks_per_group.get(),
            s_inodes_per_group: raw.s_inodes_per_group.get(),
            s_first_ino: if is_old { EXT2_GOOD_OLD_FIRST_INO } else { raw.s_first_ino.get() },
            s_inode_size: if is_old { EXT2_GOOD_OLD_INODE_SIZE } else { raw.s_inode_size.into() },
            s_reserved_gdt_blocks: raw.s_reserved_gdt_blocks.into(),
            s_desc_size: if features.wide { raw.s_desc_size.into() } else { EXT2_MIN_DESC_SIZE },
            s_mmp_block: if features.mmp { raw.s_mmp_block.get() as Block } else { 0 },
            s_first_meta_bg: raw.s_first_meta_bg.get(),
            s_backup_bgs: raw.s_backup_bgs.map(U32::get),
            features,
            state: State::of(raw),
            name: features::name(raw),
            journal: features.has_journal.then(|| Claim::of(raw)),
            is_writeback: is_writeback(raw),
            birth: (raw.s_mkfs_time.get(), raw.s_uuid),
        }
    }

    fn check_sizes(&self) -> Result<(), Reason> {
        ensure(self.s_log_block_size <= 6, "s_log_block_size", self.s_log_block_size)?;
        let sizes = EXT2_GOOD_OLD_INODE_SIZE..=self.block_bytes();
        let is_size = self.s_inode_size.is_power_of_two() && sizes.contains(&self.s_inode_size);
        ensure(is_size, "s_inode_size", self.s_inode_size)?;
        let is_size = self.s_desc_size.is_power_of_two() && EXT4_DESC_SIZES_64BIT.contains(&self.s_desc_size);
        ensure(is_size || !self.features.wide, "s_desc_size", self.s_desc_size)?;
        let reserved = self.s_reserved_gdt_blocks;
        ensure(reserved <= self.block_bytes() / 4, "s_reserved_gdt_blocks", reserved)
    }

    fn check_clusters(&self, s_clusters_per_group: u32) -> Result<(), Reason> {
        let sizes = if self.features.bigalloc { LOG_CLUSTER_SIZE_MAX } else { self.s_log_block_size };
        let is_size = (self.s_log_block_size..=sizes).contains(&self.s_log_cluster_size);
        ensure(is_size, "s_log_cluster_size", self.s_log_cluster_size)?;
        let is_first = self.s_first_data_block == u32::from(self.s_log_cluster_size == 0);
        ensure(is_first, "s_first_data_block", self.s_first_data_block)?;
        let blocks = u64::from(s_clusters_per_group) * u64::from(self.cluster_blocks());
        let is_count = !self.features.bigalloc || blocks == u64::from(self.s_blocks_per_group);
        ensure(is_count, "s_clusters_per_group", s_clusters_per_group)
    }

    fn check_counts(&self) -> Result<(), Reason> {
        ensure(self.s_blocks_count > self.s_first_data_block, "s_blocks_count", self.s_blocks_count)?;
        let in_a_map = 1..=self.block_bytes() * 8;
        ensure(in_a_map.contains(&self.s_inodes_per_group), "s_inodes_per_group", self.s_inodes_per_group)?;
        let is_roomy = self.s_blocks_per_group > self.table_blocks();
        let bits = self.s_blocks_per_group.div_ceil(self.cluster_blocks());
        ensure(is_roomy && in_a_map.contains(&bits), "s_blocks_per_group", self.s_blocks_per_group)?;
        ensure(u64::from(self.groups()) <= GROUPS_MAX, "s_blocks_per_group", self.s_blocks_per_group)?;
        let inodes = u64::from(self.groups()) * u64::from(self.s_inodes_per_group);
        ensure(u64::from(self.s_inodes_count) == inodes, "s_inodes_count", self.s_inodes_count)?;
        let reserved = EXT2_GOOD_OLD_FIRST_INO..=self.s_inodes_count;
        ensure(reserved.contains(&self.s_first_ino), "s_first_ino", self.s_first_ino)?;
        let is_possible = !self.features.meta_bg || self.s_first_meta_bg <= self.descriptor_blocks();
        ensure(is_possible, "s_first_meta_bg", self.s_first_meta_bg)?;
        let is_block = (1..self.s_blocks_count).contains(&self.s_mmp_block);
        ensure(is_block || !self.features.mmp, "s_mmp_block", self.s_mmp_block)
    }

    pub(super) fn block_bytes(&self) -> u32 {
        1024 << self.s_log_block_size
    }

    /// Blocks for each bit of a map.
    pub(super) fn cluster_blocks(&self) -> u32 {
        1 << (self.s_log_cluster_size - self.s_log_block_size)
    }

    fn bytes(&self) -> u64 {
        u64::from(self.s_blocks_count) * u64::from(self.block_bytes())
    }

    pub(super) fn groups(&self) -> u32 {
        (self.s_blocks_count - self.s_first_data_block).div_ceil(self.s_blocks_per_group)
    }

    pub(super) fn group(&self, group: u32) -> Range<Block> {
        let first =
            u64::from(self.s_first_data_block) + u64::from(group) * u64::from(self.s_blocks_per_group);
        let end = first + u64::from(self.s_blocks_per_group);
        let clamp = |block: u64| block.min(self.s_blocks_count.into()) as Block;
        clamp(first)..clamp(end)
    }

    /// Blocks of a group's inode table.
    pub(super) fn table_blocks(&self) -> u32 {
        self.s_inodes_per_group.div_ceil(self.inodes_in_block())
    }

    pub(super) fn inodes_in_block(&self) -> u32 {
        self.block_bytes() / self.s_inode_size
    }

    pub(super) fn descriptors_in_block(&self) -> u32 {
        self.block_bytes() / self.s_desc_size
    }

    /// Blocks that the descriptors of all groups take.
    pub(super) fn descriptor_blocks(&self) -> u32 {
        self.groups().div_ceil(self.descriptors_in_block())
    }

    /// Whether the descriptors of `group` lie in the groups that they describe, rather than behind
    /// each superblock.
    pub(super) fn is_meta_group(&self, group: u32) -> bool {
        self.features.meta_bg && group / self.descriptors_in_block() >= self.s_first_meta_bg
    }

    /// Descriptor blocks behind each superblock.
    pub(super) fn old_descriptor_blocks(&self) -> u32 {
        if self.features.meta_bg { self.s_first_meta_bg } else { self.descriptor_blocks() }
    }

    /// Whether `group` begins with a copy of the superblock.
    pub(super) fn has_super(&self, group: u32) -> bool {
        if group == 0 {
            true
        } else if self.features.sparse_super2 {
            self.s_backup_bgs.contains(&group)
        } else {
            !self.features.sparse_super || group == 1 || [3, 5, 7].iter().any(|it| is_power(group, *it))
        }
    }

    /// The block with the superblock of `group`, if it has one: the group's first block. But the
    /// boot sector lies before the first superblock.
    pub(super) fn super_block(&self, group: u32) -> Block {
        let first = self.group(group).start;
        first.max((SUPERBLOCK_AT / u64::from(self.block_bytes())) as Block)
    }

    /// The superblocks, with their copies, of the groups that `extent` touches.
    pub(super) fn superblocks(&self, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
        let group_of = |at: u64| {
            let block = (at / u64::from(self.block_bytes())).saturating_sub(self.s_first_data_block.into());
            (block / u64::from(self.s_blocks_per_group)).min(self.groups().into()) as u32
        };
        let groups = group_of(extent.start.0)..group_of(extent.end()) + 1;
        let at = |group| match u64::from(self.super_block(group)) * u64::from(self.block_bytes()) {
            0 => SUPERBLOCK_AT,
            at => at,
        };
        let copies = groups.filter(|group| self.has_super(*group));
        copies.map(move |group| Extent::new(at(group), SUPERBLOCK_BYTES))
    }

    /// The block of the descriptors in force from `group` on, a multiple of
    /// [`Self::descriptors_in_block`].
    pub(super) fn descriptor_block(&self, group: u32) -> Block {
        if self.is_meta_group(group) {
            self.super_block(group) + u32::from(self.has_super(group))
        } else {
            self.super_block(0) + 1 + group / self.descriptors_in_block()
        }
    }

    /// Places of the descriptors in force, in order of the groups.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = Extent<Addr>> {
        let bytes = u64::from(self.block_bytes());
        (0..self.groups())
            .step_by(self.descriptors_in_block() as usize)
            .map(move |group| Extent::new(u64::from(self.descriptor_block(group)) * bytes, bytes))
    }

    /// Time of creation, and UUID: a tool that changes the size keeps both.
    pub(super) fn identity(&self) -> Vec<u8> {
        [&self.birth.0.to_le_bytes()[..], &self.birth.1].concat()
    }

    /// Whether `other` describes the same file system, in any state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { state: self.state, name: self.name, ..other.clone() } == *self
    }
}

fn is_power(mut number: u32, base: u32) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

#[cfg(test)]
pub(super) mod tests;
