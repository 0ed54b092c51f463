//! The boot sector: the fields that decide where everything lies.

use crate::formats::fat::table::Width;
use crate::formats::format::{Reason, ensure_boot as ensure};
use crate::input::bytes::head;
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes read of the boot sector, whatever the size of a sector.
pub(super) const BOOT_BYTES: u64 = 512;
/// Largest block: a write of the table is compared with this much old content.
const BLOCK_BYTES_MAX: u64 = 4096;
const BLOCK_BYTES_MIN: u64 = 512;
const DIR_ENTRY_BYTES: u64 = 32;
/// The table's first entry for a cluster.
pub const FIRST_CLUSTER: u32 = 2;
const FATS_MAX: u8 = 4;
/// [`Boot::bpb_ext_flags`]: only one table is in force.
const NOT_MIRRORED: u16 = 0x80;
/// [`Boot::bpb_ext_flags`]: number of the table in force.
const ACTIVE_FAT: u16 = 0x0F;
/// Set by Linux while the file system is mounted for writing.
const STATE_DIRTY: u8 = 1;
/// Names of file systems with the same signature, in place of the OEM name.
const OTHERS: [&[u8]; 4] = [b"NTFS    ", b"EXFAT   ", b"-FVE-FS-", b"ReFS"];

/// A boot sector as it lies on the disk ("FAT: General Overview of On-Disk Format", 1.03).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBoot {
    bs_jmp_boot: [u8; 3],
    bs_oem_name: [u8; 8],
    bpb_byts_per_sec: U16,
    bpb_sec_per_clus: u8,
    bpb_rsvd_sec_cnt: U16,
    bpb_num_fats: u8,
    bpb_root_ent_cnt: U16,
    bpb_tot_sec_16: U16,
    bpb_media: u8,
    bpb_fat_sz_16: U16,
    _from_0x18: [u8; 8],
    bpb_tot_sec_32: U32,
    /// Either [`Raw16`] or [`Raw32`].
    by_width: [u8; 474],
    signature: U16,
}

/// The rest of the boot sector of FAT12 and FAT16.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw16 {
    _bs_drv_num: u8,
    bs_reserved1: u8,
    _bs_boot_sig: u8,
    bs_vol_id: U32,
}

/// The rest of the boot sector of FAT32.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw32 {
    bpb_fat_sz_32: U32,
    bpb_ext_flags: U16,
    bpb_fs_ver: U16,
    bpb_root_clus: U32,
    _from_0x30: [u8; 16],
    tail: Raw16,
}

const _: () = {
    assert!(offset_of!(RawBoot, bpb_fat_sz_16) == 0x16 && offset_of!(RawBoot, bpb_tot_sec_32) == 0x20);
    assert!(offset_of!(RawBoot, by_width) == 0x24 && offset_of!(RawBoot, signature) == 510);
    assert!(0x24 + offset_of!(Raw16, bs_vol_id) == 0x27);
    assert!(0x24 + offset_of!(Raw32, bpb_root_clus) == 0x2C && 0x24 + offset_of!(Raw32, tail) == 0x40);
};

/// The contents of a boot sector, consistent in themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boot {
    /// Bytes in a sector.
    pub bpb_byts_per_sec: u16,
    /// Sectors in a cluster.
    pub bpb_sec_per_clus: u8,
    /// Sectors before the first table.
    pub bpb_rsvd_sec_cnt: u16,
    /// Number of tables.
    pub bpb_num_fats: u8,
    /// Entries of a root directory in a fixed place; 0 in FAT32.
    pub bpb_root_ent_cnt: u16,
    /// Sectors of the volume.
    pub bpb_tot_sec: u32,
    /// The media descriptor, which the table's first entry repeats.
    pub bpb_media: u8,
    /// Sectors in one table.
    pub bpb_fat_sz: u32,
    /// Which tables are in force; 0, but for FAT32.
    pub bpb_ext_flags: u16,
    /// 0, but for FAT32: the first cluster of the root directory.
    pub bpb_root_clus: u32,
    /// The serial number of the volume.
    pub bs_vol_id: u32,
    /// Width of the table's entries.
    pub width: Width,
    /// The file system is mounted for writing, or was not unmounted in order.
    pub is_dirty: bool,
}

