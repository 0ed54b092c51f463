//! The GUID partition table: a header behind the first sector, an array of
//! entries, and a copy of both at the end of the disk (UEFI 2.10, section 5.3).

use crate::disk::partition::{Disk, Missing, Partition, SECTOR_BYTES, Table, sectors};
use crate::formats::format;
use crate::formats::format::Reason;
use crate::input::bytes::head;
use quietus_core::base::units::{Addr, Extent};
use std::fmt::Display;
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const SIGNATURE: [u8; 8] = *b"EFI PART";
const HEADER_BYTES_MIN: u32 = size_of::<RawHeader>() as u32;
const ENTRY_BYTES_MIN: u32 = size_of::<RawEntry>() as u32;
const ENTRY_BYTES_MAX: u32 = 4096;
/// Offset of the header's own checksum, which counts as zero.
const CRC_AT: usize = offset_of!(RawHeader, header_crc32);
/// Sizes of a sector, in bytes.
const SECTOR_SIZES: [u64; 2] = [512, 4096];
/// Most bytes of entries that are read.
pub(super) const ENTRIES_BYTES_MAX: u64 = 256 << 10;

/// A header as it lies on the disk.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 8],
    _revision: U32,
    header_size: U32,
    header_crc32: U32,
    _reserved: U32,
    my_lba: U64,
    _alternate_lba: U64,
    first_usable_lba: U64,
    last_usable_lba: U64,
    _disk_guid: [u8; 16],
    partition_entry_lba: U64,
    number_of_partition_entries: U32,
    size_of_partition_entry: U32,
    partition_entry_array_crc32: U32,
}

/// An entry as it lies on the disk; entries may be longer.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    partition_type_guid: [u8; 16],
    _unique_partition_guid: [u8; 16],
    starting_lba: U64,
    ending_lba: U64,
    _from_48: [u8; 80],
}

const _: () = {
    assert!(offset_of!(RawHeader, my_lba) == 24 && offset_of!(RawHeader, partition_entry_lba) == 72);
    assert!(size_of::<RawHeader>() == 92 && size_of::<RawEntry>() == 128);
};

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

fn no_signature() -> Reason {
    Reason("the signature is missing".into())
}

fn ensure(holds: bool, field: &str, value: impl Display) -> Result<(), Reason> {
    format::ensure(holds, "the header", field, value)
}

impl Header {
    /// The header in `bytes`, the first of sector `lba` of `sector_bytes`.
    fn from_bytes(bytes: &[u8], lba: u64, sector_bytes: u64, disk_bytes: u64) -> Result<Self, Reason> {
        let raw = head::<RawHeader>(bytes).filter(|it| it.signature == SIGNATURE);
        let raw = raw.ok_or_else(no_signature)?;
        let size = raw.header_size.get();
        ensure(size >= HEADER_BYTES_MIN && size as usize <= bytes.len(), "HeaderSize", size)?;
        let mut header = bytes[..size as usize].to_vec();
        header[CRC_AT..CRC_AT + 4].fill(0);
        ensure(raw.header_crc32 == crc32(&header), "HeaderCRC32", format_args!("{:#x}", raw.header_crc32))?;
        ensure(raw.my_lba == lba, "MyLBA", raw.my_lba)?;
        let found = Self {
            sector_bytes,
            first_usable_lba: raw.first_usable_lba.get(),
            last_usable_lba: raw.last_usable_lba.get(),
            entries_lba: raw.partition_entry_lba.get(),
            entries: raw.number_of_partition_entries.get(),
            entry_bytes: raw.size_of_partition_entry.get(),
            entries_crc: raw.partition_entry_array_crc32.get(),
        };
        found.check(disk_bytes)?;
        Ok(found)
    }

