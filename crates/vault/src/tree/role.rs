//! The kind of a chunk of metadata: its first byte says so. So a chunk has one meaning, whoever names it, and
//! what it names needs to be walked once.

use super::recipe::LAYERS_MAX;
use super::{BadMetadata, Kind, Snapshot, nodes, spans};
use crate::Reference;

/// The part that a chunk plays for the one that names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Content of a file: no metadata.
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

/// The kind of a chunk of metadata, and the chunks that it names.
///
/// # Errors
///
/// [`BadMetadata`] if it is none.
pub fn children(bytes: &[u8]) -> Result<(Role, Vec<Child>), BadMetadata> {
    let (role, _) = Role::take(bytes)?;
    let children = match role {
        Role::Content => Vec::new(),
        Role::Nodes => named_by_nodes(bytes)?,
        Role::Snapshot => Snapshot::from_bytes(bytes)?.folder.children(true)?,
        Role::Spans { is_folder, layer } => {
            let role = Role::below(is_folder, layer);
            let chunks = spans(bytes)?.into_iter().filter_map(|span| span.reference());
            chunks.map(|chunk| Child { chunk, role }).collect()
        }
    };
    Ok((role, children))
}

fn named_by_nodes(bytes: &[u8]) -> Result<Vec<Child>, BadMetadata> {
    let mut found = Vec::new();
    for node in nodes(bytes)? {
        match &node.kind {
            Kind::File(recipe) => found.extend(recipe.children(false)?),
            Kind::Folder(recipe) => found.extend(recipe.children(true)?),
            _ => {}
        }
    }
    Ok(found)
}
