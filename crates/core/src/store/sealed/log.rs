//! The log of cells that blocks got since the last purge.
//!
//! The format: `docs/formats/keytree.md`. A half of the log lies under a cell that the top page names, and ends with the purge that replaces
//! that page. Each sector has the tag of the one before, so that a sector of an attempt that a crash cut short never follows a later one.

use crate::base::cell::{CELL_BYTES, Cell};
use crate::base::fields::Fields;
use crate::base::memory::wipe;
use crate::base::units::Extent;
use crate::media::MediumId;
use crate::media::place::Place;
use crate::store::sealed::aead::{NONCE_BYTES, Seal, TAG_BYTES};
use crate::store::sealed::layout::{LOG_SECTORS, Layout, SECTOR_BYTES};

const MAGIC: [u8; 8] = *b"QKEYLOG1";
/// Number of entries in a sector.
pub(super) const SECTOR_ENTRIES: usize = 12;
/// Bytes of the number of a block.
const BLOCK_NUMBER_BYTES: usize = 5;
/// Bytes of an entry.
const ENTRY_BYTES: usize = BLOCK_NUMBER_BYTES + 1 + 2 + CELL_BYTES;
/// Bytes of a sector before its ciphertext.
const HEAD_BYTES: usize = NONCE_BYTES + TAG_BYTES;
/// Number of entries that a half of the log is meant for.
pub(super) const ENTRIES_MAX: u64 = 65_536;

const _: () = assert!(HEAD_BYTES + 4 + SECTOR_ENTRIES * ENTRY_BYTES == SECTOR_BYTES as usize);
const _: () = assert!(ENTRIES_MAX <= LOG_SECTORS as u64 * SECTOR_ENTRIES as u64);

/// What an entry says of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryKind {
    /// The blocks lie under these cells.
    Active,
    /// Copies of the blocks lie under these cells in the journal, if the journal says so.
    Prepared,
}

/// Consecutive blocks that got cells together. Later entries replace earlier ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LogEntry {
    /// The number of the first block.
    pub(super) first: u64,
    /// Number of blocks, at least one.
    pub(super) count: u16,
    pub(super) kind: EntryKind,
    /// The cell of block b is child b mod 65,536 of this one: so a part of the blocks has the same seed, and an entry of its own.
    pub(super) seed: Cell,
}

/// The end of one half of the log.
#[derive(Clone, Debug)]
pub(super) struct LogWriter {
    cell: Cell,
    layout: Layout,
    purge: u32,
    /// Number of sectors that the half has.
    sectors: u32,
    /// The tag of the last one; zeros before the first.
    tag: [u8; TAG_BYTES],
}

impl LogWriter {
    /// An empty half: that of `purge`, whose top page names `cell`.
    pub(super) fn new(cell: Cell, layout: &Layout, purge: u32) -> Self {
        Self { cell, layout: *layout, purge, sectors: 0, tag: [0; TAG_BYTES] }
    }

    /// Number of sectors that the half has.
    pub(super) fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Number of entries that one [`append`](LogWriter::append) can still take. Each begins with a sector of its own.
    pub(super) fn room(&self) -> u64 {
        let free = u64::from(LOG_SECTORS - self.sectors) * SECTOR_ENTRIES as u64;
        free.min(ENTRIES_MAX)
    }

    /// Where the next sectors go, and their bytes: whole sectors, side by side. `nonces` draws a nonce for each.
    ///
    /// # Panics
    /// If there is no entry, there are more than [`room`](LogWriter::room) says, or one has no block of the disk.
    pub(super) fn append(
        &mut self,
        entries: &[LogEntry],
        nonces: &mut impl FnMut() -> [u8; NONCE_BYTES],
    ) -> (Place, Vec<u8>) {
        assert!(!entries.is_empty(), "sectors have entries");
        assert!(entries.len() as u64 <= self.room(), "a half of the log has {LOG_SECTORS} sectors");
        let half = self.layout.log_half((self.purge % 2) as u8);
        let at = half.start.0 + u64::from(self.sectors) * SECTOR_BYTES;
        let bytes: Vec<u8> =
            entries.chunks(SECTOR_ENTRIES).flat_map(|entries| self.seal(entries, nonces())).collect();
        let extent = Extent::new(at, bytes.len() as u64);
        assert!(extent.end() <= half.end(), "the log stays in its half");
        (Place { on: MediumId::Map, extent }, bytes)
    }

