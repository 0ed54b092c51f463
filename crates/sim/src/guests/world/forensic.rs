//! The findings of a laboratory that the model objects to.
//!
//! The promises, besides the demands of [`crate::server`] on every guest's disk:
//!
//! When no obligation is left, content older than a death that was replied
//! to, and content that lay below a conservative overwrite that was replied
//! to, or was overwritten after it, has its passes.
//!
//! Content that was overwritten without any of these is not an obligation, nor is
//! a request's that was not replied to.

use crate::guests::world::{ORIGIN, World, sets};
use crate::machine::content::Tag;
use crate::machine::history::Store;
use crate::machine::remanence::Trace;
use crate::verdict::Judged;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::volume::{Done, Receipt};

impl World {
    /// Checks that the content that the receipt names is destroyed, unless there was another death
    /// since.
    pub(super) fn judge_late(&mut self, receipt: &Receipt) -> Judged {
        if self.server.setup.keeps_versions() {
            return receipt.forgot.map_or(Ok(()), |scope| self.judge_forgotten(sets::meaning(scope)));
        }
        let dies_again =
            |part: &Extent<Addr>| self.server.volume.obligations().any(|(it, _)| it.overlaps(*part));
        // Content that a write destroys had died; content below other content is left to its own
        // receipt.
        let rewrites = receipt.act != Done::Overwritten;
        let part = |trace: &Trace| self.doomed_part(trace, receipt.extent, rewrites);
        let found = self.server.survivor(|trace| part(trace).filter(|part| !dies_again(part)));
        self.server.report(found, "a receipt")
    }

    pub(super) fn judge_drained(&mut self) -> Judged {
        if self.server.setup.keeps_versions() {
            self.judge_all_forgotten()?;
            return self.server.judge_drained();
        }
        let whole = Extent::new(0, self.server.setup.disk_bytes);
        let doomed = self.server.survivor(|trace| self.doomed_part(trace, whole, true));
        self.server.report(doomed, "all obligations are completed")?;
        self.server.judge_drained()
    }

    fn doomed_part(&self, trace: &Trace, within: Extent<Addr>, rewrites: bool) -> Option<Extent<Addr>> {
        let mut runs = self.model.doomed(trace.cell.extent().overlap(within)?);
        runs.find_map(|(run, dead_before, rewritten_before)| {
            let is_below = |tag: Option<Tag>| tag.is_some_and(|tag| trace.tag < tag);
            // Content that the base holds for ever can be overwritten without a pass.
            let is_base = matches!(self.server.setup.store, Store::Overlay(_)) && trace.tag == ORIGIN;
            let (is_dead, is_below) =
                (is_below(dead_before), rewrites && !is_base && is_below(rewritten_before));
            if !is_dead && !is_below {
                return None;
            }
            self.server.lacking(trace, run).find(|word| is_dead || !self.server.is_current(trace.tag, *word))
        })
    }
}
