//! The chunks that a chunk of metadata names.

use super::{BadMetadata, Child, Kind, Role, Snapshot, nodes, spans};

/// The kind of a chunk of metadata, and the chunks that it names.
///
/// # Errors
///
/// [`BadMetadata`] if it is not a chunk of metadata.
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
