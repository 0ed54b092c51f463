//! Whether erase tasks may go on, and the task that destroys what died by address.

use crate::base::units::{Addr, Extent, Millis};
use crate::erase::{Destroy, Method, Priority, Zeros};
use crate::media::MediumId;
use crate::owed::ledger::Due;
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind};

/// Erase tasks begin, although guests are at work, when what is to be destroyed takes so many quarters of its room.
const FILLING_QUARTERS: u64 = 3;

impl Disk {
    /// Whether work that has been pending since `since` is due.
    pub(in crate::volume) fn is_due_since(&self, since: Millis) -> bool {
        self.schedule.is_due_since(since, &self.config)
    }

    /// Whether work that has been pending since `since` is past its deadline.
    pub(in crate::volume) fn is_overdue_since(&self, since: Millis) -> bool {
        self.schedule.is_overdue_since(since, &self.config)
    }

    pub(in crate::volume) fn is_filling(&self) -> bool {
        let entries = self.state.ledger.queued_len() + self.state.owed.len();
        let fills = |owed: u64, max: u64| owed > max / 4 * FILLING_QUARTERS;
        self.store.keyed().is_some_and(|it| it.is_filling())
            || fills(entries as u64, self.commits.journal.shape().entries_max() as u64)
            || fills(self.state.owed.bytes(), self.owed_bytes_max())
    }

    fn is_overdue(&self) -> bool {
        self.oldest().is_some_and(|since| self.is_overdue_since(since))
    }
}

impl Erasing {
    /// Whether tasks may go on although no request waits for them.
    pub(in crate::volume) fn is_due(&mut self, disk: &mut Disk) -> bool {
        if disk.schedule.halting {
            return false;
        }
        // A forget waits for what the journal owes of the versions that it has found.
        if disk.is_due_since(disk.schedule.now) || self.has_forgets(disk) {
            return true;
        }
        if !disk.is_overdue() {
            return false;
        }
        // The oldest obligation may be completed by now.
        disk.state.ledger.review(disk.schedule.now);
        disk.is_overdue()
    }

    /// Whether tasks may go on although no request waits for them, because they are due, or the ledger fills:
    /// a task that began only when the ledger is full would keep writes waiting for room.
    pub(in crate::volume) fn may_go_on(&mut self, disk: &mut Disk) -> bool {
        self.is_due(disk) || !disk.schedule.halting && disk.is_filling()
    }

    pub(in crate::volume) fn shred(
        &self,
        disk: &Disk,
        runs: Vec<Extent<Addr>>,
        due: Due,
        priority: Priority,
    ) -> Option<EraseTask> {
        assert!(due.is_dead(), "only what is dead is destroyed, or given back");
        let fixed = disk.store.same_place();
        // A block that is freed as a whole needs no zeros; a part of one does.
        let is_whole = |run: &Extent<Addr>| *run == disk.store.geometry().together(*run);
        let is_plain = due.is_plain();
        let zeros = if (fixed || is_plain) && disk.punches() && !due.keeps_space() {
            Zeros::Holes(Site::runs(&disk.limits().holes(&runs)))
        } else if fixed || is_plain || !runs.iter().all(is_whole) {
            Zeros::Always
        } else {
            Zeros::AfterPasses
        };
        let method = Destroy {
            residue: Site::runs(&runs),
            at_once: disk.limits().at_once(runs.iter().copied()),
            zeros,
            medium: Site::all_of(MediumId::Data),
            forget: if fixed { Vec::new() } else { Site::runs(&runs) },
            checkpoint: !fixed,
            record: true,
        };
        // Where dead blocks leave their places at once, they are destroyed there.
        let is_any = !runs.is_empty() && !disk.dead_leave();
        let kind = if is_plain { Kind::Free } else { Kind::Shred };
        is_any.then(|| disk.erase_task(kind, runs, Method::Destroy(method), priority))
    }
}