    fn seal(&mut self, entries: &[LogEntry], nonce: [u8; NONCE_BYTES]) -> [u8; SECTOR_BYTES as usize] {
        let mut bytes = [0; SECTOR_BYTES as usize];
        let (head, content) = bytes.split_at_mut(HEAD_BYTES);
        let (number, places) = content.split_at_mut(4);
        number.copy_from_slice(&self.sectors.to_le_bytes());
        for (entry, place) in entries.iter().zip(places.chunks_exact_mut(ENTRY_BYTES)) {
            entry.write(&self.layout, place);
        }
        let associated = self.associated();
        let tag = Seal { cell: &self.cell, nonce, associated: &associated }.seal(content);
        head[..NONCE_BYTES].copy_from_slice(&nonce);
        head[NONCE_BYTES..].copy_from_slice(&tag);
        self.sectors += 1;
        self.tag = tag;
        bytes
    }

    /// The entries of the sector in these bytes, if that is the next one; the half has it then.
    fn open(&mut self, bytes: &[u8]) -> Option<Vec<LogEntry>> {
        let mut fields = Fields(bytes);
        let (nonce, tag) = (fields.array()?, fields.array()?);
        let mut content = fields.0.to_vec();
        let associated = self.associated();
        let is_next = Seal { cell: &self.cell, nonce, associated: &associated }.open(tag, &mut content);
        let entries = if is_next { self.entries(&content) } else { None };
        wipe(&mut content);
        let entries = entries?;
        self.sectors += 1;
        self.tag = tag;
        Some(entries)
    }

    fn entries(&self, content: &[u8]) -> Option<Vec<LogEntry>> {
        let mut fields = Fields(content);
        let number = fields.u32()?;
        let places = fields.0.chunks_exact(ENTRY_BYTES).filter(|place| place[BLOCK_NUMBER_BYTES] != NO_ENTRY);
        let entries = places.map(|place| LogEntry::read(&self.layout, place)).collect::<Option<_>>()?;
        (number == self.sectors).then_some(entries)
    }

    /// What the tag of the next sector covers beside its content.
    fn associated(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.layout.disk());
        bytes[24..28].copy_from_slice(&self.purge.to_le_bytes());
        bytes[28..].copy_from_slice(&self.tag);
        bytes
    }
}

/// The kind of a place without an entry.
const NO_ENTRY: u8 = 0;

impl LogEntry {
    fn write(&self, layout: &Layout, into: &mut [u8]) {
        let end = self.first.checked_add(u64::from(self.count));
        assert!(
            self.count > 0 && end.is_some_and(|end| end <= layout.blocks()),
            "{self:?} has blocks of the disk"
        );
        into[..BLOCK_NUMBER_BYTES].copy_from_slice(&self.first.to_le_bytes()[..BLOCK_NUMBER_BYTES]);
        into[BLOCK_NUMBER_BYTES] = match self.kind {
            EntryKind::Active => 1,
            EntryKind::Prepared => 2,
        };
        into[BLOCK_NUMBER_BYTES + 1..][..2].copy_from_slice(&self.count.to_le_bytes());
        into[BLOCK_NUMBER_BYTES + 3..].copy_from_slice(self.seed.bytes());
    }

    /// The entry in these bytes; `None` if its kind is unknown, or not all of its blocks are the disk's.
    fn read(layout: &Layout, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let mut first = [0; 8];
        first[..BLOCK_NUMBER_BYTES].copy_from_slice(&fields.array::<BLOCK_NUMBER_BYTES>()?);
        let first = u64::from_le_bytes(first);
        let kind = match fields.array()? {
            [1] => EntryKind::Active,
            [2] => EntryKind::Prepared,
            _ => return None,
        };
        let count =
            fields.u16().filter(|count| *count > 0 && first + u64::from(*count) <= layout.blocks())?;
        Some(Self { first, count, kind, seed: Cell::from_bytes(fields.0)? })
    }
}