    fn check(&self, disk_bytes: u64) -> Result<(), Reason> {
        ensure(self.first_usable_lba <= self.last_usable_lba, "FirstUsableLBA", self.first_usable_lba)?;
        ensure(self.last_usable_lba < disk_bytes / self.sector_bytes, "LastUsableLBA", self.last_usable_lba)?;
        let sizes = ENTRY_BYTES_MIN..=ENTRY_BYTES_MAX;
        let is_size = self.entry_bytes.is_power_of_two() && sizes.contains(&self.entry_bytes);
        ensure(is_size, "SizeOfPartitionEntry", self.entry_bytes)?;
        let bytes = self.entries_extent();
        ensure((1..=ENTRIES_BYTES_MAX).contains(&bytes.len), "NumberOfPartitionEntries", self.entries)?;
        ensure(bytes.start.0 > 0 && bytes.end() <= disk_bytes, "PartitionEntryLBA", self.entries_lba)?;
        let usable = self.last_usable_lba - self.first_usable_lba + 1;
        let usable = sectors(self.first_usable_lba, usable, self.sector_bytes);
        ensure(!usable.overlaps(bytes), "PartitionEntryLBA", self.entries_lba)
    }

    fn entries_extent(&self) -> Extent<Addr> {
        let start = self.entries_lba.saturating_mul(self.sector_bytes);
        let len = u64::from(self.entries) * u64::from(self.entry_bytes);
        Extent::between(start, start.saturating_add(len))
    }

    /// The partition of entry `number`, counted from 1, in `bytes`; `None` if the entry is not used.
    fn partition(&self, number: u32, bytes: &[u8]) -> Option<Partition> {
        let entry = head::<RawEntry>(bytes).filter(|it| it.partition_type_guid != [0; 16])?;
        let (first, last) = (entry.starting_lba.get(), entry.ending_lba.get());
        let refused = if last < first {
            Some(Reason("it ends before it begins".into()))
        } else if first < self.first_usable_lba || last > self.last_usable_lba {
            Some(Reason("it lies outside of the sectors that its table calls usable".into()))
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

/// Reads the GPT of a disk whose first sector announces one.
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
            table.broken = Some(Reason(format!(
                "the first copy is invalid ({primary}), and so is the backup ({backup})"
            )));
            Ok(table)
        }
    }
}

/// Reads one of the two copies: its header lies in the sector that `lba` computes from the disk's
/// bytes and a sector's. Adds the extents read to `seen`, even if the copy cannot be used.
fn copy(
    disk: &Disk<'_>,
    name: &'static str,
    lba: fn(u64, u64) -> u64,
    seen: &mut Vec<Extent<Addr>>,
) -> Result<Result<Table, Reason>, Missing> {
    let mut why = no_signature();
    for sector_bytes in SECTOR_SIZES {
        let lba = lba(disk.bytes, sector_bytes);
        let at = lba.saturating_mul(sector_bytes);
        let Some(bytes) = disk.see(at, SECTOR_BYTES)? else { continue };
        seen.push(Extent::new(at, SECTOR_BYTES));
        if !bytes.starts_with(&SIGNATURE) {
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

/// The partitions behind `header`, if its checksum of the entries is right.
fn whole(
    disk: &Disk<'_>,
    header: &Header,
    seen: &mut Vec<Extent<Addr>>,
) -> Result<Result<Vec<Partition>, Reason>, Missing> {
    let extent = header.entries_extent();
    let Some(entries) = disk.see(extent.start.0, extent.len)? else {
        return Ok(ensure(false, "PartitionEntryLBA", header.entries_lba).map(|()| Vec::new()));
    };
    seen.push(extent);
    let crc = header.entries_crc;
    let is_whole = ensure(crc32(entries) == crc, "PartitionEntryArrayCRC32", format_args!("{crc:#x}"));
    Ok(is_whole.map(|()| header.partitions(entries)))
}

/// CRC-32 as in Ethernet (reflected, polynomial 0x04C11DB7).
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}

#[cfg(test)]
mod tests;
