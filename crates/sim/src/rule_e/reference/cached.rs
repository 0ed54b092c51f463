//! Below a cache (the page's section of that name).

use super::Reference;
use quietus_core::units::Millis;
use quietus_core::watch::Attached;
use quietus_detect::format::Format;

impl<F: Format> Reference<F> {
    /// `settle`, and what the cache may hold a write back for.
    pub(super) fn settle_ms(&self) -> u64 {
        self.options.settle_ms + self.attached.hold_ms()
    }

    /// The guest is attached so from now on.
    pub(super) fn attached(&mut self, now: Millis, attached: Attached) {
        self.tick(now);
        if attached == self.attached {
            return;
        }
        self.attached = attached;
        let moment = self.clock.moment();
        for cell in self.cells.values_mut() {
            for since in [&mut cell.unconfirmed, &mut cell.unlinked, &mut cell.stirred].into_iter().flatten()
            {
                *since = moment;
            }
            if attached.is_cached() {
                if cell.stage.take().is_some() {
                    (cell.live, cell.unconfirmed) = (true, Some(moment));
                }
                cell.stirred = if cell.live { Some(moment) } else { cell.stirred };
            } else if cell.live {
                cell.written = Some(moment);
            }
        }
        self.sources.values_mut().filter_map(|it| it.unsettled.as_mut()).for_each(|it| *it = moment);
        if attached.is_cached() {
            self.review.iter_mut().for_each(|it| it.by_tool = true);
            self.maps.values_mut().for_each(|by_tool| *by_tool = true);
        }
    }
}
