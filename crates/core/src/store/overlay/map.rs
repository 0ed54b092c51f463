//! The map of an overlay: a file with four bytes for each block of the disk.
//!
//! The format: `docs/formats/disk.md`. In memory are the pages that are needed, and those that are not
//! durable.
//!
//! Invariant: each sector counts by itself. After a crash some sectors of a page may be old and others new;
//! the entries of both are true.

use super::sector::{self, SECTOR_BLOCKS, SECTOR_BYTES};
use crate::base::blocks::BlockSet;
use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::base::zeros::is_zeros;
use crate::media::MediumId;
use crate::media::medium::{Medium, MediumError};
use crate::media::place::Place;
use crate::media::places::Places;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of the map before its entries.
pub const MAP_HEAD_BYTES: u64 = PAGE_BYTES;
/// Blocks that a page maps.
pub const PAGE_BLOCKS: u64 = PAGE_SECTORS * SECTOR_BLOCKS;
const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES as u64;
/// The entry of a block where the base shows through.
pub(super) const BASE: u32 = 0;
/// The entry of a block that reads as zeros.
pub(super) const PURGED: u32 = 1;
/// The entry of a block in the first slot; one more for each slot that follows.
pub(super) const FIRST_SLOT: u32 = 2;

const MAGIC: &[u8; 8] = b"QUIETMAP";
const VERSION: u32 = 2;
/// The largest disk, in bytes: an entry names a slot with 32 bits.
const SIZE_BYTES_MAX: u64 = (u32::MAX - FIRST_SLOT) as u64 * BLOCK_BYTES;
/// Bytes read at once when a disk is opened.
const SCAN_BYTES: usize = 1 << 20;
/// Most pages in one write of the map.
const WRITE_PAGES_MAX: usize = 256;

/// Why a map cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// The medium failed.
    #[error("the map cannot be read: {0}")]
    Medium(#[from] MediumError),
    /// The bytes are not a valid map.
    #[error("the map is damaged: {0}; run `quietus repair`, or restore the map together with the data")]
    Damaged(&'static str),
    /// A sector is not as it was written.
    #[error(
        "the sector at byte {at} of the map does not match its checksum; run `quietus repair`, or restore the map together with the data"
    )]
    Sector {
        /// Where the sector begins, in bytes.
        at: u64,
    },
    /// The map has another version of the format.
    #[error(
        "the map has format version {0}, and this program knows version {VERSION}: use the program that made or last served the disk"
    )]
    Version(u32),
    /// The map belongs to another disk.
    #[error("the map belongs to another disk, or to one of another size; restore the map of this disk")]
    Foreign,
    /// An entry names a slot beyond the end of the data.
    #[error(
        "the map puts block {block} into slot {slot}, and the data has only {slots} slots; \
         restore the data together with the map"
    )]
    Beyond {
        /// The block, by its number on the disk.
        block: u64,
        /// The slot that the entry names.
        slot: u64,
        /// How many slots the data has.
        slots: u64,
    },
    /// Two entries name one slot.
    #[error(
        "the map puts block {block} and another one into slot {slot}; restore the map together with the data"
    )]
    Twice {
        /// The second block with that slot.
        block: u64,
        /// The slot that both name.
        slot: u64,
    },
    /// The disk is larger than a map can be.
    #[error("an overlay has at most {SIZE_BYTES_MAX} bytes")]
    TooLarge,
}

/// The length of the map of a disk of `size` bytes.
#[must_use]
pub fn map_bytes(size: u64) -> u64 {
    MAP_HEAD_BYTES + size.div_ceil(BLOCK_BYTES).div_ceil(PAGE_BLOCKS) * PAGE_BYTES
}

/// Makes the map of a new disk on an empty medium of [`map_bytes`].
///
/// # Errors
/// The medium's, or the disk is too large.
pub fn format_map(map: &dyn Medium, disk: [u8; 16], size: u64) -> Result<(), MapError> {
    if size > SIZE_BYTES_MAX {
        return Err(MapError::TooLarge);
    }
    map.write(Pos(0), &head(disk, size), true)?;
    Ok(())
}

