//! Below a cache (the page's section of that name).

use super::Reference;
use crate::rule_j::log::Flavour;
use quietus_core::units::Millis;
use quietus_core::watch::Attached;
use quietus_detect::format::Block;

impl Reference {
    /// `settle`, and what the cache may hold a write back for.
    pub(super) fn settle_ms(&self) -> u64 {
        self.options.settle_ms + self.attached.hold_ms()
    }

    /// Whether all that is older than the last write of `block` has passed the cache, if there is one.
    pub(super) fn has_passed(&mut self, block: Block) -> bool {
        let (settle, written) = (self.settle_ms(), self.cells[&block].written);
        !self.attached.is_cached() || !written.is_some_and(|it| self.clock.is_within_active(it, settle))
    }

    /// Whether a copy in the log is known to be of its transaction.
    pub(super) fn knows_copies(&self) -> bool {
        self.area.flavour == Flavour::Summed || !self.attached.is_cached()
    }

    /// The guest is attached so from now on.
    pub(super) fn attached(&mut self, now: Millis, attached: Attached) {
        self.tick(now);
        if attached == self.attached {
            return;
        }
        let (settle, moment) = (self.settle_ms(), self.clock.moment());
        self.attached = attached;
        for cell in self.cells.values_mut() {
            // A time that has not run out begins anew: its length has changed.
            cell.written = cell.written.filter(|it| self.clock.is_within_active(*it, settle)).map(|_| moment);
            if attached.is_cached() {
                cell.live |= cell.stage.take().is_some();
                cell.written = if cell.live { Some(moment) } else { cell.written };
            } else {
                cell.count = self.received;
            }
        }
        if attached.is_cached() {
            self.review.iter_mut().for_each(|it| it.by_tool = true);
            self.maps.values_mut().for_each(|by_tool| *by_tool = true);
            self.log.look();
        } else {
            self.lost();
        }
    }
}
