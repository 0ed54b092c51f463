//! The stub medium: a head, two halves of a log, and a home for the stub of each slot.
//!
//! The format: `docs/formats/stubs.md`. What makes a version readable is its stub. A stub is first appended to the
//! current half of the log, together with all that a commit has; the checkpoint gives it its home, and the
//! half that is not needed any more is destroyed as a whole. (*Secure Deletion for a Versioning File System*,
//! section 4.3, wishes for such a journal.)

pub(super) mod homes;
pub(super) mod log;
pub(super) mod root;
pub(super) mod sessions;
use crate::base::fields::Fields;
use crate::base::mend::one_byte;
use crate::base::units::{Block, Epoch, Extent, Pos, Session, Slot};
use crate::base::zeros::is_zeros;
use crate::media::medium::{Medium, MediumError};
use crate::store::label;
use crate::store::label::{LABEL_BYTES, Wrong};
use crate::store::versions::index::key::{NUMBER, number, pack};
use std::ops::Range;

pub(super) const MAGIC: [u8; 8] = *b"QUIETSTB";
/// Bytes that a medium writes as a whole.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Bytes of a sector before its entries.
const SECTOR_HEAD_BYTES: usize = 32;
/// Bytes of an entry before its stub.
const RECORD_BYTES: usize = 16;
/// Bytes of a page of homes, and of the head.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of a number of sectors.
const SEQUENCE_BYTES: usize = 6;

/// Why the stub medium cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StubsError {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The head is no head, or damaged.
    #[error(
        "the stub medium has no valid head at offset 0; without the stubs nothing on this disk can be read: restore \
         the stub medium"
    )]
    Head,
    /// The stubs belong to another disk.
    #[error(
        "the stub medium is that of another disk, {found:032x}; use the one that was made with this disk"
    )]
    OtherDisk {
        /// The uuid of that disk.
        found: u128,
    },
    /// The log does not end where the last clean stop left it.
    #[error(
        "byte {}: the log of stubs ends at sector {found}, and the last stop left it at {stopped}: the stub medium is \
         not of the same time as the disk's directory, or the log is damaged. A start that writes would lose what came \
         after: restore the stub medium, or directory, index, stubs, root and data together; `--read-only` shows what \
         is there",
        at.0
    )]
    OtherTime {
        /// Where the next sector was looked for.
        at: Pos,
        /// The number of the last sector that fits.
        found: u64,
        /// The number of the last sector at the stop.
        stopped: u64,
    },
}

/// The first bytes of the stub medium of a new disk.
#[must_use]
pub fn format_stubs(disk: [u8; 16]) -> Vec<u8> {
    label::to_bytes(MAGIC, disk)
}

/// Whether a sector is the head of a stub medium of `disk`, and nothing else.
pub(super) fn is_head(sector: &[u8], disk: [u8; 16]) -> bool {
    let rest = sector.strip_prefix(&format_stubs(disk)[..]);
    rest.is_some_and(is_zeros)
}

/// Some bytes of a medium.
pub(super) fn bytes_at(medium: &dyn Medium, at: Pos, len: usize) -> Result<Vec<u8>, MediumError> {
    let mut bytes = vec![0; len];
    medium.read(at, &mut bytes).map(|()| bytes)
}

/// Checks that the stub medium is that of `disk`.
pub(super) fn check_medium(stubs: &dyn Medium, disk: [u8; 16]) -> Result<(), StubsError> {
    label::check(&bytes_at(stubs, Pos(0), LABEL_BYTES)?, MAGIC, disk).map_err(|wrong| match wrong {
        Wrong::Label => StubsError::Head,
        Wrong::OtherDisk(found) => StubsError::OtherDisk { found },
    })
}

/// Where things lie on the stub medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a stub: 0, 16, 32 or 64.
    pub stub_bytes: usize,
    /// Bytes of a half of the log.
    pub half_bytes: u64,
}

/// A page of homes, by its number: all stubs of one cluster of slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct HomePage(pub(super) u64);

impl Layout {
    /// The layout for stubs of so many bytes whose halves of the log have room for so many versions.
    #[must_use]
    pub fn with_room_for(versions: u64, stub_bytes: usize) -> Self {
        let sectors = versions.div_ceil(Self { stub_bytes, half_bytes: 0 }.per_sector() as u64);
        let layout = Self { stub_bytes, half_bytes: (sectors * SECTOR_BYTES).next_multiple_of(PAGE_BYTES) };
        let room = layout.half_bytes / SECTOR_BYTES * layout.per_sector() as u64;
        assert!(room >= versions, "a half has room for the versions");
        layout
    }

