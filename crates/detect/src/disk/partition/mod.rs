//! Partition tables: the parts of a disk that are disks of their own.
//!
//! The structures read, and the behaviour relied on: `docs/formats/partitions.md`. Nothing here
//! does input or output: the caller reads the extents that are missing.
//!
//! 1. Partitions that are not refused are disjoint, lie within the disk, and hold no piece of the
//!    table.
//! 2. An impossible partition is refused alone, with the reason; an impossible table is refused as
//!    a whole.
//! 3. No input can cause a panic or a loop, or take more memory than [`gpt::ENTRIES_BYTES_MAX`].

use crate::formats::format::{Contents, Reason};
use quietus_core::base::units::{Addr, Extent};

pub mod foreign;
mod gpt;
mod mbr;

/// Most partitions; further ones are refused.
pub const PARTITIONS_MAX: usize = 128;
/// Bytes of a sector, the unit of MBRs and of reads.
const SECTOR_BYTES: u64 = 512;

/// One partition, as the table has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Number of the partition, as in Linux: logical ones from 5 on.
    pub number: u32,
    /// Place of the partition. Within the disk, unless it is refused.
    pub extent: Extent<Addr>,
    /// Reason for refusing the partition.
    pub refused: Option<Reason>,
}

/// A partition table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Name of the table: `MBR`, `GPT`, `GPT, by its backup`.
    pub name: &'static str,
    /// Partitions, sorted by start.
    pub partitions: Vec<Partition>,
    /// Reason why the table as a whole is not understood.
    pub broken: Option<Reason>,
    /// Extents from which the table was read, each as it was asked for.
    pub pieces: Vec<Extent<Addr>>,
}

/// Extents needed first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing(pub Vec<Extent<Addr>>);

/// The partition table of a disk of `disk_bytes`; `None` if there is none, or an MBR without
/// partitions.
///
/// # Errors
/// The extents that `contents` lacks.
pub fn read(disk_bytes: u64, contents: &Contents) -> Result<Option<Table>, Missing> {
    let disk = Disk { bytes: disk_bytes, contents };
    let Some(sector) = disk.see(0, SECTOR_BYTES)? else { return Ok(None) };
    let Some(entries) = mbr::entries(sector) else { return Ok(None) };
    let mut table = if entries.iter().any(mbr::Entry::is_protective) {
        gpt::read(&disk)?
    } else {
        mbr::read(&disk, entries)?
    };
    table.pieces.push(first_sector());
    judge(&mut table, disk_bytes);
    Ok(Some(table))
}

/// The sector in which every table begins.
pub(crate) fn first_sector() -> Extent<Addr> {
    Extent::new(0, SECTOR_BYTES)
}

/// A disk of which some extents are known.
struct Disk<'a> {
    bytes: u64,
    contents: &'a Contents,
}

impl Disk<'_> {
    /// The content of `len` bytes from `start`; `None` beyond the disk's end.
    fn see(&self, start: u64, len: u64) -> Result<Option<&[u8]>, Missing> {
        let Some(extent) = Extent::within(start, len, self.bytes) else { return Ok(None) };
        self.contents.get(extent).map(Some).ok_or_else(|| Missing(vec![extent]))
    }
}

/// Refuses impossible partitions (invariant 1).
fn judge(table: &mut Table, disk_bytes: u64) {
    table.partitions.sort_by_key(|it| (it.extent.start, it.number));
    let pieces = &table.pieces;
    for partition in &mut table.partitions {
        if partition.extent.end() > disk_bytes {
            refuse(partition, "it ends beyond the disk");
        } else if pieces.iter().any(|piece| piece.overlaps(partition.extent)) {
            refuse(partition, "it lies over the partition table");
        }
    }
    refuse_overlaps(&mut table.partitions);
    let too_many = format!("only {PARTITIONS_MAX} partitions of a disk are watched");
    table.partitions.iter_mut().skip(PARTITIONS_MAX).for_each(|it| refuse(it, &too_many));
}

/// Refuses both of two partitions that overlap. `partitions` are sorted by start.
fn refuse_overlaps(partitions: &mut [Partition]) {
    let mut furthest = 0;
    for n in 1..partitions.len() {
        if partitions[n].extent.overlaps(partitions[furthest].extent) {
            refuse(&mut partitions[n], "it overlaps another partition");
            refuse(&mut partitions[furthest], "it overlaps another partition");
        }
        if partitions[n].extent.end() > partitions[furthest].extent.end() {
            furthest = n;
        }
    }
}

fn refuse(partition: &mut Partition, why: &str) {
    partition.refused.get_or_insert_with(|| Reason(why.into()));
}

/// The bytes of `count` sectors from sector `first`, cut off at the last address.
fn sectors(first: u64, count: u64, sector_bytes: u64) -> Extent<Addr> {
    let start = first.saturating_mul(sector_bytes);
    let end = first.saturating_add(count).saturating_mul(sector_bytes);
    Extent::between(start, end)
}

#[cfg(test)]
pub(crate) mod tests;
