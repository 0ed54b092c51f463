//! The rule's report: figures, and the blocks that wait for a verdict.

use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::marked::Marked;
use quietus_core::watch::{Waits, WaitsFor};

impl RuleJ {
    pub(super) fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.format.figures();
        figures.extend([
            ("blocks of the journal", self.journal.len()),
            ("place in the journal known (1: yes)", self.knows_position().into()),
            ("commits received", self.commits.received),
            ("live", self.live.len()),
            ("free by a committed map", self.free.len()),
            ("free, and written within two commits", self.candidates.len()),
            ("suspicious", self.suspicious.len()),
            ("dead, evidence not durable yet", self.deaths.unproven()),
            ("shown free, with residue of the journal", self.figures.freed),
            ("residue of the journal", self.figures.residue),
            ("dead below unwritten extents", self.figures.unwritten),
            ("written while suspicious", self.figures.reused),
            ("times that the place in the journal was lost", self.figures.losses),
        ]);
        figures.extend(self.marked.iter().flat_map(Marked::figures));
        figures
    }

    pub(super) fn waits(&self) -> Waits<'_> {
        let mut runs = Vec::new();
        let empty = &self.unwritten.empty & &self.live;
        for (cause, blocks) in [(WaitsFor::Commits, &self.candidates), (WaitsFor::Content, &empty)] {
            let blocks = blocks - self.plain_now(blocks);
            runs.extend(self.grid.all_runs(&blocks).map(|run| (cause, run)));
        }
        Box::new(self.deaths.waiting(self.grid, WaitsFor::Proof).chain(runs))
    }
}
