//! The master boot record: four entries in the first sector, and chains of
//! further sectors like it (extended boot records) for logical partitions.
//!
//! Read as Linux reads it (`block/partitions/msdos.c`), so that a partition lies where the guest
//! sees it.

use crate::disk::partition::{Disk, Missing, Partition, SECTOR_BYTES, Table, sectors};
use crate::formats::format::Reason;
use crate::input::bytes::head;
use quietus_core::base::units::{Addr, Extent};
use std::collections::BTreeSet;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const SIGNATURE: u16 = 0xAA55;
const BOOTABLE: u8 = 0x80;
/// Types of extended partitions, which hold logical ones.
const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
const PROTECTIVE: u8 = 0xEE;
/// Most links of a chain, as in Linux.
const CHAIN_LINKS_MAX: usize = 100;
const FIRST_LOGICAL: u32 = 5;

/// A boot record as it lies on the disk (UEFI 2.10, section 5.2.1).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    _boot_code: [u8; 446],
    partition_record: [Entry; 4],
    signature: U16,
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Entry {
    boot_indicator: u8,
    starting_chs: [u8; 3],
    os_type: u8,
    ending_chs: [u8; 3],
    starting_lba: U32,
    size_in_lba: U32,
}

const _: () = assert!(size_of::<Entry>() == 16 && offset_of!(RawRecord, signature) == 510);

impl Entry {
    /// Whether the entry announces a GPT.
    pub(super) fn is_protective(&self) -> bool {
        self.os_type == PROTECTIVE
    }

    fn is_extended(&self) -> bool {
        EXTENDED.contains(&self.os_type)
    }

    fn is_used(&self) -> bool {
        self.size_in_lba != 0
    }
}

/// The entries of a sector, if it ends as boot records do.
fn signed_entries(sector: &[u8]) -> Option<&[Entry; 4]> {
    let record = head::<RawRecord>(sector).filter(|it| it.signature == SIGNATURE)?;
    Some(&record.partition_record)
}

/// The entries of the first sector, if it is a partition table. Boot sectors of file systems end in
/// the same two bytes. So a sector is no table if an entry's boot flag is invalid, or no entry is
/// used. Nor is it one if every used entry begins with this very sector, as mkfs.vfat writes it on
/// a whole disk.
pub(super) fn entries(sector: &[u8]) -> Option<&[Entry; 4]> {
    let entries = signed_entries(sector)?;
    let is_table = entries.iter().all(|it| it.boot_indicator & !BOOTABLE == 0)
        && entries.iter().any(|it| (it.is_used() && it.starting_lba != 0) || it.is_protective());
    is_table.then_some(entries)
}

/// The table whose first sector has these `entries`.
pub(super) fn read(disk: &Disk<'_>, entries: &[Entry; 4]) -> Result<Table, Missing> {
    let mut table = Table { name: "MBR", partitions: Vec::new(), broken: None, pieces: Vec::new() };
    for (number, entry) in (1..).zip(entries).filter(|(_, entry)| entry.is_used()) {
        if entry.is_extended() {
            Chain::new(entry, &table).read(number, disk, &mut table)?;
        } else {
            let extent = sectors(entry.starting_lba.into(), entry.size_in_lba.into(), SECTOR_BYTES);
            table.partitions.push(Partition { number, extent, refused: None });
        }
    }
    Ok(table)
}

/// The chain of boot records within one extended partition, in sectors.
struct Chain {
    first: u64,
    end: u64,
    seen: BTreeSet<u64>,
    number: u32,
    found: Vec<Partition>,
}

impl Chain {
    fn new(extended: &Entry, table: &Table) -> Self {
        let last = table.partitions.iter().map(|it| it.number).max().unwrap_or(0);
        let first = u64::from(extended.starting_lba);
        Self {
            first,
            end: first + u64::from(extended.size_in_lba),
            seen: BTreeSet::new(),
            number: (last + 1).max(FIRST_LOGICAL),
            found: Vec::new(),
        }
    }

    /// Adds the partitions of the chain to `table`; if the chain is broken, adds the extended
    /// partition with this `number` as refused.
    fn read(mut self, number: u32, disk: &Disk<'_>, table: &mut Table) -> Result<(), Missing> {
        match self.follow(disk)? {
            Ok(()) => table.partitions.append(&mut self.found),
            Err(reason) => {
                let extent = sectors(self.first, self.end - self.first, SECTOR_BYTES);
                table.partitions.push(Partition { number, extent, refused: Some(reason) });
            }
        }
        table.pieces.extend(self.seen.iter().map(|at| sector(*at)));
        Ok(())
    }

    fn follow(&mut self, disk: &Disk<'_>) -> Result<Result<(), Reason>, Missing> {
        let broken = |what: &str| Ok(Err(Reason(format!("the chain of logical partitions {what}"))));
        let (mut next, mut end) = (Some(self.first), self.end);
        while let Some(at) = next {
            if at < self.first || at >= self.end {
                return broken("leaves its extended partition");
            }
            if self.seen.len() == CHAIN_LINKS_MAX {
                return broken("is too long");
            }
            if !self.seen.insert(at) {
                return broken("comes back to itself");
            }
            let Some(bytes) = disk.see(at * SECTOR_BYTES, SECTOR_BYTES)? else {
                return broken("ends beyond the disk");
            };
            let Some(entries) = signed_entries(bytes) else {
                return if at == self.first { Ok(Ok(())) } else { broken("is torn") };
            };
            self.take(at, end, entries);
            let link = entries.iter().find(|it| it.is_used() && it.is_extended());
            next = link.map(|it| self.first + u64::from(it.starting_lba));
            end = link.map_or(end, |it| self.first + u64::from(it.starting_lba) + u64::from(it.size_in_lba));
        }
        Ok(Ok(()))
    }

    /// Takes the partitions in the record at `at`. Only the first two entries are meant to be used;
    /// Linux takes the others where they make sense.
    fn take(&mut self, at: u64, end: u64, entries: &[Entry; 4]) {
        for (n, entry) in entries.iter().enumerate().filter(|(_, it)| it.is_used() && !it.is_extended()) {
            let start = at + u64::from(entry.starting_lba);
            let stop = start + u64::from(entry.size_in_lba);
            if n >= 2 && (stop > end || stop > self.end) {
                continue;
            }
            let extent = sectors(start, entry.size_in_lba.into(), SECTOR_BYTES);
            let outside = Reason("it leaves its extended partition".into());
            let refused = (stop > self.end).then_some(outside);
            self.found.push(Partition { number: self.number, extent, refused });
            self.number += 1;
        }
    }
}

fn sector(at: u64) -> Extent<Addr> {
    sectors(at, 1, SECTOR_BYTES)
}

#[cfg(test)]
mod tests;
