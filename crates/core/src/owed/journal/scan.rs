//! Reading a journal after a stop or a crash.

use crate::base::units::{BLOCK_BYTES, Millis, Pos};
use crate::media::medium::{Medium, MediumError};
use crate::owed::journal::frame;
use crate::owed::journal::frame::HeadError;
use crate::owed::journal::notes::Notes;
use crate::owed::journal::{
    FrameKind, HALVES_AT, Head, RawFrame, RecordError, SECTOR_BYTES, Shape, State, VERSION,
};

/// Bytes of the longest frame that is mended.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a half that are read at once in search of frames.
const PIECE_BYTES: usize = 64 << 10;

/// A journal that was read.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The journal's head.
    pub head: Head,
    /// The sum of the changes. Every obligation counts as overdue.
    pub state: State,
    /// The half that the snapshot was found in (0 or 1).
    pub half: usize,
    /// The generation of the last frame.
    pub generation: u64,
    /// The number of the last frame.
    pub seq: u64,
}

/// Why a journal cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalError {
    /// The medium cannot be read.
    #[error("the journal cannot be read: {0}")]
    Medium(#[from] MediumError),
    /// The journal has another version of the format.
    #[error(
        "the journal has version {0}, and this program reads version {VERSION}: use the program that wrote it"
    )]
    Version(u32),
    /// The journal belongs to another disk.
    #[error("the journal belongs to another disk: put the right file back")]
    OtherDisk,
    /// A frame has a record that this program does not know.
    #[error("the journal has {0}; use the program that wrote it")]
    Record(#[from] RecordError),
    /// The bytes were changed, or a write was lost.
    #[error(
        "the journal is damaged ({0}); obligations may be lost. `quietus repair` mends one wrong byte; if it does not, restore the \
         disk's directory from a backup as a whole"
    )]
    Damaged(&'static str),
}

/// Reads the journal of disk `disk` of `size` bytes, in `session` of the host.
///
/// # Errors
/// [`JournalError`]. A torn last frame is not an error: nothing relied on it.
pub fn scan(
    journal: &dyn Medium,
    disk: [u8; 16],
    size: u64,
    session: u64,
) -> Result<Recovered, JournalError> {
    let head = read_head(journal)?;
    if head.disk != disk {
        return Err(JournalError::OtherDisk);
    }
    if journal.size() < head.shape.bytes() {
        return Err(JournalError::Damaged("the file is too short"));
    }
    let halves =
        [0, 1].map(|which| Half { journal, start: head.shape.half(which), len: head.shape.half_bytes });
    let (half, snapshot, end) = newest(&halves)?;
    let notes = Notes::read(journal, head.shape, (session, snapshot.generation, size))?;
    let mut found = Replay::new(snapshot, size, session, notes)?;
    found.replay(&halves[half], end)?;
    let Replay { state, generation, seq, .. } = found;
    check_slots(&state, head.shape)?;
    if state.receipts.len() as u64 > state.counters.receipts {
        return Err(JournalError::Damaged("there are more receipts than the counter `receipts` says"));
    }
    Ok(Recovered { head, state, half, generation, seq })
}

fn read_head(journal: &dyn Medium) -> Result<Head, JournalError> {
    if journal.size() < HALVES_AT {
        return Err(JournalError::Damaged("the file is too short"));
    }
    let mut bytes = vec![0; HALVES_AT as usize];
    journal.read(Pos(0), &mut bytes)?;
    Head::from_bytes(&bytes).map_err(|error| match error {
        HeadError::Damaged => JournalError::Damaged("bad magic or checksum in the head at offset 0"),
        HeadError::Version(version) => JournalError::Version(version),
    })
}

/// Mends the journal of disk `disk` where one byte of its head, or of the frame that ends it, is wrong. `stopped` is the frame
/// (generation and number) that the last clean stop left, if it did. Returns what was mended, in words.
///
/// # Errors
/// The medium's.
pub fn mend(
    journal: &dyn Medium,
    disk: [u8; 16],
    stopped: Option<(u64, u64)>,
) -> Result<Vec<String>, MediumError> {
    let mut done = Vec::new();
    if journal.size() < HALVES_AT {
        return Ok(done);
    }
    let mut bytes = vec![0; HALVES_AT as usize];
    journal.read(Pos(0), &mut bytes)?;
    if Head::from_bytes(&bytes).is_err()
        && let Some(mended) = Head::mended(&bytes)
    {
        journal.write(Pos(0), &mended, true)?;
        bytes = mended;
        done.push("journal: the head at byte 0".into());
    }
    let Ok(head) = Head::from_bytes(&bytes) else { return Ok(done) };
    if head.disk != disk || journal.size() < head.shape.bytes() {
        return Ok(done);
    }
    let halves =
        [0, 1].map(|which| Half { journal, start: head.shape.half(which), len: head.shape.half_bytes });
    for half in &halves {
        for at in half.mend(stopped).map_err(medium_error)? {
            done.push(format!("journal: the frame at byte {at}"));
        }
    }
    Ok(done)
}

