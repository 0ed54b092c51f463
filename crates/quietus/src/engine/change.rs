//! What changes on a disk while somebody copies it, and how changes are held back
//! for a moment, so that the copy is of one instant.
//!
//! 1. A block is marked before a request that changes it begins, and in the moment
//!    in which what was inferred of it takes effect.
//! 2. Whoever takes the marks waits for all requests that came before: what those
//!    did is read from then on, and what comes later is marked anew.
//! 3. A hold is over when whoever copies says so, when he is gone, and after
//!    [`HOLD_MAX`], whatever he does. He learns whether it lasted.

use super::{Engine, Inner, Shared};
use quietus_core::blocks::BlockSet;
use quietus_core::request::Request;
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// Longest time that requests are held back in one go.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// What changes, if anybody wants to know.
#[derive(Debug, Default)]
pub(super) struct Changes {
    marked: Option<BlockSet>,
    /// Since when requests are held back.
    held: Option<Instant>,
}

impl Changes {
    /// Whether `request` has to wait.
    pub(super) fn hold_back(&self, request: &Request) -> bool {
        request.op.is_write() && self.held.is_some_and(|since| since.elapsed() < HOLD_MAX)
    }

    /// `request` begins, on a disk of `size` bytes. A hold that it outlasted is over.
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

/// Learns what changes on a disk, until it is dropped.
pub struct Follower<'a>(&'a Shared);

/// Requests that change something are held back, until it is dropped.
pub struct Hold<'a>(&'a Shared);

impl Engine {
    /// Marks what changes from now on, once that is done for nobody else; none if
    /// `step` says false before.
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
    /// Takes the marks. If they are of at most `bytes_max`, changes are held back
    /// from then on.
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
    /// Ends it: how long it was, if no change came between.
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
    /// Waits for the end of all requests that came until now.
    fn wait_for_earlier(&self, mut inner: MutexGuard<'_, Inner>) {
        let next = inner.next_request;
        while !inner.closed && inner.replies.keys().any(|id| id.0 < next) {
            inner = self.wait_for_change(inner);
        }
    }
}
