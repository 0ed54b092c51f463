//! Prepares content for a vault: cuts it into chunks, names them, and compresses those that are likely to be new. Each thread of a
//! put has its own preparer, and the stored bytes do not depend on which thread prepared them.

use crate::Fingerprint;
use crate::chunk::{CHUNK_BYTES_MAX, Compression, Cutter, Packed, Packer, VaultKey};
use crate::container::Class;
use std::borrow::Cow;

/// A chunk with its name.
#[derive(Debug)]
pub enum Chunk<'c> {
    /// As read, not compressed.
    Raw(Class, Fingerprint, Cow<'c, [u8]>),
    /// Ready to be stored.
    Packed(Packed),
}

impl Chunk<'_> {
    /// The fingerprint.
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
            Chunk::Packed(packed) => packed.sent.raw_bytes as u64,
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Preparer {
    pub(super) packer: Packer,
    cutter: Cutter,
}

impl Preparer {
    /// A preparer for the vault with this key.
    pub fn new(key: &VaultKey, compression: Compression) -> Preparer {
        Preparer { packer: Packer::new(key.clone(), compression), cutter: Cutter::new(key) }
    }

    /// The chunk of `content`, not compressed.
    pub(super) fn name<'c>(&self, class: Class, content: impl Into<Cow<'c, [u8]>>) -> Chunk<'c> {
        let content = content.into();
        Chunk::Raw(class, self.packer.fingerprint(class, &content), content)
    }

    /// The chunk, ready to be stored.
    pub(super) fn pack(&mut self, chunk: Chunk<'_>) -> Packed {
        match chunk {
            Chunk::Raw(class, fingerprint, content) => self.packer.pack_named(class, fingerprint, &content),
            Chunk::Packed(packed) => packed,
        }
    }

    /// Takes chunks from the front of a file's `rest`: all of it at the `end`, else while it has bytes for the longest
    /// chunk. They are compressed if they are likely to be new, which changes nothing but who compresses them.
    pub fn cut(&mut self, rest: &mut Vec<u8>, is_end: bool, are_new: bool) -> Vec<Chunk<'static>> {
        let (mut at, mut chunks) = (0, Vec::new());
        let bytes_min = if is_end { 1 } else { CHUNK_BYTES_MAX };
        while rest.len() - at >= bytes_min {
            let next = &rest[at..rest.len().min(at + CHUNK_BYTES_MAX)];
            let length = self.cutter.cut(next);
            let content = &next[..length];
            chunks.push(match are_new {
                true => Chunk::Packed(self.packer.pack(Class::Data, content)),
                false => self.name(Class::Data, content.to_vec()),
            });
            at += length;
        }
        rest.drain(..at);
        chunks
    }
}