/// The entries of the half of `purge`, in order, and its end: at the first sector that does not open.
pub(super) fn replay(half: &[u8], cell: &Cell, layout: &Layout, purge: u32) -> (Vec<LogEntry>, LogWriter) {
    let mut writer = LogWriter::new(cell.clone(), layout, purge);
    let sectors = half.chunks_exact(SECTOR_BYTES as usize).take(LOG_SECTORS as usize);
    let mut entries = Vec::new();
    for sector in sectors {
        match writer.open(sector) {
            Some(more) => entries.extend(more),
            None => break,
        }
    }
    (entries, writer)
}

#[cfg(test)]
mod tests {
    use crate::store::sealed::log::*;

    const DISK: [u8; 16] = [5; 16];
    const SIZE: u64 = 1 << 30;
    const PURGE: u32 = 7;

    fn layout() -> Layout {
        Layout::new(DISK, SIZE)
    }

    fn cell(n: u8) -> Cell {
        Cell::from_bytes(&[n; 32]).expect("a cell")
    }

    fn writer() -> LogWriter {
        LogWriter::new(cell(9), &layout(), PURGE)
    }

    fn replayed(half: &[u8]) -> (Vec<LogEntry>, LogWriter) {
        replay(half, &cell(9), &layout(), PURGE)
    }

    /// Nonces that do not repeat.
    fn nonces(first: u32) -> impl FnMut() -> [u8; NONCE_BYTES] {
        let mut next = first;
        move || {
            next += 1;
            let mut nonce = [0; NONCE_BYTES];
            nonce[..4].copy_from_slice(&next.to_le_bytes());
            nonce
        }
    }

    fn entries(numbers: std::ops::Range<u64>) -> Vec<LogEntry> {
        let kind = |n: u64| if n.is_multiple_of(3) { EntryKind::Prepared } else { EntryKind::Active };
        let entry =
            |n| LogEntry { first: n * 7, count: 1 + (n % 7) as u16, kind: kind(n), seed: cell(n as u8) };
        numbers.map(entry).collect()
    }

    /// A half with such entries, in two appends, and how many sectors those are.
    fn half() -> (Vec<u8>, LogWriter) {
        let (mut writer, mut nonces) = (writer(), nonces(0));
        let mut half = writer.append(&entries(0..25), &mut nonces).1;
        half.extend(writer.append(&entries(25..26), &mut nonces).1);
        (half, writer)
    }

    #[test]
    fn entries_are_replayed_in_order_and_the_log_goes_on_behind_them() {
        let (mut writer, mut nonces) = (writer(), nonces(0));
        let (place, mut bytes) = writer.append(&entries(0..25), &mut nonces);
        let half = layout().log_half(1);
        assert_eq!(place, Place { on: MediumId::Map, extent: Extent::new(half.start.0, 3 * 512) });
        let (place, more) = writer.append(&entries(25..26), &mut nonces);
        assert_eq!(place.extent, Extent::new(half.start.0 + 3 * 512, 512), "entries begin with a sector");
        assert_eq!((writer.sectors(), writer.room()), (4, (5464 - 4) * 12));
        bytes.extend(more);
        bytes.resize(bytes.len() + 4096, 0);
        let (found, mut end) = replayed(&bytes);
        assert_eq!(found, entries(0..26));
        let next = |end: &mut LogWriter| end.append(&entries(30..31), &mut || [7; NONCE_BYTES]);
        assert_eq!(next(&mut writer), next(&mut end), "both ends are the same");
    }

    #[test]
    fn each_flipped_bit_of_a_sector_ends_the_log_there() {
        let (mut half, _) = half();
        for at in 8 * 512..16 * 512 {
            half[at / 8] ^= 1 << (at % 8);
            let (found, end) = replayed(&half);
            assert_eq!((found.len(), end.sectors()), (12, 1), "bit {at}");
            half[at / 8] ^= 1 << (at % 8);
        }
        assert_eq!(replayed(&half).1.sectors(), 4);
    }

    #[test]
    fn a_half_is_replayed_for_its_cell_disk_and_purge_alone() {
        let (half, _) = half();
        let sectors = |cell, disk, purge| replay(&half, &cell, &Layout::new(disk, SIZE), purge).1.sectors();
        assert_eq!(sectors(cell(9), DISK, PURGE), 4);
        assert_eq!(sectors(cell(8), DISK, PURGE), 0);
        assert_eq!(sectors(cell(9), [6; 16], PURGE), 0);
        assert_eq!(sectors(cell(9), DISK, PURGE + 2), 0);
    }

