//! A region that is watched as a disk of its own.

use super::Asker;
use crate::disk::watch::Watch;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{Moment, Observation, Observer, Scope, Verdict, WaitsFor, Watcher};

/// One region and its watch. *Inner* addresses count from the region's first byte.
#[derive(Debug)]
pub(super) struct Part {
    pub id: Asker,
    pub extent: Extent<Addr>,
    pub watch: Watch,
}

impl Part {
    /// The part of `extent` within the region, as an inner address.
    pub(super) fn inner(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        extent.inside(self.extent)
    }

    /// The place of the inner `extent` on the disk.
    pub(super) fn outer(&self, extent: Extent<Addr>) -> Extent<Addr> {
        Extent::new(self.extent.start.0 + extent.start.0, extent.len)
    }

    /// Observes the part of `observation` that lies within the region.
    pub(super) fn observe(&mut self, at: Moment, observation: Observation<'_>) {
        if let Some(inner) = observation.within(self.extent) {
            self.watch.observe(at, inner);
        }
    }

    pub(super) fn is_watching(&self) -> bool {
        self.watch.watches(Extent::new(0, self.extent.len))
    }

    pub(super) fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        let start = self.extent.start.0;
        let is_busy = |inner: Extent<Addr>| (scope.is_busy)(Extent::new(start + inner.start.0, inner.len));
        let (inner, verdict) = self.watch.verdict(Scope { is_busy: &is_busy, ..scope })?;
        Some((self.outer(inner), verdict))
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = (WaitsFor, Extent<Addr>)> {
        self.watch.waiting().map(|(cause, inner)| (cause, self.outer(inner)))
    }
}