    fn entry_bytes(self) -> usize {
        RECORD_BYTES + self.stub_bytes
    }

    /// Entries in a sector.
    pub(super) fn per_sector(self) -> usize {
        (SECTOR_BYTES as usize - SECTOR_HEAD_BYTES) / self.entry_bytes()
    }

    /// Homes in a page.
    pub(super) fn per_page(self) -> u64 {
        PAGE_BYTES / SECTOR_BYTES * self.per_sector() as u64
    }

    /// Slots in a cluster: those with a home in a page; in half a page where there are no stubs, and homes are small.
    pub(super) fn cluster_slots(self) -> u64 {
        if self.stub_bytes == 0 { self.per_page() / 2 } else { self.per_page() }
    }

    /// A half of the log.
    #[must_use]
    pub fn half(self, half: u8) -> Extent<Pos> {
        assert!(half < 2, "the log has two halves");
        Extent::new(PAGE_BYTES + u64::from(half) * self.half_bytes, self.half_bytes)
    }

    /// The stub of entry `n` of the sector at `sector`.
    pub(super) fn stub_in_sector(self, sector: Pos, n: usize) -> Extent<Pos> {
        assert!(n < self.per_sector(), "the entry is in its sector");
        let at = sector.0 as usize + SECTOR_HEAD_BYTES + n * self.entry_bytes() + RECORD_BYTES;
        Extent::new(at as u64, self.stub_bytes as u64)
    }

    /// The home of a slot's entry: its record, then its stub.
    #[must_use]
    pub fn home(self, slot: Slot) -> Extent<Pos> {
        let (sector, entry) = (slot.0 / self.per_sector() as u64, slot.0 % self.per_sector() as u64);
        let at = self.homes().0
            + sector * SECTOR_BYTES
            + SECTOR_HEAD_BYTES as u64
            + entry * self.entry_bytes() as u64;
        let home = Extent::<Pos>::new(at, self.entry_bytes() as u64);
        assert_eq!(home.overlap(self.page(self.page_of(slot))), Some(home), "a home lies in its page");
        home
    }

    /// Where the homes begin.
    pub(super) fn homes(self) -> Pos {
        Pos(self.half(1).end())
    }

    /// The page that has the home of a slot.
    pub(super) fn page_of(self, slot: Slot) -> HomePage {
        HomePage(slot.0 / self.per_page())
    }

    /// The slots whose homes are in a page.
    pub(super) fn slots_of(self, page: HomePage) -> Range<Slot> {
        Slot(page.0 * self.per_page())..Slot((page.0 + 1) * self.per_page())
    }

    /// The bytes of a page of homes.
    pub(super) fn page(self, page: HomePage) -> Extent<Pos> {
        Extent::new(self.homes().0 + page.0 * PAGE_BYTES, PAGE_BYTES)
    }

    /// The slots whose homes are in the sector at `sector`, and these homes.
    pub(super) fn homes_in(self, sector: Pos) -> impl Iterator<Item = (Slot, Extent<Pos>)> {
        assert!(sector >= self.homes(), "homes lie behind the log");
        let first = (sector.0 - self.homes().0) / SECTOR_BYTES * self.per_sector() as u64;
        (first..first + self.per_sector() as u64).map(move |slot| (Slot(slot), self.home(Slot(slot))))
    }

    /// The stub in a home.
    pub(super) fn stub_in_home(self, home: Extent<Pos>) -> Extent<Pos> {
        Extent::between(home.start.0 + RECORD_BYTES as u64, home.end())
    }
}

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// A version of `block` lies in `slot`. `number` is that of its sealing, and the stub is what was sealed.
    Version { block: Block, slot: Slot, number: u32, stub: Vec<u8> },
    /// So many blocks from this one on were freed.
    Freed { block: Block, blocks: u64 },
    /// The epoch of the sector ended: when, in milliseconds since 1970.
    Closed { when: u64 },
}

/// The tags of the entries.
const VERSION: u8 = 1;
const FREED: u8 = 2;
const CLOSED: u8 = 3;

/// A sector of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sector {
    /// One more than that of the sector before, over both halves.
    pub(super) sequence: u64,
    /// The epoch that all entries belong to.
    pub(super) epoch: Epoch,
    /// The opening of the disk that sealed the stubs.
    pub(super) session: Session,
    /// All sectors up to this number were durable when this one was made.
    pub(super) after: u64,
    /// The mark of the root's cell under which the stubs are hidden.
    pub(super) check: u64,
    pub(super) entries: Vec<Entry>,
}

