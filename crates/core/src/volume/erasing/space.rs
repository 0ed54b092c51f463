//! Space that is given back after what lay there was destroyed.
//!
//! A punch destroys nothing, and a host may take as long for it as for a pass. So a shred that leaves
//! zeros does not include the punch: receipts need not wait for it, and punches begin when nothing is
//! left to be destroyed.
//!
//! Invariants:
//! 1. Space is pending punch only while its content is zeros: a write takes its bytes out of the set
//!    (`allocate`), and no write begins where a hole is being made.
//! 2. Blocks that are pending punch are dead: zeros that take up space. A crash, and a stop in a hurry,
//!    forget which blocks are pending punch, and no more than that. The next start finds out where the
//!    medium has space ([`Event::Space`]); where the disk has no data, that space is pending punch.
//!
//! [`Event::Space`]: crate::volume::Event::Space

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Millis};
use crate::erase::{Method, Priority, holes};
use crate::media::MediumId;
use crate::volume::Volume;
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind};

/// With so many runs that are pending punch, space is given back without waiting any longer.
const PENDING_PUNCH_MAX: usize = 1 << 16;
/// Most holes in one erase task.
const HOLES_MAX: usize = 64;

/// Runs that are destroyed and zero, and whose space is still to be given back.
#[derive(Debug)]
pub(in crate::volume) struct PendingPunch {
    space: ExtentMap<Addr, ()>,
    /// Since when there is such space.
    since: Millis,
}

impl PendingPunch {
    pub(in crate::volume) fn new(now: Millis) -> Self {
        Self { space: ExtentMap::default(), since: now }
    }

    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.space.is_empty()
    }

    fn is_full(&self) -> bool {
        self.space.len() >= PENDING_PUNCH_MAX
    }

    fn add(&mut self, run: Extent<Addr>, now: Millis) {
        if self.space.is_empty() {
            self.since = now;
        }
        self.space.insert(run, ());
    }

    /// Takes `run` out: its space is needed, or has been given back.
    pub(in crate::volume) fn remove(&mut self, run: Extent<Addr>) {
        self.space.remove(run);
    }

    /// The first runs, as many as one task takes.
    fn first(&self) -> impl Iterator<Item = Extent<Addr>> {
        self.space.iter().take(HOLES_MAX).map(|(extent, ())| extent)
    }

    /// The space that one task gives back: about `bytes_max`, and at least one block.
    fn batch(&self, bytes_max: u64) -> Vec<Extent<Addr>> {
        let mut left = bytes_max.max(BLOCK_BYTES);
        let runs = self.first().map(|extent| {
            // A host takes whole blocks back: no block is cut in two.
            let cut = (extent.start.0 + left) / BLOCK_BYTES * BLOCK_BYTES;
            let run = Extent::between(extent.start.0, extent.end().min(cut.max(extent.start.0)));
            left = left.saturating_sub(run.len);
            run
        });
        let runs: Vec<_> = runs.take_while(|run| !run.is_empty()).collect();
        let bytes = runs.iter().map(|run| run.len).sum::<u64>();
        assert!(bytes <= bytes_max.max(BLOCK_BYTES), "a task gives back no more than it may");
        runs
    }
}

impl Disk {
    /// Whether space of the data medium can be given back.
    pub(in crate::volume) fn punches(&self) -> bool {
        self.capabilities.data().punch
    }

    /// Whether a guest is at work: see [`Volume::is_at_work`].
    pub(in crate::volume) fn is_at_work(&self) -> bool {
        self.schedule.is_at_work(&self.config)
    }
}

impl Erasing {
    /// Notes that the medium has no space in `extent`: the disk has no data there.
    pub(in crate::volume) fn hole(&mut self, disk: &mut Disk, extent: Extent<Addr>) {
        let Some(fresh) = &self.fresh else { return };
        assert!(extent.end() <= disk.store.geometry().size, "a hole of the disk lies within it");
        let mut rest = extent;
        while !rest.is_empty() {
            let written = fresh.first_run(rest);
            let hole_end = written.map_or(rest.end(), |run| run.start.0);
            disk.store.unmap(Extent::between(rest.start.0, hole_end));
            rest = Extent::between(written.map_or(rest.end(), Extent::end), rest.end());
        }
    }

    /// Notes that the medium has space in `extent`: whole blocks there without data are zeros, which an
    /// earlier run could not give back.
    pub(in crate::volume) fn note_space(&mut self, disk: &Disk, extent: Extent<Addr>) {
        let may_give = disk.store.same_place() && disk.punches() && !disk.config.read_only;
        if !may_give || self.holes_unknown() {
            return;
        }
        let size = disk.store.geometry().size;
        let ceil = |at: u64| at.next_multiple_of(BLOCK_BYTES).min(size);
        let blocks = Extent::between(extent.start.0 / BLOCK_BYTES * BLOCK_BYTES, ceil(extent.end()));
        for part in disk.parts_without_data(blocks) {
            let to = if part.end() == size { size } else { part.end() / BLOCK_BYTES * BLOCK_BYTES };
            let from = part.start.0.next_multiple_of(BLOCK_BYTES);
            if from < to && !self.pending_punch.is_full() {
                self.pending_punch.add(Extent::between(from, to), disk.schedule.now);
            }
        }
    }

