//! What a commit proves below a cache that may not pass flushes on
//! (`docs/decisions/0008-rule-j.md`, "Below a cache").

use super::RuleJ;
use quietus_core::watch::{Attached, Moment};
use roaring::RoaringBitmap;

impl RuleJ {
    /// Time in which whatever the guest had yet to write has been written, and has passed
    /// the cache, in milliseconds of activity.
    pub(super) fn settle_ms(&self) -> u64 {
        self.options.settle_ms.saturating_add(self.attached.hold_ms())
    }

    /// Those of `dead` that were written so long ago that everything older has passed the
    /// cache, if there is one.
    pub(super) fn passed_cache(&self, dead: RoaringBitmap) -> RoaringBitmap {
        match self.attached {
            Attached::Direct => dead,
            Attached::Cached { .. } => {
                let late = self.lately.within(&dead);
                dead - late
            }
        }
    }

    pub(super) fn attached_so(&mut self, at: Moment) {
        self.tick(at.now);
        if at.attached == self.attached {
            return;
        }
        self.attached = at.attached;
        self.lately.renew(self.clock.active_ms);
        match at.attached {
            // Commits that have yet to come prove something against what they find here.
            Attached::Direct => self.commits.write_all(self.format.blocks()),
            Attached::Cached { .. } => self.distrust(),
        }
    }

    /// The cache may have been there before it was seen: nothing that was inferred and not
    /// handed out counts, and every live block counts as written now.
    fn distrust(&mut self) {
        let condemned = self.deaths.take_condemned();
        self.live |= &condemned;
        self.candidates |= &condemned & &self.free;
        self.lately.extend(&self.live);
        self.survey.distrust_order();
    }
}
