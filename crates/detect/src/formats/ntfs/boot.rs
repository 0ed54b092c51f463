//! The boot sector: sizes, and the start of `$MFT`.

use crate::formats::format::{Reason, ensure_boot as ensure};
use crate::input::bytes::head;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes read of the boot sector, whatever the size of a sector.
pub const BOOT_BYTES: u64 = 512;
/// Largest cluster that Windows makes.
const CLUSTER_BYTES_MAX: u64 = 2 << 20;
/// Possible sizes of a record.
const RECORD_BYTES: [u64; 4] = [512, 1024, 2048, 4096];
const BLOCK_BYTES_MAX: u64 = 4096;
/// Numbers of sectors from this one on stand for powers of two.
const SHIFTS_FROM: u8 = 0xF4;

/// A boot sector as it lies on the disk, by the names of `ntfs-3g/layout.h`.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBoot {
    _jump: [u8; 3],
    oem_id: [u8; 8],
    bytes_per_sector: U16,
    sectors_per_cluster: u8,
    reserved_sectors: U16,
    fats: u8,
    root_entries: U16,
    sectors: U16,
    _media_type: u8,
    sectors_per_fat: U16,
    _from_0x18: [u8; 8],
    large_sectors: U32,
    _from_0x24: [u8; 4],
    number_of_sectors: U64,
    mft_lcn: U64,
    mftmirr_lcn: U64,
    clusters_per_mft_record: u8,
    _from_0x41: [u8; 7],
    volume_serial_number: U64,
    _from_0x50: [u8; 430],
    end_of_sector_marker: U16,
}

const _: () = {
    assert!(offset_of!(RawBoot, sectors_per_fat) == 0x16 && offset_of!(RawBoot, large_sectors) == 0x20);
    assert!(offset_of!(RawBoot, mft_lcn) == 0x30 && offset_of!(RawBoot, clusters_per_mft_record) == 0x40);
    assert!(offset_of!(RawBoot, volume_serial_number) == 0x48 && size_of::<RawBoot>() as u64 == BOOT_BYTES);
};

/// The contents of a boot sector, consistent in themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boot {
    /// Bytes in a cluster.
    pub cluster_bytes: u64,
    /// Bytes in a record of `$MFT`.
    pub record_bytes: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// The cluster with which `$MFT` begins.
    pub mft_lcn: u64,
    /// The cluster with which `$MFTMirr` begins.
    pub mftmirr_lcn: u64,
    /// A number drawn by the formatter.
    pub volume_serial_number: u64,
}

/// Whether these bytes claim to be a boot sector of NTFS.
pub fn is_boot(bytes: &[u8]) -> bool {
    head::<RawBoot>(bytes).is_some_and(|it| it.oem_id == *b"NTFS    " && it.end_of_sector_marker == 0xAA55)
}

impl Boot {
    /// The boot sector in `bytes`, of a disk of `disk_bytes`.
    ///
    /// # Errors
    /// If a field has an impossible value: the text names it.
    pub fn from_bytes(bytes: &[u8], disk_bytes: u64) -> Result<Self, Reason> {
        let raw: &RawBoot = head(bytes).ok_or_else(|| Reason("the boot sector is cut off".into()))?;
        check_zeros(raw)?;
        let sector_bytes = u64::from(raw.bytes_per_sector);
        let is_size = sector_bytes.is_power_of_two() && (512..=4096).contains(&sector_bytes);
        ensure(is_size, "bytes_per_sector", sector_bytes)?;
        let cluster_sectors = cluster_sectors(raw.sectors_per_cluster);
        ensure(cluster_sectors.is_power_of_two(), "sectors_per_cluster", raw.sectors_per_cluster)?;
        let cluster_bytes = sector_bytes * cluster_sectors;
        ensure(cluster_bytes <= CLUSTER_BYTES_MAX, "sectors_per_cluster", raw.sectors_per_cluster)?;
        let record_bytes = record_bytes(raw.clusters_per_mft_record, cluster_bytes);
        ensure(RECORD_BYTES.contains(&record_bytes), "clusters_per_mft_record", raw.clusters_per_mft_record)?;
        let number_of_sectors = raw.number_of_sectors.get();
        if u128::from(number_of_sectors) * u128::from(sector_bytes) > disk_bytes.into() {
            return Err(Reason("the file system ends beyond the disk".into()));
        }
        let found = Self {
            cluster_bytes,
            record_bytes,
            clusters: number_of_sectors / cluster_sectors,
            mft_lcn: raw.mft_lcn.get(),
            mftmirr_lcn: raw.mftmirr_lcn.get(),
            volume_serial_number: raw.volume_serial_number.get(),
        };
        found.check_places()?;
        Ok(found)
    }

    fn check_places(&self) -> Result<(), Reason> {
        ensure((1..self.clusters).contains(&self.mft_lcn), "mft_lcn", self.mft_lcn)?;
        let is_place = (1..self.clusters).contains(&self.mftmirr_lcn);
        ensure(is_place && self.mftmirr_lcn != self.mft_lcn, "mftmirr_lcn", self.mftmirr_lcn)
    }

    /// Checks that the volume is made of blocks that can be watched.
    pub(super) fn check_blocks(&self) -> Result<(), Reason> {
        if self.cluster_bytes < self.record_bytes {
            let text = format!("clusters of {} bytes, smaller than a record of $MFT", self.cluster_bytes);
            return Err(Reason(format!("it has {text}, which are not understood")));
        }
        let blocks = self.blocks();
        let is_count = blocks <= u64::from(u32::MAX);
        ensure(is_count, "number_of_sectors", format_args!("too large: {blocks} blocks"))
    }

    /// Bytes in a block: clusters are made of whole blocks, and blocks of whole records.
    pub(super) fn block_bytes(&self) -> u64 {
        self.cluster_bytes.min(BLOCK_BYTES_MAX)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.clusters * (self.cluster_bytes / self.block_bytes())
    }
}

/// Checks the fields of a FAT, which are 0 here.
fn check_zeros(raw: &RawBoot) -> Result<(), Reason> {
    ensure(raw.reserved_sectors == 0, "reserved_sectors", raw.reserved_sectors)?;
    ensure(raw.fats == 0, "fats", raw.fats)?;
    ensure(raw.root_entries == 0, "root_entries", raw.root_entries)?;
    ensure(raw.sectors == 0, "sectors", raw.sectors)?;
    ensure(raw.sectors_per_fat == 0, "sectors_per_fat", raw.sectors_per_fat)?;
    ensure(raw.large_sectors == 0, "large_sectors", raw.large_sectors)
}

/// Sectors in a cluster; 0 for an impossible value. 0xF8 stands for 2^8.
fn cluster_sectors(sectors_per_cluster: u8) -> u64 {
    match sectors_per_cluster {
        SHIFTS_FROM.. => 1 << sectors_per_cluster.wrapping_neg(),
        sectors => sectors.into(),
    }
}

/// Bytes in a record: a number of clusters, or 2^-n bytes for a negative n; 0 for an impossible
/// value.
fn record_bytes(clusters_per_mft_record: u8, cluster_bytes: u64) -> u64 {
    match clusters_per_mft_record.cast_signed() {
        clusters @ 0.. => u64::from(clusters.unsigned_abs()) * cluster_bytes,
        shift => 1_u64.checked_shl(shift.unsigned_abs().into()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