/// Whether these bytes claim to be a boot sector of FAT: many other sectors begin with a jump and
/// end with the signature.
pub(super) fn is_boot(bytes: &[u8]) -> bool {
    head::<RawBoot>(bytes).is_some_and(|raw| {
        let is_jump = matches!(raw.bs_jmp_boot, [0xEB, _, 0x90] | [0xE9, ..]);
        is_jump
            && raw.signature == 0xAA55
            && !OTHERS.iter().any(|it| raw.bs_oem_name.starts_with(it))
            && matches!(raw.bpb_byts_per_sec.get(), 512 | 1024 | 2048 | 4096)
            && raw.bpb_sec_per_clus.is_power_of_two()
            && (raw.bpb_media == 0xF0 || raw.bpb_media >= 0xF8)
            && (1..=FATS_MAX).contains(&raw.bpb_num_fats)
    })
}

/// The first of two fields that is not 0.
fn either(short: U16, long: U32) -> u32 {
    if short == 0 { long.get() } else { short.into() }
}

impl Boot {
    /// The boot sector in `bytes`, of a disk of `disk_bytes`.
    ///
    /// # Errors
    /// The field that is impossible, and its value.
    pub fn from_bytes(bytes: &[u8], disk_bytes: u64) -> Result<Self, Reason> {
        let (mut found, raw_32) =
            Self::read(bytes).ok_or_else(|| Reason("the boot sector is cut off".into()))?;
        found.check_sizes()?;
        if let Some(raw) = raw_32 {
            found.check_32(raw)?;
        } else {
            found.check_root()?;
            found.width =
                if found.clusters() > Width::Fat12.clusters_max() { Width::Fat16 } else { Width::Fat12 };
        }
        found.check_counts()?;
        if found.bytes() > disk_bytes {
            return Err(Reason("the file system ends beyond the disk".into()));
        }
        Ok(found)
    }

    /// Told apart as in Linux: FAT32 has no short size of a table.
    fn read(bytes: &[u8]) -> Option<(Self, Option<&Raw32>)> {
        let raw: &RawBoot = head(bytes)?;
        let raw_32 = head::<Raw32>(&raw.by_width).filter(|_| raw.bpb_fat_sz_16 == 0);
        let tail = raw_32.map_or(head::<Raw16>(&raw.by_width), |it| Some(&it.tail))?;
        let found = Self {
            bpb_byts_per_sec: raw.bpb_byts_per_sec.get(),
            bpb_sec_per_clus: raw.bpb_sec_per_clus,
            bpb_rsvd_sec_cnt: raw.bpb_rsvd_sec_cnt.get(),
            bpb_num_fats: raw.bpb_num_fats,
            bpb_root_ent_cnt: raw.bpb_root_ent_cnt.get(),
            bpb_tot_sec: either(raw.bpb_tot_sec_16, raw.bpb_tot_sec_32),
            bpb_media: raw.bpb_media,
            bpb_fat_sz: either(raw.bpb_fat_sz_16, raw_32.map_or(U32::ZERO, |it| it.bpb_fat_sz_32)),
            bpb_ext_flags: raw_32.map_or(0, |it| it.bpb_ext_flags.get()),
            bpb_root_clus: raw_32.map_or(0, |it| it.bpb_root_clus.get()),
            bs_vol_id: tail.bs_vol_id.get(),
            width: if raw_32.is_some() { Width::Fat32 } else { Width::Fat16 },
            is_dirty: tail.bs_reserved1 & STATE_DIRTY != 0,
        };
        Some((found, raw_32))
    }

    fn check_sizes(&self) -> Result<(), Reason> {
        ensure(self.bpb_rsvd_sec_cnt > 0, "BPB_RsvdSecCnt", self.bpb_rsvd_sec_cnt)?;
        ensure(self.bpb_fat_sz > 0, "BPB_FATSz", self.bpb_fat_sz)?;
        ensure(self.heap() < self.bytes(), "BPB_TotSec", self.bpb_tot_sec)
    }

