//! The boot region: the fields that decide where everything lies.

use crate::formats::format::{Reason, ensure_boot as ensure};
use crate::input::bytes::head;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes read of the boot sector, whatever the size of a sector.
pub const BOOT_BYTES: u64 = 512;
/// Number of sectors under the checksum, which fills the next sector.
const SUMMED_SECTORS: u64 = 11;
const BLOCK_BYTES_MAX: u64 = 4096;
/// The cluster of the table's first entry that is one.
pub const FIRST_CLUSTER: u32 = 2;
/// [`Boot::volume_flags`]: the second table and bitmap are in force.
const ACTIVE_FAT: u16 = 1;
/// [`Boot::volume_flags`]: a change is under way, and may be inconsistent.
const VOLUME_DIRTY: u16 = 2;
/// [`Boot::volume_flags`]: a read or write failed.
const MEDIA_FAILURE: u16 = 4;
/// The flags and the share in use, which may change at any time.
const VOLATILE: [usize; 3] = [
    offset_of!(RawBoot, volume_flags),
    offset_of!(RawBoot, volume_flags) + 1,
    offset_of!(RawBoot, _percent_in_use),
];

/// A boot sector as it lies on the disk (specification, section 3.1).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBoot {
    jump_boot: [u8; 3],
    file_system_name: [u8; 8],
    must_be_zero: [u8; 53],
    _partition_offset: U64,
    volume_length: U64,
    fat_offset: U32,
    fat_length: U32,
    cluster_heap_offset: U32,
    cluster_count: U32,
    first_cluster_of_root_directory: U32,
    volume_serial_number: U32,
    _minor_revision: u8,
    major_revision: u8,
    volume_flags: U16,
    bytes_per_sector_shift: u8,
    sectors_per_cluster_shift: u8,
    number_of_fats: u8,
    _drive_select: u8,
    _percent_in_use: u8,
    _from_113: [u8; 397],
    boot_signature: U16,
}

const _: () = {
    assert!(offset_of!(RawBoot, volume_length) == 72 && offset_of!(RawBoot, cluster_count) == 92);
    assert!(offset_of!(RawBoot, volume_flags) == 106 && offset_of!(RawBoot, number_of_fats) == 110);
    assert!(size_of::<RawBoot>() as u64 == BOOT_BYTES);
};

/// The contents of a boot sector, consistent in themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boot {
    /// Sectors of the volume.
    pub volume_length: u64,
    /// First sector of the table.
    pub fat_offset: u32,
    /// Sectors of the table.
    pub fat_length: u32,
    /// First sector of the first cluster.
    pub cluster_heap_offset: u32,
    /// Number of clusters.
    pub cluster_count: u32,
    /// First cluster of the root directory.
    pub first_cluster_of_root_directory: u32,
    /// The serial number of the volume.
    pub volume_serial_number: u32,
    /// Whether the volume is dirty, has failed, or has a second table in force.
    pub volume_flags: u16,
    /// Bytes in a sector, as a power of two.
    pub bytes_per_sector_shift: u8,
    /// Sectors in a cluster, as a power of two.
    pub sectors_per_cluster_shift: u8,
}

/// Whether these bytes claim to be a boot sector of exFAT.
#[must_use]
pub fn is_boot(bytes: &[u8]) -> bool {
    head::<RawBoot>(bytes).is_some_and(|raw| {
        raw.jump_boot == *b"\xEB\x76\x90"
            && raw.file_system_name == *b"EXFAT   "
            && raw.boot_signature == 0xAA55
    })
}

/// The checksum of the boot region (specification, section 3.4), without the fields that may change
/// at any time.
pub(super) fn checksum(region: &[u8]) -> u32 {
    let bytes = region.iter().enumerate().filter(|(at, _)| !VOLATILE.contains(at));
    bytes.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add((*byte).into()))
}

/// Whether two boot sectors differ only in the fields that may change at any time.
pub(super) fn is_only_state(old: &[u8], new: &[u8]) -> bool {
    let pairs = old.iter().zip(new).take(BOOT_BYTES as usize).enumerate();
    pairs.into_iter().all(|(at, (old, new))| old == new || VOLATILE.contains(&at))
}

impl Boot {
    /// The boot sector in `bytes`, of a disk of `disk_bytes`.
    ///
    /// # Errors
    /// The field that is impossible, and its value.
    pub fn from_bytes(bytes: &[u8], disk_bytes: u64) -> Result<Self, Reason> {
        let raw: &RawBoot = head(bytes).ok_or_else(|| Reason("the boot sector is cut off".into()))?;
        ensure(raw.must_be_zero.iter().all(|it| *it == 0), "MustBeZero", "not all zeros")?;
        ensure(raw.major_revision == 1, "FileSystemRevision", format_args!("{}.x", raw.major_revision))?;
        let volume_flags = raw.volume_flags.get();
        if raw.number_of_fats != 1 || volume_flags & ACTIVE_FAT != 0 {
            return Err(Reason("it has two allocation bitmaps (TexFAT), which are not understood".into()));
        }
        let found = Self {
            volume_length: raw.volume_length.get(),
            fat_offset: raw.fat_offset.get(),
            fat_length: raw.fat_length.get(),
            cluster_heap_offset: raw.cluster_heap_offset.get(),
            cluster_count: raw.cluster_count.get(),
            first_cluster_of_root_directory: raw.first_cluster_of_root_directory.get(),
            volume_serial_number: raw.volume_serial_number.get(),
            volume_flags,
            bytes_per_sector_shift: raw.bytes_per_sector_shift,
            sectors_per_cluster_shift: raw.sectors_per_cluster_shift,
        };
        found.check(disk_bytes)?;
        Ok(found)
    }