fn medium_error(error: JournalError) -> MediumError {
    match error {
        JournalError::Medium(error) => error,
        other => MediumError { kind: crate::media::medium::MediumErrorKind::Io, message: other.to_string() },
    }
}

/// A half of the journal. Read piece by piece: most of a half is empty, and a server of many disks
/// should not spend memory on that.
struct Half<'a> {
    journal: &'a dyn Medium,
    start: Pos,
    len: u64,
}

impl Half<'_> {
    /// `len` bytes from `at` on, or fewer at the end of the half.
    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, JournalError> {
        let mut bytes = vec![0; len.min(self.len.saturating_sub(at)) as usize];
        self.journal.read(Pos(self.start.0 + at), &mut bytes)?;
        Ok(bytes)
    }

    /// The frame at `at`, if it is whole, and its end.
    fn frame(&self, at: u64) -> Result<Option<(RawFrame, u64)>, JournalError> {
        assert!(at <= self.len, "a half is searched up to its end");
        let head = self.read(at, SECTOR_BYTES)?;
        let bytes = match RawFrame::bytes(&head) {
            Some(len) if len > SECTOR_BYTES && len <= self.len - at => self.read(at, len)?,
            _ => head,
        };
        Ok(RawFrame::from_bytes(&bytes).map(|(frame, len)| (frame, at + len)))
    }

    /// Mends the snapshot, and the frames behind it while these follow each other. Where the last stop left the journal, the frame
    /// that ends it has to be whole; else a frame that no other follows may have been torn by a crash, and stays as it is. Returns
    /// where frames were mended.
    fn mend(&self, stopped: Option<(u64, u64)>) -> Result<Vec<u64>, JournalError> {
        let (mut at, mut done, mut last) = (SECTOR_BYTES, Vec::new(), None);
        while at < self.len {
            let whole = self.frame(at)?;
            let (frame, end, mended) = match whole {
                Some((frame, end)) => (frame, end, None),
                None => {
                    let bytes = self.read(at, FRAME_BYTES_MAX)?;
                    let Some((frame, bytes)) = RawFrame::mended(&bytes) else { break };
                    (frame, at + bytes.len() as u64, Some(bytes))
                }
            };
            let follows = match last {
                None => frame.kind == FrameKind::Snapshot,
                Some((generation, seq)) => {
                    frame.kind == FrameKind::Delta && (frame.generation, frame.seq) == (generation, seq + 1)
                }
            };
            if !follows {
                break;
            }
            if let Some(bytes) = mended {
                let is_of_stop = stopped.is_some_and(|stopped| (frame.generation, frame.seq) <= stopped);
                let next = self.frame(end)?.map(|(next, _)| (next.generation, next.seq));
                let is_followed = next == Some((frame.generation, frame.seq + 1));
                if last.is_some() && !is_of_stop && !is_followed {
                    break;
                }
                self.journal.write(Pos(self.start.0 + at), &bytes, true)?;
                done.push(self.start.0 + at);
            }
            (last, at) = (Some((frame.generation, frame.seq)), end);
        }
        Ok(done)
    }

    /// The snapshot of the half, and its end.
    fn snapshot(&self) -> Result<Option<(RawFrame, u64)>, JournalError> {
        Ok(self.frame(SECTOR_BYTES)?.filter(|(frame, _)| frame.kind == FrameKind::Snapshot))
    }
}

