//! Sets of entries, each of which is a file (exFAT specification, sections 6.3, 7.4, 7.6 and 7.7).
//!
//! 1. A set counts only with its checksum, and only whole: SecondaryCount entries follow the first one, in their order.
//! 2. What a set says of its clusters is checked when the file is asked for, and is an error of that file alone.

use crate::clusters::Layout;
use crate::clusters::slots::{SLOT_BYTES, Slot};
use crate::clusters::time::time;
use crate::clusters::walk::{Node, Place, Stream, plain};
use crate::names::from_units;
use crate::{Attributes, Error, Kind, Time};
use std::fmt::Display;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// EntryType: this entry, and all that follow, were never used.
pub(super) const END: u8 = 0;
/// EntryType of the first entry of a file.
pub(super) const FILE: u8 = 0x85;
const STREAM_EXTENSION: u8 = 0xC0;
const FILE_NAME: u8 = 0xC1;
/// EntryType: the entry is in use, and belongs to the one before.
const SECONDARY_IN_USE: u8 = 0xC0;
/// SecondaryCount of a file with a name of 255 units.
const SECONDARY_COUNT_MAX: u8 = 18;
/// Most bytes of a set.
pub(super) const SET_BYTES_MAX: u64 = (1 + SECONDARY_COUNT_MAX as u64) * SLOT_BYTES;
/// FileAttributes: a folder.
const DIRECTORY: u16 = 0x10;
/// GeneralSecondaryFlags: the entry can have clusters.
const ALLOCATION_POSSIBLE: u8 = 1;
/// GeneralSecondaryFlags: the clusters lie in one piece, and have no chain.
const NO_FAT_CHAIN: u8 = 2;
/// Most bytes of a folder.
pub(super) const FOLDER_BYTES_MAX: u64 = 256 << 20;
/// UtcOffset: the other bits hold an offset.
const OFFSET_VALID: u8 = 0x80;
const OFFSET_SECONDS: i64 = 15 * 60;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawFile {
    entry_type: u8,
    secondary_count: u8,
    set_checksum: U16,
    file_attributes: U16,
    _reserved1: U16,
    create_timestamp: U32,
    last_modified_timestamp: U32,
    last_accessed_timestamp: U32,
    create_10ms_increment: u8,
    last_modified_10ms_increment: u8,
    create_utc_offset: u8,
    last_modified_utc_offset: u8,
    last_accessed_utc_offset: u8,
    _reserved2: [u8; 7],
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawStream {
    entry_type: u8,
    general_secondary_flags: u8,
    _reserved1: u8,
    name_length: u8,
    _name_hash: U16,
    _reserved2: U16,
    valid_data_length: U64,
    _reserved3: U32,
    first_cluster: U32,
    data_length: U64,
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawName {
    entry_type: u8,
    _general_secondary_flags: u8,
    file_name: [U16; 15],
}

const _: () = {
    assert!(size_of::<RawFile>() == 32 && offset_of!(RawFile, last_accessed_utc_offset) == 24);
    assert!(size_of::<RawStream>() == 32 && offset_of!(RawStream, data_length) == 24);
    assert!(size_of::<RawName>() == 32);
};

/// What an entry says of its clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allocation {
    /// The byte of the source at which the entry lies.
    pub at: u64,
    pub first: u32,
    /// DataLength.
    pub bytes: u64,
    /// The clusters lie in one piece, and have no chain.
    pub is_piece: bool,
}

impl Allocation {
    fn of(at: u64, raw: &RawStream) -> Self {
        let is_piece = raw.general_secondary_flags & NO_FAT_CHAIN != 0;
        Self { at, first: raw.first_cluster.get(), bytes: raw.data_length.get(), is_piece }
    }

    /// All of the clusters, in a volume of this `layout`; `None` if the entry has none.
    pub(super) fn stream(self, layout: &Layout) -> Result<Option<Stream>, Error> {
        let Self { at, first, bytes, is_piece } = self;
        if bytes == 0 && (is_piece || !layout.is_cluster(first)) {
            return Ok(None);
        }
        if bytes > layout.bytes() {
            return Err(damaged(at, "DataLength", bytes));
        }
        Ok(Some(Stream { place: self.place(layout)?, bytes, is_open: false }))
    }

    /// Where the clusters lie. There are some.
    fn place(self, layout: &Layout) -> Result<Place, Error> {
        let Self { at, first, bytes, is_piece } = self;
        let clusters = if is_piece { bytes.div_ceil(layout.cluster_bytes) } else { 1 };
        let last = u32::try_from(u64::from(first) + clusters - 1);
        if !layout.is_cluster(first) || !last.is_ok_and(|it| layout.is_cluster(it)) {
            return Err(damaged(at, "FirstCluster", first));
        }
        Ok(if is_piece { Place::Piece(layout.at(first)) } else { Place::Chain(first) })
    }
}

/// A file, as its entries have it.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// The byte of the source at which its first entry lies.
    pub at: u64,
    pub name: String,
    /// Clusters beside those of the content: those of vendors.
    pub further: Vec<Allocation>,
    file: RawFile,
    stream: RawStream,
}

