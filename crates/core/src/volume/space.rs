//! Space that is given back after what lay there was destroyed.
//!
//! That destroys nothing, and a host may take as long for it as for a pass. So
//! it is no part of a shred that leaves zeros: receipts need not wait for it,
//! and it is done when nothing is left to be destroyed.
//!
//! Invariants:
//! 1. Space is spare only while its content is zeros: what is about to hold data
//!    is spare no more ([`Volume::begin_hold`]), and no write begins where a hole is
//!    being made.
//! 2. Spare blocks are dead: they are zeros that take up space. A crash, and a
//!    stop in a hurry, forget which ones are spare and no more than that. Who
//!    starts the disk finds out where its medium has space ([`Event::Space`]):
//!    where nothing is held, it is spare.
//!
//! [`Event::Space`]: super::Event::Space

use super::{Volume, act::Act};
use crate::store::WritePlan;
use crate::units::{Addr, BLOCK_BYTES, Extent, Millis};

/// A guest is at work when its last request is not as old as this, unless the
/// disk counts as idle even sooner. Nobody makes holes then, which would keep
/// its writes out.
const AT_WORK_MS: u64 = 50;
/// Parts of the disk whose space is given back without waiting any longer.
const SPARE_MAX: usize = 1 << 16;
/// Holes in one act.
const HOLES_MAX: usize = 64;

impl Volume {
    /// `extent` is about to be written; where to.
    pub(super) fn begin_hold(&mut self, extent: Extent<Addr>) -> WritePlan {
        self.cover(extent);
        self.spare.remove(extent);
        self.store.begin_write(extent)
    }

    /// The medium has space in `extent`: whole blocks of it that hold nothing are
    /// zeros, left over by a life that could not give them back.
    pub(super) fn note_space(&mut self, extent: Extent<Addr>) {
        let may_give =
            self.store.geometry().overwrites_in_place && self.capabilities.punch && !self.config.read_only;
        if !may_give || self.holes_unknown() {
            return;
        }
        let size = self.store.geometry().size;
        let ceil = |at: u64| at.next_multiple_of(BLOCK_BYTES).min(size);
        let blocks = Extent::between(extent.start.0 / BLOCK_BYTES * BLOCK_BYTES, ceil(extent.end()));
        for part in self.void_parts(blocks) {
            let to = if part.end() == size { size } else { part.end() / BLOCK_BYTES * BLOCK_BYTES };
            let from = part.start.0.next_multiple_of(BLOCK_BYTES);
            if from < to && self.spare.len() < SPARE_MAX {
                self.add_spare(Extent::between(from, to));
            }
        }
    }

    /// What lay in `run` is gone, and `run` reads as zeros.
    pub(super) fn destroyed(&mut self, run: Extent<Addr>) {
        self.store.unmap(run);
        if self.config.policy.leaves_zeros() && self.capabilities.punch {
            self.add_spare(run);
        }
    }

    fn add_spare(&mut self, run: Extent<Addr>) {
        if self.spare.is_empty() {
            self.spare_since = self.now;
        }
        self.spare.insert(run, ());
    }

    /// Whether a guest is at work, so that what nobody waits for gives way.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.now.since(self.last_request) < self.at_work_ms()
    }

    fn at_work_ms(&self) -> u64 {
        self.config.idle_after_ms.min(AT_WORK_MS)
    }

    /// Whether it is time to give space back.
    pub(super) fn may_give_back(&mut self) -> bool {
        let overdue = self.is_overdue_since(self.spare_since);
        let must = !self.halting && (self.spare.len() >= SPARE_MAX || overdue);
        !self.spare.is_empty() && (must || !self.is_at_work() && self.is_due())
    }

    /// When it is, after everything due was destroyed.
    pub(super) fn space_wakeup(&self) -> Option<Millis> {
        let soon = Millis(self.last_request.0.saturating_add(self.at_work_ms()));
        (self.all_due && !self.halting && !self.spare.is_empty()).then_some(soon)
    }

    /// Gives the first spare space back, if it is time to.
    pub(super) fn space_act(&mut self) -> Option<Act> {
        if !self.may_give_back() {
            return None;
        }
        let first: Vec<_> = self.spare.iter().take(HOLES_MAX).map(|(extent, ())| extent).collect();
        for extent in first {
            // It died again, and will be spare again, or is in doubt and stays.
            for (owed, _) in self.state.ledger.within(extent) {
                self.spare.remove(owed);
            }
        }
        let mut left = self.config.batch_bytes_max.max(BLOCK_BYTES);
        let runs = self.spare.iter().take(HOLES_MAX).map(|(extent, ())| {
            // A host gives whole blocks back: none is cut in two.
            let cut = (extent.start.0 + left) / BLOCK_BYTES * BLOCK_BYTES;
            let run = Extent::between(extent.start.0, extent.end().min(cut.max(extent.start.0)));
            left = left.saturating_sub(run.len);
            run
        });
        Act::give_back(runs.take_while(|run| !run.is_empty()).collect())
    }

    /// `runs` have no space any more.
    pub(super) fn gave_back(&mut self, runs: &[Extent<Addr>]) {
        for run in runs {
            self.spare.remove(*run);
        }
    }

    /// Whether there is something to do that nobody asks for.
    pub(super) fn has_unasked(&self) -> bool {
        self.has_queued() || !self.spare.is_empty() || !self.is_sealed() || self.has_chores()
    }
}
