//! Erasing: the erase task under way, and what lasts from one task to the next.
//!
//! [`due`] says whether a task may go on, [`task`] takes its steps, [`jobs`] are those that a store asks for, [`owed`] the one that
//! destroys what is owed by place, and [`space`] gives back what destroyed content took. [`obliging`] gives dead bytes their
//! obligation, around what is under way. What dies by key has its tasks in [`by_key`] and [`restaging`]; below which content nothing lies, [`layers`] knows. How bytes are destroyed,
//! [`crate::erase`] alone knows. Which task is next depends on all owners: [`super::driving`].

pub(super) mod by_key;
pub(super) mod due;
pub(super) mod forgetting;
pub(super) mod jobs;
pub(super) mod layers;
pub(super) mod obliging;
pub(super) mod owed;
pub(super) mod restaging;
pub(super) mod space;
pub(super) mod task;

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, Extent, Millis};
use crate::erase::Seeds;
use crate::request::Request;
use crate::volume::disk::Disk;
use forgetting::Forgetting;
use jobs::Jobs;
use layers::Layers;
use space::PendingPunch;
use task::EraseTask;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Erasing {
    /// The erase task under way.
    pub(super) task: Option<EraseTask>,
    /// The number of tasks that have begun.
    pub(super) begun: u64,
    pub(super) seeds: Seeds,
    /// The bytes written since the disk was opened; `None` once all holes are known.
    pub(super) fresh: Option<BlockSet>,
    pub(super) layers: Layers,
    pub(super) pending_punch: PendingPunch,
    pub(super) jobs: Jobs,
    pub(super) forgetting: Forgetting,
    /// Where the sweep over the obligations goes on, in bytes from the start of the disk.
    pub(super) sweep: u64,
    /// The next task prefers residue that is owed by place to residue that is owed by address.
    destroys_owed_next: bool,
}

impl Erasing {
    pub(super) fn new(entropy: [u8; 32], fresh: Option<BlockSet>, now: Millis) -> Self {
        Self {
            task: None,
            begun: 0,
            seeds: Seeds::new(entropy),
            fresh,
            layers: Layers::default(),
            pending_punch: PendingPunch::new(now),
            jobs: Jobs::default(),
            forgetting: Forgetting::default(),
            sweep: 0,
            destroys_owed_next: false,
        }
    }

    /// Whether the search for holes is not over: some blocks may have no data.
    pub(super) fn holes_unknown(&self) -> bool {
        self.fresh.is_some()
    }

    /// Whether no task is under way, and no space is pending punch.
    pub(super) fn is_quiet(&self) -> bool {
        self.task.is_none() && self.pending_punch.is_empty()
    }

    /// Whether the task under way keeps `request` from beginning. The watcher has to see the extents
    /// `needs` before that.
    pub(super) fn keeps_out(&self, request: &Request, needs: &[Extent<Addr>]) -> bool {
        let keeps_out = |task: &EraseTask| {
            task.excludes(request) || needs.iter().any(|old_extent| task.hides(*old_extent))
        };
        self.task.as_ref().is_some_and(keeps_out)
    }

    /// Whether the task under way overwrites content of `extent` that will be put back.
    pub(super) fn hides(&self, extent: Extent<Addr>) -> bool {
        self.task.as_ref().is_some_and(|task| task.hides(extent))
    }

    /// Whether the task under way works on bytes of `extent` where they lie now.
    pub(super) fn is_at(&self, extent: Extent<Addr>) -> bool {
        self.task.as_ref().is_some_and(|task| task.is_at(extent))
    }

    /// The parts of `extent` that the task under way is not giving back as plain: passes would come too late there.
    pub(super) fn not_being_freed(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        self.task.as_ref().map_or_else(|| vec![extent], |task| task.not_being_freed(extent))
    }

    /// Whether the task under way, if there is one, destroys nothing.
    pub(super) fn destroys_nothing(&self) -> bool {
        self.task.as_ref().is_none_or(EraseTask::gives_back)
    }