fn head(disk: [u8; 16], size: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(disk);
    bytes.extend(size.to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Mends the map of this disk where one byte is wrong, in its head or in a sector; says where.
///
/// # Errors
/// The medium's.
pub fn mend(map: &dyn Medium, disk: [u8; 16], size: u64) -> Result<Vec<String>, MediumError> {
    let mut done = Vec::new();
    if mend_head(map, disk, size)? {
        done.push("map: the head at byte 0".into());
    }
    let (mut bytes, mut at) = (vec![0; SCAN_BYTES], MAP_HEAD_BYTES);
    let end = map_bytes(size).min(map.size());
    loop {
        at = map.next_data(Pos(at)).0 / PAGE_BYTES * PAGE_BYTES;
        if at >= end {
            return Ok(done);
        }
        let bytes = &mut bytes[..(end - at).min(SCAN_BYTES as u64) as usize];
        map.read(Pos(at), bytes)?;
        for (at, sector) in (at..).step_by(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES)) {
            if let Some(mended) = sector::mended(disk, number(at), sector) {
                map.write(Pos(at), &mended, true)?;
                done.push(format!("map: the sector at byte {at}"));
            }
        }
        at += bytes.len() as u64;
    }
}

/// Mends the head of the map of this disk if one byte of it is wrong: whether it was.
fn mend_head(map: &dyn Medium, disk: [u8; 16], size: u64) -> Result<bool, MediumError> {
    let expected = head(disk, size);
    let mut found = vec![0; expected.len()];
    map.read(Pos(0), &mut found)?;
    let wrong = found.iter().zip(&expected).filter(|(one, other)| one != other).count();
    if wrong == 1 {
        map.write(Pos(0), &expected, true)?;
    }
    Ok(wrong == 1)
}

/// Checks that the map is of this disk.
pub(super) fn check_head(map: &dyn Medium, disk: [u8; 16], size: u64) -> Result<(), MapError> {
    let expected = head(disk, size);
    if map.size() < MAP_HEAD_BYTES {
        return Err(MapError::Damaged("the file was cut off"));
    }
    let mut found = vec![0; expected.len()];
    map.read(Pos(0), &mut found)?;
    let (body, crc) = found.split_at(found.len() - 4);
    if !body.starts_with(MAGIC) || crc32c::crc32c(body).to_le_bytes() != crc {
        return Err(MapError::Damaged("bad magic or checksum in the header at offset 0"));
    }
    let version = body[MAGIC.len()..].first_chunk().map_or(0, |it| u32::from_le_bytes(*it));
    match version {
        VERSION if found != expected => Err(MapError::Foreign),
        VERSION if map.size() < map_bytes(size) => Err(MapError::Damaged("the file was cut off")),
        VERSION => Ok(()),
        other => Err(MapError::Version(other)),
    }
}

/// Passes every entry that is not [`BASE`] to `tell`, in order. With `rewrite`, everything that was read is
/// written once more, and synced: after a failed sync of an earlier run it may be in the host's cache only,
/// where it counts as clean.
pub(super) fn scan(
    map: &dyn Medium,
    (disk, size): ([u8; 16], u64),
    rewrite: bool,
    tell: &mut dyn FnMut(u64, u32) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let (blocks, end) = (size.div_ceil(BLOCK_BYTES), map_bytes(size));
    let mut bytes = vec![0; SCAN_BYTES];
    let mut at = MAP_HEAD_BYTES;
    loop {
        at = map.next_data(Pos(at)).0 / PAGE_BYTES * PAGE_BYTES;
        if at >= end {
            if rewrite {
                map.sync()?;
            }
            return Ok(());
        }
        let len = (end - at).min(SCAN_BYTES as u64) as usize;
        map.read(Pos(at), &mut bytes[..len])?;
        let found = parse(disk, at, &bytes[..len])?;
        if rewrite {
            write_back(map, at, &bytes[..len])?;
        }
        give_back(map, at, &bytes[..len])?;
        for (block, entry) in (first_block(at)..).zip(found).filter(|(_, entry)| *entry != BASE) {
            if block >= blocks {
                return Err(MapError::Damaged("an entry lies beyond the end of the disk"));
            }
            tell(block, entry)?;
        }
        at += len as u64;
    }
}

/// The entries of whole sectors that were read at `at`.
pub(super) fn parse(disk: [u8; 16], at: u64, bytes: &[u8]) -> Result<Vec<u32>, MapError> {
    let mut found = Vec::with_capacity(bytes.len() / 4);
    for (at, sector) in (at..).step_by(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES)) {
        found.extend(sector::entries(disk, number(at), sector).ok_or(MapError::Sector { at })?);
    }
    Ok(found)
}

/// Reads the entry of `block` from the medium.
pub(super) fn entry(map: &dyn Medium, disk: [u8; 16], block: u64) -> Result<u32, MapError> {
    let (_, found) = around(map, disk, block)?;
    Ok(found[(block % SECTOR_BLOCKS) as usize])
}

/// Writes the entry of `block` to the medium, and the rest of its sector as it is.
pub(super) fn put(map: &dyn Medium, disk: [u8; 16], block: u64, entry: u32) -> Result<(), MapError> {
    let (at, mut found) = around(map, disk, block)?;
    found[(block % SECTOR_BLOCKS) as usize] = entry;
    let mut bytes = Vec::with_capacity(SECTOR_BYTES);
    sector::append(disk, number(at), &found, &mut bytes);
    assert!(bytes.len() == SECTOR_BYTES, "one sector is written");
    Ok(map.write(Pos(at), &bytes, false)?)
}

