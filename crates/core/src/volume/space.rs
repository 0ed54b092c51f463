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

use super::Volume;
use super::act::{Act, Kind, Site};
use crate::erase::{Method, Priority, holes};
use crate::extents::ExtentMap;
use crate::store::WritePlan;
use crate::units::{Addr, BLOCK_BYTES, Extent, Millis};

/// Parts of the disk whose space is given back without waiting any longer.
const SPARE_MAX: usize = 1 << 16;
/// Holes in one act.
const HOLES_MAX: usize = 64;

/// Destroyed and zero; its space is still to be given back.
#[derive(Debug)]
pub(super) struct Spare {
    space: ExtentMap<Addr, ()>,
    /// Since when there is such space.
    since: Millis,
}

impl Spare {
    pub(super) fn new(now: Millis) -> Self {
        Self { space: ExtentMap::default(), since: now }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.space.is_empty()
    }

    fn is_full(&self) -> bool {
        self.space.len() >= SPARE_MAX
    }

    fn add(&mut self, run: Extent<Addr>, now: Millis) {
        if self.space.is_empty() {
            self.since = now;
        }
        self.space.insert(run, ());
    }

    /// The space of `run` is needed, or has been given back.
    fn remove(&mut self, run: Extent<Addr>) {
        self.space.remove(run);
    }

    /// The parts that one task can be about.
    fn first(&self) -> impl Iterator<Item = Extent<Addr>> {
        self.space.iter().take(HOLES_MAX).map(|(extent, ())| extent)
    }

    /// Space that one task gives back: about as many bytes, or a block at least.
    fn batch(&self, bytes_max: u64) -> Vec<Extent<Addr>> {
        let mut left = bytes_max.max(BLOCK_BYTES);
        let runs = self.first().map(|extent| {
            // A host gives whole blocks back: none is cut in two.
            let cut = (extent.start.0 + left) / BLOCK_BYTES * BLOCK_BYTES;
            let run = Extent::between(extent.start.0, extent.end().min(cut.max(extent.start.0)));
            left = left.saturating_sub(run.len);
            run
        });
        runs.take_while(|run| !run.is_empty()).collect()
    }
}

impl Volume {
    /// `extent` is about to be written; where to.
    pub(super) fn begin_hold(&mut self, extent: Extent<Addr>) -> WritePlan {
        self.cover(extent);
        self.erasing.spare.remove(extent);
        self.store.begin_write(extent)
    }

    /// The medium has no space in `extent`.
    pub(super) fn hole(&mut self, extent: Extent<Addr>) {
        let Some(fresh) = &self.erasing.fresh else { return };
        let mut rest = extent;
        while !rest.is_empty() {
            let written = fresh.first_run(rest);
            let void_end = written.map_or(rest.end(), |run| run.start.0);
            self.store.unmap(Extent::between(rest.start.0, void_end));
            rest = Extent::between(written.map_or(rest.end(), Extent::end), rest.end());
        }
    }

    /// All holes have been told: what was written since need not be known.
    pub fn holes_known(&mut self) {
        self.erasing.fresh = None;
    }

    /// The medium has space in `extent`: whole blocks of it that hold nothing are
    /// zeros, left over by a life that could not give them back.
    pub(super) fn note_space(&mut self, extent: Extent<Addr>) {
        let may_give = self.store.geometry().overwrites_in_place
            && self.erasing.capabilities.punch
            && !self.config.read_only;
        if !may_give || self.holes_unknown() {
            return;
        }
        let size = self.store.geometry().size;
        let ceil = |at: u64| at.next_multiple_of(BLOCK_BYTES).min(size);
        let blocks = Extent::between(extent.start.0 / BLOCK_BYTES * BLOCK_BYTES, ceil(extent.end()));
        for part in self.void_parts(blocks) {
            let to = if part.end() == size { size } else { part.end() / BLOCK_BYTES * BLOCK_BYTES };
            let from = part.start.0.next_multiple_of(BLOCK_BYTES);
            if from < to && !self.erasing.spare.is_full() {
                self.erasing.spare.add(Extent::between(from, to), self.schedule.now);
            }
        }
    }

