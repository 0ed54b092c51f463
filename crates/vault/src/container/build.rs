//! Filling a container, in memory.

use super::{Class, ENTRY_BYTES, Entry, HEAD_BYTES, Head, Stored};
use crate::chunk::Codec;
use crate::{ContainerSequence, Fingerprint, Reference, VaultId};

/// A container that takes chunks until it is full, and is then written as a whole.
#[derive(Debug)]
pub struct Builder {
    vault: VaultId,
    sequence: ContainerSequence,
    class: Class,
    slot_bytes: usize,
    directory: Vec<u8>,
    payload: Vec<u8>,
}

impl Builder {
    /// An empty container for a slot of `slot_bytes`.
    pub fn new(vault: VaultId, sequence: ContainerSequence, class: Class, slot_bytes: usize) -> Builder {
        Builder { vault, sequence, class, slot_bytes, directory: Vec::new(), payload: Vec::new() }
    }

    /// Adds a chunk of `raw_bytes` that `codec` has made `stored` of; false if it has no room here.
    pub fn add(&mut self, chunk: Reference, codec: Codec, stored: &[u8], raw_bytes: usize) -> bool {
        let payload_start = (HEAD_BYTES + self.directory.len() + ENTRY_BYTES).next_multiple_of(HEAD_BYTES);
        if payload_start + (self.payload.len() + stored.len()).next_multiple_of(HEAD_BYTES) > self.slot_bytes
        {
            return false;
        }
        let entry = Stored {
            chunk,
            offset: self.payload.len() as u32,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            codec,
            checksum: crc32c::crc32c(stored),
        };
        self.directory.extend(entry.to_bytes());
        self.payload.extend(stored);
        true
    }

    /// A chunk, and its bytes as stored.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<(Stored, &[u8])> {
        let (head, entries) = (self.head(), self.directory.as_chunks::<ENTRY_BYTES>().0);
        let mut entries = entries.iter().filter(|entry| entry.starts_with(&fingerprint.0));
        match Entry::from_bytes(&head, entries.next()?) {
            Entry::Chunk(stored) => {
                let start = stored.offset as usize;
                Some((stored, &self.payload[start..start + stored.stored_bytes as usize]))
            }
            Entry::Destroyed | Entry::Damaged => None,
        }
    }

    /// Whether the container has no chunk.
    pub fn is_empty(&self) -> bool {
        self.directory.is_empty()
    }

    /// The head of the container with its present chunks.
    pub fn head(&self) -> Head {
        Head {
            vault: self.vault,
            sequence: self.sequence,
            class: self.class,
            chunks: (self.directory.len() / ENTRY_BYTES) as u32,
            payload_bytes: self.payload.len() as u32,
        }
    }

    /// The container's bytes, as many as [`Head::container_bytes`] says: head and directory, and then the chunks.
    pub fn finish(self) -> [Vec<u8>; 2] {
        let head = self.head();
        let mut front = head.to_bytes().to_vec();
        front.extend(&self.directory);
        front.resize(head.payload_start(), 0);
        let mut payload = self.payload;
        payload.resize(head.container_bytes() - front.len(), 0);
        [front, payload]
    }
}
