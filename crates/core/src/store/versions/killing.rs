//! Which stubs are to be destroyed, and by whom: those of content that the guest let die by the volume, which owes
//! receipts; all others by jobs of the store.
//!
//! Invariants:
//! 1. What replaced a version is durable before a job destroys its stub: else a crash could take both.
//! 2. A slot that the journal names is not taken again before [`Store::reclaim`]: else a start could take the new
//!    content of the same block for the dead one.
//! 3. A slot is taken again once its stub is destroyed, and the next head of the index is durable. Its space is given back
//!    if it is still free when the disk is idle: on a busy one it is taken again, which costs less than new space.

use super::catalog::Catalog;
use super::root::{self, Cell};
use super::span::slots_of;
use super::{Change, Versions, in_slot};
use crate::blocks::BlockSet;
use crate::media::MediumId;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::sealing::Slot;
use crate::store::{Backlog, Job, JobEnd, Residue, Store};
use crate::tree::Absent;
use crate::units::{BLOCK_BYTES, Extent, Pos};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most stubs in one job.
const STUBS_MAX: usize = 4096;
/// Most slots whose space one job gives back.
const SPARE_AT_ONCE: usize = 1024;
/// Most slots to look at for one job.
const LOOKS_MAX: usize = 2 * STUBS_MAX;
/// With so many stubs to destroy no job waits for an idle disk.
const PILE_MAX: u64 = 1 << 16;
/// With so many spare slots their space is given back although the disk is busy.
const SPARE_MAX: u64 = 1 << 17;

/// What becomes of content that has left its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The index does not know yet.
    Open,
    /// No epoch shows it: its stub is to be destroyed.
    Owed,
    /// A kept epoch shows it.
    Kept,
}

/// How far a sweep over all that is owed is.
#[derive(Debug, Default)]
struct Sweep {
    /// Where the next look for slots begins.
    next: Slot,
    /// Whether the looks have come to the end since the sweep began, and whether the stubs found are destroyed.
    looked: bool,
    swept: bool,
    /// Whether the sweep has left stubs to the end of their half of the log, or of the checkpoint under way.
    put_off: bool,
    /// How many versions were owed when the sweep before had left all that it found to that end: the next one finds the same
    /// as long as these are as many.
    all_put_off: Option<u64>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Killing {
    /// The slots that the journal names, and what becomes of each.
    left: BTreeMap<Slot, Fate>,
    /// How many of them are owed.
    left_owed: u64,
    /// The slots of versions that were replaced since the last commit began, and those of that commit.
    fresh: BTreeSet<Slot>,
    committing: BTreeSet<Slot>,
    /// The slots that can be taken, now or soon, and have space.
    spare: BlockSet<Pos>,
    sweep: Sweep,
    /// The slots of the job under way.
    under_way: BTreeSet<Slot>,
    /// A page of the index that the jobs need is damaged.
    is_stopped: bool,
    gives_back: bool,
}

impl Killing {
    pub(super) fn new(gives_back: bool) -> Self {
        Self { gives_back, ..Self::default() }
    }

    /// Whether the space of destroyed content can be given back.
    pub(super) fn gives_back(&self) -> bool {
        self.gives_back
    }

    /// Notes that a block leaves `slot`, which the journal names from now on.
    pub(super) fn leaves(&mut self, slot: Slot) {
        self.left.insert(slot, Fate::Open);
    }

    /// Notes that `slot` is taken.
    pub(super) fn taken(&mut self, slot: Slot) {
        if !self.spare.is_empty() {
            self.spare.remove(in_slot(slot).extent);
        }
    }

    pub(super) fn has_left(&self, slot: Slot) -> bool {
        self.left.contains_key(&slot)
    }

    /// Notes what became of the version in `slot`, which the journal names.
    pub(super) fn decided(&mut self, slot: Slot, is_owed: bool) {
        if let Some(fate) = self.left.get_mut(&slot) {
            *fate = if is_owed { Fate::Owed } else { Fate::Kept };
            self.left_owed += u64::from(is_owed);
        }
    }

    /// Notes that the version in `slot`, which was replaced, is owed.
    pub(super) fn replaced(&mut self, slot: Slot) {
        self.fresh.insert(slot);
    }

    pub(super) fn begin_commit(&mut self) {
        self.committing.append(&mut self.fresh);
    }

    pub(super) fn end_commit(&mut self) {
        self.committing.clear();
    }

    pub(super) fn abort_commit(&mut self) {
        self.fresh.append(&mut self.committing);
    }

    /// Begins a sweep over all that is owed.
    pub(super) fn begin_sweep(&mut self) {
        self.sweep = Sweep::default();
    }

    /// Whether the stubs of all versions are destroyed that were owed when the sweep began, apart from content that the
    /// journal owes; `owed` versions are now.
    pub(super) fn has_swept(&self, owed: u64) -> bool {
        let is_settled = self.left.len() as u64 == self.left_owed;
        is_settled && (self.sweep.swept || self.under_way.is_empty() && self.to_kill(owed) == 0)
    }

