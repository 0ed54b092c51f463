//! The sessions of a disk, in the order in which they were drawn. Records name them by index.

use crate::units::{DiskId, Generation, Session};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most sessions of a disk: an index has two bytes.
pub const SESSIONS_MAX: usize = 1 << 16;
/// Bytes of a record: no record lies in two sectors.
pub(super) const RECORD_BYTES: usize = 32;

/// A session, by its place in the key file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionIndex(pub u16);

/// All sessions; a damaged record is not a session, and its index stays taken.
#[derive(Clone, Default)]
pub(super) struct Sessions(Vec<Option<(Session, Generation)>>);

/// A session as it lies in the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    session: [u8; 16],
    generation: U32,
    index: U32,
    zeros: [u8; 4],
    sum: U32,
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES);

impl Record {
    fn new(disk: DiskId, index: usize, session: Session, generation: Generation) -> Record {
        let index = u32::try_from(index).expect("there are 65,536 sessions at most").into();
        let generation = generation.0.into();
        let mut record = Record { session: session.0, generation, index, zeros: [0; 4], sum: 0.into() };
        record.sum = record.checksum(disk).into();
        record
    }

    /// Of the disk and all of the record before the sum.
    fn checksum(&self, disk: DiskId) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&disk.0), &self.as_bytes()[..RECORD_BYTES - 4])
    }

    fn session(&self, disk: DiskId, index: usize) -> Option<(Session, Generation)> {
        let is_right = self.sum.get() == self.checksum(disk) && self.index.get() as usize == index;
        is_right.then_some((Session(self.session), Generation(self.generation.get())))
    }
}

impl Sessions {
    /// Up to the last record that is not empty.
    pub(super) fn from_bytes(bytes: &[u8], disk: DiskId) -> Sessions {
        let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
        let count =
            records.iter().rposition(|record| *record != [0; RECORD_BYTES]).map_or(0, |last| last + 1);
        let read = |(index, bytes): (usize, &[u8; RECORD_BYTES])| {
            Record::ref_from_bytes(bytes).expect("a record has these bytes").session(disk, index)
        };
        Sessions(records[..count.min(SESSIONS_MAX)].iter().enumerate().map(read).collect())
    }

    /// The indices of damaged records.
    pub(super) fn damaged(&self) -> impl Iterator<Item = SessionIndex> + '_ {
        let damaged = self.0.iter().enumerate().filter(|(_, session)| session.is_none());
        damaged.filter_map(|(index, _)| u16::try_from(index).ok().map(SessionIndex))
    }

    /// A damaged record stays damaged, so that its index stays taken.
    pub(super) fn to_bytes(&self, disk: DiskId) -> Vec<u8> {
        let write = |(index, session): (usize, &Option<(Session, Generation)>)| match session {
            Some((session, generation)) => {
                Record::new(disk, index, *session, *generation).as_bytes().to_vec()
            }
            None => vec![0xff; RECORD_BYTES],
        };
        self.0.iter().enumerate().flat_map(write).collect()
    }

    /// The record of one more session.
    pub(super) fn add(
        &mut self,
        disk: DiskId,
        session: Session,
        generation: Generation,
    ) -> Option<(SessionIndex, Vec<u8>)> {
        let index = u16::try_from(self.0.len()).ok()?;
        let record = Record::new(disk, self.0.len(), session, generation);
        self.0.push(Some((session, generation)));
        Some((SessionIndex(index), record.as_bytes().to_vec()))
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("there are 65,536 sessions at most")
    }

    pub(super) fn get(&self, index: SessionIndex) -> Option<(Session, Generation)> {
        *self.0.get(usize::from(index.0))?
    }

    /// The highest generation that a session names.
    pub(super) fn newest_generation(&self) -> Generation {
        self.0.iter().flatten().map(|(_, generation)| *generation).max().unwrap_or(Generation(0))
    }
}
