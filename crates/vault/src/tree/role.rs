//! The kind of a chunk of metadata: its first byte says so. So a chunk has one meaning, whichever chunk names it,
//! and the chunks below need to be walked only once.

use super::BadMetadata;
use crate::Reference;

/// The part that a chunk plays for the one that names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Content of a file, which is not metadata.
    Content,
    /// Entries of a folder.
    Nodes,
    /// The root of a snapshot.
    Snapshot,
    /// Spans of a recipe.
    Spans {
        /// Whether the recipe is of a folder.
        is_folder: bool,
        /// Layers of spans below: 0 if the spans name content, or entries of a folder.
        layer: u8,
    },
}

/// Most layers: 32 × 128⁷ spans, more than any file has.
pub(super) const LAYERS_MAX: u8 = 8;

const NODES: u8 = 1;
const SNAPSHOT: u8 = 2;
const SPANS: u8 = 0x40;
const FOLDER: u8 = 0x20;

impl Role {
    /// Chunks that the spans of a layer name.
    pub(super) fn below(is_folder: bool, layer: u8) -> Role {
        match (layer.checked_sub(1), is_folder) {
            (Some(layer), _) => Role::Spans { is_folder, layer },
            (None, true) => Role::Nodes,
            (None, false) => Role::Content,
        }
    }

    /// The first byte of a chunk of metadata.
    pub(super) fn byte(self) -> u8 {
        match self {
            Role::Content => 0,
            Role::Nodes => NODES,
            Role::Snapshot => SNAPSHOT,
            Role::Spans { is_folder, layer } => SPANS | (u8::from(is_folder) * FOLDER) | layer,
        }
    }

    /// The role of a chunk of metadata, and the bytes behind it.
    pub(super) fn take(bytes: &[u8]) -> Result<(Role, &[u8]), BadMetadata> {
        let bad = BadMetadata::new(bytes, "entries of a folder, spans, or snapshot");
        let (&first, rest) = bytes.split_first().ok_or(bad)?;
        let role = match first {
            NODES => Role::Nodes,
            SNAPSHOT => Role::Snapshot,
            _ => {
                let layer = first & !(SPANS | FOLDER);
                Role::Spans { is_folder: first & FOLDER != 0, layer }
            }
        };
        let has_layers = !matches!(role, Role::Spans { layer, .. } if layer >= LAYERS_MAX);
        if role.byte() == first && has_layers { Ok((role, rest)) } else { Err(bad) }
    }
}

/// A chunk that another one names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child {
    /// The chunk.
    pub chunk: Reference,
    /// The expected part.
    pub role: Role,
}