/// The half with the newest snapshot, the snapshot, and its end.
fn newest(halves: &[Half<'_>; 2]) -> Result<(usize, RawFrame, u64), JournalError> {
    let found = [halves[0].snapshot()?, halves[1].snapshot()?];
    let (half, (snapshot, end)) = (0..)
        .zip(found)
        .filter_map(|(half, found)| Some((half, found?)))
        .max_by_key(|(_, (snapshot, _))| snapshot.generation)
        .ok_or(JournalError::Damaged("no valid snapshot in either half"))?;
    // The mark says that a newer snapshot was durable once, and that snapshot cannot be read now.
    if halves[half].read(0, SECTOR_BYTES)? == frame::mark(snapshot.generation) {
        return Err(JournalError::Damaged("the newest snapshot is invalid"));
    }
    Ok((half, snapshot, end))
}

/// A state that grows frame by frame.
struct Replay {
    state: State,
    generation: u64,
    seq: u64,
    size: u64,
    notes: Notes,
}

impl Replay {
    fn new(snapshot: RawFrame, size: u64, session: u64, notes: Notes) -> Result<Self, JournalError> {
        let (generation, seq) = (snapshot.generation, snapshot.seq);
        let state = State { session, ..State::default() };
        let mut replay = Self { state, generation, seq, size, notes };
        replay.apply(&snapshot)?;
        Ok(replay)
    }

    fn apply(&mut self, frame: &RawFrame) -> Result<(), JournalError> {
        let frame = frame.read()?;
        assert!(frame.generation == self.generation, "the frames of a half are of one generation");
        self.seq = frame.seq;
        for change in frame.changes {
            if !change.is_within(self.size) {
                return Err(JournalError::Damaged("a record names bytes beyond the end of the disk"));
            }
            self.state.apply(change, Millis(0));
        }
        self.notes.apply(self.seq, &mut self.state);
        // The counters of a frame include its changes.
        (self.state.counters, self.state.log) = (frame.counters, frame.log);
        Ok(())
    }

    /// Applies the frames that follow in `half` from `at` on.
    fn replay(&mut self, half: &Half<'_>, mut at: u64) -> Result<(), JournalError> {
        while let Some((frame, end)) = half.frame(at)?.filter(|(frame, _)| self.is_next(frame)) {
            assert!(at < end && end <= half.len, "a frame has bytes, and ends within its half");
            at = end;
            self.apply(&frame)?;
        }
        for piece in (at + SECTOR_BYTES..half.len).step_by(PIECE_BYTES) {
            let bytes = half.read(piece, PIECE_BYTES as u64)?;
            let sectors = (piece..).step_by(SECTOR_BYTES as usize).zip(bytes.chunks(SECTOR_BYTES as usize));
            for (at, _) in sectors.filter(|(_, sector)| RawFrame::bytes(sector).is_some()) {
                if half.frame(at)?.is_some_and(|(frame, _)| self.is_later(&frame)) {
                    return Err(JournalError::Damaged("a frame before the last one is invalid"));
                }
            }
        }
        Ok(())
    }

    fn is_next(&self, frame: &RawFrame) -> bool {
        frame.kind == FrameKind::Delta && frame.generation == self.generation && frame.seq == self.seq + 1
    }

    fn is_later(&self, frame: &RawFrame) -> bool {
        frame.generation == self.generation && frame.seq > self.seq
    }
}

impl crate::owed::journal::Change {
    /// Whether the bytes that the change names lie within a disk of `size` bytes. Places are whole blocks.
    pub(crate) fn is_within(&self, size: u64) -> bool {
        match self {
            Self::Oblige(extent, ..)
            | Self::Overwritten(extent, _)
            | Self::Clear(extent)
            | Self::Complete(extent, ..)
            | Self::Stage(_, extent, _) => extent.end() <= size,
            Self::Owe(place, address, _) => {
                let parts = [place.extent.start.0, place.extent.len, address.0];
                let end = address.0.checked_add(place.extent.len);
                parts.iter().all(|it| it.is_multiple_of(BLOCK_BYTES))
                    && end.is_some_and(|end| end <= size.next_multiple_of(BLOCK_BYTES))
            }
            Self::Receipt(receipt) => receipt.forgot.is_some() || receipt.extent.end() <= size,
            Self::ClearPlace(_)
            | Self::Release
            | Self::Clean
            | Self::Recorded(_)
            | Self::Part(_)
            | Self::Forget(_)
            | Self::Keys(_)
            | Self::Forgotten(..) => true,
        }
    }
}

fn check_slots(state: &State, shape: Shape) -> Result<(), JournalError> {
    let sane =
        state.slots.staged.iter().all(|(slot, (extent, _))| {
            slot.0 < shape.slots && extent.len <= crate::owed::journal::SLOT_BYTES
        });
    sane.then_some(()).ok_or(JournalError::Damaged("a record names a slot beyond the last one"))
}
