//! The bytes of the journal's head and frames; all numbers little-endian.

use super::{Change, Crc, HALVES_AT, SECTOR_BYTES, Shape, Slot, VERSION};
use crate::ledger::{COUNTERS, Cause, Counters, Due};
use crate::receipts::{Done, LogHead, Receipt};
use crate::units::{Addr, Extent};

const HEAD_MAGIC: &[u8; 8] = b"QUIETJNL";
const FRAME_MAGIC: &[u8; 4] = b"QFRM";
const MARK_MAGIC: &[u8; 8] = b"QUIETOLD";
const FRAME_HEAD_BYTES: usize = 32 + 8 * COUNTERS + LOG_HEAD_BYTES + 4;
const LOG_HEAD_BYTES: usize = 8 + 32;
/// Bytes of one change in a frame.
pub(super) const CHANGE_BYTES: u64 = 32;

/// The first sector of a journal; written once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// How large the journal is.
    pub shape: Shape,
    /// The disk that it belongs to.
    pub disk: [u8; 16],
}

impl Head {
    /// Its bytes: [`HALVES_AT`] of them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = HEAD_MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.shape.slots.to_le_bytes());
        bytes.extend(self.shape.half_bytes.to_le_bytes());
        bytes.extend(self.disk);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(HALVES_AT as usize, 0);
        bytes
    }

    /// From its bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HeadError> {
        let mut fields = Fields(bytes);
        let head = (|| {
            let magic = fields.array::<8>()?;
            let version = fields.u32()?;
            let slots = fields.u32()?;
            let half_bytes = fields.u64()?;
            let disk = fields.array::<16>()?;
            Some((magic, version, Self { shape: Shape { half_bytes, slots }, disk }))
        })();
        let crc = fields.u32();
        let (magic, version, head) = head.ok_or(HeadError::Damaged)?;
        if &magic != HEAD_MAGIC {
            return Err(HeadError::Damaged);
        }
        if version != VERSION {
            return Err(HeadError::Version(version));
        }
        if crc != Some(crc32c::crc32c(&bytes[..40])) || !head.shape.is_sane() {
            return Err(HeadError::Damaged);
        }
        Ok(head)
    }
}

/// Why a head cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// It is no head, or a bit of it flipped.
    Damaged,
    /// It is of another version.
    Version(u32),
}

impl Shape {
    /// Whether sizes are whole sectors, and small enough to be read into memory.
    fn is_sane(self) -> bool {
        self.half_bytes.is_multiple_of(SECTOR_BYTES)
            && (16 * SECTOR_BYTES..=1 << 30).contains(&self.half_bytes)
            && (1..=1 << 16).contains(&self.slots)
            && self.entries_max() > 0
    }
}

/// The mark in a half of `generation` whose successor is durable.
pub(super) fn mark(generation: u64) -> Vec<u8> {
    let mut bytes = MARK_MAGIC.to_vec();
    bytes.extend(generation.to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.resize(SECTOR_BYTES as usize, 0);
    bytes
}

/// One commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// A snapshot or a delta.
    pub kind: FrameKind,
    /// Of the half: one more at each snapshot.
    pub generation: u64,
    /// Its number: one more at each commit.
    pub seq: u64,
    /// The figures as of this commit.
    pub counters: Counters,
    /// The end of the audit log as of this commit.
    pub log: LogHead,
    /// What changed, in order.
    pub changes: Vec<Change>,
}

/// The kinds of [`Frame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// All that there is.
    Snapshot = 1,
    /// What changed since the frame before.
    Delta = 2,
}

impl Frame {
    /// Its bytes, padded to whole sectors.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FRAME_MAGIC.to_vec();
        bytes.extend((self.kind as u32).to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.seq.to_le_bytes());
        bytes.extend((self.changes.len() as u64).to_le_bytes());
        bytes.extend(self.counters.to_array().iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(self.log.lines.to_le_bytes());
        bytes.extend(self.log.hash);
        let crc_at = bytes.len();
        bytes.extend([0; 4]);
        for change in &self.changes {
            put_change(&mut bytes, *change);
        }
        let crc = crc32c::crc32c(&bytes);
        bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        bytes
    }

