//! The halves of the log that are in use: that of the last purge, and, while the next one runs, its half too.
//!
//! A sector of the log can be read only if all before it can. So each write to a half begins with the first sector that may not be
//! durable: whatever is synced first makes all before it durable, in whichever order the writes end.

use crate::base::cell::{Cell, Cells};
use crate::base::units::{Extent, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::sealed::aead::NONCE_BYTES;
use crate::store::sealed::early::Early;
use crate::store::sealed::layout::{LOG_SECTORS, Layout, SECTOR_BYTES};
use crate::store::sealed::log::{LogEntry, LogWriter, SECTOR_ENTRIES};

/// Number of entries in a half.
pub(super) const ENTRIES_MAX: u64 = LOG_SECTORS as u64 * SECTOR_ENTRIES as u64;
/// Sectors kept free for entries of prepared blocks and of those that became active, also if each of 256 slots takes two.
const RESERVE_SECTORS: u64 = 512;
/// Most entries of a checkpoint that are written at once.
const BATCH_ENTRIES_MAX: u64 = 1024 * SECTOR_ENTRIES as u64;
/// Most bytes that one operation writes.
const WRITE_BYTES_MAX: u64 = 64 << 10;

/// Bytes and their place.
pub(super) type Write = (Place, Vec<u8>);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Halves {
    current: Half,
    next: Option<Half>,
}

#[derive(Debug)]
struct Half {
    writer: LogWriter,
    at: Pos,
    /// Number of sectors that are durable: the first ones.
    durable: u32,
    /// Number of sectors that the checkpoint under way has written, together with those durable before.
    written: u32,
    /// The sectors behind the durable ones.
    tail: Vec<u8>,
}

impl Halves {
    /// The log whose sectors are all durable.
    pub(super) fn new(writer: LogWriter, layout: &Layout, purge: u32) -> Self {
        Self { current: Half::new(writer, layout, purge), next: None }
    }

    /// From now on entries go to the half of the purge with this number, too.
    pub(super) fn begin_purge(&mut self, cell: Cell, layout: &Layout, purge: u32) {
        assert!(self.next.is_none(), "one purge at a time");
        self.next = Some(Half::new(LogWriter::new(cell, layout, purge), layout, purge));
    }

    /// The purge has ended, and its half is the log.
    pub(super) fn end_purge(&mut self) {
        self.current = self.next.take().expect("a purge began before it ends");
    }

    /// Number of sectors that are durable.
    pub(super) fn durable(&self) -> u32 {
        self.current.durable
    }

    /// Number of places for entries that are in use.
    pub(super) fn used(&self) -> u64 {
        u64::from(self.current.writer.sectors()) * SECTOR_ENTRIES as u64
    }

    /// Whether so many sectors have room, and those of prepared blocks as well.
    pub(super) fn has_room(&self, sectors: u64) -> bool {
        sectors <= self.free().saturating_sub(RESERVE_SECTORS)
    }

    /// Whether so many sectors would take much of the room: a checkpoint, which packs entries, is due.
    pub(super) fn is_crowded(&self, sectors: u64) -> bool {
        !self.has_room(4 * sectors)
    }

    /// Whether three quarters of the half in use are taken.
    pub(super) fn is_filling(&self) -> bool {
        self.current.writer.sectors() > LOG_SECTORS / 4 * 3
    }

    fn free(&self) -> u64 {
        self.all().map(|half| u64::from(LOG_SECTORS - half.writer.sectors())).min().unwrap_or(0)
    }

    fn all(&self) -> impl Iterator<Item = &Half> {
        std::iter::once(&self.current).chain(&self.next)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Half> {
        std::iter::once(&mut self.current).chain(&mut self.next)
    }

    /// A checkpoint begins.
    pub(super) fn begin_checkpoint(&mut self) {
        self.all_mut().for_each(|half| half.written = half.durable);
    }

    /// The next writes of the checkpoint; nothing after the last ones.
    pub(super) fn batch(&mut self, early: &mut Early, cells: &mut Cells) -> Vec<Write> {
        let entries = early.next_entries(BATCH_ENTRIES_MAX);
        if entries.is_empty() {
            return Vec::new();
        }
        let mut writes = Vec::new();
        for (n, half) in self.all_mut().enumerate().take(halves_used()) {
            let own = entries.iter().filter(|(_, stays)| n == 0 || *stays);
            let own: Vec<_> = own.map(|(entry, _)| entry.clone()).collect();
            if own.is_empty() {
                continue;
            }
            half.append(&own, cells);
            let (place, bytes) = half.since(half.written);
            half.written = half.writer.sectors();
            let parts = place.extent.pieces(WRITE_BYTES_MAX).zip(bytes.chunks(WRITE_BYTES_MAX as usize));
            writes.extend(parts.map(|(extent, bytes)| (Place { extent, ..place }, bytes.to_vec())));
        }
        writes
    }

    /// The checkpoint has ended: what it wrote is durable.
    pub(super) fn end_checkpoint(&mut self) {
        self.all_mut().for_each(|half| half.settle(half.written));
    }

    /// Appends `entries`, of prepared blocks or of those that became active. What has to be written, and how far the log reaches then.
    pub(super) fn append(
        &mut self,
        entries: &[LogEntry],
        purge: u32,
        cells: &mut Cells,
    ) -> (Vec<Write>, (u32, u32)) {
        let mut writes = Vec::new();
        for half in self.all_mut().take(halves_used()) {
            half.append(entries, cells);
            writes.push(half.since(half.durable));
        }
        (writes, (purge, self.current.writer.sectors()))
    }

    /// The log of the last purge is durable up to this sector.
    pub(super) fn settle(&mut self, sectors: u32) {
        self.current.settle(sectors);
    }
}

/// Number of halves that entries go to while a purge runs.
fn halves_used() -> usize {
    if mutant::is(Mutant::OneHalf) { 1 } else { 2 }
}

impl Half {
    fn new(writer: LogWriter, layout: &Layout, purge: u32) -> Self {
        let durable = writer.sectors();
        let at = layout.log_half((purge % 2) as u8).start;
        Self { writer, at, durable, written: durable, tail: Vec::new() }
    }

    fn append(&mut self, entries: &[LogEntry], cells: &mut Cells) {
        let end = self.place(self.writer.sectors()).0;
        let mut nonce = || match mutant::is(Mutant::RepeatNonce) {
            true => [1; NONCE_BYTES],
            false => *cells.draw_key().bytes().first_chunk().expect("a cell is longer than a nonce"),
        };
        let (place, bytes) = self.writer.append(entries, &mut nonce);
        assert_eq!(place.extent.start.0, end, "sectors of the log lie side by side");
        self.tail.extend(bytes);
    }

    /// The sectors from this one on that may not be durable.
    fn since(&self, sector: u32) -> Write {
        let sector = sector.max(self.durable);
        let bytes = &self.tail[((sector - self.durable) as usize) * SECTOR_BYTES as usize..];
        let extent = Extent::new(self.place(sector).0, bytes.len() as u64);
        (Place { on: MediumId::Map, extent }, bytes.to_vec())
    }

    fn settle(&mut self, sectors: u32) {
        assert!(sectors <= self.writer.sectors(), "sectors are durable once they were written");
        if sectors > self.durable {
            self.tail.drain(..((sectors - self.durable) as usize) * SECTOR_BYTES as usize);
            self.durable = sectors;
        }
    }

    fn place(&self, sector: u32) -> Pos {
        Pos(self.at.0 + u64::from(sector) * SECTOR_BYTES)
    }
}
