//! What the rules of inference have in common: what [`crate::Watch`] asks of
//! one, and the parts that they are built of.

pub(crate) mod deaths;
mod grid;
pub(crate) mod history;
pub(crate) mod sets;
pub(crate) mod survey;

use crate::format::{Format, Kind, Reason, Shown};
pub(crate) use grid::Grid;
use quietus_core::units::{Addr, Extent};
use quietus_core::watch::{Content, Observer};
use roaring::RoaringBitmap;

/// Most bytes that are read at once.
pub(crate) const READ_BYTES_MAX: u64 = 256 << 10;

/// A rule of inference above one file system. Its view is none while a search goes on: then
/// a cold attach knows more.
pub trait Rule: Observer {
    /// The file system.
    fn format(&self) -> &dyn Format;

    /// Whether what was watched may be another file system now, or none.
    fn has_changed(&self) -> bool;

    /// Why nothing can be inferred any more, if that is so.
    fn broken(&self) -> Option<&Reason>;

    /// Why nothing is called dead for now, if that is so.
    fn hindrance(&self) -> Option<String> {
        None
    }

    /// Figures for the status, by name, in blocks.
    fn figures(&self) -> Vec<(&'static str, u64)>;

    /// Bytes read and to be read, while an existing file system is searched.
    fn progress(&self) -> Option<(u64, u64)>;

    /// Goes on where [`Observer::view`] left off; nothing was written meanwhile.
    /// Says whether that could be done; else it searches, as it would have.
    fn resume(&mut self, view: &[u8]) -> bool;
}

/// The blocks whose place makes them of one of `kinds`.
pub(crate) fn placed<const N: usize>(format: &dyn Format, kinds: [Kind; N]) -> RoaringBitmap {
    let mut blocks = RoaringBitmap::new();
    for range in kinds.into_iter().flat_map(|kind| format.survey(kind)) {
        blocks.insert_range(range);
    }
    blocks
}

/// What is shown allocated, and what free.
pub(crate) fn split(shown: &[Shown]) -> (RoaringBitmap, RoaringBitmap) {
    let (mut allocated, mut free) = (RoaringBitmap::new(), RoaringBitmap::new());
    for part in shown {
        let set = if part.allocated { &mut allocated } else { &mut free };
        set.insert_range(part.blocks.clone());
    }
    (allocated, free)
}

/// `old`, the content of `whole`, with as much of `content` over it as goes there.
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