impl Layout {
    /// The bytes of a sector.
    ///
    /// # Panics
    /// If the entries do not fit into a sector, or a stub has another length.
    pub(super) fn sector_bytes(self, sector: &Sector) -> Vec<u8> {
        assert!((1..=self.per_sector()).contains(&sector.entries.len()), "the entries fit into a sector");
        assert!(sector.after < sector.sequence, "a sector follows those that were durable");
        let mut bytes = vec![0; 4];
        bytes.extend(&sector.sequence.to_le_bytes()[..SEQUENCE_BYTES]);
        bytes.extend(pack::<NUMBER>(&[sector.epoch.0]));
        bytes.extend(sector.session.0.to_le_bytes());
        bytes.push(sector.entries.len() as u8);
        bytes.extend(sector.check.to_le_bytes());
        bytes.extend(&sector.after.to_le_bytes()[..SEQUENCE_BYTES]);
        assert!(bytes.len() == SECTOR_HEAD_BYTES, "the head has its length");
        for entry in &sector.entries {
            let (record, stub) = record(entry);
            assert!(stub.is_empty() || stub.len() == self.stub_bytes, "a stub has its length");
            bytes.extend(record);
            bytes.extend(stub);
            bytes.resize(bytes.len() + self.stub_bytes - stub.len(), 0);
        }
        assert!(bytes.len() as u64 <= SECTOR_BYTES, "a sector holds all of its entries");
        bytes.resize(SECTOR_BYTES as usize, 0);
        let crc = self.checksum(&bytes).to_le_bytes();
        bytes[..4].copy_from_slice(&crc);
        bytes
    }

    /// The bytes that the checksum is of, and where each of them lies in the sector.
    fn checked(self, bytes: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let entries = (SECTOR_HEAD_BYTES..=bytes.len() - self.entry_bytes()).step_by(self.entry_bytes());
        let places: Vec<usize> =
            (4..SECTOR_HEAD_BYTES).chain(entries.flat_map(|at| at..at + RECORD_BYTES)).collect();
        (places.iter().map(|at| bytes[*at]).collect(), places)
    }

    /// The bytes of a sector of which one is wrong, as they should be.
    pub(super) fn mended_sector(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (checked, places) = self.checked(bytes);
        let (mended, crc) = one_byte(&checked, u32::from_le_bytes(*bytes.first_chunk()?))?;
        let mut bytes = bytes.to_vec();
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        places.into_iter().zip(mended).for_each(|(at, byte)| bytes[at] = byte);
        assert_eq!(self.checksum(&bytes), crc, "a mended sector fits its checksum");
        Some(bytes)
    }

    /// The CRC-32C of head and records. The stubs are not part of it, so that each can be destroyed alone.
    fn checksum(self, bytes: &[u8]) -> u32 {
        let head = crc32c::crc32c(&bytes[4..SECTOR_HEAD_BYTES]);
        let entries = bytes[SECTOR_HEAD_BYTES..].chunks_exact(self.entry_bytes());
        entries.fold(head, |crc, entry| crc32c::crc32c_append(crc, &entry[..RECORD_BYTES]))
    }

    /// The sector in these bytes; `None` if they are not a whole one.
    pub(super) fn parse_sector(self, bytes: &[u8]) -> Option<Sector> {
        let (head, mut rest) = bytes.get(..SECTOR_BYTES as usize)?.split_at(SECTOR_HEAD_BYTES);
        let mut fields = Fields(head);
        if fields.u32()? != self.checksum(bytes) {
            return None;
        }
        let sequence = sequence_of(fields.array()?);
        let epoch = Epoch(number(&fields.array::<NUMBER>()?, 0));
        let session = Session(fields.u16()?);
        let [count] = fields.array()?;
        let (check, after) = (fields.u64()?, sequence_of(fields.array()?));
        let mut entries = Vec::new();
        for _ in 0..count {
            let (entry, others) = rest.split_at_checked(self.entry_bytes())?;
            let (record, stub) = entry.split_at(RECORD_BYTES);
            entries.push(parse(record, stub)?);
            rest = others;
        }
        (sequence > 0 && !entries.is_empty()).then_some(Sector {
            sequence,
            epoch,
            session,
            after,
            check,
            entries,
        })
    }
}

