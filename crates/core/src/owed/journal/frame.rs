//! The bytes of the journal's head and frames; all numbers little-endian.

use crate::base::fields::Fields;
use crate::base::mend::one_byte;
use crate::base::parts::Parts;
use crate::base::units::Scope;
use crate::owed::journal::record;
use crate::owed::journal::record::{Record, RecordError};
use crate::owed::journal::{Change, HALVES_AT, SECTOR_BYTES, Shape, VERSION};
use crate::owed::ledger::Counters;
use crate::owed::receipts::LogHead;

const HEAD_MAGIC: &[u8; 8] = b"QUIETJNL";
const FRAME_MAGIC: &[u8; 4] = b"QFRM";
const MARK_MAGIC: &[u8; 8] = b"QUIETOLD";
/// Bytes of a frame before its records.
pub(super) const FRAME_HEAD_BYTES: usize = 36;
const CRC_AT: usize = 32;

/// The first sector of a journal; written once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The sizes of the journal.
    pub shape: Shape,
    /// The disk that it belongs to.
    pub disk: [u8; 16],
}

impl Head {
    /// The bytes of the head: [`HALVES_AT`] of them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.shape.is_sane(), "a start takes a journal of {:?}", self.shape);
        let mut bytes = HEAD_MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.shape.slots.to_le_bytes());
        bytes.extend(self.shape.half_bytes.to_le_bytes());
        bytes.extend(self.disk);
        assert!(bytes.len() == HEAD_CHECKED_BYTES, "the checksum of a head is of all its fields");
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(HALVES_AT as usize, 0);
        bytes
    }

    /// Reads a head from its bytes.
    ///
    /// # Errors
    /// This program cannot use the head: see [`HeadError`].
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

/// Bytes of a head that its checksum is of.
const HEAD_CHECKED_BYTES: usize = 40;

impl Head {
    /// The bytes of a head of which one is wrong, as they should be.
    pub(super) fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
        let (body, rest) = bytes.split_at_checked(HEAD_CHECKED_BYTES)?;
        let (body, crc) = one_byte(body, u32::from_le_bytes(*rest.first_chunk()?))?;
        let mended = [&body[..], &crc.to_le_bytes(), &rest[4..]].concat();
        Self::from_bytes(&mended).is_ok().then_some(mended)
    }
}

/// Why a head cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// The magic, the checksum or the sizes are wrong.
    Damaged,
    /// The format has this version, which is unknown.
    Version(u32),
}

impl Shape {
    /// Whether sizes are whole sectors, and small enough to be read into memory.
    pub(super) fn is_sane(self) -> bool {
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
    /// The generation of the half: one more at each snapshot.
    pub generation: u64,
    /// The number of the frame: one more at each commit.
    pub seq: u64,
    /// The counters as of this commit.
    pub counters: Counters,
    /// The end of the audit log as of this commit.
    pub log: LogHead,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// The kinds of [`Frame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// The whole state.
    Snapshot = 1,
    /// The changes since the frame before.
    Delta = 2,
}

impl Frame {
    /// The bytes of the frame, padded to whole sectors.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FRAME_MAGIC.to_vec();
        bytes.extend((self.kind as u32).to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.seq.to_le_bytes());
        bytes.resize(FRAME_HEAD_BYTES, 0);
        record::put(&mut bytes, &Record::Counters(self.counters));
        record::put(&mut bytes, &Record::Log(self.log));
        self.changes.iter().for_each(|change| record::put(&mut bytes, &Record::Change(*change)));
        let records = (bytes.len() - FRAME_HEAD_BYTES) as u64;
        bytes[24..CRC_AT].copy_from_slice(&records.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC_AT..FRAME_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        assert!(RawFrame::bytes(&bytes) == Some(bytes.len() as u64), "a start finds the whole frame");
        bytes
    }
}

/// A whole frame, whose records are not read yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawFrame {
    /// A snapshot or a delta.
    pub kind: FrameKind,
    /// See [`Frame::generation`].
    pub generation: u64,
    /// See [`Frame::seq`].
    pub seq: u64,
    records: Vec<u8>,
}

impl RawFrame {
    /// The length of the frame that begins with `sector`, if one does.
    pub(super) fn bytes(sector: &[u8]) -> Option<u64> {
        let mut fields = Fields(sector.strip_prefix(FRAME_MAGIC)?);
        let (_kind, _generation, _seq, records) =
            (fields.u32()?, fields.u64()?, fields.u64()?, fields.u64()?);
        records.checked_add(FRAME_HEAD_BYTES as u64)?.checked_next_multiple_of(SECTOR_BYTES)
    }