    /// Whether residue that is owed by place has its turn: every other time.
    pub(super) fn takes_turns(&mut self) -> bool {
        self.destroys_owed_next = !self.destroys_owed_next;
        self.destroys_owed_next
    }

    /// Notes whether all due work waits for space, after everything that could begin has begun.
    pub(in crate::volume) fn note_shortage(&mut self, disk: &mut Disk) {
        let is_short = disk.tasks_rest() || disk.checkpoints_rest();
        disk.schedule.shortage.is_all =
            is_short && disk.outstanding.is_empty() && (disk.schedule.halting || self.is_due(disk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erase::{Method, Priority, Task};
    use crate::media::MediumId;
    use crate::media::place::Place;
    use crate::request::Op;
    use crate::volume::disk::site::Site;
    use crate::volume::erasing::task::{Kind, Placed};

    const AT: Extent<Addr> = Extent { start: Addr(4096), len: 4096 };

    /// A task of this kind under way over [`AT`].
    fn erasing(kind: Kind) -> Erasing {
        let mut erasing = Erasing::new([0; 32], None, Millis(0));
        let method = Method::Punch(vec![Site::Run(AT)]);
        let task = Task::new(method, &"clear".parse().unwrap(), Priority::Due);
        erasing.task = Some(EraseTask::new(kind, vec![AT], task));
        erasing
    }

    /// Which of a write, zeros that keep their space, a TRIM, a read and a flush have to wait.
    fn waits(kind: Kind) -> [bool; 5] {
        let erasing = erasing(kind);
        let zero = Op::Zero { no_hole: true, fast: false };
        [Op::Write(vec![1; 8].into()), zero, Op::Trim, Op::Read, Op::Flush].map(|op| {
            let elsewhere = Request { op: op.clone(), extent: Extent::new(0, 4096), fua: false };
            assert!(!erasing.keeps_out(&elsewhere, &[]));
            erasing.keeps_out(&Request { op, extent: Extent::new(4100, 8), fua: false }, &[])
        })
    }

    fn destroy_owed(what: Placed) -> Kind {
        let place = Place { on: MediumId::Data, extent: Extent::new(0, 4096) };
        Kind::DestroyOwed { places: vec![place], causes: Vec::new(), what }
    }

    #[test]
    fn a_request_waits_for_a_task_that_would_destroy_or_hide_what_it_is_about() {
        assert_eq!(waits(Kind::Shred), [true, true, false, false, false]);
        assert_eq!(waits(Kind::Free), [true, true, false, false, false]);
        assert_eq!(waits(Kind::GiveBack), [true, true, false, false, false]);
        assert_eq!(waits(Kind::Rewrite { suspicious: false }), [true, true, true, true, false]);
        assert_eq!(waits(Kind::Job), [true, true, true, true, false]);
        assert_eq!(waits(destroy_owed(Placed::Content)), [false; 5]);
        assert_eq!(waits(destroy_owed(Placed::Older)), [true, false, false, false, false]);
    }

    #[test]
    fn what_the_watcher_has_to_see_is_hidden_only_while_it_is_kept_elsewhere() {
        let read = Request { op: Op::Read, extent: Extent::new(0, 8), fua: false };
        let needs = [Extent::new(4096, 1)];
        assert!(erasing(Kind::Rewrite { suspicious: true }).keeps_out(&read, &needs));
        assert!(!erasing(Kind::Shred).keeps_out(&read, &needs));
    }

    #[test]
    fn what_is_owed_by_place_concerns_no_address() {
        assert!(erasing(Kind::Shred).is_at(AT) && !erasing(destroy_owed(Placed::Content)).is_at(AT));
        assert!(
            erasing(Kind::GiveBack).destroys_nothing()
                && !erasing(destroy_owed(Placed::Content)).destroys_nothing()
        );
    }

    #[test]
    fn by_place_and_by_address_take_turns() {
        let mut erasing = erasing(destroy_owed(Placed::Content));
        assert_eq!([(); 4].map(|()| erasing.takes_turns()), [true, false, true, false]);
    }
}