/// Bytes of an entry.
type Bytes = [u8; SLOT_BYTES as usize];

/// The checksum of a set, without the field that holds it.
fn checksum(entries: &[Bytes]) -> u16 {
    let bytes = entries.as_flattened().iter().enumerate().filter(|(at, _)| !matches!(at, 2 | 3));
    bytes.fold(0_u16, |sum, (_, byte)| sum.rotate_right(1).wrapping_add((*byte).into()))
}

fn damaged(at: u64, field: &str, value: impl Display) -> Error {
    Error::Damaged(format!("{field} of the entry at byte {at} is {value}"))
}

/// A time: UTC if it has no offset, as Linux takes it without an option.
fn utc(timestamp: u32, hundredths: u8, offset: u8) -> Option<Time> {
    let local = time((timestamp >> 16) as u16, timestamp as u16, hundredths)?;
    // The seven bits below the flag are a signed number.
    let quarters = i64::from((offset << 1) as i8 >> 1);
    let seconds = if offset & OFFSET_VALID != 0 { quarters * OFFSET_SECONDS } else { 0 };
    Some(Time { seconds: local.seconds - seconds, ..local })
}

impl Set {
    fn from_entries(at: u64, entries: &[Bytes]) -> Result<Self, Error> {
        let [file, stream, names @ ..] = entries else { return Err(damaged(at, "SecondaryCount", 0)) };
        let (file, stream) = (zerocopy::transmute!(*file), zerocopy::transmute!(*stream));
        let (RawFile { set_checksum, .. }, RawStream { entry_type, .. }) = (&file, &stream);
        if set_checksum.get() != checksum(entries) {
            return Err(damaged(at, "SetChecksum", format_args!("{set_checksum:#x}")));
        }
        if *entry_type != STREAM_EXTENSION {
            return Err(damaged(at + SLOT_BYTES, "EntryType", format_args!("{entry_type:#x}")));
        }
        let name = Self::name(at, &stream, names)?;
        let further = names.iter().zip(2_u64..).filter_map(|(bytes, n)| further(at + n * SLOT_BYTES, bytes));
        Ok(Self { at, name, further: further.collect(), file, stream })
    }

    fn name(at: u64, stream: &RawStream, names: &[Bytes]) -> Result<String, Error> {
        let length = usize::from(stream.name_length);
        let names = names.iter().map(|it| -> RawName { zerocopy::transmute!(*it) });
        let names = names.take_while(|it| it.entry_type == FILE_NAME);
        let units: Vec<u16> = names.flat_map(|it| it.file_name.map(U16::get)).take(length).collect();
        if units.len() < length {
            return Err(damaged(at + SLOT_BYTES, "NameLength", length));
        }
        let name = String::from_utf16_lossy(&units);
        from_units(&units).ok_or_else(|| damaged(at, "FileName", format_args!("{name:?}")))
    }