    /// What lay in `run` is gone, and `run` reads as zeros.
    pub(super) fn destroyed(&mut self, run: Extent<Addr>) {
        self.store.unmap(run);
        if self.config.policy.leaves_zeros() && self.erasing.capabilities.punch {
            self.erasing.spare.add(run, self.schedule.now);
        }
    }

    /// Whether a guest is at work, so that what nobody waits for gives way: nobody makes holes then,
    /// which would keep its writes out.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.schedule.is_at_work(&self.config)
    }

    /// Whether it is time to give space back.
    pub(super) fn may_give_back(&mut self) -> bool {
        let overdue = self.is_overdue_since(self.erasing.spare.since);
        let must = !self.schedule.halting && (self.erasing.spare.is_full() || overdue);
        !self.erasing.spare.is_empty() && !self.acts_rest() && (must || !self.is_at_work() && self.is_due())
    }

    /// When it is, after everything due was destroyed.
    pub(super) fn space_wakeup(&self) -> Option<Millis> {
        let soon = self.schedule.work_ends_at(&self.config);
        (self.schedule.all_due && !self.schedule.halting && !self.erasing.spare.is_empty()).then_some(soon)
    }

    /// Gives the first spare space back, if it is time to.
    pub(super) fn space_act(&mut self) -> Option<Act> {
        if !self.may_give_back() {
            return None;
        }
        for extent in self.erasing.spare.first().collect::<Vec<_>>() {
            // It died again, and will be spare again, or is in doubt and stays.
            for (owed, _) in self.state.ledger.within(extent) {
                self.erasing.spare.remove(owed);
            }
        }
        let runs = self.erasing.spare.batch(self.config.batch_bytes_max);
        let method = Method::Punch(Site::runs(&holes(&runs)));
        (!runs.is_empty()).then(|| self.act(Kind::GiveBack, runs, method, Priority::Background))
    }

    /// `runs` have no space any more.
    pub(super) fn gave_back(&mut self, runs: &[Extent<Addr>]) {
        for run in runs {
            self.erasing.spare.remove(*run);
        }
    }

    /// Whether there is something to do that nobody asks for.
    pub(super) fn has_unasked(&self) -> bool {
        self.has_queued() || !self.erasing.spare.is_empty() || !self.is_checkpointed() || self.has_jobs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_spare_space_is_of_whole_blocks_and_ends_with_its_bytes() {
        let mut spare = Spare::new(Millis(0));
        spare.add(Extent::new(100, 5 * BLOCK_BYTES), Millis(7));
        spare.add(Extent::new(10 * BLOCK_BYTES, BLOCK_BYTES), Millis(8));
        let whole = Extent::between(100, 2 * BLOCK_BYTES);
        assert_eq!(spare.batch(2 * BLOCK_BYTES), [whole]);
        assert_eq!(spare.batch(0), [Extent::between(100, BLOCK_BYTES)]);
        assert_eq!(spare.batch(1 << 20).len(), 2);
        assert_eq!(spare.since, Millis(7));
        spare.remove(Extent::new(0, 1 << 20));
        assert!(spare.is_empty() && spare.batch(1 << 20).is_empty());
        spare.add(whole, Millis(9));
        assert_eq!(spare.since, Millis(9));
    }

    #[test]
    fn parts_beyond_those_of_one_task_stay_for_the_next() {
        let mut spare = Spare::new(Millis(0));
        (0..SPARE_MAX as u64)
            .for_each(|n| spare.add(Extent::new(n * 2 * BLOCK_BYTES, BLOCK_BYTES), Millis(0)));
        assert!(spare.is_full() && spare.batch(u64::MAX / 2).len() == HOLES_MAX);
    }
}
