//! A chunk ready to be stored: named and compressed, outside of the vault's owner.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BadChunk, Codec, Compression, Compressor, VaultKey, decompress};
use crate::Fingerprint;
use crate::units::Class;

/// A chunk with its name. Only a [`Packer`] makes one, or [`Sent::check`], so that the name is the content's. To another process
/// it goes without the name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct Packed {
    #[serde(skip)]
    pub(crate) fingerprint: Fingerprint,
    pub(crate) sent: Sent,
}

impl Packed {
    /// The fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The bytes that are to be stored.
    pub fn stored(&self) -> &[u8] {
        &self.sent.stored.0
    }
}

/// Names and compresses chunks: the part of a put that takes time, which each client does in its own thread.
#[derive(Debug)]
pub struct Packer {
    key: VaultKey,
    compressor: Compressor,
}

impl Packer {
    /// A packer for the vault with this key.
    pub fn new(key: VaultKey, compression: Compression) -> Packer {
        Packer { key, compressor: Compressor::new(compression) }
    }

    /// The fingerprint of a chunk of this class, data or metadata.
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

    /// The chunk of content whose fingerprint is known.
    pub(crate) fn pack_named(&mut self, class: Class, fingerprint: Fingerprint, content: &[u8]) -> Packed {
        let (codec, stored) = self.compressor.compress(content);
        let (is_metadata, stored) = (class == Class::Metadata, Bytes(stored.into()));
        Packed { fingerprint, sent: Sent { is_metadata, codec, raw_bytes: content.len(), stored } }
    }
}

/// A chunk that another process sent: any bytes, without a fingerprint until they are checked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sent {
    pub(super) is_metadata: bool,
    pub(crate) codec: Codec,
    pub(crate) raw_bytes: usize,
    pub(super) stored: Bytes,
}

impl Sent {
    /// The chunk, under the name that its content has.
    ///
    /// # Errors
    ///
    /// [`BadChunk`] if the chunk is empty, does not decompress, or is longer compressed than raw.
    pub fn check(self, key: &VaultKey) -> Result<Packed, BadChunk> {
        let Bytes(stored) = &self.stored;
        if stored.is_empty() || stored.len() > self.raw_bytes {
            return Err(BadChunk { codec: self.codec, stored: stored.len(), raw: self.raw_bytes });
        }
        let content = decompress(self.codec, stored, self.raw_bytes)?;
        Ok(Packed { fingerprint: key.fingerprint(self.class(), &content), sent: self })
    }

    /// Whether the chunk is data or metadata.
    pub(crate) fn class(&self) -> Class {
        if self.is_metadata { Class::Metadata } else { Class::Data }
    }
}

/// Bytes that are sent without an encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        <&[u8]>::deserialize(deserializer).map(|bytes| Bytes(bytes.to_vec()))
    }
}
