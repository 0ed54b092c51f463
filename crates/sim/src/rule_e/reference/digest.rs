//! States that differ in nothing but when they were reached are one.

use super::time::Moment;
use super::{Cell, Reference};
use quietus_detect::format::Format;
use std::hash::{Hash, Hasher};

impl<F: Format> Reference<F> {
    /// Adds all that matters for what follows to `hasher`.
    pub(super) fn add_to(&self, hasher: &mut impl Hasher) {
        for cell in self.cells.values() {
            let Cell {
                live,
                suspicious,
                unconfirmed,
                stage,
                unlinked,
                conservative,
                written,
                stirred,
                touched,
                shaky,
            } = cell;
            (live, suspicious, stage, conservative, touched, shaky).hash(hasher);
            [unconfirmed, unlinked, written, stirred].map(|it| it.map(|it| self.ages(it))).hash(hasher);
        }
        for (block, it) in &self.sources {
            (block, it.named, it.counted, it.ended, it.is_asked_again).hash(hasher);
            (&it.links, it.unsettled.map(|it| self.ages(it))).hash(hasher);
        }
        let review = self.review.as_ref().map(|it| (it.at.0.saturating_sub(self.clock.now().0), it.by_tool));
        (
            self.in_use,
            self.clients,
            self.attached.is_cached(),
            self.mount_observed,
            review,
            &self.maps,
            self.is_over,
            self.is_surveyed,
            self.clock.gap(),
        )
            .hash(hasher);
    }

    /// How long ago it was on both clocks, as far as that matters.
    fn ages(&self, then: Moment) -> (u64, u64) {
        let now = self.clock.moment();
        let (window, settle) = (self.options.reorder_window_ms, self.settle_ms());
        ((now.now - then.now).min(2 * window), (now.active - then.active).min(2 * settle))
    }
}
