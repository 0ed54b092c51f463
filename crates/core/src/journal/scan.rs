//! Reading a journal after a stop or a crash.

use super::frame::{self, HeadError};
use super::{Frame, FrameKind, HALVES_AT, Head, SECTOR_BYTES, Shape, State, VERSION};
use crate::medium::{Medium, MediumError};
use crate::units::{Extent, Millis, Pos};

/// What a journal said.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Its head.
    pub head: Head,
    /// The sum of its changes. Every obligation is as old as can be.
    pub state: State,
    /// The half that it was found in.
    pub half: usize,
    /// Of the last frame.
    pub generation: u64,
    /// Of the last frame.
    pub seq: u64,
}

/// Why a journal cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("the journal cannot be read: {0}")]
    Medium(#[from] MediumError),
    /// It is of another version.
    #[error("the journal is of version {0}; this program knows version {VERSION}: use a newer one")]
    Version(u32),
    /// It belongs to another disk.
    #[error("the journal belongs to another disk: put the right file back")]
    OtherDisk,
    /// It is not what was written.
    #[error(
        "the journal is damaged ({0}); obligations may be lost: restore the file, or adopt the medium anew"
    )]
    Damaged(&'static str),
}

/// Reads the journal of disk `disk` of `size` bytes.
///
/// # Errors
/// [`JournalError`]. A torn last frame is none: it was never acted on.
pub fn scan(journal: &dyn Medium, disk: [u8; 16], size: u64) -> Result<Recovered, JournalError> {
    let head = read_head(journal)?;
    if head.disk != disk {
        return Err(JournalError::OtherDisk);
    }
    if journal.size() < head.shape.bytes() {
        return Err(JournalError::Damaged("it is too short"));
    }
    let halves = [read_half(journal, head.shape, 0)?, read_half(journal, head.shape, 1)?];
    let (half, snapshot, len) = newest(&halves)?;
    let mut found = Replay::new(snapshot, size)?;
    found.replay(&halves[half][SECTOR_BYTES as usize + len..])?;
    let Replay { state, generation, seq, .. } = found;
    check_slots(&state, head.shape)?;
    Ok(Recovered { head, state, half, generation, seq })
}

fn read_head(journal: &dyn Medium) -> Result<Head, JournalError> {
    if journal.size() < HALVES_AT {
        return Err(JournalError::Damaged("it is too short"));
    }
    let mut bytes = vec![0; HALVES_AT as usize];
    journal.read(Pos(0), &mut bytes)?;
    Head::from_bytes(&bytes).map_err(|error| match error {
        HeadError::Damaged => JournalError::Damaged("its head makes no sense"),
        HeadError::Version(version) => JournalError::Version(version),
    })
}

fn read_half(journal: &dyn Medium, shape: Shape, half: usize) -> Result<Vec<u8>, JournalError> {
    let mut bytes = vec![0; usize::try_from(shape.half_bytes).unwrap_or(0)];
    journal.read(shape.half(half), &mut bytes)?;
    Ok(bytes)
}

/// The half to go by, with its snapshot and that one's length.
fn newest(halves: &[Vec<u8>; 2]) -> Result<(usize, Frame, usize), JournalError> {
    let (half, (snapshot, len)) = (0..2)
        .filter_map(|half| Some((half, snapshot(&halves[half])?)))
        .max_by_key(|(_, (snapshot, _))| snapshot.generation)
        .ok_or(JournalError::Damaged("it has no snapshot"))?;
    // Marked: a newer snapshot was durable once. Now it cannot be read.
    if halves[half].starts_with(&frame::mark(snapshot.generation)) {
        return Err(JournalError::Damaged("its newest snapshot cannot be read"));
    }
    Ok((half, snapshot, len))
}

fn snapshot(half: &[u8]) -> Option<(Frame, usize)> {
    Frame::from_bytes(half.get(SECTOR_BYTES as usize..)?)
        .filter(|(frame, _)| frame.kind == FrameKind::Snapshot)
}

/// A state that grows frame by frame.
struct Replay {
    state: State,
    generation: u64,
    seq: u64,
    size: u64,
}

impl Replay {
    fn new(snapshot: Frame, size: u64) -> Result<Self, JournalError> {
        let (generation, seq) = (snapshot.generation, snapshot.seq);
        let mut replay = Self { state: State::default(), generation, seq, size };
        replay.apply(snapshot)?;
        Ok(replay)
    }

    fn apply(&mut self, frame: Frame) -> Result<(), JournalError> {
        self.seq = frame.seq;
        self.state.counters = frame.counters;
        for change in frame.changes {
            if change.extent().end() > self.size {
                return Err(JournalError::Damaged("it names bytes beyond the disk"));
            }
            self.state.apply(change, Millis(0));
        }
        Ok(())
    }

    fn replay(&mut self, mut bytes: &[u8]) -> Result<(), JournalError> {
        while let Some((frame, len)) = self.next(bytes) {
            bytes = bytes.get(len..).unwrap_or_default();
            self.apply(frame)?;
        }
        let later = bytes.chunks(SECTOR_BYTES as usize).enumerate().skip(1);
        let mut later = later.filter(|(_, sector)| sector.starts_with(b"QFRM"));
        if later.any(|(n, _)| self.is_later(&bytes[n * SECTOR_BYTES as usize..])) {
            return Err(JournalError::Damaged("a frame in its middle makes no sense"));
        }
        Ok(())
    }

    fn next(&self, bytes: &[u8]) -> Option<(Frame, usize)> {
        Frame::from_bytes(bytes).filter(|(frame, _)| {
            frame.kind == FrameKind::Delta && frame.generation == self.generation && frame.seq == self.seq + 1
        })
    }

    fn is_later(&self, bytes: &[u8]) -> bool {
        Frame::from_bytes(bytes)
            .is_some_and(|(frame, _)| frame.generation == self.generation && frame.seq > self.seq)
    }
}

impl super::Change {
    /// The bytes of the disk that it speaks of.
    fn extent(&self) -> Extent<crate::units::Addr> {
        match self {
            Self::Oblige(extent, ..) | Self::Clear(extent) | Self::Hold(_, extent, _) => *extent,
            Self::Release | Self::Clean => Extent::default(),
        }
    }
}

fn check_slots(state: &State, shape: Shape) -> Result<(), JournalError> {
    let sane = state
        .slots
        .held
        .iter()
        .all(|(slot, (extent, _))| slot.0 < shape.slots && extent.len <= super::SLOT_BYTES);
    sane.then_some(()).ok_or(JournalError::Damaged("it names a slot that is none"))
}
