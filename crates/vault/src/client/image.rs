//! An image of a disk, as a file of a snapshot. A disk is cut at fixed places: what a guest changes does not shift what follows.

use quietus_core::base::zeros::is_zeros;
use std::collections::BTreeMap;

use super::{Access, Writer};
use crate::VaultError;
use crate::container::Class;
use crate::tree::{Recipe, RecipeBuilder, Span};

/// Length of each chunk of an image but the last.
pub const IMAGE_CHUNK_BYTES: u64 = 8 << 10;
/// Chunks that have changed and are kept in memory, some 100 bytes each, before all of the recipe is written anew.
const CHANGED_MAX: usize = if cfg!(test) { 20 } else { 1 << 17 };

/// Stores an image as it comes: in order, and then what has changed meanwhile. What comes later counts.
#[derive(Default, Debug)]
pub struct ImageWriter {
    recipe: RecipeBuilder,
    /// Where the recipe ends, in bytes of the image.
    end: u64,
    /// New content of places within the recipe, by place.
    changed: BTreeMap<u64, Span>,
}

impl ImageWriter {
    /// Adds content at `at`, a multiple of [`IMAGE_CHUNK_BYTES`]. Only the last piece of an image ends elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Writer::chunk`], and as [`Access::get`].
    pub fn push(
        &mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        at: u64,
        content: &[u8],
    ) -> Result<(), VaultError> {
        assert!(at.is_multiple_of(IMAGE_CHUNK_BYTES), "content of an image at {at}");
        let pieces: Vec<&[u8]> = content.chunks(IMAGE_CHUNK_BYTES as usize).collect();
        let filled = pieces.iter().copied().filter(|piece| !is_zeros(piece));
        let chunks = filled.map(|piece| writer.preparer.name(Class::Data, piece)).collect();
        let mut stored = writer.together(vault, chunks)?.into_iter();
        for (at, piece) in (at..).step_by(IMAGE_CHUNK_BYTES as usize).zip(pieces) {
            let bytes = piece.len() as u64;
            let span = match is_zeros(piece) {
                true => Span::hole(bytes),
                false => Span::chunk(stored.next().ok_or(VaultError::Answer)?, bytes),
            };
            if at >= self.end {
                self.append(writer, vault, at, span)?;
            } else {
                // The content that was there before is in no snapshot, unless another file has it.
                writer.leave_behind(vault)?;
                self.changed.insert(at, span);
            }
        }
        if self.changed.len() >= CHANGED_MAX {
            self.settle(writer, vault)?;
        }
        Ok(())
    }

    /// The recipe of the image, which has `bytes`.
    ///
    /// # Errors
    ///
    /// As [`push`](ImageWriter::push).
    pub fn finish(
        mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        bytes: u64,
    ) -> Result<Recipe, VaultError> {
        self.settle(writer, vault)?;
        let mut store = |content: &[u8]| writer.chunk(vault, Class::Metadata, content);
        if bytes > self.end {
            self.recipe.push(Span::hole(bytes - self.end), &mut store)?;
        }
        self.recipe.finish(&mut store)
    }

    /// Adds content behind the end. Holes are not kept apart: an image has one recipe, however it came.
    fn append(
        &mut self,
        writer: &mut Writer,
        vault: &mut dyn Access,
        at: u64,
        span: Span,
    ) -> Result<(), VaultError> {
        if span.reference().is_none() {
            return Ok(());
        }
        let mut store = |content: &[u8]| writer.chunk(vault, Class::Metadata, content);
        if at > self.end {
            self.recipe.push(Span::hole(at - self.end), &mut store)?;
        }
        self.end = at + span.bytes;
        self.recipe.push(span, &mut store)
    }

    /// Writes the recipe anew, with all that has changed.
    fn settle(&mut self, writer: &mut Writer, vault: &mut dyn Access) -> Result<(), VaultError> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let old = std::mem::take(self);
        let recipe = old.recipe.finish(&mut |content| writer.chunk(vault, Class::Metadata, content))?;
        let (mut spans, mut changed, mut at) = (recipe.cursor()?, old.changed, 0);
        while let Some(span) = spans.next(&mut |chunk| vault.get(chunk))? {
            let rest = changed.split_off(&(at + span.bytes));
            let newer = std::mem::replace(&mut changed, rest);
            if span.reference().is_some() && newer.is_empty() {
                self.append(writer, vault, at, span)?;
            }
            for (at, span) in newer {
                self.append(writer, vault, at, span)?;
            }
            at += span.bytes;
        }
        Ok(())
    }
}
