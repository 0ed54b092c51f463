//! The content of a recipe, a span at a time.

use super::span::spans_of;
use super::{BadMetadata, Span};
use crate::Reference;

/// A position in a recipe.
#[derive(Debug)]
pub struct Cursor {
    /// From the top down: the layer of the spans that are still to come, and these.
    rest: Vec<(u8, std::vec::IntoIter<Span>)>,
}

impl Cursor {
    pub(super) fn new(layers: u8, spans: Vec<Span>) -> Cursor {
        Cursor { rest: vec![(layers, spans.into_iter())] }
    }

    /// The next chunk or hole of the content.
    ///
    /// # Errors
    ///
    /// The errors of `fetch`, and [`BadMetadata`] if a chunk is not one of a recipe.
    pub fn next<E: From<BadMetadata>>(
        &mut self,
        fetch: &mut dyn FnMut(&Reference) -> Result<Vec<u8>, E>,
    ) -> Result<Option<Span>, E> {
        while let Some((layer, spans)) = self.rest.last_mut() {
            let layer = *layer;
            match spans.next() {
                None => drop(self.rest.pop()),
                Some(span) => match span.reference() {
                    Some(chunk) if layer > 0 => {
                        let below = spans_of(&fetch(&chunk)?, layer - 1)?;
                        self.rest.push((layer - 1, below.into_iter()));
                    }
                    _ => return Ok(Some(span)),
                },
            }
        }
        Ok(None)
    }
}
