//! The root of a snapshot: its name, which lies only in the pool, and its folder.

use serde::{Deserialize, Serialize};

use super::{BadMetadata, Kind, Metadata, Node, Recipe, Role};

/// The amount of entries and bytes in a folder and all below.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of the files' content, holes included.
    pub bytes: u64,
}

impl Totals {
    /// Adds another folder's amounts.
    pub fn add(&mut self, other: Totals) {
        self.files = self.files.saturating_add(other.files);
        self.folders = self.folders.saturating_add(other.folders);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Adds an entry, without the entries below it.
    pub fn count(&mut self, node: &Node) {
        let (files, folders, bytes) = match &node.kind {
            Kind::File(recipe) => (1, 0, recipe.bytes()),
            Kind::Folder(_) => (0, 1, 0),
            _ => (1, 0, 0),
        };
        self.add(Totals { files, folders, bytes });
    }

    /// Subtracts the amounts that are gone.
    pub fn less(self, gone: Totals) -> Totals {
        Totals {
            files: self.files.saturating_sub(gone.files),
            folders: self.folders.saturating_sub(gone.folders),
            bytes: self.bytes.saturating_sub(gone.bytes),
        }
    }
}

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name. Snapshots of one name and host are a series.
    pub name: Vec<u8>,
    /// The host whose files it has.
    pub host: Vec<u8>,
    /// Labels by which snapshots are selected.
    pub tags: Vec<Vec<u8>>,
    /// When the put began, by the host's clock, in milliseconds since 1970. A file that was changed later may have changed
    /// again, at the same time by its file system's clock, after it was read.
    pub begun_ms: u64,
    /// When the snapshot was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Its entries and the bytes of their content.
    pub totals: Totals,
    /// Its entries.
    pub folder: Recipe,
    /// The attributes of the folder that has these entries, where all of one was put: `.`, `/`, or `./` of an archive.
    pub top: Option<Metadata>,
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
    /// [`BadMetadata`] if the chunk is not a snapshot.
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