    /// How many bytes the frame takes that may begin with `sector`.
    pub(super) fn bytes(sector: &[u8]) -> Option<u64> {
        let mut fields = Fields(sector.strip_prefix(FRAME_MAGIC)?);
        let (_kind, _generation, _seq, count) = (fields.u32()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let len = count.checked_mul(CHANGE_BYTES)?.checked_add(FRAME_HEAD_BYTES as u64)?;
        len.checked_next_multiple_of(SECTOR_BYTES)
    }

    /// The frame at the start of `bytes`, and how many bytes it takes, if one
    /// is there whole.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, u64)> {
        let whole = Self::bytes(bytes)?;
        let mut fields = Fields(&bytes[FRAME_MAGIC.len()..]);
        let kind = match fields.u32()? {
            1 => FrameKind::Snapshot,
            2 => FrameKind::Delta,
            _ => return None,
        };
        let (generation, seq, count) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut counters = [0; COUNTERS];
        for number in &mut counters {
            *number = fields.u64()?;
        }
        let log = LogHead { lines: fields.u64()?, hash: fields.array()? };
        let crc = fields.u32()?;
        let body = fields.0.get(..usize::try_from(count * CHANGE_BYTES).ok()?)?;
        let head = &bytes[..FRAME_HEAD_BYTES - 4];
        let sum = crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(head), &[0; 4]), body);
        if sum != crc {
            return None;
        }
        let changes: Option<Vec<_>> = body.chunks(CHANGE_BYTES as usize).map(get_change).collect();
        let counters = Counters::from_array(counters);
        Some((Self { kind, generation, seq, counters, log, changes: changes? }, whole))
    }
}

/// kind, detail, cause, 0; slot; start; length; checksum; 0.
fn put_change(bytes: &mut Vec<u8>, change: Change) {
    let (kind, detail, cause, slot, extent, crc) = match change {
        Change::Oblige(extent, due, cause) => (1, due_number(due), cause as u8, 0, extent, 0),
        Change::Meet(extent, done, passes) => (2, done_number(done), 0, passes.into(), extent, 0),
        Change::Hold(slot, extent, crc) => (3, 0, 0, slot.0, extent, crc.0),
        Change::Release => (4, 0, 0, 0, Extent::default(), 0),
        Change::Clean => (5, 0, 0, 0, Extent::default(), 0),
        Change::Owe(it) => (6, done_number(it.act), it.cause as u8, it.passes.into(), it.extent, 0),
        Change::Recorded(count) => (7, 0, 0, 0, Extent::new(0, count), 0),
    };
    bytes.extend([kind, detail, cause, 0]);
    bytes.extend(slot.to_le_bytes());
    bytes.extend(extent.start.0.to_le_bytes());
    bytes.extend(extent.len.to_le_bytes());
    bytes.extend(crc.to_le_bytes());
    bytes.extend([0; 4]);
}

fn get_change(bytes: &[u8]) -> Option<Change> {
    let mut fields = Fields(bytes);
    let [kind, detail, cause, _] = fields.array::<4>()?;
    let slot = Slot(fields.u32()?);
    let (start, len) = (fields.u64()?, fields.u64()?);
    start.checked_add(len)?;
    let extent = Extent::<Addr>::new(start, len);
    match kind {
        1 => Some(Change::Oblige(extent, due_from(detail)?, Cause::from_number(cause)?)),
        2 => Some(Change::Meet(extent, done_from(detail)?, u16::try_from(slot.0).ok()?)),
        3 => Some(Change::Hold(slot, extent, Crc(fields.u32()?))),
        4 => Some(Change::Release),
        5 => Some(Change::Clean),
        6 => Some(Change::Owe(Receipt {
            act: done_from(detail)?,
            cause: Cause::from_number(cause)?,
            passes: u16::try_from(slot.0).ok()?,
            extent,
        })),
        7 => Some(Change::Recorded(len)),
        _ => None,
    }
}

fn due_number(due: Due) -> u8 {
    match due {
        Due::Shred { no_hole: false } => 1,
        Due::Shred { no_hole: true } => 2,
        Due::Scour => 3,
        Due::Suspicious => 4,
    }
}

fn due_from(number: u8) -> Option<Due> {
    match number {
        1 => Some(Due::Shred { no_hole: false }),
        2 => Some(Due::Shred { no_hole: true }),
        3 => Some(Due::Scour),
        4 => Some(Due::Suspicious),
        _ => None,
    }
}

fn done_number(done: Done) -> u8 {
    match done {
        Done::Shredded => 1,
        Done::Scoured => 2,
        Done::Freed => 3,
    }
}

fn done_from(number: u8) -> Option<Done> {
    match number {
        1 => Some(Done::Shredded),
        2 => Some(Done::Scoured),
        3 => Some(Done::Freed),
        _ => None,
    }
}

/// Takes numbers off the front of some bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
