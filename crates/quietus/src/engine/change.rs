//! Changes to a disk while it is copied, and how changes are held back for a moment, so that
//! the copy is of one instant.
//!
//! 1. A block is marked before a request that changes it begins, and in the moment
//!    in which what was inferred of it takes effect.
//! 2. The copier that takes the marks waits for all earlier requests: their changes are read from
//!    then on, and later changes are marked anew.
//! 3. A hold ends when the copier ends it, when the copier is gone, and after [`HOLD_MAX`] in any
//!    case. The copier learns whether it lasted.

use super::{Engine, Inner, Shared};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::request::Request;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// Longest time for which requests are held back at once.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// Changes, if a copy follows them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    marked: Option<BlockSet>,
    /// Time since which requests are held back.
    held: Option<Instant>,
}

impl Changes {
    /// Whether `request` has to wait.
    pub(super) fn hold_back(&self, request: &Request) -> bool {
        request.op.is_write() && self.held.is_some_and(|since| since.elapsed() < HOLD_MAX)
    }

    /// Notes that `request` begins, on a disk of `size` bytes. A hold that the request waited out
    /// is over.
    pub(super) fn begins(&mut self, request: &Request, size: u64) {
        if request.op.is_write()
            && let Some(extent) = request.extent.overlap(Extent::new(0, size))
        {
            self.held = None;
            self.mark(extent);
        }
    }

    pub(super) fn mark(&mut self, extent: Extent<Addr>) {
        if let Some(marked) = &mut self.marked {
            marked.insert(extent);
        }
    }
}

/// Marks what changes on a disk, until dropped.
pub struct Follower<'a>(&'a Shared);

/// Holds back requests that change something, until dropped.
pub struct Hold<'a>(&'a Shared);

impl Engine {
    /// Marks changes from now on, once no other follower does; `None` if `step` says false before.
    pub fn follow(&self, mut step: impl FnMut() -> bool) -> Option<Follower<'_>> {
        let mut inner = self.shared.lock();
        while inner.changes.marked.is_some() {
            drop(inner);
            if !step() {
                return None;
            }
            inner = self.shared.wait_for_change(self.shared.lock());
        }
        inner.changes.marked = Some(BlockSet::default());
        self.shared.wait_for_earlier(inner);
        Some(Follower(&self.shared))
    }
}

impl Follower<'_> {
    /// Takes the marks. If they cover at most `bytes_max` bytes, changes are held back from then
    /// on.
    #[must_use]
    pub fn take(&self, bytes_max: u64) -> (BlockSet, Option<Hold<'_>>) {
        let mut inner = self.0.lock();
        let marked = inner.changes.marked.replace(BlockSet::default()).unwrap_or_default();
        let is_little = marked.len() * BLOCK_BYTES <= bytes_max;
        inner.changes.held = is_little.then(Instant::now);
        self.0.wait_for_earlier(inner);
        (marked, is_little.then_some(Hold(self.0)))
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.0.lock().changes = Changes::default();
        self.0.changed.notify_all();
    }
}

impl Hold<'_> {
    /// Ends the hold, and returns its length if no change came between.
    #[must_use]
    pub fn end(self) -> Option<Duration> {
        self.0.lock().changes.held.map(|since| since.elapsed())
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.lock().changes.held = None;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Waits for the end of all earlier requests.
    fn wait_for_earlier(&self, mut inner: MutexGuard<'_, Inner>) {
        let next = inner.next_request;
        while !inner.closed && inner.replies.keys().any(|id| id.0 < next) {
            inner = self.wait_for_change(inner);
        }
    }
}
