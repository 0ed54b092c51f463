//! The boot sector: what decides where everything is.

use super::table::Width;
use crate::bytes::{u16_at, u32_at};
use crate::format::Reason;
use std::ops::Range;

/// Bytes that are read of it, whatever the size of a sector.
pub(super) const BOOT_BYTES: u64 = 512;
/// Largest block of ours: what a write of the table has to be compared with.
const BLOCK_BYTES_MAX: u64 = 4096;
/// Smallest.
const BLOCK_BYTES_MIN: u64 = 512;
/// Bytes of an entry of a directory.
const DIR_ENTRY_BYTES: u64 = 32;
/// The first entry of the table that is about a cluster.
pub(super) const FIRST_CLUSTER: u32 = 2;
/// Most copies of the table.
const FATS_MAX: u8 = 4;
/// [`Boot::bpb_ext_flags`]: only one table is in force.
const NOT_MIRRORED: u16 = 0x80;
/// [`Boot::bpb_ext_flags`]: which.
const ACTIVE_FAT: u16 = 0x0F;
/// Linux sets this while it is mounted for writing.
const STATE_DIRTY: u8 = 1;
/// What lies in the same place under the same signature.
const OTHERS: [&[u8]; 4] = [b"NTFS    ", b"EXFAT   ", b"-FVE-FS-", b"ReFS"];

/// What a boot sector says, consistent in itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Boot {
    pub bpb_byts_per_sec: u16,
    pub bpb_sec_per_clus: u8,
    pub bpb_rsvd_sec_cnt: u16,
    pub bpb_num_fats: u8,
    pub bpb_root_ent_cnt: u16,
    pub bpb_tot_sec: u32,
    pub bpb_media: u8,
    pub bpb_fat_sz: u32,
    /// 0, but for FAT32.
    pub bpb_ext_flags: u16,
    /// 0, but for FAT32: the first cluster of the root directory.
    pub bpb_root_clus: u32,
    pub bs_vol_id: u32,
    pub width: Width,
    /// It is mounted for writing, or was not unmounted in order.
    pub is_dirty: bool,
}

/// Whether these bytes claim to be a boot sector of FAT: much else begins with a
/// jump and ends with the signature.
pub(super) fn is_boot(bytes: &[u8]) -> bool {
    let is_jump = matches!(bytes, [0xEB, _, 0x90, ..] | [0xE9, ..]);
    let name = bytes.get(3..11).unwrap_or_default();
    let (media, sector) = (byte(bytes, 0x15), u16_at(bytes, 0x0B));
    is_jump
        && u16_at(bytes, 510) == 0xAA55
        && !OTHERS.iter().any(|it| name.starts_with(it))
        && matches!(sector, 512 | 1024 | 2048 | 4096)
        && byte(bytes, 0x0D).is_power_of_two()
        && (media == 0xF0 || media >= 0xF8)
        && (1..=FATS_MAX).contains(&byte(bytes, 0x10))
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

fn ensure(holds: bool, field: &str) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(Reason(format!("the boot sector makes no sense: `{field}`"))) }
}

/// The first of two fields that is not 0.
fn either(short: u16, long: u32) -> u32 {
    if short == 0 { long } else { short.into() }
}

