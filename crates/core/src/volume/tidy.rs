//! Tidying up: what a store wants done with space that nobody's content lies in,
//! and with where content lies.

use super::Volume;
use super::act::{Act, Step};
use crate::policy::Pattern;
use crate::store::{Backlog, JobEnd};
use crate::units::Millis;

/// After so long there may be space for what there was none.
const RETRY_MS: u64 = 10_000;

impl Volume {
    /// Does the next chore, if there is one and it is time.
    pub(super) fn tidy_act(&mut self) -> Option<Act> {
        if !self.may_tidy() {
            return None;
        }
        let chore = self.store.background(self.all_due)?;
        let mut passes = Vec::new();
        self.pass_steps(&mut passes, Step::Fill, &Step::Sync);
        if !passes.is_empty() && !self.config.policy.leaves_zeros() {
            passes.extend([Step::Fill(Pattern::zeros()), Step::Sync]);
        }
        let act = Act::tidy(chore, passes)?;
        if !act.moves_any(|run| self.is_busy(run)) {
            return Some(act);
        }
        act.into_chore().iter().for_each(|chore| self.store.background_done(chore, JobEnd::GivenUp));
        None
    }

    fn may_tidy(&mut self) -> bool {
        let backlog = self.store.backlog(self.all_due);
        if self.halting || self.now < self.tidy_from || backlog == Backlog::Nothing {
            self.untidy_since = None;
            return false;
        }
        let since = *self.untidy_since.get_or_insert(self.now);
        // Receipts wait until nothing is left that may be a copy.
        let in_the_way = !self.has_room() && self.has_receipts_to_give();
        in_the_way
            || backlog == Backlog::AtOnce
            || self.is_due_since(since) && !self.is_at_work()
            || self.is_overdue_since(since)
    }

    /// Whether there is something to tidy up, now or later.
    pub(super) fn has_chores(&self) -> bool {
        self.store.backlog(self.all_due) != Backlog::Nothing
    }

    /// Whether all that is left to be done unasked is to tidy up.
    pub(super) fn has_only_chores(&self) -> bool {
        !self.has_queued() && self.spare.is_empty() && self.is_sealed()
    }

    /// There was no space for a chore: it is tried again later.
    pub(super) fn put_off_chores(&mut self) {
        self.tidy_from = Millis(self.now.0.saturating_add(RETRY_MS));
    }
}
