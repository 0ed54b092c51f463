//! Recipes: which chunks a file is made of, in order.

use serde::{Deserialize, Serialize};

use super::group::Group;
use super::role::LAYERS_MAX;
use super::span::spans_of;
use super::{BadMetadata, Child, Cursor, Role, Span};
use crate::Reference;

/// Spans that a recipe has at its top; with more, the upper ones name chunks of spans.
const SPANS_MAX: usize = 32;

const TOO_DEEP: BadMetadata = BadMetadata { bytes: 0, wanted: "recipe of fewer than 8 layers" };

/// The kind of a recipe's spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// Chunks of content, and holes.
    Content,
    /// Chunks of spans of the layer below.
    Spans,
}

/// A file's content, or a folder's entries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Recipe {
    /// Layers of spans above the content, besides `spans`.
    layers: u8,
    spans: Vec<Span>,
}

impl Recipe {
    /// Bytes of the content.
    pub fn bytes(&self) -> u64 {
        self.spans.iter().fold(0, |sum, span| sum.saturating_add(span.bytes))
    }

    /// The spans at the top, and their kind.
    pub fn top(&self) -> (&[Span], Layer) {
        (&self.spans, if self.layers == 0 { Layer::Content } else { Layer::Spans })
    }

    /// The chunks at the top; `is_folder` says whose recipe it is.
    pub(super) fn children(&self, is_folder: bool) -> Result<Vec<Child>, BadMetadata> {
        if self.layers >= LAYERS_MAX {
            return Err(TOO_DEEP);
        }
        let role = Role::below(is_folder, self.layers);
        Ok(self.spans.iter().filter_map(Span::reference).map(|chunk| Child { chunk, role }).collect())
    }

    /// The beginning of the content.
    ///
    /// # Errors
    ///
    /// [`BadMetadata`] if this is not a recipe.
    pub fn cursor(&self) -> Result<Cursor, BadMetadata> {
        if self.layers >= LAYERS_MAX {
            Err(TOO_DEEP)
        } else {
            Ok(Cursor::new(self.layers, self.spans.clone()))
        }
    }

    /// Calls `visit` with each span of every layer, from the top down and in order, and enters a chunk of spans if that is
    /// true and `fetch` has it.
    ///
    /// # Errors
    ///
    /// The errors of `fetch`, and [`BadMetadata`] if a chunk is not one of a recipe.
    pub fn walk<E: From<BadMetadata>>(
        &self,
        fetch: &mut dyn FnMut(&Reference) -> Result<Vec<u8>, E>,
        visit: &mut dyn FnMut(&Span, Layer) -> bool,
    ) -> Result<(), E> {
        if self.layers >= LAYERS_MAX {
            return Err(TOO_DEEP.into());
        }
        walk(&self.spans, self.layers, fetch, visit)
    }
}

fn walk<E: From<BadMetadata>>(
    all: &[Span],
    layers: u8,
    fetch: &mut dyn FnMut(&Reference) -> Result<Vec<u8>, E>,
    visit: &mut dyn FnMut(&Span, Layer) -> bool,
) -> Result<(), E> {
    let layer = if layers == 0 { Layer::Content } else { Layer::Spans };
    for span in all {
        let is_entered = visit(span, layer);
        if let (Layer::Spans, true, Some(chunk)) = (layer, is_entered, span.reference()) {
            walk(&spans_of(&fetch(&chunk)?, layers - 1)?, layers - 1, fetch, visit)?;
        }
    }
    Ok(())
}

/// Makes a recipe of spans as they come.
#[derive(Default, Debug)]
pub struct RecipeBuilder {
    is_folder: bool,
    /// From the content upwards: the content of each layer's next chunk.
    layers: Vec<Unfinished>,
}

#[derive(Default, Debug)]
struct Unfinished {
    group: Group,
    /// The spans in `group`.
    spans: Vec<Span>,
    /// Whether any chunk of this layer was stored.
    has_chunks: bool,
}

impl RecipeBuilder {
    /// A builder of the recipe of a folder, whose content is entries. The default builder makes recipes of files.
    pub(super) fn of_folder() -> RecipeBuilder {
        RecipeBuilder { is_folder: true, layers: Vec::new() }
    }

    /// Adds the next span; `store` takes each chunk that is complete now, and names it.
    ///
    /// # Errors
    ///
    /// The errors of `store`.
    pub fn push<E>(
        &mut self,
        span: Span,
        store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>,
    ) -> Result<(), E> {
        self.push_to(0, span, store)
    }

    /// The recipe.
    ///
    /// # Errors
    ///
    /// The errors of `store`.
    pub fn finish<E>(mut self, store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>) -> Result<Recipe, E> {
        let mut layer = 0;
        while let Some(top) = self.layers.get(layer) {
            if !top.has_chunks && top.spans.len() <= SPANS_MAX {
                let spans = std::mem::take(&mut self.layers[layer].spans);
                return Ok(Recipe { layers: layer as u8, spans });
            }
            if let Some(rest) = self.layers[layer].group.take() {
                self.end_chunk(layer, &rest, store)?;
            }
            layer += 1;
        }
        Ok(Recipe::default())
    }

    fn push_to<E>(
        &mut self,
        layer: usize,
        span: Span,
        store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>,
    ) -> Result<(), E> {
        if self.layers.len() == layer {
            self.layers.push(Unfinished::default());
        }
        let entry = postcard::to_allocvec(&span).expect("a span has a length that is known");
        let unfinished = &mut self.layers[layer];
        let complete: Vec<_> = unfinished.group.push(&entry).collect();
        unfinished.spans.push(span);
        complete.iter().try_for_each(|chunk| self.end_chunk(layer, chunk, store))
    }

    /// Stores a chunk of a layer, and names it in the layer above.
    fn end_chunk<E>(
        &mut self,
        layer: usize,
        chunk: &[u8],
        store: &mut dyn FnMut(&[u8]) -> Result<Reference, E>,
    ) -> Result<(), E> {
        let unfinished = &mut self.layers[layer];
        unfinished.has_chunks = true;
        let bytes = unfinished.spans.drain(..).map(|span| span.bytes).sum();
        let role = Role::Spans { is_folder: self.is_folder, layer: layer as u8 };
        let reference = store(&[&[role.byte()], chunk].concat())?;
        self.push_to(layer + 1, Span::chunk(reference, bytes), store)
    }
}
