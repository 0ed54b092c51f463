//! The spans of a recipe, and chunks of them.

use serde::{Deserialize, Serialize};

use super::{BadMetadata, Role, decode};
use crate::{Fingerprint, Ordinal, Reference};

/// Bytes that follow one another in a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Span {
    /// The number of bytes.
    pub bytes: u64,
    chunk: Option<([u8; 32], u64)>,
}

impl Span {
    /// The content of a chunk; in an upper layer, the content of all spans that the chunk has.
    pub fn chunk(chunk: Reference, bytes: u64) -> Span {
        Span { bytes, chunk: Some((chunk.fingerprint.0, chunk.ordinal.0)) }
    }

    /// Zeros that take no space.
    pub fn hole(bytes: u64) -> Span {
        Span { bytes, chunk: None }
    }

    /// The chunk; `None` for a hole.
    pub fn reference(&self) -> Option<Reference> {
        let (fingerprint, ordinal) = self.chunk?;
        Some(Reference { fingerprint: Fingerprint(fingerprint), ordinal: Ordinal(ordinal) })
    }
}

/// The spans that a chunk of a recipe has.
///
/// # Errors
///
/// [`BadMetadata`] if it is not a chunk of a recipe.
pub fn spans(bytes: &[u8]) -> Result<Vec<Span>, BadMetadata> {
    match Role::take(bytes)? {
        (Role::Spans { .. }, entries) => decode(entries, "spans of a recipe"),
        _ => Err(BadMetadata::new(bytes, "spans of a recipe")),
    }
}

/// The spans of a chunk that has to be of `layer`.
pub(super) fn spans_of(bytes: &[u8], layer: u8) -> Result<Vec<Span>, BadMetadata> {
    match Role::take(bytes)? {
        (Role::Spans { layer: found, .. }, _) if found == layer => spans(bytes),
        _ => Err(BadMetadata::new(bytes, "spans of that layer of a recipe")),
    }
}
