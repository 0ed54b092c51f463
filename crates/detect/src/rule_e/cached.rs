//! What a map proves below a cache that holds writes back and sends them in any order
//! (`docs/decisions/0006-rule-e.md`, "Below a cache").

use super::RuleE;
use crate::mutant::{self, Mutant};
use crate::rule::history::Lately;
use quietus_core::watch::{Attached, Moment};

impl RuleE {
    /// Time in which whatever the guest had yet to write has been written, and has passed
    /// the cache, in milliseconds of activity.
    pub(super) fn settle_ms(&self) -> u64 {
        self.options.settle_ms.saturating_add(self.attached.hold_ms())
    }

    /// The blocks against which a map that arrives now proves nothing. What is written while
    /// nothing is mounted is written by tools, through a cache that knows no order.
    pub(super) fn window(&self) -> &Lately {
        let is_direct = !self.attached.is_cached() || mutant::is(Mutant::CacheHasWindow);
        if self.in_use && is_direct { &self.recent } else { &self.lately }
    }

    /// Whether what the guest wrote before it unmounted has arrived before the word that it has.
    pub(super) fn keeps_order(&self) -> bool {
        !self.attached.is_cached() || mutant::is(Mutant::CacheUnmountsInOrder)
    }

    pub(super) fn attached_so(&mut self, at: Moment) {
        self.tick(at.now);
        if at.attached == self.attached {
            return;
        }
        self.attached = at.attached;
        self.renew();
        match at.attached {
            Attached::Direct => self.recent.extend(&self.live),
            Attached::Cached { .. } => self.distrust(),
        }
    }

    /// Whatever is to settle begins anew: its time is another one.
    fn renew(&mut self) {
        let now = self.clock.active_ms;
        for lately in [&mut self.lately, &mut self.doubted, &mut self.deaths.unlinked] {
            lately.renew(now);
        }
        self.names.uncertain.renew(now);
    }

    /// The cache may have been there before it was seen: what was inferred and not handed out
    /// is only doubted, and every live block counts as written now.
    fn distrust(&mut self) {
        let condemned = self.deaths.take_condemned();
        self.live |= &condemned;
        self.doubted.extend(&condemned);
        self.lately.extend(&self.live);
        self.survey.distrust_order();
    }
}