    #[test]
    fn a_sector_that_a_crash_left_behind_is_not_replayed_after_a_later_one() {
        let (old, _) = half();
        // The crash lost sector 1. Sectors 2 and 3 are whole.
        let mut cut = old.clone();
        cut[512..1024].fill(0);
        let (found, mut end) = replayed(&cut);
        assert_eq!((found, end.sectors()), (entries(0..12), 1));
        let bytes = end.append(&entries(50..51), &mut nonces(100)).1;
        cut[512..1024].copy_from_slice(&bytes);
        let (found, end) = replayed(&cut);
        assert_eq!(found, [entries(0..12), entries(50..51)].concat());
        assert_eq!(end.sectors(), 2);
    }

    #[test]
    fn a_sector_counts_in_its_place_alone() {
        let (half, _) = half();
        let sector = |n: usize| &half[512 * n..][..512];
        for order in [[1, 0], [0, 0], [0, 2], [2, 3]] {
            let sectors = replayed(&order.map(sector).concat()).1.sectors();
            assert_eq!(sectors, u32::from(order[0] == 0), "{order:?}");
        }
    }

    #[test]
    fn a_log_of_a_larger_disk_ends_where_it_names_blocks_that_this_one_does_not_have() {
        let large = Layout::new(DISK, SIZE + 4096);
        let (mut writer, mut nonces) = (LogWriter::new(cell(9), &large, PURGE), nonces(0));
        let last = LogEntry { first: SIZE / 4096 - 1, count: 1, kind: EntryKind::Active, seed: cell(1) };
        let mut half = writer.append(std::slice::from_ref(&last), &mut nonces).1;
        half.extend(writer.append(&[LogEntry { count: 2, ..last.clone() }], &mut nonces).1);
        assert_eq!(replay(&half, &cell(9), &large, PURGE).1.sectors(), 2);
        assert_eq!(replayed(&half).0, [last]);
    }

    #[test]
    fn an_entry_of_an_unknown_kind_or_without_blocks_is_none() {
        let mut bytes = [0; ENTRY_BYTES];
        entries(4..5)[0].write(&layout(), &mut bytes);
        assert_eq!(bytes[..8], [28, 0, 0, 0, 0, 1, 5, 0]);
        let read = |at: usize, value| {
            let mut bytes = bytes;
            bytes[at] = value;
            LogEntry::read(&layout(), &bytes)
        };
        assert_eq!(read(0, 28), Some(entries(4..5).remove(0)));
        assert_eq!((read(5, 3), read(5, 0xff), read(6, 0), read(4, 1)), (None, None, None, None));
    }

    #[test]
    fn a_full_half_takes_no_entry_more_and_is_replayed_as_a_whole() {
        let (mut writer, mut nonces, mut half) = (writer(), nonces(0), Vec::new());
        assert_eq!(writer.room(), ENTRIES_MAX);
        let many: Vec<LogEntry> = entries(0..12).into_iter().cycle().take(5460 * 12).collect();
        half.extend(writer.append(&many, &mut nonces).1);
        assert_eq!(writer.room(), 48);
        half.extend(writer.append(&entries(0..37), &mut nonces).1);
        assert_eq!((writer.room(), half.len() as u64), (0, layout().log_half(0).len));
        let behind = half[..512].to_vec();
        half.extend(behind);
        let (found, end) = replayed(&half);
        assert_eq!((found.len(), end.sectors(), end.room()), (5460 * 12 + 37, 5464, 0));
    }

    #[test]
    #[should_panic(expected = "has 5464 sectors")]
    fn a_half_never_grows_into_the_other() {
        let mut writer = LogWriter { sectors: 5463, ..writer() };
        let _ = writer.append(&entries(0..13), &mut nonces(0));
    }

    #[test]
    fn any_bytes_are_replayed_as_far_as_they_open() {
        let (half, _) = half();
        for len in 0..half.len() {
            assert_eq!(replayed(&half[..len]).1.sectors() as usize, len / 512);
        }
        for fill in [0, 1, 0x7f, 0xff] {
            assert!(replayed(&vec![fill; 4096]).0.is_empty());
        }
    }
}
