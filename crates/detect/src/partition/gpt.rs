//! The GUID partition table: a header behind the first sector, an array of
//! entries, and a copy of both at the end of the disk (UEFI 2.10, section 5.3).

use super::{Disk, Missing, Partition, SECTOR_BYTES, Table, sectors};
use crate::bytes::{u32_at, u64_at};
use crate::format::Reason;
use quietus_core::units::{Addr, Extent};

const SIGNATURE: &[u8] = b"EFI PART";
const HEADER_BYTES_MIN: u32 = 92;
const ENTRY_BYTES_MIN: u32 = 128;
const ENTRY_BYTES_MAX: u32 = 4096;
/// Where the header's own checksum stands; it counts as zero.
const CRC_AT: std::ops::Range<usize> = 16..20;
/// Bytes in which a disk may count.
const SECTOR_SIZES: [u64; 2] = [512, 4096];
/// Most bytes of entries that are read.
pub(super) const ENTRIES_BYTES_MAX: u64 = 256 << 10;

/// A header, consistent in itself and with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Header {
    sector_bytes: u64,
    first_usable_lba: u64,
    last_usable_lba: u64,
    entries_lba: u64,
    entries: u32,
    entry_bytes: u32,
    entries_crc: u32,
}

fn ensure(holds: bool, what: &str) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(Reason(format!("{what} is wrong"))) }
}

impl Header {
    /// The header in `bytes`, the first of sector `lba` of `sector_bytes`.
    ///
    /// # Errors
    /// Names what cannot be true.
    fn from_bytes(bytes: &[u8], lba: u64, sector_bytes: u64, disk_bytes: u64) -> Result<Self, Reason> {
        ensure(bytes.starts_with(SIGNATURE), "the signature")?;
        let size = u32_at(bytes, 12);
        ensure(size >= HEADER_BYTES_MIN && size as usize <= bytes.len(), "HeaderSize")?;
        let mut header = bytes[..size as usize].to_vec();
        header[CRC_AT].fill(0);
        ensure(crc32(&header) == u32_at(bytes, 16), "HeaderCRC32")?;
        ensure(u64_at(bytes, 24) == lba, "MyLBA")?;
        let found = Self {
            sector_bytes,
            first_usable_lba: u64_at(bytes, 40),
            last_usable_lba: u64_at(bytes, 48),
            entries_lba: u64_at(bytes, 72),
            entries: u32_at(bytes, 80),
            entry_bytes: u32_at(bytes, 84),
            entries_crc: u32_at(bytes, 88),
        };
        found.check(disk_bytes)?;
        Ok(found)
    }

    fn check(&self, disk_bytes: u64) -> Result<(), Reason> {
        ensure(self.first_usable_lba <= self.last_usable_lba, "FirstUsableLBA")?;
        ensure(self.last_usable_lba < disk_bytes / self.sector_bytes, "LastUsableLBA")?;
        let sizes = ENTRY_BYTES_MIN..=ENTRY_BYTES_MAX;
        let is_size = self.entry_bytes.is_power_of_two() && sizes.contains(&self.entry_bytes);
        ensure(is_size, "SizeOfPartitionEntry")?;
        let bytes = self.entries_extent();
        ensure((1..=ENTRIES_BYTES_MAX).contains(&bytes.len), "NumberOfPartitionEntries")?;
        ensure(bytes.start.0 > 0 && bytes.end() <= disk_bytes, "PartitionEntryLBA")?;
        let usable = sectors(
            self.first_usable_lba,
            self.last_usable_lba - self.first_usable_lba + 1,
            self.sector_bytes,
        );
        ensure(!usable.overlaps(bytes), "PartitionEntryLBA")
    }

    fn entries_extent(&self) -> Extent<Addr> {
        let start = self.entries_lba.saturating_mul(self.sector_bytes);
        let len = u64::from(self.entries) * u64::from(self.entry_bytes);
        Extent::between(start, start.saturating_add(len))
    }