    fn attributes(&self) -> Attributes {
        let file = &self.file;
        let is_folder = file.file_attributes.get() & DIRECTORY != 0;
        let bytes = self.stream.data_length.get();
        let (born, modified) = (file.create_timestamp.get(), file.last_modified_timestamp.get());
        Attributes {
            kind: if is_folder { Kind::Folder } else { Kind::Regular },
            modified: utc(modified, file.last_modified_10ms_increment, file.last_modified_utc_offset),
            accessed: utc(file.last_accessed_timestamp.get(), 0, file.last_accessed_utc_offset),
            born: utc(born, file.create_10ms_increment, file.create_utc_offset),
            ..plain(bytes)
        }
    }

    /// The file, in a volume of this `layout`.
    pub(super) fn node(&self, layout: &Layout) -> Result<Node, Error> {
        let at = self.at + SLOT_BYTES;
        let mut attributes = self.attributes();
        let (length, valid) = (self.stream.data_length.get(), self.stream.valid_data_length.get());
        let is_folder = attributes.kind == Kind::Folder;
        let length_max = if is_folder { FOLDER_BYTES_MAX } else { layout.bytes() };
        if length > length_max {
            return Err(damaged(at, "DataLength", length));
        }
        if valid > length {
            return Err(damaged(at, "ValidDataLength", valid));
        }
        attributes.allocated_bytes = layout.allocated(length);
        let bytes = if is_folder { length } else { valid };
        let place = if length == 0 { Place::Piece(0) } else { self.content().place(layout)? };
        Ok(Node { attributes, stream: Stream { place, bytes, is_open: false } })
    }

    /// The clusters of the content.
    pub(super) fn content(&self) -> Allocation {
        Allocation::of(self.at + SLOT_BYTES, &self.stream)
    }
}

/// The clusters of an entry behind the one of the content, if it has some.
fn further(at: u64, bytes: &Bytes) -> Option<Allocation> {
    let raw: RawStream = zerocopy::transmute!(*bytes);
    let has_clusters = raw.entry_type != FILE_NAME && raw.general_secondary_flags & ALLOCATION_POSSIBLE != 0;
    has_clusters.then(|| Allocation::of(at, &raw))
}

/// Gathers the entries of a set from the slots of a folder.
#[derive(Debug, Default)]
pub(super) struct Gather {
    at: u64,
    entries: Vec<Bytes>,
    /// Entries of the set that are still to come.
    left: usize,
}

impl Gather {
    /// Takes the next slot; gives the set that it completes. An error is about a set that is not whole: the next one may be.
    pub(super) fn push(&mut self, slot: &Slot) -> Result<Option<Set>, Error> {
        let entry_type = slot.bytes[0];
        if entry_type & SECONDARY_IN_USE == SECONDARY_IN_USE {
            return self.secondary(slot);
        }
        let before = self.end();
        if entry_type == FILE {
            self.begin(slot)?;
        }
        before.map(|()| None)
    }

    fn begin(&mut self, slot: &Slot) -> Result<(), Error> {
        let count = slot.bytes[1];
        if !(2..=SECONDARY_COUNT_MAX).contains(&count) {
            return Err(damaged(slot.at, "SecondaryCount", count));
        }
        (self.at, self.left) = (slot.at, count.into());
        self.entries.push(slot.bytes);
        Ok(())
    }

    fn secondary(&mut self, slot: &Slot) -> Result<Option<Set>, Error> {
        // Entries of the bitmap and of other kinds may have such entries, too.
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.entries.push(slot.bytes);
        self.left = left;
        if left > 0 {
            return Ok(None);
        }
        Set::from_entries(self.at, &std::mem::take(&mut self.entries)).map(Some)
    }

    /// Whether no set has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends a set that is not whole.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.entries.clear();
        match std::mem::take(&mut self.left) {
            0 => Ok(()),
            left => {
                Err(Error::Damaged(format!("the entry at byte {} lacks {left} that belong to it", self.at)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
