//! The log: two halves, of which one has a snapshot and the frames since.

use quietus_core::fields::Fields;
use quietus_core::medium::Medium;
use quietus_core::units::Pos;

use super::layout::{Layout, SECTOR_BYTES};
use super::{CatalogError, is_snapshot};

const FRAME_MAGIC: &[u8; 4] = b"QVLF";
const MARK_MAGIC: &[u8; 8] = b"QUIETOLD";
/// Bytes of a frame before its records.
const FRAME_HEAD_BYTES: usize = 32;
const CHECKSUM_AT: usize = 28;
/// Bytes that are read at once in search of frames.
const PIECE_BYTES: u64 = 64 << 10;

/// The kinds of frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameKind {
    /// All that is known.
    Snapshot = 1,
    /// Changes since the frame before.
    Delta = 2,
}

/// Changes that become durable together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// One more at each snapshot.
    pub(super) generation: u64,
    /// One more at each frame.
    pub(super) number: u64,
    pub(super) records: Vec<u8>,
}

impl Frame {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FRAME_MAGIC.to_vec();
        bytes.extend((self.kind as u32).to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend((self.records.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.records);
        let checksum = crc32c::crc32c(&bytes);
        bytes[CHECKSUM_AT..FRAME_HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
        bytes
    }

    /// The length of the frame that begins with `sector`, if one does.
    fn bytes(sector: &[u8]) -> Option<u64> {
        let mut fields = Fields(sector.strip_prefix(FRAME_MAGIC)?);
        let (_, _, _, records) = (fields.u32()?, fields.u64()?, fields.u64()?, fields.u32()?);
        Some((FRAME_HEAD_BYTES as u64 + u64::from(records)).next_multiple_of(SECTOR_BYTES as u64))
    }

    /// The frame that `bytes` begin with, if it is whole.
    fn from_bytes(bytes: &[u8]) -> Option<Frame> {
        let mut fields = Fields(bytes.strip_prefix(FRAME_MAGIC)?);
        let kind = match fields.u32()? {
            1 => FrameKind::Snapshot,
            2 => FrameKind::Delta,
            _ => return None,
        };
        let (generation, number, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let checksum = fields.u32()?;
        let records = fields.bytes(u64::from(length))?;
        let head = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &[0; 4]);
        let is_whole = crc32c::crc32c_append(head, records) == checksum;
        is_whole.then(|| Frame { kind, generation, number, records: records.to_vec() })
    }
}

/// The mark in a half of `generation` whose successor is durable.
fn mark(generation: u64) -> Vec<u8> {
    let mut bytes = MARK_MAGIC.to_vec();
    bytes.extend(generation.to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.resize(SECTOR_BYTES, 0);
    bytes
}

/// Where bytes go.
pub(super) type Write = (Pos, Vec<u8>);

/// The end of the log that is written. Does no I/O: says which bytes go where.
#[derive(Debug)]
pub(super) struct Log {
    layout: Layout,
    half: usize,
    generation: u64,
    /// The number of the last frame.
    number: u64,
    /// Where the next frame goes, from the half's start on.
    cursor: u64,
}

impl Log {
    /// The log of a new catalog: it begins with a turn.
    pub(super) fn new(layout: Layout) -> Log {
        Log { layout, half: 1, generation: 0, number: 0, cursor: layout.half_bytes }
    }

    pub(super) fn next_generation(&self) -> u64 {
        self.generation + 1
    }

    /// The next frame; None if it needs a turn.
    pub(super) fn append(&mut self, records: &[u8]) -> Option<Write> {
        self.number += 1;
        let frame = self.frame(FrameKind::Delta, records);
        if !self.has_space(frame.len() as u64) {
            return None;
        }
        let pos = Pos(self.layout.half(self.half).0 + self.cursor);
        self.cursor += frame.len() as u64;
        Some((pos, frame))
    }

    /// Whether a frame of so many bytes fits into the present half.
    pub(super) fn has_space(&self, bytes: u64) -> bool {
        self.cursor + bytes <= self.layout.half_bytes
    }

    /// A snapshot in the other half; and a mark for the present one, to be written once that is durable.
    pub(super) fn turn(&mut self, records: &[u8]) -> (Option<Write>, Write) {
        let is_first = self.generation == 0;
        let old = (self.layout.half(self.half), mark(self.generation));
        self.half = 1 - self.half;
        self.generation += 1;
        self.number += 1;
        let mut bytes = vec![0; SECTOR_BYTES];
        bytes.extend(self.frame(FrameKind::Snapshot, records));
        self.cursor = bytes.len() as u64;
        ((!is_first).then_some(old), (self.layout.half(self.half), bytes))
    }

    fn frame(&self, kind: FrameKind, records: &[u8]) -> Vec<u8> {
        let records = records.to_vec();
        Frame { kind, generation: self.generation, number: self.number, records }.to_bytes()
    }
}

/// A half as a reader has it.
struct Half<'m> {
    medium: &'m dyn Medium,
    start: Pos,
    bytes: u64,
}

impl Half<'_> {
    /// `bytes` from `at` on, or fewer at the half's end.
    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>, CatalogError> {
        let mut found = vec![0; bytes.min(self.bytes.saturating_sub(at)) as usize];
        self.medium.read(Pos(self.start.0 + at), &mut found)?;
        Ok(found)
    }

    /// The frame at `at`, if it is whole, and its end.
    fn frame(&self, at: u64) -> Result<Option<(Frame, u64)>, CatalogError> {
        let sector = self.read(at, SECTOR_BYTES as u64)?;
        let bytes = Frame::bytes(&sector).filter(|bytes| *bytes <= self.bytes.saturating_sub(at));
        let Some(bytes) = bytes else { return Ok(None) };
        let frame = Frame::from_bytes(&self.read(at, bytes)?);
        Ok(frame.map(|frame| (frame, at + bytes)))
    }

    fn snapshot(&self) -> Result<Option<(Frame, u64)>, CatalogError> {
        Ok(self.frame(SECTOR_BYTES as u64)?.filter(|(frame, _)| is_snapshot(frame)))
    }

    /// The frames behind the snapshot that ends at `at`; with their end.
    fn deltas(&self, snapshot: &Frame, mut at: u64) -> Result<(Vec<Frame>, u64), CatalogError> {
        let (mut frames, mut number) = (Vec::new(), snapshot.number);
        let is_next = |frame: &Frame, number| {
            !is_snapshot(frame) && frame.generation == snapshot.generation && frame.number == number + 1
        };
        while let Some((frame, end)) = self.frame(at)?.filter(|(frame, _)| is_next(frame, number)) {
            (at, number) = (end, frame.number);
            frames.push(frame);
        }
        let is_later = |frame: &Frame| frame.generation == snapshot.generation && frame.number > number;
        if self.any_frame(at + SECTOR_BYTES as u64, is_later)? {
            return Err(CatalogError::Damaged("a frame before the last one is invalid"));
        }
        Ok((frames, at))
    }

    /// Whether a whole frame that is `wanted` begins at or behind `from`.
    fn any_frame(&self, from: u64, wanted: impl Fn(&Frame) -> bool) -> Result<bool, CatalogError> {
        for piece in (from..self.bytes).step_by(PIECE_BYTES as usize) {
            let bytes = self.read(piece, PIECE_BYTES)?;
            for (at, sector) in (piece..).step_by(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES)) {
                if Frame::bytes(sector).is_some() && self.frame(at)?.is_some_and(|it| wanted(&it.0)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Reads the log: the newest snapshot and the frames since; what is written next begins with a turn.
pub(super) fn scan(medium: &dyn Medium, layout: Layout) -> Result<(Log, Vec<Frame>), CatalogError> {
    let halves = [0, 1].map(|half| Half { medium, start: layout.half(half), bytes: layout.half_bytes });
    let found = [halves[0].snapshot()?, halves[1].snapshot()?];
    let newest = found.into_iter().enumerate().filter_map(|(half, found)| Some((half, found?)));
    let (half, (snapshot, end)) = newest
        .max_by_key(|(_, (snapshot, _))| snapshot.generation)
        .ok_or(CatalogError::Damaged("no valid snapshot in either half of the log"))?;
    // The mark says that a newer snapshot was durable once.
    if halves[half].read(0, SECTOR_BYTES as u64)? == mark(snapshot.generation) {
        return Err(CatalogError::Damaged("the newest snapshot is invalid"));
    }
    let (deltas, _) = halves[half].deltas(&snapshot, end)?;
    let number = deltas.last().map_or(snapshot.number, |frame| frame.number);
    let log = Log { half, generation: snapshot.generation, number, ..Log::new(layout) };
    Ok((log, [vec![snapshot], deltas].concat()))
}
