//! The directory: an entry for each chunk, with a checksum of its own, so that one entry can be destroyed alone.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Class, ENTRY_BYTES, Head};
use crate::chunk::{BadChunk, CHUNK_BYTES_MAX, Codec, VaultKey, decompress};
use crate::{Fingerprint, NUMBER_MAX, Ordinal, Reference};

/// A chunk as a container has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The chunk.
    pub chunk: Reference,
    /// Its first byte, from that of the container's first stored chunk on.
    pub offset: u32,
    /// Bytes as stored.
    pub stored_bytes: u32,
    /// Bytes of the content.
    pub raw_bytes: u32,
    /// The codec of the stored bytes.
    pub codec: Codec,
    /// CRC-32C of the bytes as stored.
    pub checksum: u32,
}

/// An entry of a container's directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The entry of a chunk.
    Chunk(Stored),
    /// The chunk was destroyed, and its entry too: nothing but zeros.
    Destroyed,
    /// The entry has changed: which chunk it was is not known.
    Damaged,
}

/// Why a chunk's content cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChunkError {
    /// Stored bytes have changed.
    #[error(
        "chunk: checksum {found:#010x} of the stored bytes, expected {expected:#010x}; run `quietus vault verify`"
    )]
    Checksum {
        /// The checksum of the bytes.
        found: u32,
        /// The checksum in the directory.
        expected: u32,
    },
    /// The stored bytes are not what the directory says.
    #[error(transparent)]
    Codec(#[from] BadChunk),
    /// The content is not the requested one.
    #[error("chunk: content with another fingerprint than its entry; run `quietus vault verify`")]
    Fingerprint,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    fingerprint: [u8; 32],
    ordinal: U64,
    offset: U32,
    stored_bytes: U32,
    raw_bytes: U32,
    codec: u8,
    reserved: [u8; 3],
    checksum: U32,
    entry_checksum: U32,
}

const _: () = assert!(size_of::<Raw>() == ENTRY_BYTES);

impl Entry {
    /// Reads an entry of the directory of the container with that head.
    pub fn from_bytes(head: &Head, bytes: &[u8; ENTRY_BYTES]) -> Entry {
        if bytes == &[0; ENTRY_BYTES] {
            return Entry::Destroyed;
        }
        let checked = crc32c::crc32c(&bytes[..ENTRY_BYTES - 4]);
        match Raw::read_from_bytes(&bytes[..]) {
            Ok(raw) if raw.entry_checksum == checked => raw.stored(head).map_or(Entry::Damaged, Entry::Chunk),
            _ => Entry::Damaged,
        }
    }
}

impl Raw {
    /// `None` if the entry is invalid: a chunk lies within the container, and has a length that chunks have.
    fn stored(&self, head: &Head) -> Option<Stored> {
        let stored = Stored {
            chunk: Reference {
                fingerprint: Fingerprint(self.fingerprint),
                ordinal: Ordinal(self.ordinal.get()),
            },
            offset: self.offset.get(),
            stored_bytes: self.stored_bytes.get(),
            raw_bytes: self.raw_bytes.get(),
            codec: Codec::from_byte(self.codec)?,
            checksum: self.checksum.get(),
        };
        let end = stored.offset.checked_add(stored.stored_bytes)?;
        let fits = end <= head.payload_bytes && stored.raw_bytes as usize <= CHUNK_BYTES_MAX;
        (fits && stored.chunk.ordinal.0 < NUMBER_MAX).then_some(stored)
    }
}

impl Stored {
    /// The entry's bytes.
    pub(super) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut raw = Raw {
            fingerprint: self.chunk.fingerprint.0,
            ordinal: self.chunk.ordinal.0.into(),
            offset: self.offset.into(),
            stored_bytes: self.stored_bytes.into(),
            raw_bytes: self.raw_bytes.into(),
            codec: self.codec as u8,
            reserved: [0; 3],
            checksum: self.checksum.into(),
            entry_checksum: 0.into(),
        };
        raw.entry_checksum = crc32c::crc32c(&raw.as_bytes()[..ENTRY_BYTES - 4]).into();
        zerocopy::transmute!(raw)
    }

    /// The content of a chunk of `class`, of its bytes as `stored`: the same that was put in, or an error.
    ///
    /// # Errors
    ///
    /// [`ChunkError`] if the bytes have changed since.
    pub fn content(&self, key: &VaultKey, class: Class, stored: &[u8]) -> Result<Vec<u8>, ChunkError> {
        self.check(stored)?;
        let content = decompress(self.codec, stored, self.raw_bytes as usize)?;
        if key.fingerprint(class, &content) != self.chunk.fingerprint {
            return Err(ChunkError::Fingerprint);
        }
        Ok(content)
    }

    /// Checks that the chunk's bytes are as they were `stored`, which is enough to copy them.
    ///
    /// # Errors
    ///
    /// [`ChunkError::Checksum`] if the bytes have changed.
    pub fn check(&self, stored: &[u8]) -> Result<(), ChunkError> {
        let found = crc32c::crc32c(stored);
        let same = found == self.checksum && stored.len() == self.stored_bytes as usize;
        if same { Ok(()) } else { Err(ChunkError::Checksum { found, expected: self.checksum }) }
    }
}
