//! A chunk ready to be stored: named and compressed, outside of the vault's owner.

use super::{Codec, Compression, Compressor, VaultKey};
use crate::Fingerprint;
use crate::container::Class;

/// A chunk with its name. Only a [`Packer`] makes one, so that the name is the content's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packed {
    pub(crate) class: Class,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) codec: Codec,
    pub(crate) stored: Vec<u8>,
    pub(crate) raw_bytes: usize,
}

impl Packed {
    /// The name.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The bytes that are to be stored.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }
}

/// Names and compresses chunks: the part of a put that takes time, which each client does in its own thread.
#[derive(Debug)]
pub struct Packer {
    key: VaultKey,
    compressor: Compressor,
}

impl Packer {
    /// A packer for the vault of that key.
    pub fn new(key: VaultKey, compression: Compression) -> Packer {
        Packer { key, compressor: Compressor::new(compression) }
    }

    /// The name of a chunk of that class, data or metadata.
    pub fn fingerprint(&self, class: Class, content: &[u8]) -> Fingerprint {
        self.key.fingerprint(class, content)
    }

    /// The chunk of `content`.
    ///
    /// # Panics
    ///
    /// If the content is longer than a chunk may be.
    pub fn pack(&mut self, class: Class, content: &[u8]) -> Packed {
        self.pack_named(class, self.fingerprint(class, content), content)
    }

    /// The same of content whose name is known.
    pub(crate) fn pack_named(&mut self, class: Class, fingerprint: Fingerprint, content: &[u8]) -> Packed {
        let (codec, stored) = self.compressor.compress(content);
        Packed { class, fingerprint, codec, stored: stored.to_vec(), raw_bytes: content.len() }
    }
}