    /// The partition of the entry in `bytes`, the `number`th from 1; none if the
    /// entry is not used. Offsets: 0 type (GUID), 32 first, 40 last sector.
    fn partition(&self, number: u32, bytes: &[u8]) -> Option<Partition> {
        if bytes.get(..16)?.iter().all(|byte| *byte == 0) {
            return None;
        }
        let (first, last) = (u64_at(bytes, 32), u64_at(bytes, 40));
        let refused = if last < first {
            Some(Reason("it ends before it begins".into()))
        } else if first < self.first_usable_lba || last > self.last_usable_lba {
            Some(Reason("it lies outside of what its table calls usable".into()))
        } else {
            None
        };
        let count = last.saturating_sub(first).saturating_add(u64::from(last >= first));
        Some(Partition { number, extent: sectors(first, count, self.sector_bytes), refused })
    }

    fn partitions(&self, entries: &[u8]) -> Vec<Partition> {
        let entries = entries.chunks_exact(self.entry_bytes as usize);
        (1..).zip(entries).filter_map(|(number, bytes)| self.partition(number, bytes)).collect()
    }
}

/// The GPT of a disk whose first sector stands for one.
pub(super) fn read(disk: &Disk<'_>) -> Result<Table, Missing> {
    let mut table = Table { name: "GPT", partitions: Vec::new(), broken: None, pieces: Vec::new() };
    let primary = match copy(disk, "GPT", |_, _| 1, &mut table.pieces)? {
        Ok(found) => return Ok(found),
        Err(reason) => reason,
    };
    let last = |disk_bytes: u64, sector_bytes: u64| (disk_bytes / sector_bytes).saturating_sub(1);
    match copy(disk, "GPT, by its backup", last, &mut table.pieces)? {
        Ok(found) => {
            table.pieces.extend(found.pieces);
            Ok(Table { pieces: table.pieces, ..found })
        }
        Err(backup) => {
            table.broken = Some(Reason(format!("in its first copy {primary}, in its backup {backup}")));
            Ok(table)
        }
    }
}

/// One of the two copies, with its header in the sector that `lba` says for a
/// disk of so many bytes and sectors of so many. What was seen of a copy that
/// cannot be used is added to `seen`.
fn copy(
    disk: &Disk<'_>,
    name: &'static str,
    lba: fn(u64, u64) -> u64,
    seen: &mut Vec<Extent<Addr>>,
) -> Result<Result<Table, Reason>, Missing> {
    let mut why = Reason("the signature is wrong".into());
    for sector_bytes in SECTOR_SIZES {
        let lba = lba(disk.bytes, sector_bytes);
        let at = lba.saturating_mul(sector_bytes);
        let Some(bytes) = disk.see(at, SECTOR_BYTES)? else { continue };
        seen.push(Extent::new(at, SECTOR_BYTES));
        if !bytes.starts_with(SIGNATURE) {
            continue;
        }
        match Header::from_bytes(bytes, lba, sector_bytes, disk.bytes) {
            Err(reason) => why = reason,
            Ok(header) => match whole(disk, &header, seen)? {
                Err(reason) => why = reason,
                Ok(partitions) => {
                    let pieces = vec![Extent::new(at, SECTOR_BYTES), header.entries_extent()];
                    return Ok(Ok(Table { name, partitions, broken: None, pieces }));
                }
            },
        }
    }
    Ok(Err(why))
}

/// The partitions behind `header`, if the entries are what it says.
fn whole(
    disk: &Disk<'_>,
    header: &Header,
    seen: &mut Vec<Extent<Addr>>,
) -> Result<Result<Vec<Partition>, Reason>, Missing> {
    let extent = header.entries_extent();
    let Some(entries) = disk.see(extent.start.0, extent.len)? else {
        return Ok(ensure(false, "PartitionEntryLBA").map(|()| Vec::new()));
    };
    seen.push(extent);
    let is_whole = ensure(crc32(entries) == header.entries_crc, "PartitionEntryArrayCRC32");
    Ok(is_whole.map(|()| header.partitions(entries)))
}

/// CRC-32 as Ethernet has it (reflected, polynomial 0x04C11DB7).
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}

#[cfg(test)]
mod tests;
