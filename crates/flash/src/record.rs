//! Header pages and record pages. The format, byte by byte: `docs/formats/flash.md`.

#[cfg(test)]
mod tests;

use crate::nand::{EraseBlock, Geometry, Page};
use crate::units::Unit;
use quietus_core::base::fields::Fields;

const HEADER_MAGIC: [u8; 8] = *b"QFLASHH1";
const RECORD_MAGIC: [u8; 8] = *b"QFLASHR1";
/// Where the checksum of a page stands.
const CHECKSUM_AT: usize = 24;
/// Bytes of magic, disk and checksum.
const PAGE_HEAD_BYTES: usize = 28;
/// Bytes of a record before the blocks that it lists.
pub(crate) const RECORD_HEAD_BYTES: usize = 40;
/// Bytes of an entry or a mark in a record.
pub(crate) const ENTRY_BYTES: usize = 9;

/// Bytes of a run in a record before its entries.
pub(crate) const RUN_HEAD_BYTES: usize = 16;
/// Most blocks that a record lists.
pub(crate) const LISTED_MAX: usize = 64;
/// Most gaps that a record has.
pub(crate) const GAPS_MAX: usize = 16;
/// Bytes of a gap in a record.
pub(crate) const GAP_BYTES: usize = 16;
/// Most marks of a run.
pub(crate) const MARKS_MAX: usize = 64;
/// In the count of a mark: the units are lost, not trimmed.
const LOST_BIT: u32 = 1 << 31;

/// Sixteen random bytes that name a disk. They are part of each checksum, so that content which was made without knowing them is never taken
/// for a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskId(pub [u8; 16]);

/// Page 0 of a block, programmed as soon as the block was erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Number of erases of the block.
    pub(crate) erases: u32,
    /// Number of units of the disk.
    pub(crate) units: u32,
}

/// What a run is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunKind {
    /// Counts as soon as it has a record.
    Plain = 0,
    /// The first run of a start, a copy of the last one before it. Counts once a session follows it.
    Trial = 1,
    /// The second run of a start, without units.
    Session = 2,
}

/// A unit of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) unit: Unit,
    /// CRC-32C of its content.
    pub(crate) checksum: u32,
}

/// Units that had no content when the run was written. Marks apply before the entries of their run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) first: Unit,
    /// Number of units, at least one.
    pub(crate) count: u32,
    /// Whether the chip lost the content; otherwise the units are trimmed, and read as zeros.
    pub(crate) is_lost: bool,
}

/// Units that became durable together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Higher than that of each run before it.
    pub(crate) sequence: u64,
    pub(crate) kind: RunKind,
    /// The page of the block in which the data begins.
    pub(crate) first: u32,
    pub(crate) entries: Vec<Entry>,
    pub(crate) marks: Vec<Mark>,
}

/// The page that ends a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Number of erases of the block.
    pub(crate) erases: u32,
    /// The record page of the newest run of the block that this page has no room for; 0 if it has all.
    pub(crate) rest: u32,
    /// Blocks that hold nothing that counts, and may be erased or programmed before the next record.
    pub(crate) listed: Vec<EraseBlock>,
    /// Sequences of runs that do not count.
    pub(crate) gaps: Vec<Gap>,
    /// The runs of the block, the newest first.
    pub(crate) runs: Vec<Run>,
}

/// Sequences above `after`, up to `last`, of runs that a start did not find. If one of them reads well later, it does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) after: u64,
    pub(crate) last: u64,
}

impl Gap {
    pub(crate) fn contains(self, sequence: u64) -> bool {
        (self.after + 1..=self.last).contains(&sequence)
    }
}

fn checksum(page: Page, bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c_append(crc32c::crc32c(&page.0.to_le_bytes()), &bytes[..CHECKSUM_AT]);
    crc32c::crc32c_append(before, &bytes[PAGE_HEAD_BYTES..])
}

fn begin(magic: [u8; 8], disk: DiskId) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(disk.0);
    bytes.extend([0; 4]);
    bytes
}