    /// What is to be destroyed for the content that was owed at `place` of the data medium, part by part.
    pub(super) fn residue(&self, place: Place, catalog: &Catalog) -> Vec<Residue> {
        let slots = place.extent.start.0 / BLOCK_BYTES..place.extent.end().div_ceil(BLOCK_BYTES);
        let residue = |slot: u64| {
            let extent = Extent::new(slot * BLOCK_BYTES, BLOCK_BYTES).overlap(place.extent)?;
            let part = Place { extent, ..place };
            match self.left.get(&Slot(slot))? {
                Fate::Open => None,
                Fate::Owed if catalog.log.is_moving(Slot(slot)) => None,
                Fate::Owed => Some(Residue { part, at: catalog.places(Slot(slot)), is_kept: false }),
                Fate::Kept => Some(Residue { part, at: Vec::new(), is_kept: true }),
            }
        };
        slots.filter_map(residue).collect()
    }

    /// Whether a job may destroy the stub of `slot`.
    fn may_kill(&self, slot: Slot) -> bool {
        let others = [&self.fresh, &self.committing, &self.under_way];
        !self.has_left(slot) && !others.iter().any(|slots| slots.contains(&slot))
    }

    /// How many of the `owed` versions are for jobs to destroy, at most.
    fn to_kill(&self, owed: u64) -> u64 {
        let others = self.fresh.len() + self.committing.len();
        owed.saturating_sub(others as u64 + self.left_owed)
    }
}

impl Versions {
    /// Ends what the journal owed at `place`: it names these slots no more.
    pub(super) fn reclaim_slots(&mut self, place: Extent<Pos>) {
        for slot in place.start.0 / BLOCK_BYTES..place.end() / BLOCK_BYTES {
            let slot = Slot(slot);
            if self.killing.left.remove(&slot) == Some(Fate::Owed) {
                self.killing.left_owed -= 1;
                self.killed(&some(&BTreeSet::from([slot])));
            }
        }
    }

    /// Notes that the stubs of these slots are destroyed.
    pub(super) fn killed(&mut self, slots: &BlockSet<Pos>) {
        for run in slots.runs() {
            let Range { start, end } = slots_of(run);
            for replaced in [&mut self.killing.fresh, &mut self.killing.committing] {
                if !replaced.is_empty() {
                    (start.0..end.0).for_each(|slot| _ = replaced.remove(&Slot(slot)));
                }
            }
            if self.killing.gives_back() {
                self.killing.spare.insert(run);
            }
            self.change(Change::Destroyed(start, end));
        }
    }

    /// Notes after a crash that every free slot of a medium of `bytes` may have space.
    pub(super) fn find_spare(&mut self, bytes: u64) {
        if !self.killing.gives_back() {
            return;
        }
        for (from, to) in self.catalog.slots.free_runs(bytes.div_ceil(BLOCK_BYTES)) {
            self.killing.spare.insert(Extent::between(from * BLOCK_BYTES, to * BLOCK_BYTES));
        }
    }

    /// Holds some of the spare slots. Those that cannot be held are spare no more.
    fn hold_spare(&mut self) -> BTreeSet<Slot> {
        let runs = self.killing.spare.runs();
        let slots = runs.flat_map(|run| (run.start.0 / BLOCK_BYTES..run.end() / BLOCK_BYTES).map(Slot));
        let mut slots: BTreeSet<Slot> = slots.take(SPARE_AT_ONCE).collect();
        slots.retain(|slot| {
            let is_held = self.catalog.slots.hold(*slot);
            if !is_held {
                self.killing.spare.remove(in_slot(*slot).extent);
            }
            is_held
        });
        slots
    }

    /// Ends the job that gave the space of these slots back, unless it was given up.
    fn release_spare(&mut self, slots: &BTreeSet<Slot>, is_given: bool) {
        for slot in slots {
            self.catalog.slots.release(*slot);
            if is_given {
                self.killing.spare.remove(in_slot(*slot).extent);
            }
        }
    }

    /// Takes a page of the index that a job has read.
    fn searched(&mut self, part: Extent<Pos>, bytes: &[u8]) {
        let place = Place { on: MediumId::Map, extent: part };
        // Without the page the jobs cannot go on. A request that needs it is told why.
        self.killing.is_stopped = self.loaded(place, bytes).is_err();
    }

    pub(super) fn job_backlog(&self, all: bool) -> Backlog {
        if self.killing.is_stopped {
            return Backlog::Nothing;
        }
        let to_kill = self.killing.to_kill(self.catalog.history.owed());
        let spare = self.killing.spare.len();
        let is_awaited = self.forgetting.awaits_stubs() && to_kill > 0;
        let is_urgent = self.stuck.is_some()
            || self.half_to_destroy().is_some()
            || is_awaited
            || to_kill > PILE_MAX
            || spare > SPARE_MAX;
        match (is_urgent, to_kill + spare > 0) {
            (true, _) => Backlog::AtOnce,
            (false, true) if all => Backlog::AtOnce,
            (false, true) => Backlog::WhenIdle,
            (false, false) => Backlog::Nothing,
        }
    }

