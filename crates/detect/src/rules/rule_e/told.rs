//! The rule's report: figures, and the blocks that wait for a verdict.

use crate::rules::marks::Marks;
use crate::rules::rule_e::RuleE;
use quietus_core::watch::{Waits, WaitsFor};

impl RuleE {
    pub(super) fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.format.figures();
        figures.extend([
            ("live", self.live.len()),
            ("named by pointers", self.names.len()),
            ("pointer blocks", self.names.pointer_blocks()),
            ("suspicious", self.suspicious.len()),
            ("unconfirmed", self.unconfirmed.len()),
            ("dead, evidence not durable yet", self.deaths.unproven()),
            ("dead, still named", self.deaths.still_named()),
            ("shown free", self.figures.freed),
            ("shown free soon after a write", self.figures.unconfirmed),
            ("unlinked while allocated", self.figures.unlinked),
            ("orphan writes", self.figures.orphans),
            ("written while suspicious", self.figures.reused),
            ("pointers of uncertain type", self.figures.guessed),
            ("dead below unwritten extents", self.figures.unwritten),
        ]);
        figures.extend(self.classes.iter().flat_map(Marks::figures));
        figures
    }

    pub(super) fn waits(&self) -> Waits<'_> {
        let unnamed = if self.knows_names() { WaitsFor::Proof } else { WaitsFor::Names };
        let unconfirmed = self.unconfirmed.all();
        let plain = self.plain(&unconfirmed);
        let mut unconfirmed = (unconfirmed - plain).into_iter();
        let unconfirmed = std::iter::from_fn(move || unconfirmed.next_range());
        let unconfirmed = unconfirmed.map(|run| (WaitsFor::Settling, self.grid.extent_of_run(&run)));
        let empty = self.unwritten.waiting() & &self.live;
        let plain = self.plain(&empty);
        let empty: Vec<_> = self.grid.all_runs(&(empty - plain)).collect();
        let empty = empty.into_iter().map(|run| (WaitsFor::Content, run));
        Box::new(self.deaths.waiting(self.grid, unnamed).chain(unconfirmed).chain(empty))
    }
}
