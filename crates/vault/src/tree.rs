//! The parts of a snapshot: files, folders, and the recipes of both (the paper's section 3).
//!
//! Recipes and folders are chunks themselves, of a class of their own. They are cut where their entries say
//! so, not after a number of them: a file that changes costs a few chunks of its recipe and of
//! its folder, and the rest is shared with the snapshot before.

mod children;
mod cursor;
mod folder;
mod group;
mod recipe;
mod role;
mod snapshot;
mod span;

#[cfg(test)]
mod tests;

pub use children::children;
pub use cursor::Cursor;
pub use folder::{BadNode, FolderBuilder, Kind, Metadata, Node, Origin, nodes};
pub use recipe::{Layer, Recipe, RecipeBuilder};
pub use role::{Child, Role};
pub use snapshot::{Snapshot, Totals};
pub use span::{Span, spans};

/// Why a chunk of metadata is invalid, though its content is as it was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "metadata chunk of {bytes} bytes: expected {wanted}; use a newer quietus, or run `quietus vault verify`"
)]
pub struct BadMetadata {
    bytes: usize,
    wanted: &'static str,
}

impl BadMetadata {
    fn new(bytes: &[u8], wanted: &'static str) -> BadMetadata {
        BadMetadata { bytes: bytes.len(), wanted }
    }
}

/// The `wanted` things that `bytes` consist of.
fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], wanted: &'static str) -> Result<Vec<T>, BadMetadata> {
    let bad = BadMetadata::new(bytes, wanted);
    let (mut found, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (item, after) = postcard::take_from_bytes(rest).map_err(|_| bad)?;
        found.push(item);
        rest = after;
    }
    Ok(found)
}