impl Boot {
    /// The boot sector in `bytes`, of a disk of `disk_bytes`.
    ///
    /// # Errors
    /// Names a field that cannot be true, or what is not understood.
    pub(super) fn from_bytes(bytes: &[u8], disk_bytes: u64) -> Result<Self, Reason> {
        let mut found = Self::read(bytes);
        found.check_sizes()?;
        if found.width == Width::Fat32 {
            found.check_32(bytes)?;
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

    /// As Linux has it: FAT32 is what has no short size of a table.
    fn read(bytes: &[u8]) -> Self {
        let is_32 = u16_at(bytes, 0x16) == 0;
        let id = if is_32 { 0x43 } else { 0x27 };
        Self {
            bpb_byts_per_sec: u16_at(bytes, 0x0B),
            bpb_sec_per_clus: byte(bytes, 0x0D),
            bpb_rsvd_sec_cnt: u16_at(bytes, 0x0E),
            bpb_num_fats: byte(bytes, 0x10),
            bpb_root_ent_cnt: u16_at(bytes, 0x11),
            bpb_tot_sec: either(u16_at(bytes, 0x13), u32_at(bytes, 0x20)),
            bpb_media: byte(bytes, 0x15),
            bpb_fat_sz: either(u16_at(bytes, 0x16), u32_at(bytes, 0x24)),
            bpb_ext_flags: if is_32 { u16_at(bytes, 0x28) } else { 0 },
            bpb_root_clus: if is_32 { u32_at(bytes, 0x2C) } else { 0 },
            bs_vol_id: u32_at(bytes, id),
            width: if is_32 { Width::Fat32 } else { Width::Fat16 },
            is_dirty: byte(bytes, if is_32 { 0x41 } else { 0x25 }) & STATE_DIRTY != 0,
        }
    }

    fn check_sizes(&self) -> Result<(), Reason> {
        ensure(self.bpb_rsvd_sec_cnt > 0, "BPB_RsvdSecCnt")?;
        ensure(self.bpb_fat_sz > 0, "BPB_FATSz")?;
        ensure(self.heap() < self.bytes(), "BPB_TotSec")
    }

    fn check_32(&self, bytes: &[u8]) -> Result<(), Reason> {
        ensure(self.bpb_root_ent_cnt == 0, "BPB_RootEntCnt")?;
        ensure(u16_at(bytes, 0x2A) == 0, "BPB_FSVer")?;
        if self.bpb_ext_flags & NOT_MIRRORED != 0 && self.bpb_ext_flags & ACTIVE_FAT != 0 {
            return Err(Reason("another file allocation table than the first is in force".into()));
        }
        let end = u64::from(FIRST_CLUSTER) + self.clusters();
        let is_cluster = self.bpb_root_clus >= FIRST_CLUSTER && u64::from(self.bpb_root_clus) < end;
        ensure(is_cluster, "BPB_RootClus")
    }

    fn check_root(&self) -> Result<(), Reason> {
        let bytes = u64::from(self.bpb_root_ent_cnt) * DIR_ENTRY_BYTES;
        let is_whole = bytes > 0 && bytes.is_multiple_of(self.bpb_byts_per_sec.into());
        ensure(is_whole, "BPB_RootEntCnt")
    }

    fn check_counts(&self) -> Result<(), Reason> {
        let clusters = self.clusters();
        ensure((1..=self.width.clusters_max()).contains(&clusters), "BPB_TotSec")?;
        let entries = clusters + u64::from(FIRST_CLUSTER);
        let is_roomy = entries * self.width.bits() <= self.fat_bytes() * 8;
        ensure(is_roomy, "BPB_FATSz")?;
        ensure(self.blocks() <= u64::from(u32::MAX), "BPB_SecPerClus")
    }

    fn sectors(&self, count: u64) -> u64 {
        count * u64::from(self.bpb_byts_per_sec)
    }

    /// Bytes in the file system.
    fn bytes(&self) -> u64 {
        self.sectors(self.bpb_tot_sec.into())
    }

    /// Bytes in one table.
    fn fat_bytes(&self) -> u64 {
        self.sectors(self.bpb_fat_sz.into())
    }

    /// The bytes of the table in force.
    pub(super) fn fat(&self) -> Range<u64> {
        let start = self.sectors(self.bpb_rsvd_sec_cnt.into());
        start..start + self.fat_bytes()
    }

    /// The bytes of a root directory in a fixed place; none in FAT32.
    pub(super) fn root(&self) -> Range<u64> {
        let start = self.fat().start + u64::from(self.bpb_num_fats) * self.fat_bytes();
        start..start + u64::from(self.bpb_root_ent_cnt) * DIR_ENTRY_BYTES
    }

    /// The first byte of the first cluster.
    pub(super) fn heap(&self) -> u64 {
        self.root().end
    }

    /// Bytes in a cluster.
    pub(super) fn cluster_bytes(&self) -> u64 {
        self.sectors(self.bpb_sec_per_clus.into())
    }

    /// How many clusters there are.
    pub(super) fn clusters(&self) -> u64 {
        self.bytes().saturating_sub(self.heap()) / self.cluster_bytes()
    }

    /// Bytes in a block: clusters are made of whole ones, and neither the boot
    /// sector, nor the table, nor the root directory shares one with another.
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

    /// How many blocks there are, up to the end of the last cluster.
    pub(super) fn blocks(&self) -> u64 {
        (self.heap() + self.clusters() * self.cluster_bytes()) / self.block_bytes()
    }

    /// Whether `other` describes the same file system, in whatever state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { is_dirty: self.is_dirty, ..other.clone() } == *self
    }
}

#[cfg(test)]
mod tests;