    /// The frame at the start of `bytes`, and its length, if the frame is whole.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, u64)> {
        let whole = Self::bytes(bytes)?;
        let mut fields = Fields(&bytes[FRAME_MAGIC.len()..]);
        let kind = match fields.u32()? {
            1 => FrameKind::Snapshot,
            2 => FrameKind::Delta,
            _ => return None,
        };
        let (generation, seq, len) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let crc = fields.u32()?;
        let records = fields.bytes(len)?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), &[0; 4]);
        let is_whole = crc32c::crc32c_append(sum, records) == crc;
        is_whole.then(|| (Self { kind, generation, seq, records: records.to_vec() }, whole))
    }

    /// The frame at the start of `bytes` and its bytes as they should be, if one is wrong: the magic, the length, or what the
    /// checksum is of.
    pub(super) fn mended(bytes: &[u8]) -> Option<(Self, Vec<u8>)> {
        let mut bytes = bytes.to_vec();
        let magic = bytes.get_mut(..FRAME_MAGIC.len())?;
        let wrong = magic.iter().zip(FRAME_MAGIC).filter(|(one, other)| one != other).count();
        magic.copy_from_slice(FRAME_MAGIC);
        match wrong {
            0 => Self::mended_content(&bytes).or_else(|| Self::mended_length(&bytes)),
            1 => Self::whole(bytes),
            _ => None,
        }
    }

    fn whole(mut bytes: Vec<u8>) -> Option<(Self, Vec<u8>)> {
        let (frame, len) = Self::from_bytes(&bytes)?;
        bytes.truncate(usize::try_from(len).ok()?);
        Some((frame, bytes))
    }

    fn mended_content(bytes: &[u8]) -> Option<(Self, Vec<u8>)> {
        let records = u64::from_le_bytes(bytes.get(24..CRC_AT)?.try_into().ok()?);
        let end = FRAME_HEAD_BYTES.checked_add(usize::try_from(records).ok()?)?;
        let mut checked = bytes.get(..end)?.to_vec();
        let crc = u32::from_le_bytes(checked[CRC_AT..FRAME_HEAD_BYTES].try_into().ok()?);
        checked[CRC_AT..FRAME_HEAD_BYTES].fill(0);
        let (mut mended, crc) = one_byte(&checked, crc)?;
        mended[CRC_AT..FRAME_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        mended.extend(&bytes[end..]);
        Self::whole(mended)
    }

    fn mended_length(bytes: &[u8]) -> Option<(Self, Vec<u8>)> {
        // Only these bytes of a length are not zero.
        (24..27).find_map(|at| {
            (0..=u8::MAX).find_map(|byte| {
                let mut tried = bytes.to_vec();
                tried[at] = byte;
                Self::whole(tried)
            })
        })
    }

    /// The frame, with its records read.
    ///
    /// # Errors
    /// The first record that this program cannot use.
    pub fn read(&self) -> Result<Frame, RecordError> {
        let mut rest = Fields(&self.records);
        let Record::Counters(counters) = record::take(&mut rest)? else { return Err(RecordError::Head) };
        let Record::Log(log) = record::take(&mut rest)? else { return Err(RecordError::Head) };
        let mut changes = Vec::new();
        while !rest.is_empty() {
            match record::take(&mut rest)? {
                Record::Change(change) => changes.push(change),
                Record::Counters(_) | Record::Log(_) => return Err(RecordError::Head),
            }
        }
        check_parts(&changes)?;
        let Self { kind, generation, seq, .. } = *self;
        Ok(Frame { kind, generation, seq, counters, log, changes })
    }
}

/// Checks that each set comes directly behind its parts.
fn check_parts(changes: &[Change]) -> Result<(), RecordError> {
    let mut parts = Vec::new();
    for change in changes {
        let is_right = match change {
            Change::Part(part) => {
                parts.push(*part);
                continue;
            }
            Change::Forget(Scope::Set(set)) => {
                let parts = Parts::new(set.id, std::mem::take(&mut parts));
                parts.are_sorted() && parts.set() == Some(*set)
            }
            _ => parts.is_empty(),
        };
        is_right.then_some(()).ok_or(RecordError::Parts)?;
    }
    parts.is_empty().then_some(()).ok_or(RecordError::Parts)
}
