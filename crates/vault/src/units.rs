//! The names and numbers of the things in a vault.

use serde::{Deserialize, Serialize};

/// Keyed hash of a chunk's content: equal content has equal fingerprints within one vault, and
/// only the vault's key tells which content has which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The 64 bits at byte 8 × `number`, as a number that orders like the bytes; `number` is below 4.
    pub(crate) fn word(&self, number: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[8 * number..8 * number + 8]);
        u64::from_be_bytes(bytes)
    }
}

/// Number of a chunk: given once, when the chunk is stored, and kept when the chunk moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Ordinal(pub u64);

/// The numbers of chunks and of containers are below this: the index has 40 bits for each.
pub(crate) const NUMBER_MAX: u64 = 1 << 40;

/// A vault: 16 random bytes drawn at its creation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct VaultId(pub [u8; 16]);

/// Number of a container: each that is written has the next one, wherever it lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ContainerSequence(pub u64);

/// Number of a slot: its place in the pool, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SlotNumber(pub u32);

/// Number of a snapshot: each that is committed has the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotId(pub u64);

/// Number of a forget: each has the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ForgetId(pub u64);

/// Number of a sanitization: each has the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// Number of a put: each has the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct PutId(pub u64);

/// How a recipe names a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// The hash of the chunk's content.
    pub fingerprint: Fingerprint,
    /// Its number.
    pub ordinal: Ordinal,
}

/// The content of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Class {
    /// Content of files.
    Data = 0,
    /// Folders and recipes.
    Metadata = 1,
    /// A part of the index of fingerprints.
    Index = 2,
    /// Records that a sanitization puts aside.
    Spill = 3,
}

impl Class {
    /// The class with this number.
    pub fn from_number(number: u32) -> Option<Class> {
        [Class::Data, Class::Metadata, Class::Index, Class::Spill]
            .into_iter()
            .find(|&class| class as u32 == number)
    }
}