    /// Notes that the content of `run` is destroyed, and that `run` reads as zeros.
    pub(in crate::volume) fn destroyed(&mut self, disk: &mut Disk, run: Extent<Addr>) {
        disk.store.unmap(run);
        if disk.config.policy.leaves_zeros() && disk.punches() && !disk.erases(MediumId::Data) {
            self.pending_punch.add(run, disk.schedule.now);
        }
    }

    /// Whether a task that gives space back may begin or go on.
    pub(in crate::volume) fn may_give_back(&mut self, disk: &mut Disk) -> bool {
        let overdue = disk.is_overdue_since(self.pending_punch.since);
        let must = !disk.schedule.halting && (self.pending_punch.is_full() || overdue);
        !self.pending_punch.is_empty()
            && !disk.tasks_rest()
            && (must || !disk.is_at_work() && self.is_due(disk))
    }

    /// When space is to be given back, after everything due was destroyed.
    pub(in crate::volume) fn space_wakeup(&self, disk: &Disk) -> Option<Millis> {
        let soon = disk.schedule.work_ends_at(&disk.config);
        (disk.schedule.all_due && !disk.schedule.halting && !self.pending_punch.is_empty()).then_some(soon)
    }

    /// The erase task that gives back the first space that is pending punch, if that is due.
    pub(in crate::volume) fn punch_task(&mut self, disk: &mut Disk) -> Option<EraseTask> {
        if !self.may_give_back(disk) {
            return None;
        }
        for extent in self.pending_punch.first().collect::<Vec<_>>() {
            // The extent died again, and will be pending punch again; or it is suspicious, and stays.
            for (owed, _) in disk.state.ledger.within(extent) {
                self.pending_punch.remove(owed);
            }
        }
        let runs = self.pending_punch.batch(disk.config.batch_bytes_max);
        let method = Method::Punch(Site::runs(&holes(&runs)));
        (!runs.is_empty()).then(|| disk.erase_task(Kind::GiveBack, runs, method, Priority::Background))
    }

    /// Notes that the space of `runs` was given back.
    pub(in crate::volume) fn gave_back(&mut self, runs: &[Extent<Addr>]) {
        for run in runs {
            self.pending_punch.remove(*run);
        }
    }

    /// Whether there is work that no request asks for.
    pub(in crate::volume) fn has_unasked(&self, disk: &Disk) -> bool {
        disk.has_queued()
            || self.has_forgets(disk)
            || !self.pending_punch.is_empty()
            || !disk.is_checkpointed()
            || disk.has_jobs()
    }
}

impl Volume {
    /// Ends the search for holes: what was written since the start need not be known any more.
    pub fn holes_known(&mut self) {
        self.erasing.fresh = None;
    }

    /// Whether a guest is at work, so that what no request waits for gives way. No holes are made then, because
    /// they would keep the guest's writes out.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.disk.is_at_work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_space_to_punch_is_of_whole_blocks_and_ends_with_its_bytes() {
        let mut pending_punch = PendingPunch::new(Millis(0));
        pending_punch.add(Extent::new(100, 5 * BLOCK_BYTES), Millis(7));
        pending_punch.add(Extent::new(10 * BLOCK_BYTES, BLOCK_BYTES), Millis(8));
        let whole = Extent::between(100, 2 * BLOCK_BYTES);
        assert_eq!(pending_punch.batch(2 * BLOCK_BYTES), [whole]);
        assert_eq!(pending_punch.batch(0), [Extent::between(100, BLOCK_BYTES)]);
        assert_eq!(pending_punch.batch(1 << 20).len(), 2);
        assert_eq!(pending_punch.since, Millis(7));
        pending_punch.remove(Extent::new(0, 1 << 20));
        assert!(pending_punch.is_empty() && pending_punch.batch(1 << 20).is_empty());
        pending_punch.add(whole, Millis(9));
        assert_eq!(pending_punch.since, Millis(9));
    }

    #[test]
    fn parts_beyond_those_of_one_task_stay_for_the_next() {
        let mut pending_punch = PendingPunch::new(Millis(0));
        (0..PENDING_PUNCH_MAX as u64)
            .for_each(|n| pending_punch.add(Extent::new(n * 2 * BLOCK_BYTES, BLOCK_BYTES), Millis(0)));
        assert!(pending_punch.is_full() && pending_punch.batch(u64::MAX / 2).len() == HOLES_MAX);
    }
}
