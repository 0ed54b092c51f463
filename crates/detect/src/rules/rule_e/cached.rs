//! The proof of a map below a cache that holds writes back and sends them in any order
//! (`docs/decisions/0006-rule-e.md`, "Below a cache").

use crate::mutant::{self, Mutant};
use crate::rules::rule::history::RecentBlocks;
use crate::rules::rule_e::RuleE;
use quietus_core::watch::{Attached, Moment};

impl RuleE {
    /// The blocks against which a map that arrives now proves nothing. Tools write while nothing is
    /// mounted, through a cache that knows no order.
    pub(super) fn window(&self) -> &RecentBlocks {
        let is_direct = !self.attached.is_cached() || mutant::is(Mutant::CacheHasWindow);
        if self.in_use && is_direct { &self.recent } else { &self.lately }
    }

    /// Whether the guest's writes before an unmount arrive before the mark of the unmount.
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

    /// Restarts the time of everything that is to settle: its length has changed.
    fn renew(&mut self) {
        let now = self.clock.active_ms;
        for lately in [&mut self.lately, &mut self.unconfirmed, &mut self.deaths.unlinked] {
            lately.renew(now);
        }
        self.names.uncertain.renew(now);
    }

    /// Takes back everything not handed out, since the cache may have been there unseen: condemned
    /// blocks become unconfirmed, and every live block counts as written now.
    fn distrust(&mut self) {
        let condemned = self.deaths.take_condemned();
        self.live |= &condemned;
        self.unconfirmed.extend(&(&condemned - &self.unwritten.hollow));
        self.unwritten.distrust();
        self.lately.extend(&self.live);
        self.survey.distrust_order();
    }
}