    fn check_32(&self, raw: &Raw32) -> Result<(), Reason> {
        ensure(self.bpb_root_ent_cnt == 0, "BPB_RootEntCnt", self.bpb_root_ent_cnt)?;
        ensure(raw.bpb_fs_ver == 0, "BPB_FSVer", raw.bpb_fs_ver)?;
        if self.bpb_ext_flags & NOT_MIRRORED != 0 && self.bpb_ext_flags & ACTIVE_FAT != 0 {
            return Err(Reason(
                "the file allocation table in force is not the first, which is not supported".into(),
            ));
        }
        let end = u64::from(FIRST_CLUSTER) + self.clusters();
        let is_cluster = self.bpb_root_clus >= FIRST_CLUSTER && u64::from(self.bpb_root_clus) < end;
        ensure(is_cluster, "BPB_RootClus", self.bpb_root_clus)
    }

    fn check_root(&self) -> Result<(), Reason> {
        let bytes = u64::from(self.bpb_root_ent_cnt) * DIR_ENTRY_BYTES;
        let is_whole = bytes > 0 && bytes.is_multiple_of(self.bpb_byts_per_sec.into());
        ensure(is_whole, "BPB_RootEntCnt", self.bpb_root_ent_cnt)
    }

    fn check_counts(&self) -> Result<(), Reason> {
        let clusters = self.clusters();
        ensure((1..=self.width.clusters_max()).contains(&clusters), "BPB_TotSec", self.bpb_tot_sec)?;
        let entries = clusters + u64::from(FIRST_CLUSTER);
        let is_roomy = entries * self.width.bits() <= self.fat_bytes() * 8;
        ensure(is_roomy, "BPB_FATSz", self.bpb_fat_sz)?;
        ensure(self.blocks() <= u64::from(u32::MAX), "BPB_SecPerClus", self.bpb_sec_per_clus)
    }

    fn sectors(&self, count: u64) -> u64 {
        count * u64::from(self.bpb_byts_per_sec)
    }

    fn bytes(&self) -> u64 {
        self.sectors(self.bpb_tot_sec.into())
    }

    fn fat_bytes(&self) -> u64 {
        self.sectors(self.bpb_fat_sz.into())
    }

    /// The bytes of the table in force.
    #[must_use]
    pub fn fat(&self) -> Range<u64> {
        let start = self.sectors(self.bpb_rsvd_sec_cnt.into());
        start..start + self.fat_bytes()
    }

    /// The bytes of a root directory in a fixed place; empty in FAT32.
    #[must_use]
    pub fn root(&self) -> Range<u64> {
        let start = self.fat().start + u64::from(self.bpb_num_fats) * self.fat_bytes();
        start..start + u64::from(self.bpb_root_ent_cnt) * DIR_ENTRY_BYTES
    }

    /// The first byte of the first cluster.
    #[must_use]
    pub fn heap(&self) -> u64 {
        self.root().end
    }

    /// Bytes in a cluster.
    #[must_use]
    pub fn cluster_bytes(&self) -> u64 {
        self.sectors(self.bpb_sec_per_clus.into())
    }

    /// Number of clusters.
    #[must_use]
    pub fn clusters(&self) -> u64 {
        self.bytes().saturating_sub(self.heap()) / self.cluster_bytes()
    }

    /// Bytes in a block: clusters are made of whole blocks, and the boot sector, the table and the
    /// root directory do not share a block.
    pub(super) fn block_bytes(&self) -> u64 {
        let sizes = [BLOCK_BYTES_MAX, 2048, 1024];
        sizes.into_iter().find(|bytes| self.is_unit(*bytes)).unwrap_or(BLOCK_BYTES_MIN)
    }

    fn is_unit(&self, bytes: u64) -> bool {
        let (fat, root) = (self.fat(), self.root());
        let is_apart = root.is_empty() || root.start / bytes > (fat.end - 1) / bytes;
        [self.heap(), self.cluster_bytes()].iter().all(|it| it.is_multiple_of(bytes))
            && fat.start >= bytes
            && is_apart
    }

    /// Number of blocks, up to the end of the last cluster.
    pub(super) fn blocks(&self) -> u64 {
        (self.heap() + self.clusters() * self.cluster_bytes()) / self.block_bytes()
    }

    /// Whether `other` describes the same file system, in any state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { is_dirty: self.is_dirty, ..other.clone() } == *self
    }
}

#[cfg(test)]
mod tests;
