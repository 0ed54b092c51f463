//! The common parts of the rules of inference: the interface to [`crate::Watch`], and the building
//! blocks.

pub(crate) mod deaths;
mod grid;
pub(crate) mod history;
pub(crate) mod needed;
pub(crate) mod sets;
pub(crate) mod survey;

use crate::formats::format::{Block, Format, Kind, Reason, Shown};
use crate::input::sets::set_of;
pub(crate) use grid::Grid;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{Content, Observer};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

pub(crate) const READ_BYTES_MAX: u64 = 256 << 10;
/// Why everything is sensitive where no rule follows marks.
pub(crate) const NOT_FOLLOWED: &str = "marks are not followed below this file system";

/// A rule of inference above one file system. While a search goes on, the rule has no view: a cold
/// attach would know more.
pub trait Rule: Observer {
    /// The file system.
    fn format(&self) -> &dyn Format;

    /// Whether the file system is mounted, by its own mark.
    fn is_in_use(&self) -> bool;

    /// Whether the watched place may hold another file system now, or none.
    fn has_changed(&self) -> bool;

    /// Reason why nothing can be inferred from now on.
    fn broken(&self) -> Option<&Reason>;

    /// Reason why nothing is called dead for now.
    fn hindrance(&self) -> Option<String> {
        None
    }

    /// Figures for the status, by name, in blocks.
    fn figures(&self) -> Vec<(&'static str, u64)>;

    /// The effect and the limits of marks here.
    ///
    /// # Errors
    /// Why everything is sensitive.
    fn marks(&self) -> Result<&'static str, &'static str> {
        Err(NOT_FOLLOWED)
    }

    /// Bytes read and bytes to read in all, during the search of an existing file system.
    fn progress(&self) -> Option<(u64, u64)> {
        None
    }

    /// Continues from a [`Observer::view`], if nothing was written since. Returns whether that was
    /// possible; otherwise the rule searches as before.
    fn resume(&mut self, view: &[u8]) -> bool;
}

/// The blocks that are of one of `kinds` by their place.
pub(crate) fn placed<const N: usize>(format: &dyn Format, kinds: [Kind; N]) -> RoaringBitmap {
    set_of(kinds.into_iter().flat_map(|kind| format.survey(kind)))
}

/// Puts `block` into `set`, or takes it out.
pub(crate) fn set_member(set: &mut RoaringBitmap, block: Block, is_member: bool) {
    if is_member {
        set.insert(block)
    } else {
        set.remove(block)
    };
}

/// Adds `block` to `run`, if it follows; otherwise begins anew with it, and returns the run that is complete.
pub(crate) fn joined(run: &mut Option<RangeInclusive<Block>>, block: Block) -> Option<RangeInclusive<Block>> {
    match run {
        Some(run) if *run.end() + 1 == block => {
            *run = *run.start()..=block;
            None
        }
        run => run.replace(block..=block),
    }
}

/// The blocks shown allocated, and the blocks shown free.
pub(crate) fn split(shown: &[Shown]) -> (RoaringBitmap, RoaringBitmap) {
    let of = |is| set_of(shown.iter().filter(|it| it.allocated == is).map(|it| it.blocks.clone()));
    (of(true), of(false))
}

/// `old`, the content of `whole`, overwritten by the part of `content` that lies there.
pub(crate) fn overlaid(
    whole: Extent<Addr>,
    old: &[u8],
    extent: Extent<Addr>,
    content: Content<'_>,
) -> Vec<u8> {
    let mut new = old.to_vec();
    if let Some(part) = whole.overlap(extent) {
        let to = (part.start.0 - whole.start.0) as usize;
        let from = (part.start.0 - extent.start.0) as usize;
        let len = part.len as usize;
        match content {
            Content::Bytes(bytes) => new[to..to + len].copy_from_slice(&bytes[from..from + len]),
            Content::Zeros => new[to..to + len].fill(0),
        }
    }
    new
}
