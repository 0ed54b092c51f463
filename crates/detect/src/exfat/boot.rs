//! The boot region: what decides where everything is.

use crate::bytes::{u16_at, u32_at};
use crate::format::Reason;

/// Bytes that are read of the boot sector, whatever the size of a sector.
pub(super) const BOOT_BYTES: u64 = 512;
/// Sectors that the checksum is of; it fills the one that follows.
const SUMMED_SECTORS: u64 = 11;
/// Largest block of ours.
const BLOCK_BYTES_MAX: u64 = 4096;
/// The first cluster's number.
pub(super) const FIRST_CLUSTER: u32 = 2;
/// [`Boot::volume_flags`]: the second table and bitmap are in force.
const ACTIVE_FAT: u16 = 1;
/// [`Boot::volume_flags`]: what is being changed may not be consistent.
const VOLUME_DIRTY: u16 = 2;
/// [`Boot::volume_flags`]: a read or write failed.
const MEDIA_FAILURE: u16 = 4;
/// Where the flags, and how much is in use, are: they change at any time.
const VOLATILE: [usize; 3] = [106, 107, 112];

/// What a boot sector says, consistent in itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Boot {
    pub volume_length: u64,
    pub fat_offset: u32,
    pub fat_length: u32,
    pub cluster_heap_offset: u32,
    pub cluster_count: u32,
    pub first_cluster_of_root_directory: u32,
    pub volume_serial_number: u32,
    pub volume_flags: u16,
    pub bytes_per_sector_shift: u8,
    pub sectors_per_cluster_shift: u8,
}

/// Whether these bytes claim to be a boot sector of exFAT.
pub(super) fn is_boot(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xEB\x76\x90EXFAT   ") && u16_at(bytes, 510) == 0xAA55
}

/// The checksum of the boot region (specification, section 3.4), without what
/// changes at any time.
pub(super) fn checksum(region: &[u8]) -> u32 {
    let bytes = region.iter().enumerate().filter(|(at, _)| !VOLATILE.contains(at));
    bytes.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add((*byte).into()))
}

/// Whether two boot sectors differ in nothing but what changes at any time.
pub(super) fn is_only_state(old: &[u8], new: &[u8]) -> bool {
    let pairs = old.iter().zip(new).take(BOOT_BYTES as usize).enumerate();
    pairs.into_iter().all(|(at, (old, new))| old == new || VOLATILE.contains(&at))
}

fn ensure(holds: bool, field: &str) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(Reason(format!("the boot sector makes no sense: `{field}`"))) }
}

impl Boot {
    /// The boot sector in `bytes`, of a disk of `disk_bytes`.
    ///
    /// # Errors
    /// Names a field that cannot be true, or what is not understood.
    pub(super) fn from_bytes(bytes: &[u8], disk_bytes: u64) -> Result<Self, Reason> {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let long = |at| u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32;
        let zeros = bytes.get(11..64).unwrap_or_default();
        ensure(zeros.iter().all(|it| *it == 0), "MustBeZero")?;
        ensure(u16_at(bytes, 104) >> 8 == 1, "FileSystemRevision")?;
        if byte(110) != 1 || u16_at(bytes, 106) & ACTIVE_FAT != 0 {
            return Err(Reason("it has two allocation bitmaps (TexFAT), which are not understood".into()));
        }
        let found = Self {
            volume_length: long(72),
            fat_offset: u32_at(bytes, 80),
            fat_length: u32_at(bytes, 84),
            cluster_heap_offset: u32_at(bytes, 88),
            cluster_count: u32_at(bytes, 92),
            first_cluster_of_root_directory: u32_at(bytes, 96),
            volume_serial_number: u32_at(bytes, 100),
            volume_flags: u16_at(bytes, 106),
            bytes_per_sector_shift: byte(108),
            sectors_per_cluster_shift: byte(109),
        };
        found.check(disk_bytes)?;
        Ok(found)
    }