/// Where the sector of `block` begins, and its entries.
fn around(map: &dyn Medium, disk: [u8; 16], block: u64) -> Result<(u64, Vec<u32>), MapError> {
    let (at, mut bytes) = (sector_of(block), [0; SECTOR_BYTES]);
    map.read(Pos(at), &mut bytes)?;
    Ok((at, parse(disk, at, &bytes)?))
}

/// Where the sector with the entry of `block` begins in the file.
fn sector_of(block: u64) -> u64 {
    MAP_HEAD_BYTES + block / SECTOR_BLOCKS * SECTOR_BYTES as u64
}

/// Where the entry of `block` lies in the file.
#[must_use]
pub fn entry_at(block: u64) -> u64 {
    sector_of(block) + block % SECTOR_BLOCKS * 4
}

/// The first block of the sector at `at`.
#[must_use]
pub fn first_block(at: u64) -> u64 {
    number(at) * SECTOR_BLOCKS
}

/// The number of the sector at `at`; the first one behind the head is 0.
fn number(at: u64) -> u64 {
    (at - MAP_HEAD_BYTES) / SECTOR_BYTES as u64
}

/// Writes the pages that were read at `at` once more, except pages that were never written.
fn write_back(map: &dyn Medium, at: u64, bytes: &[u8]) -> Result<(), MediumError> {
    for (page, from) in bytes.chunks(PAGE_BYTES as usize).zip((at..).step_by(PAGE_BYTES as usize)) {
        if !is_zeros(page) || map.next_data(Pos(from)).0 < from + page.len() as u64 {
            map.write(Pos(from), page, false)?;
        }
    }
    Ok(())
}

/// Gives back the space of pages that were read at `at` and are all zeros.
fn give_back(map: &dyn Medium, at: u64, bytes: &[u8]) -> Result<(), MediumError> {
    if !map.capabilities().punch {
        return Ok(());
    }
    let is_empty = |page: &&[u8]| is_zeros(page);
    let pages: Vec<_> = bytes.chunks(PAGE_BYTES as usize).collect();
    let mut from = at;
    for run in pages.chunk_by(|one, next| is_empty(one) == is_empty(next)) {
        let end = from + run.iter().map(|page| page.len() as u64).sum::<u64>();
        if is_empty(&run[0]) && map.next_data(Pos(from)).0 < end {
            map.punch(Extent::between(from, end))?;
        }
        from = end;
    }
    Ok(())
}

/// Where page `page` lies.
pub(super) fn place(page: u64) -> Place {
    Place { on: MediumId::Map, extent: Extent::between(position(page), position(page + 1)) }
}

/// Where page `page` begins.
pub(super) fn position(page: u64) -> u64 {
    MAP_HEAD_BYTES + page * PAGE_BYTES
}

/// The pages in memory.
#[derive(Debug)]
pub(super) struct Map {
    disk: [u8; 16],
    pages: HashMap<u64, Page>,
    /// Pages that changed since the last checkpoint began.
    dirty: BTreeSet<u64>,
    /// Pages that the checkpoint under way makes durable.
    checkpointing: BTreeSet<u64>,
    /// Their writes, until these are taken.
    writes: Option<Vec<(Places, Vec<u8>)>>,
    /// The pages that have space on the host. A page keeps its space until the next start, even when it is
    /// all zeros again: a write that relies on the space may be under way.
    spacious: BlockSet<Pos>,
}

#[derive(Debug)]
struct Page {
    entries: Box<[u32]>,
    /// Whether the page was used since pages were last dropped.
    was_used: Cell<bool>,
}

impl Map {
    /// The map of `disk` with no page in memory; the pages `spacious` have space on the host.
    pub(super) fn new(disk: [u8; 16], spacious: BlockSet<Pos>) -> Self {
        Self {
            disk,
            pages: HashMap::new(),
            dirty: BTreeSet::new(),
            checkpointing: BTreeSet::new(),
            writes: None,
            spacious,
        }
    }

    pub(super) fn has_space(&self, page: u64) -> bool {
        self.spacious.contains(position(page) / BLOCK_BYTES)
    }

    pub(super) fn reserved(&mut self, pages: Extent<Pos>) {
        let are_pages = [pages.start.0, pages.len].iter().all(|it| it.is_multiple_of(PAGE_BYTES));
        assert!(are_pages && pages.start.0 >= MAP_HEAD_BYTES, "whole pages behind the head get space");
        self.spacious.insert(pages);
    }