fn sequence_of(bytes: [u8; SEQUENCE_BYTES]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn record(entry: &Entry) -> ([u8; RECORD_BYTES], &[u8]) {
    let mut record = [0; RECORD_BYTES];
    let (tag, numbers, last, stub): (u8, [u8; 2 * NUMBER], u32, &[u8]) = match entry {
        Entry::Version { block, slot, number, stub } => (VERSION, pack(&[block.0, slot.0]), *number, stub),
        Entry::Freed { block, blocks } => (FREED, pack(&[block.0, *blocks]), 0, &[]),
        Entry::Closed { when } => {
            let mut numbers = [0; 2 * NUMBER];
            numbers[..8].copy_from_slice(&when.to_be_bytes());
            (CLOSED, numbers, 0, &[])
        }
    };
    record[0] = tag;
    record[1..=2 * NUMBER].copy_from_slice(&numbers);
    record[2 * NUMBER + 1..][..4].copy_from_slice(&last.to_le_bytes());
    (record, stub)
}

fn parse(record: &[u8], stub: &[u8]) -> Option<Entry> {
    let (tag, rest) = record.split_first()?;
    let (first, second) = (number(rest, 0), number(rest, 1));
    let last = Fields(&rest[2 * NUMBER..]).u32()?;
    match *tag {
        VERSION => {
            let (block, slot) = (Block(first), Slot(second));
            Some(Entry::Version { block, slot, number: last, stub: stub.to_vec() })
        }
        FREED => Some(Entry::Freed { block: Block(first), blocks: second }),
        CLOSED => Some(Entry::Closed { when: u64::from_be_bytes(*rest.first_chunk()?) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [(usize, u64); 4] = [(0, 240), (16, 120), (32, 80), (64, 48)];

    fn layout(stub_bytes: usize) -> Layout {
        Layout { stub_bytes, half_bytes: 1 << 20 }
    }

    fn sector(layout: Layout) -> Sector {
        let version = |n: u8| Entry::Version {
            block: Block(u64::from(n) << 33),
            slot: Slot(77 + u64::from(n)),
            number: u32::MAX - u32::from(n),
            stub: vec![n + 1; layout.stub_bytes],
        };
        let mut entries: Vec<_> = (0..layout.per_sector() as u8 - 2).map(version).collect();
        entries.push(Entry::Freed { block: Block(5), blocks: 1 << 30 });
        entries.push(Entry::Closed { when: 1_795_363_200_123 });
        Sector {
            sequence: (1 << 48) - 2,
            epoch: Epoch(1 << 39),
            session: Session(40_000),
            after: (1 << 47) + 3,
            check: u64::MAX - 5,
            entries,
        }
    }

    #[test]
    fn a_sector_is_read_as_it_was_written_and_a_flip_outside_the_stubs_is_seen() {
        for (stub_bytes, per_page) in LAYOUTS {
            let layout = layout(stub_bytes);
            assert_eq!(layout.per_page(), per_page);
            assert!(layout.cluster_slots() <= 128 && per_page.is_multiple_of(layout.cluster_slots()));
            let sector = sector(layout);
            let bytes = layout.sector_bytes(&sector);
            assert_eq!((bytes.len(), layout.parse_sector(&bytes)), (512, Some(sector)));
            for at in 0..SECTOR_HEAD_BYTES + layout.per_sector() * layout.entry_bytes() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x10;
                let in_entry = at.checked_sub(SECTOR_HEAD_BYTES).map(|at| at % layout.entry_bytes());
                let is_stub = in_entry.is_some_and(|at| at >= RECORD_BYTES);
                assert_eq!(layout.parse_sector(&flipped).is_some(), is_stub, "byte {at}");
            }
        }
    }

    #[test]
    fn zeros_and_short_bytes_are_no_sector() {
        let layout = layout(64);
        assert_eq!(layout.parse_sector(&[0; 512]), None);
        assert_eq!(layout.parse_sector(&layout.sector_bytes(&sector(layout))[..511]), None);
    }

    #[test]
    fn homes_follow_the_log_and_none_overlaps_another_or_the_end_of_a_sector() {
        for (stub_bytes, per_page) in LAYOUTS {
            let layout = layout(stub_bytes);
            let homes: Vec<_> = (0..2 * per_page).map(|slot| layout.home(Slot(slot))).collect();
            assert!(homes[0].start.0 >= layout.half(1).end());
            assert!(homes.windows(2).all(|pair| pair[0].end() <= pair[1].start.0));
            assert!(homes.iter().all(|home| home.start.0 / 512 == (home.end() - 1) / 512));
            assert_eq!(homes[per_page as usize].start.0 / 4096, homes[0].start.0 / 4096 + 1);
        }
    }
}