    fn check(&self, disk_bytes: u64) -> Result<(), Reason> {
        ensure((9..=12).contains(&self.bytes_per_sector_shift), "BytesPerSectorShift")?;
        let is_size = self.sectors_per_cluster_shift <= 25 - self.bytes_per_sector_shift;
        ensure(is_size, "SectorsPerClusterShift")?;
        ensure(self.fat_offset >= 24, "FatOffset")?;
        let fat_end = u64::from(self.fat_offset) + u64::from(self.fat_length);
        ensure(fat_end <= self.cluster_heap_offset.into(), "ClusterHeapOffset")?;
        ensure((1..=0xFFFF_FFF5).contains(&self.cluster_count), "ClusterCount")?;
        let entries = u64::from(self.cluster_count) + u64::from(FIRST_CLUSTER);
        ensure(entries * 4 <= self.bytes(self.fat_length.into()), "FatLength")?;
        ensure(self.is_cluster(self.first_cluster_of_root_directory), "FirstClusterOfRootDirectory")?;
        let is_room = u128::from(self.volume_length) << self.bytes_per_sector_shift <= disk_bytes.into();
        if !is_room {
            return Err(Reason("the file system ends beyond the disk".into()));
        }
        ensure(self.end() <= self.bytes(self.volume_length), "VolumeLength")?;
        ensure(self.blocks() <= u64::from(u32::MAX), "ClusterCount")
    }

    fn bytes(&self, sectors: u64) -> u64 {
        sectors << self.bytes_per_sector_shift
    }

    /// Whether there is a `cluster`.
    pub(super) fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= FIRST_CLUSTER && cluster - FIRST_CLUSTER < self.cluster_count
    }

    /// Bytes of the main boot region with its checksum.
    pub(super) fn region_bytes(&self) -> u64 {
        self.bytes(SUMMED_SECTORS + 1)
    }

    /// Whether `region` ends in the checksum of what it holds.
    pub(super) fn is_summed(&self, region: &[u8]) -> bool {
        let summed = self.bytes(SUMMED_SECTORS) as usize;
        let Some((summed, sums)) = region.split_at_checked(summed) else { return false };
        let sum = checksum(summed).to_le_bytes();
        sums.chunks_exact(4).all(|it| it == sum)
    }

    /// The first byte of the table's entry for `cluster`.
    pub(super) fn entry_at(&self, cluster: u32) -> u64 {
        self.bytes(self.fat_offset.into()) + u64::from(cluster) * 4
    }

    /// Bytes in a cluster.
    pub(super) fn cluster_bytes(&self) -> u64 {
        self.bytes(1 << self.sectors_per_cluster_shift)
    }

    /// The first byte of the first cluster.
    pub(super) fn heap(&self) -> u64 {
        self.bytes(self.cluster_heap_offset.into())
    }

    /// The first byte of `cluster`.
    pub(super) fn cluster_at(&self, cluster: u32) -> u64 {
        self.heap() + u64::from(cluster - FIRST_CLUSTER) * self.cluster_bytes()
    }

    /// The end of the last cluster.
    fn end(&self) -> u64 {
        self.heap() + u64::from(self.cluster_count) * self.cluster_bytes()
    }

    /// Bytes in a block: clusters are made of whole ones.
    pub(super) fn block_bytes(&self) -> u64 {
        let sizes = [BLOCK_BYTES_MAX, 2048, 1024];
        let is_unit =
            |bytes: &u64| [self.heap(), self.cluster_bytes()].iter().all(|it| it.is_multiple_of(*bytes));
        sizes.into_iter().find(is_unit).unwrap_or(512)
    }

    /// How many blocks there are, up to the end of the last cluster.
    pub(super) fn blocks(&self) -> u64 {
        self.end() / self.block_bytes()
    }

    /// What is on the disk may not be consistent.
    pub(super) fn is_dirty(&self) -> bool {
        self.volume_flags & VOLUME_DIRTY != 0
    }

    /// Everything had been written, and without an error.
    pub(super) fn is_clean(&self) -> bool {
        self.volume_flags & (VOLUME_DIRTY | MEDIA_FAILURE) == 0
    }

    /// Whether `other` describes the same file system, in whatever state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { volume_flags: self.volume_flags, ..other.clone() } == *self
    }
}

#[cfg(test)]
mod tests;