    pub(super) fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// # Panics
    /// If the block's page is not in memory.
    pub(super) fn get(&self, block: u64) -> u32 {
        let page = self.pages.get(&(block / PAGE_BLOCKS)).expect("a page is in memory before it is needed");
        page.was_used.set(true);
        page.entries[(block % PAGE_BLOCKS) as usize]
    }

    /// Makes a page that is all zeros.
    pub(super) fn begin(&mut self, page: u64) {
        let before = self.pages.insert(page, Page::new(vec![BASE; PAGE_BLOCKS as usize]));
        assert!(before.is_none(), "a page is begun once");
    }

    /// Sets an entry.
    ///
    /// # Panics
    /// If its page is not in memory.
    pub(super) fn set(&mut self, block: u64, entry: u32) {
        let number = block / PAGE_BLOCKS;
        let page = self.pages.get_mut(&number).expect("a page is in memory before it is needed");
        page.entries[(block % PAGE_BLOCKS) as usize] = entry;
        page.was_used.set(true);
        self.dirty.insert(number);
    }

    pub(super) fn load(&mut self, place: Place, bytes: &[u8]) -> Result<(), MapError> {
        let page = (place.extent.start.0 - MAP_HEAD_BYTES) / PAGE_BYTES;
        if !self.has(page) {
            self.pages.insert(page, Page::new(self.parse(place.extent.start, bytes)?));
        }
        Ok(())
    }

    /// The entries of a part of the file that was read.
    pub(super) fn parse(&self, at: Pos, bytes: &[u8]) -> Result<Vec<u32>, MapError> {
        parse(self.disk, at.0, bytes)
    }

    /// Drops the pages that are durable and were not used since the last time, except those `in_use`.
    pub(super) fn throw_out(&mut self, in_use: &BTreeSet<u64>) {
        let kept = [in_use, &self.dirty, &self.checkpointing];
        self.pages.retain(|page, it| it.was_used.replace(false) || kept.iter().any(|set| set.contains(page)));
        let undurable = self.dirty.len().max(self.checkpointing.len());
        assert!(self.pages.len() >= undurable, "a page that is not durable stays in memory");
    }

    pub(super) fn resident(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    pub(super) fn is_durable(&self) -> bool {
        self.dirty.is_empty() && self.checkpointing.is_empty()
    }

    pub(super) fn are_durable(&self, pages: RangeInclusive<u64>) -> bool {
        self.dirty.range(pages.clone()).next().is_none() && self.checkpointing.range(pages).next().is_none()
    }

    /// Begins a checkpoint of the pages that are not durable: whether there are any. Many are one write, wherever they lie. A
    /// write of its own for each would wake a thread for each.
    pub(super) fn begin_checkpoint(&mut self) -> bool {
        assert!(self.checkpointing.is_empty() && self.writes.is_none(), "one checkpoint at a time");
        self.checkpointing = std::mem::take(&mut self.dirty);
        let pages: Vec<u64> = self.checkpointing.iter().copied().collect();
        let written = |pages: &[u64]| {
            let mut bytes = Vec::with_capacity(pages.len() * PAGE_BYTES as usize);
            pages.iter().for_each(|page| self.pages[page].append_to(self.disk, *page, &mut bytes));
            (pages.iter().copied().map(place).collect(), bytes)
        };
        let writes: Vec<_> = pages.chunks(WRITE_PAGES_MAX).map(written).collect();
        self.writes = Some(writes).filter(|writes| !writes.is_empty());
        self.writes.is_some()
    }

    /// The writes of the checkpoint, once.
    pub(super) fn take_writes(&mut self) -> Option<Vec<(Places, Vec<u8>)>> {
        self.writes.take()
    }

    pub(super) fn end_checkpoint(&mut self) {
        assert!(self.writes.is_none(), "the writes of a checkpoint were taken before its end");
        self.checkpointing.clear();
    }

    pub(super) fn abort_checkpoint(&mut self) {
        self.writes = None;
        self.dirty.append(&mut self.checkpointing);
    }
}

impl Page {
    fn new(entries: Vec<u32>) -> Self {
        assert!(entries.len() as u64 == PAGE_BLOCKS, "a page has an entry for each of its blocks");
        Self { entries: entries.into(), was_used: Cell::new(true) }
    }

    /// Appends the bytes of page `number` of the map of `disk`.
    fn append_to(&self, disk: [u8; 16], number: u64, bytes: &mut Vec<u8>) {
        for (sector, entries) in (number * PAGE_SECTORS..).zip(self.entries.chunks(SECTOR_BLOCKS as usize)) {
            sector::append(disk, sector, entries, bytes);
        }
    }
}
