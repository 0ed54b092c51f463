//! What is done to content before a vault is asked about it: it is cut, named and perhaps compressed. Each thread of a put has a
//! preparer of its own, and what is stored does not depend on which of them it was.

use crate::Fingerprint;
use crate::chunk::{CHUNK_BYTES_MAX, Compression, Cutter, Packed, Packer, VaultKey};
use crate::container::Class;

/// A chunk with its name.
#[derive(Debug)]
pub enum Chunk {
    /// As it was read.
    Raw(Class, Fingerprint, Vec<u8>),
    /// Ready to be stored.
    Packed(Packed),
}

impl Chunk {
    /// The name.
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Chunk::Raw(_, fingerprint, _) => *fingerprint,
            Chunk::Packed(packed) => packed.fingerprint,
        }
    }

    /// Bytes of its content.
    pub fn raw_bytes(&self) -> u64 {
        match self {
            Chunk::Raw(_, _, content) => content.len() as u64,
            Chunk::Packed(packed) => packed.raw_bytes as u64,
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Preparer {
    packer: Packer,
    cutter: Cutter,
}

impl Preparer {
    /// A preparer for the vault of that key.
    pub fn new(key: &VaultKey, compression: Compression) -> Preparer {
        Preparer { packer: Packer::new(key.clone(), compression), cutter: Cutter::new(key) }
    }

    /// The chunk of `content`, not compressed.
    pub(super) fn name(&self, class: Class, content: &[u8]) -> Chunk {
        Chunk::Raw(class, self.packer.fingerprint(class, content), content.to_vec())
    }

    /// The chunk, ready to be stored.
    pub(super) fn pack(&mut self, chunk: Chunk) -> Packed {
        match chunk {
            Chunk::Raw(class, fingerprint, content) => self.packer.pack_named(class, fingerprint, &content),
            Chunk::Packed(packed) => packed,
        }
    }

    /// Takes chunks from the front of a file's `rest`: all of it if that is the `end`, else as long as it has bytes for the longest
    /// chunk. They are compressed if they are likely to be new, which changes nothing but who compresses them.
    pub fn cut(&mut self, rest: &mut Vec<u8>, is_end: bool, are_new: bool) -> Vec<Chunk> {
        let (mut at, mut chunks) = (0, Vec::new());
        let bytes_min = if is_end { 1 } else { CHUNK_BYTES_MAX };
        while rest.len() - at >= bytes_min {
            let next = &rest[at..rest.len().min(at + CHUNK_BYTES_MAX)];
            let length = self.cutter.cut(next);
            let chunk = self.name(Class::Data, &next[..length]);
            chunks.push(if are_new { Chunk::Packed(self.pack(chunk)) } else { chunk });
            at += length;
        }
        rest.drain(..at);
        chunks
    }
}
