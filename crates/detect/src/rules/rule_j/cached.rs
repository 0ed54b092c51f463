//! The proof of a commit below a cache that may not pass flushes on
//! (`docs/decisions/0008-rule-j.md`, "Below a cache").

use crate::input::sets::set_of;
use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::journal::log::Log;
use crate::rules::rule_j::unwritten::Unwritten;
use quietus_core::watch::{Attached, Moment};
use roaring::RoaringBitmap;

impl RuleJ {
    /// The blocks of `dead` whose last write, and everything older, has passed the cache, if there
    /// is one.
    pub(super) fn passed_cache(&self, dead: RoaringBitmap) -> RoaringBitmap {
        match self.attached {
            Attached::Direct => dead,
            Attached::Cached { .. } => {
                let late = self.lately.within(&dead);
                dead - late
            }
        }
    }

    /// Whether a copy in the log, if it has `checksums`, is known to be of its transaction. A cache
    /// that holds a copy back may be given a later transaction's in its place.
    pub(super) fn knows_copies(&self, checksums: bool) -> bool {
        checksums || !self.attached.is_cached()
    }

    pub(super) fn attached_so(&mut self, at: Moment) {
        self.tick(at.now);
        if at.attached == self.attached {
            return;
        }
        self.attached = at.attached;
        self.unwritten = Unwritten::new(set_of(Some(0..self.format.blocks())));
        self.lately.renew(self.clock.active_ms);
        match at.attached {
            // Commits yet to come prove something against the present blocks. The order in which the
            // log arrived does not tell which of its blocks are of the next transaction.
            Attached::Direct => {
                self.commits.write_all(self.format.blocks());
                self.lose();
            }
            Attached::Cached { .. } => {
                self.distrust();
                self.doubt_content();
            }
        }
    }

    /// Takes back everything not handed out, since the cache may have been there unseen: every live
    /// block counts as written now.
    fn distrust(&mut self) {
        let condemned = self.deaths.take_condemned();
        self.live |= &condemned;
        self.candidates |= &condemned & &self.free;
        self.lately.extend(&self.live);
        self.survey.distrust_order();
        self.look();
    }

    /// Reads the log of a guest whose position is unknown: what was written before the attach may
    /// be sent again, and must not count.
    pub(super) fn look(&mut self) {
        let is_cached = self.attached.is_cached();
        let unseen = self.log.as_mut().filter(|_| is_cached).map(Log::look).unwrap_or_default();
        self.place.blocks(&unseen).into_iter().for_each(|block| self.reads.want(block));
    }
}
