//! What a snapshot begins with: its name, which nothing but the pool ever has, and its folder.

use serde::{Deserialize, Serialize};

use super::{BadMetadata, Recipe, Role};

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    pub name: Vec<u8>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Its entries.
    pub folder: Recipe,
}

impl Snapshot {
    /// The bytes of its chunk.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entry = postcard::to_allocvec(self).expect("a snapshot has lengths that are known");
        [vec![Role::Snapshot.byte()], entry].concat()
    }

    /// Reads its chunk.
    ///
    /// # Errors
    ///
    /// [`BadMetadata`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Snapshot, BadMetadata> {
        let bad = BadMetadata::new(bytes, "snapshot");
        match Role::take(bytes)? {
            (Role::Snapshot, rest) => match postcard::take_from_bytes(rest) {
                Ok((snapshot, [])) => Ok(snapshot),
                _ => Err(bad),
            },
            _ => Err(bad),
        }
    }
}