    fn check(&self, disk_bytes: u64) -> Result<(), Reason> {
        let is_size = (9..=12).contains(&self.bytes_per_sector_shift);
        ensure(is_size, "BytesPerSectorShift", self.bytes_per_sector_shift)?;
        let is_size = self.sectors_per_cluster_shift <= 25 - self.bytes_per_sector_shift;
        ensure(is_size, "SectorsPerClusterShift", self.sectors_per_cluster_shift)?;
        ensure(self.fat_offset >= 24, "FatOffset", self.fat_offset)?;
        let fat_end = u64::from(self.fat_offset) + u64::from(self.fat_length);
        ensure(fat_end <= self.cluster_heap_offset.into(), "ClusterHeapOffset", self.cluster_heap_offset)?;
        ensure((1..=0xFFFF_FFF5).contains(&self.cluster_count), "ClusterCount", self.cluster_count)?;
        let entries = u64::from(self.cluster_count) + u64::from(FIRST_CLUSTER);
        ensure(entries * 4 <= self.bytes(self.fat_length.into()), "FatLength", self.fat_length)?;
        let root = self.first_cluster_of_root_directory;
        ensure(self.is_cluster(root), "FirstClusterOfRootDirectory", root)?;
        let is_room = u128::from(self.volume_length) << self.bytes_per_sector_shift <= disk_bytes.into();
        if !is_room {
            return Err(Reason("the file system ends beyond the disk".into()));
        }
        ensure(self.end() <= self.bytes(self.volume_length), "VolumeLength", self.volume_length)?;
        ensure(self.blocks() <= u64::from(u32::MAX), "ClusterCount", self.cluster_count)
    }

    fn bytes(&self, sectors: u64) -> u64 {
        sectors << self.bytes_per_sector_shift
    }

    /// Whether there is a cluster of this number.
    #[must_use]
    pub fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= FIRST_CLUSTER && cluster - FIRST_CLUSTER < self.cluster_count
    }

    /// Bytes of the main boot region with its checksum.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        self.bytes(SUMMED_SECTORS + 1)
    }

    /// Whether `region` ends in its checksum.
    #[must_use]
    pub fn is_summed(&self, region: &[u8]) -> bool {
        let summed = self.bytes(SUMMED_SECTORS) as usize;
        let Some((summed, sums)) = region.split_at_checked(summed) else { return false };
        let sum = checksum(summed).to_le_bytes();
        sums.chunks_exact(4).all(|it| it == sum)
    }

    /// The first byte of the table's entry for `cluster`.
    #[must_use]
    pub fn entry_at(&self, cluster: u32) -> u64 {
        self.bytes(self.fat_offset.into()) + u64::from(cluster) * 4
    }

    /// Bytes in a cluster.
    #[must_use]
    pub fn cluster_bytes(&self) -> u64 {
        self.bytes(1 << self.sectors_per_cluster_shift)
    }

    /// The first byte of the first cluster.
    #[must_use]
    pub fn heap(&self) -> u64 {
        self.bytes(self.cluster_heap_offset.into())
    }

    pub(super) fn cluster_at(&self, cluster: u32) -> u64 {
        self.heap() + u64::from(cluster - FIRST_CLUSTER) * self.cluster_bytes()
    }

    /// The end of the last cluster.
    fn end(&self) -> u64 {
        self.heap() + u64::from(self.cluster_count) * self.cluster_bytes()
    }

    /// Bytes in a block: clusters are made of whole blocks.
    pub(super) fn block_bytes(&self) -> u64 {
        let sizes = [BLOCK_BYTES_MAX, 2048, 1024];
        let is_unit =
            |bytes: &u64| [self.heap(), self.cluster_bytes()].iter().all(|it| it.is_multiple_of(*bytes));
        sizes.into_iter().find(is_unit).unwrap_or(512)
    }

    /// Number of blocks, up to the end of the last cluster.
    pub(super) fn blocks(&self) -> u64 {
        self.end() / self.block_bytes()
    }

    /// Whether the content of the disk may be inconsistent.
    pub(super) fn is_dirty(&self) -> bool {
        self.volume_flags & VOLUME_DIRTY != 0
    }

    /// Whether everything was written, without an error.
    pub(super) fn is_clean(&self) -> bool {
        self.volume_flags & (VOLUME_DIRTY | MEDIA_FAILURE) == 0
    }

    /// Whether `other` describes the same file system, in any state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { volume_flags: self.volume_flags, ..other.clone() } == *self
    }
}

#[cfg(test)]
mod tests;
