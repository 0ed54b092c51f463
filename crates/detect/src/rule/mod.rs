//! What the rules of inference have in common: what [`crate::Watch`] asks of
//! one, and the parts that they are built of.

pub(crate) mod deaths;
mod grid;
pub(crate) mod history;
pub(crate) mod sets;
pub(crate) mod survey;

use crate::format::{Format, Kind, Reason, Shown};
pub(crate) use grid::Grid;
use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content, Scope, Verdict, Waits};
use roaring::RoaringBitmap;
use std::fmt;

/// Most bytes that are read at once.
pub(crate) const READ_BYTES_MAX: u64 = 256 << 10;

/// A rule of inference above one file system. What has the name of something of
/// [`quietus_core::watch::Watcher`] means the same.
pub trait Rule: Send + fmt::Debug {
    /// The file system.
    fn format(&self) -> &dyn Format;

    /// New content arrives.
    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>);

    /// So many clients are connected from now on.
    fn connected(&mut self, _now: Millis, _clients: usize) {}

    /// The guest is attached so from now on.
    fn attached(&mut self, now: Millis, attached: Attached);

    /// The guest reads `extent`.
    fn read(&mut self, _extent: Extent<Addr>) {}

    /// Whose present content must be seen before `extent` gets a new one.
    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// The content of `seen` is `old`, and `extent` gets `content` next.
    fn overwriting(&mut self, extent: Extent<Addr>, content: Content<'_>, seen: Extent<Addr>, old: &[u8]);

    /// What it wants to read next.
    fn wants(&mut self) -> Option<Extent<Addr>>;

    /// What it wanted to read; `None` if that failed.
    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>);

    /// Time has passed.
    fn tick(&mut self, now: Millis);

    /// Since when deaths wait for their evidence to be made durable.
    fn unproven_since(&self) -> Option<Millis>;

    /// The evidence that has arrived up to now is being made durable.
    fn cut(&mut self);

    /// It is durable.
    fn proven(&mut self);

    /// The next thing to be done, if any, that `scope` allows.
    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)>;

    /// The runs that wait for a verdict.
    fn waiting(&self) -> Waits<'_>;

    /// The parts of `extent` whose present content may be dead.
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>>;

    /// Whether nothing more follows from what has arrived so far, but with time.
    fn is_idle(&self) -> bool;

    /// When it wants to be told that time has passed.
    fn wakes_at(&self) -> Option<Millis>;

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

    /// What it knows, for [`Rule::resume`]. Nothing while a search goes on: then
    /// a cold attach knows more.
    fn view(&self) -> Option<Vec<u8>>;

    /// Goes on where [`Rule::view`] left off; nothing was written meanwhile.
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