    /// The half of the log whose cell is to be destroyed, once no commit goes there any more.
    fn half_to_destroy(&self) -> Option<u8> {
        let is_early = mutant::is(Mutant::KillLogEarly);
        self.catalog.old_half().filter(|_| !self.committing.is_under_way || is_early)
    }

    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(page) = self.stuck {
            return Some(Job::Search(super::page_place(page).extent));
        }
        if let Some(half) = self.half_to_destroy() {
            return Some(Job::Renew(vec![root::place_of(half)], self.catalog.cells.draw().to_bytes()));
        }
        match self.stubs_to_kill() {
            Ok(places) if places.is_empty() => {
                if self.killing.sweep.looked && self.killing.sweep.put_off {
                    self.killing.begin_sweep();
                    self.killing.sweep.all_put_off =
                        Some(self.catalog.history.owed()).filter(|_| self.committing.has_index_to_write());
                }
                self.killing.sweep.swept = self.killing.sweep.looked;
                self.spare_job()
            }
            Ok(places) => Some(Job::Destroy(places)),
            Err(Absent(page)) => {
                self.stuck = Some(page);
                Some(Job::Search(super::page_place(page).extent))
            }
        }
    }

    /// The job that gives space back.
    fn spare_job(&mut self) -> Option<Job> {
        let slots = self.hold_spare();
        let space = runs(&slots);
        self.killing.under_way = slots;
        (!space.is_empty()).then_some(Job::Punch(space))
    }

    /// Where the stubs are that the next job destroys. Those that die with their half of the log soon are left to that.
    fn stubs_to_kill(&mut self) -> Result<Vec<Place>, Absent> {
        // What a forget finds is left to the sweep that follows: most of it may die with the half of the log.
        let is_waiting = self.killing.sweep.all_put_off == Some(self.catalog.history.owed());
        if self.forgetting.is_searching() || self.committing.has_index_to_write() && is_waiting {
            return Ok(Vec::new());
        }
        let (mut slots, mut from, mut looks) = (BTreeSet::new(), self.killing.sweep.next, 0);
        while looks < LOOKS_MAX && slots.len() < STUBS_MAX {
            let Some(owed) = self.catalog.history.owed_from(from)? else {
                from = Slot(0);
                self.killing.sweep.looked = true;
                break;
            };
            let most = (LOOKS_MAX - looks).min(STUBS_MAX - slots.len());
            for slot in owed.each().map(|dead| dead.slot).take(most) {
                if self.killing.may_kill(slot) && !self.must_wait(slot) {
                    slots.insert(slot);
                }
                (from, looks) = (Slot(slot.0 + 1), looks + 1);
            }
        }
        self.killing.sweep.next = from;
        let places = self.catalog.places_of(&slots);
        self.killing.under_way = slots;
        Ok(places)
    }

    /// Whether the stub of `slot`, which is owed, is left for later: it dies with its half of the log, or is being copied.
    fn must_wait(&mut self, slot: Slot) -> bool {
        let dies_soon = self.committing.has_index_to_write()
            && self.catalog.dies_with_half(slot, self.committing.index.as_ref());
        let must_wait = dies_soon || self.catalog.log.is_moving(slot);
        self.killing.sweep.put_off |= must_wait;
        must_wait
    }

    pub(super) fn job_done(&mut self, job: &Job, end: JobEnd<'_>) {
        let slots = std::mem::take(&mut self.killing.under_way);
        if let Job::Punch(_) = job {
            return self.release_spare(&slots, matches!(end, JobEnd::Done(_)));
        }
        let JobEnd::Done(read) = end else { return self.killing.begin_sweep() };
        self.killing.sweep.swept = self.killing.sweep.looked && !self.killing.sweep.put_off;
        match job {
            Job::Search(part) => self.searched(*part, read),
            Job::Destroy(_) => self.killed(&some(&slots)),
            Job::Renew(_, fresh) => {
                let cell = Cell::from_bytes(fresh).expect("the job has the cell of a half");
                let mut dying = self.catalog.old_half_renewed(cell);
                self.killing.left.keys().for_each(|slot| dying.remove(in_slot(*slot).extent));
                self.killed(&dying);
            }
            Job::Punch(_) | Job::Shrink(_) | Job::Move { .. } => unreachable!("this store has no such job"),
        }
    }
}

fn some(slots: &BTreeSet<Slot>) -> BlockSet<Pos> {
    BlockSet::of_ascending(slots.iter().map(|slot| slot.0))
}

/// The space of some slots, neighbours together.
fn runs(slots: &BTreeSet<Slot>) -> Vec<Extent<Pos>> {
    let mut runs: Vec<Extent<Pos>> = Vec::new();
    for slot in slots {
        let start = slot.0 * BLOCK_BYTES;
        match runs.last_mut() {
            Some(last) if last.end() == start => last.len += BLOCK_BYTES,
            _ => runs.push(Extent::new(start, BLOCK_BYTES)),
        }
    }
    runs
}
