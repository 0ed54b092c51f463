//! Notes: which dead bytes the guest has written over, for the next start of the server while the
//! host goes on.
//!
//! A note is one write beside the halves, and is never synced: note and content both lie in the host's
//! cache, so that a kill of the server keeps both or neither.
//!
//! Invariants:
//! 1. A note counts only in the session of the host that wrote it: a power cut may keep a
//!    note and lose the content.
//! 2. A note counts for obligations up to one frame. Bytes that die again do so in a later one.
//! 3. A note is overwritten only once a commit has durably completed its obligations.

use crate::base::units::{Addr, Extent, Pos};
use crate::media::medium::{Medium, MediumError};
use crate::owed::journal::{Shape, State};

/// Bytes of a note before its checksum.
const BODY_BYTES: usize = 56;
/// Bytes of one note.
const NOTE_BYTES: u64 = 64;
/// The number of notes that fit.
pub const NOTES: u64 = 1024;
/// Bytes of all notes.
pub(super) const NOTES_BYTES: u64 = NOTES * NOTE_BYTES;

/// A frame, by its generation and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct FrameId {
    /// See [`Frame::generation`](crate::owed::journal::Frame::generation).
    pub generation: u64,
    /// See [`Frame::seq`](crate::owed::journal::Frame::seq).
    pub seq: u64,
}

/// See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The host's session ([`Opening::session`](crate::volume::Opening::session)).
    pub session: u64,
    /// The bytes that were written over.
    pub extent: Extent<Addr>,
    /// The note applies to obligations up to these frames: the last durable one, and the
    /// last one made, which may be the snapshot of a new generation.
    pub up_to: [FrameId; 2],
}

impl Note {
    /// The bytes of the note.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let [durable, made] = self.up_to;
        assert!(durable <= made, "a frame is made before it is durable");
        let fields = [self.session, self.extent.start.0, self.extent.len];
        let frames = [durable.generation, durable.seq, made.generation, made.seq];
        let mut bytes: Vec<u8> = fields.into_iter().chain(frames).flat_map(u64::to_le_bytes).collect();
        assert!(bytes.len() == BODY_BYTES, "a note is as long as a start expects");
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(NOTE_BYTES as usize, 0);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, rest) = bytes.split_at_checked(BODY_BYTES)?;
        if rest.first_chunk().is_none_or(|crc| crc32c::crc32c(body) != u32::from_le_bytes(*crc)) {
            return None;
        }
        let mut fields = body.as_chunks::<8>().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || fields.next();
        let (session, start, len) = (next()?, next()?, next()?);
        let extent = Extent::within(start, len, u64::MAX)?;
        let mut frame = || Some(FrameId { generation: next()?, seq: next()? });
        Some(Self { session, extent, up_to: [frame()?, frame()?] })
    }

    /// The last frame of `generation` that the note counts for.
    fn seq(&self, generation: u64) -> Option<u64> {
        self.up_to.iter().find(|it| it.generation == generation).map(|it| it.seq)
    }
}

impl Shape {
    /// The position of note number `number`.
    #[must_use]
    pub fn note(self, number: u64) -> Pos {
        let at = self.notes().start.0 + number % NOTES * NOTE_BYTES;
        assert!(at + NOTE_BYTES <= self.bytes(), "a note lies within the journal");
        Pos(at)
    }

    /// The extent of all notes.
    #[must_use]
    pub fn notes(self) -> Extent<Pos> {
        Extent::new(self.bytes() - NOTES_BYTES, NOTES_BYTES)
    }
}

/// The notes that count for one generation of a journal, by the last frame that each applies to.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<(u64, Extent<Addr>)>);

impl Notes {
    /// Reads the notes of `session` for `generation`, on a disk of `size` bytes.
    pub(super) fn read(
        journal: &dyn Medium,
        shape: Shape,
        (session, generation, size): (u64, u64, u64),
    ) -> Result<Self, MediumError> {
        let mut bytes = vec![0; NOTES_BYTES as usize];
        journal.read(shape.notes().start, &mut bytes)?;
        let notes = bytes.chunks(NOTE_BYTES as usize).filter_map(Note::from_bytes);
        let notes = notes.filter(|it| it.session == session && it.extent.end() <= size);
        Ok(Self(notes.filter_map(|it| Some((it.seq(generation)?, it.extent))).collect()))
    }

    /// Applies the notes up to frame `seq`, which was applied to `state`.
    pub(super) fn apply(&mut self, seq: u64, state: &mut State) {
        self.0.retain(|(up_to, extent)| {
            let is_next = *up_to == seq;
            if is_next {
                state.ledger.overwrite(*extent);
            }
            !is_next
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::owed::journal::notes::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_a_torn_one_is_none() {
        let frame = |generation, seq| FrameId { generation, seq };
        let note = Note { session: 9, extent: Extent::new(4096, 512), up_to: [frame(3, 7), frame(4, 8)] };
        let bytes = note.to_bytes();
        assert_eq!(Note::from_bytes(&bytes), Some(note));
        assert_eq!((note.seq(3), note.seq(4), note.seq(5)), (Some(7), Some(8), None));
        for at in 0..60 {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert_eq!(Note::from_bytes(&torn), None, "byte {at}");
        }
        assert_eq!(Note::from_bytes(&[0; NOTE_BYTES as usize]), None);
    }
}