fn finish(mut bytes: Vec<u8>, page: Page, page_bytes: u32) -> Vec<u8> {
    assert!(bytes.len() <= page_bytes as usize, "a header or record fits into its page");
    bytes.resize(page_bytes as usize, 0);
    let checksum = checksum(page, &bytes);
    bytes[CHECKSUM_AT..PAGE_HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What follows the head of a page that is whole; `disk` is the one whose page it must be.
fn open(bytes: &[u8], magic: [u8; 8], page: Page, disk: Option<DiskId>) -> Option<(DiskId, Fields<'_>)> {
    let mut fields = Fields(bytes);
    let is_magic = fields.array()? == magic;
    let found = DiskId(fields.array()?);
    let is_whole = fields.u32()? == checksum(page, bytes);
    let is_ours = disk.is_none_or(|disk| disk == found);
    (is_magic && is_whole && is_ours).then_some((found, fields))
}

impl Header {
    pub(crate) fn to_bytes(self, disk: DiskId, geometry: Geometry, page: Page) -> Vec<u8> {
        let mut bytes = begin(HEADER_MAGIC, disk);
        for number in [self.erases, self.units, geometry.page_bytes, geometry.block_pages, geometry.blocks] {
            bytes.extend(number.to_le_bytes());
        }
        finish(bytes, page, geometry.page_bytes)
    }

    /// The header in `bytes`, and its disk, if the page is whole and of a chip of this shape.
    pub(crate) fn from_bytes(bytes: &[u8], geometry: Geometry, page: Page) -> Option<(DiskId, Self)> {
        let (disk, mut fields) = open(bytes, HEADER_MAGIC, page, None)?;
        let header = Self { erases: fields.u32()?, units: fields.u32()? };
        let shape = [fields.u32()?, fields.u32()?, fields.u32()?];
        (shape == [geometry.page_bytes, geometry.block_pages, geometry.blocks]).then_some((disk, header))
    }
}

impl Record {
    /// The page, with as many runs as it has room for; `rest` is set to the record page of the first one that it leaves out, which
    /// `record_page` knows.
    pub(crate) fn to_bytes(
        &self,
        disk: DiskId,
        page_bytes: u32,
        page: Page,
        record_page: impl Fn(&Run) -> u32,
    ) -> Vec<u8> {
        assert!(self.listed.len() <= LISTED_MAX, "a record lists at most {LISTED_MAX} blocks");
        assert!(self.gaps.len() <= GAPS_MAX, "a record has at most {GAPS_MAX} gaps");
        let fixed = RECORD_HEAD_BYTES + 4 * self.listed.len() + GAP_BYTES * self.gaps.len();
        let room = page_bytes as usize - fixed;
        let runs = &self.runs[..fitting(&self.runs, room)];
        let rest = self.runs.get(runs.len()).map_or(0, record_page);
        let mut bytes = begin(RECORD_MAGIC, disk);
        bytes.extend(self.erases.to_le_bytes());
        bytes.extend((rest as u16).to_le_bytes());
        bytes.extend((self.listed.len() as u16).to_le_bytes());
        bytes.extend((self.gaps.len() as u16).to_le_bytes());
        bytes.extend((runs.len() as u16).to_le_bytes());
        self.listed.iter().for_each(|block| bytes.extend(block.0.to_le_bytes()));
        self.gaps.iter().for_each(|gap| bytes.extend([gap.after, gap.last].map(u64::to_le_bytes).concat()));
        runs.iter().for_each(|run| run.write(&mut bytes));
        finish(bytes, page, page_bytes)
    }

    /// The record in `bytes`, if the page is whole and of `disk`.
    pub(crate) fn from_bytes(bytes: &[u8], disk: DiskId, page: Page) -> Option<Self> {
        let (_, mut fields) = open(bytes, RECORD_MAGIC, page, Some(disk))?;
        let (erases, rest) = (fields.u32()?, u32::from(fields.u16()?));
        let (listed, gaps, runs) = (fields.u16()?, fields.u16()?, fields.u16()?);
        let listed = (0..listed).map(|_| fields.u32().map(EraseBlock)).collect::<Option<_>>()?;
        let gap = |_| Some(Gap { after: fields.u64()?, last: fields.u64()? });
        let gaps = (0..gaps).map(gap).collect::<Option<_>>()?;
        let runs = (0..runs).map(|_| Run::read(&mut fields)).collect::<Option<_>>()?;
        Some(Self { erases, rest, listed, gaps, runs })
    }
}

/// Number of runs that fit into `room` bytes, from the first one on.
fn fitting(runs: &[Run], room: usize) -> usize {
    let bytes = |run: &Run| RUN_HEAD_BYTES + (run.entries.len() + run.marks.len()) * ENTRY_BYTES;
    let sums = runs.iter().scan(0, |sum, run| {
        *sum += bytes(run);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= room).count()
}

impl Run {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend((self.first as u16).to_le_bytes());
        bytes.extend((self.entries.len() as u16).to_le_bytes());
        bytes.extend((self.marks.len() as u16).to_le_bytes());
        bytes.extend((self.kind as u16).to_le_bytes());
        for entry in &self.entries {
            write_unit(bytes, entry.unit);
            bytes.extend(entry.checksum.to_le_bytes());
        }
        for mark in &self.marks {
            write_unit(bytes, mark.first);
            bytes.extend((mark.count | if mark.is_lost { LOST_BIT } else { 0 }).to_le_bytes());
        }
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (sequence, first) = (fields.u64()?, u32::from(fields.u16()?));
        let (entries, marks) = (fields.u16()?, fields.u16()?);
        let kind = match fields.u16()? {
            0 => RunKind::Plain,
            1 => RunKind::Trial,
            2 => RunKind::Session,
            _ => return None,
        };
        let entry = |_| Some(Entry { unit: read_unit(fields)?, checksum: fields.u32()? });
        let entries = (0..entries).map(entry).collect::<Option<_>>()?;
        let mark = |_| {
            let (first, count) = (read_unit(fields)?, fields.u32()?);
            Some(Mark { first, count: count & !LOST_BIT, is_lost: count & LOST_BIT != 0 })
        };
        let marks = (0..marks).map(mark).collect::<Option<_>>()?;
        Some(Self { sequence, kind, first, entries, marks })
    }
}

fn write_unit(bytes: &mut Vec<u8>, unit: Unit) {
    bytes.extend(unit.0.to_le_bytes());
    bytes.push(0);
}

/// The number of a unit has five bytes, of which this version uses four.
fn read_unit(fields: &mut Fields<'_>) -> Option<Unit> {
    let unit = fields.u32().map(Unit);
    (fields.array()? == [0]).then_some(unit?)
}
