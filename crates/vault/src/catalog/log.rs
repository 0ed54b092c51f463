//! The log: two halves, of which one has a snapshot and the frames since.
//!
//! One damaged place costs nothing: each frame since a snapshot is there twice, and the snapshot is also what the one before, in the
//! other half, and the frames behind it add up to.

use std::collections::BTreeMap;

use quietus_core::base::fields::Fields;
use quietus_core::base::units::Pos;
use quietus_core::media::medium::Medium;

use super::CatalogError;
use super::layout::{Layout, SECTOR_BYTES};

const FRAME_MAGIC: &[u8; 4] = b"QVLF";
const MARK_MAGIC: &[u8; 8] = b"QUIETOLD";
/// Bytes of a mark that are not zeros.
const MARK_BYTES: usize = 20;
/// Bytes of a frame before its records.
const FRAME_HEAD_BYTES: usize = 32;
const CHECKSUM_AT: usize = 28;
/// Halves that a search reads at most for frames that turn out to be invalid.
const SEARCH_HALVES_MAX: usize = 64;

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

    /// Bytes that were read for a frame that turned out to be invalid, if `bytes` begin like a frame.
    fn claimed(bytes: &[u8]) -> usize {
        let length = bytes.strip_prefix(FRAME_MAGIC).and_then(|rest| rest.get(20..24)?.try_into().ok());
        length.map_or(0, |length| bytes.len().min(u32::from_le_bytes(length) as usize))
    }

    /// Bytes that a frame with this many bytes of records takes on the medium.
    fn bytes(records: usize) -> usize {
        (FRAME_HEAD_BYTES + records).next_multiple_of(SECTOR_BYTES)
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

/// The generation of the mark that a half begins with.
fn marked(half: &[u8]) -> Option<u64> {
    let generation = Fields(half.strip_prefix(MARK_MAGIC)?).u64()?;
    (half[..MARK_BYTES] == mark(generation)[..MARK_BYTES]).then_some(generation)
}

/// Bytes to write, and their place.
pub(super) type Write = (Pos, Vec<u8>);

/// The end of the log that is written. Does no I/O, but returns the bytes to write and their places.
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

    /// The next frame, twice; `None` if it needs a turn.
    pub(super) fn append(&mut self, records: &[u8]) -> Option<Write> {
        if !self.has_space(records.len()) {
            return None;
        }
        self.number += 1;
        let frame = self.frame(FrameKind::Delta, records).repeat(2);
        let pos = Pos(self.layout.half(self.half).0 + self.cursor);
        self.cursor += frame.len() as u64;
        Some((pos, frame))
    }

    /// Whether a frame with this many bytes of records fits into the present half, twice.
    pub(super) fn has_space(&self, records: usize) -> bool {
        self.cursor + 2 * Frame::bytes(records) as u64 <= self.layout.half_bytes
    }

    /// A snapshot for the other half; and a mark for the present half, to be written once the snapshot is durable.
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

/// A frame, the half that it is in, and how often it is there.
struct Copies {
    frame: Frame,
    half: usize,
    times: usize,
}

/// The undamaged parts of a log.
#[derive(Default)]
struct Found {
    /// The frames by number.
    frames: BTreeMap<u64, Copies>,
    /// The newest generation whose snapshot was durable once.
    newest: u64,
}

impl Found {
    fn read(medium: &dyn Medium, layout: Layout) -> Result<Found, CatalogError> {
        let mut found = Found::default();
        for half in 0..2 {
            let mut bytes = vec![0; layout.half_bytes as usize];
            medium.read(layout.half(half), &mut bytes)?;
            found.newest = found.newest.max(marked(&bytes).map_or(0, |generation| generation + 1));
            found.search(&bytes, half)?;
        }
        Ok(found)
    }

    fn search(&mut self, bytes: &[u8], half: usize) -> Result<(), CatalogError> {
        let (mut at, mut in_vain) = (SECTOR_BYTES, 0);
        while at < bytes.len() {
            let Some(frame) = Frame::from_bytes(&bytes[at..]) else {
                in_vain += Frame::claimed(&bytes[at..]);
                if in_vain > SEARCH_HALVES_MAX * bytes.len() {
                    return Err(CatalogError::Damaged("too many frames of the log are invalid"));
                }
                at += SECTOR_BYTES;
                continue;
            };
            at += Frame::bytes(frame.records.len());
            self.newest = self.newest.max(frame.generation);
            self.frames.entry(frame.number).or_insert(Copies { frame, half, times: 0 }).times += 1;
        }
        Ok(())
    }

    /// The frames of a generation, in order.
    fn of(&self, generation: u64) -> impl Iterator<Item = &Copies> {
        self.frames.values().filter(move |it| it.frame.generation == generation)
    }

    fn snapshot(&self, generation: u64) -> Option<&Copies> {
        self.of(generation).find(|it| it.frame.kind == FrameKind::Snapshot)
    }

    /// The snapshot of a generation and the frames since; if that snapshot was damaged, the one before and all frames since.
    fn chain(&self) -> Result<Vec<&Copies>, CatalogError> {
        let newest = self.of(self.newest);
        if self.snapshot(self.newest).is_some() {
            return Ok(newest.collect());
        }
        let before = self.newest.saturating_sub(1);
        match self.snapshot(before) {
            Some(_) => Ok(self.of(before).chain(newest).collect()),
            None => Err(CatalogError::Damaged("no valid snapshot in either half of the log")),
        }
    }
}

/// The state as the log has it.
pub(super) struct Read {
    /// The log, of which the next write is a turn.
    pub(super) log: Log,
    /// A snapshot, and all changes since.
    pub(super) frames: Vec<Frame>,
    /// Whether the newest snapshot is damaged: the frames begin with the one before.
    pub(super) is_older: bool,
    /// Whether any part was damaged.
    pub(super) is_damaged: bool,
}

/// Reads the log.
pub(super) fn read(medium: &dyn Medium, layout: Layout) -> Result<Read, CatalogError> {
    let found = Found::read(medium, layout)?;
    let chain = found.chain()?;
    let first = chain[0];
    if first.frame.kind != FrameKind::Snapshot {
        return Err(CatalogError::Damaged("a frame of the log comes before its snapshot"));
    }
    for pair in chain.windows(2) {
        let [before, frame] = [&pair[0].frame, &pair[1].frame];
        // The damaged snapshot between two generations had a number, too.
        let number = before.number + 1 + u64::from(before.generation < frame.generation);
        if frame.number != number {
            return Err(CatalogError::Damaged("a frame of the log is invalid that is not the last one"));
        }
    }
    let is_older = first.frame.generation < found.newest;
    let (last, before) = chain.split_last().expect("a chain has a snapshot");
    let is_single = |it: &&&Copies| it.frame.kind == FrameKind::Delta && it.times < 2;
    let is_damaged = is_older || before.iter().filter(is_single).count() > 0;
    let half = first.half ^ usize::from(is_older);
    let number = last.frame.number + u64::from(is_older);
    let log = Log { half, generation: found.newest, number, ..Log::new(layout) };
    Ok(Read { log, frames: chain.iter().map(|it| it.frame.clone()).collect(), is_older, is_damaged })
}

/// Every whole frame of the log in the order of writing, with gaps where frames are missing.
pub(super) fn salvage(medium: &dyn Medium, layout: Layout) -> Result<Vec<Frame>, CatalogError> {
    let found = Found::read(medium, layout)?;
    Ok(found.frames.into_values().map(|it| it.frame).collect())
}
