//! Content to be destroyed, and by whom. Stubs: by jobs of the store, as the cells above them are
//! ([`crate::store::versions::forget::rekeying`]). Where there are none, content that the guest let die: by the volume, which owes receipts; all other
//! content by jobs.
//!
//! Invariants:
//! 1. What replaced a version, or the journal's word that the version is owed, is durable before a job destroys the version:
//!    else a crash could take both, or a start would look for a cell that its page of homes has no more.
//! 2. A slot that the journal names is not taken again before [`Mapped::reclaim`](crate::store::Mapped::reclaim): else a start could take the new
//!    content of the same block for the dead one.
//! 3. A slot is taken again once its version is destroyed, and the next head of the index is durable. Its space is given back
//!    if it is still free when the disk is idle: on a busy one it is taken again, which costs less than new space.

use crate::base::blocks::BlockSet;
use crate::base::cell::Cell;
use crate::base::units::{BLOCK_BYTES, Extent, Pos, Slot};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::versions::index::span::slots_of;
use crate::store::versions::positions::{Missing, in_slot};
use crate::store::versions::stubs::homes::Reader;
use crate::store::versions::stubs::root;
use crate::store::versions::{Change, Versions};
use crate::store::{Backlog, Job, JobEnd, Residue};
use crate::tree::Absent;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most slots in one job.
const SLOTS_MAX: usize = 1024;
/// Most slots to look at for one job.
pub(in super::super) const LOOKS_MAX: usize = 8 * SLOTS_MAX;
/// With so many versions to destroy no job waits for an idle disk.
const PILE_MAX: u64 = 1 << 16;
/// With so many spare slots their space is given back although the disk is busy.
const SPARE_MAX: u64 = 1 << 17;

/// The fate of content that has left its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The index does not know yet.
    Open,
    /// No epoch shows it: it is to be destroyed.
    Owed,
    /// The same, and its stub is destroyed.
    Gone,
    /// A kept epoch shows it.
    Kept,
}

/// How far the jobs are with looking for what is owed.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Sweep {
    /// Where the next look for slots begins.
    pub(in super::super) next: Slot,
    /// Whether the looks have come to the end since the sweep began, and whether the versions found are destroyed.
    pub(in super::super) looked: bool,
    swept: bool,
}

/// The background job under way, and how the last one ended.
#[derive(Debug, Default)]
pub(in super::super) struct UnderWay {
    /// `None` if there is none.
    pub(in super::super) doing: Option<Doing>,
    /// The slots that it destroys, or whose space it gives back.
    pub(in super::super) slots: BTreeSet<Slot>,
    /// Whether the medium would not erase what the last job was for.
    pub(in super::super) remains: bool,
}

/// What a background job is for: see [`Job`].
#[derive(Debug)]
pub(in super::super) enum Doing {
    /// Reads a page of the index, or cells of the root.
    Search(Place),
    /// Gives half the log this cell, after which what lies under the one before cannot be opened any more.
    Renew(Cell),
    /// Gives pages of homes other cells.
    Homes(HomesJob),
    /// Destroys content.
    Content,
    /// Gives space back.
    Space,
}

/// What a job does with the cells of homes.
#[derive(Debug)]
pub(in super::super) enum HomesJob {
    /// Reads pages that get other cells.
    Read,
    /// Writes them under those, and destroys the cells before.
    Move,
    /// Destroys these cells, which are not in use.
    Stale(Vec<Place>),
}

pub(in super::super) type Begun = (Doing, Job);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in super::super) struct Killing {
    pub(in super::super) job: UnderWay,
    /// The slots that the journal names, and what becomes of each.
    left: BTreeMap<Slot, Fate>,
    /// Those of them that the journal does not name durably yet.
    leaving: BTreeSet<Slot>,
    /// How many of them are owed, gone or not; and gone.
    left_owed: u64,
    left_gone: u64,
    /// The slots of versions that were replaced since the last commit began, and those of that commit.
    fresh: BTreeSet<Slot>,
    committing: BTreeSet<Slot>,
    /// The slots that can be taken, now or soon, and have space.
    spare: BlockSet<Pos>,
    pub(in super::super) sweep: Sweep,
    /// Why there are no jobs until the next start: which page of the index, or of homes, they need that is damaged.
    pub(in super::super) stopped: Option<String>,
    /// Whether the space of destroyed content can be given back.
    gives_back: bool,
    has_stubs: bool,
}

impl Killing {
    pub(in super::super) fn new(gives_back: bool, has_stubs: bool) -> Self {
        Self { gives_back, has_stubs, ..Self::default() }
    }

    /// Notes that a block leaves `slot`, which the journal names from now on, though not durably yet.
    pub(in super::super) fn leaves(&mut self, slot: Slot) {
        self.left.insert(slot, Fate::Open);
        if !mutant::is(Mutant::KillBeforeOwed) {
            self.leaving.insert(slot);
        }
    }

    /// Notes that the journal names these slots durably.
    pub(in super::super) fn named(&mut self, slots: Range<Slot>) {
        self.leaving.extract_if(slots, |_| true).for_each(drop);
    }

    /// Notes that `slot` is taken.
    pub(in super::super) fn taken(&mut self, slot: Slot) {
        if !self.spare.is_empty() {
            self.spare.remove(in_slot(slot).extent);
        }
    }

    /// Notes what became of the version in `slot`, which the journal names.
    pub(in super::super) fn decided(&mut self, slot: Slot, is_owed: bool) {
        if let Some(fate) = self.left.get_mut(&slot) {
            assert_eq!(*fate, Fate::Open, "the fate of content is decided once");
            *fate = if is_owed { Fate::Owed } else { Fate::Kept };
            self.left_owed += u64::from(is_owed);
        }
    }

    /// Notes that the version in `slot`, which was replaced, is owed.
    pub(in super::super) fn replaced(&mut self, slot: Slot) {
        self.fresh.insert(slot);
    }

    pub(in super::super) fn begin_commit(&mut self) {
        assert!(self.committing.is_empty(), "one commit at a time");
        self.committing.append(&mut self.fresh);
    }

    pub(in super::super) fn end_commit(&mut self) {
        self.committing.clear();
    }

    pub(in super::super) fn abort_commit(&mut self) {
        self.fresh.append(&mut self.committing);
    }

    /// Begins a sweep over all that is owed.
    pub(in super::super) fn begin_sweep(&mut self) {
        self.sweep = Sweep::default();
    }

    /// Whether all versions are destroyed that were owed when the sweep began, apart from content that the
    /// journal owes; `owed` versions are now.
    pub(in super::super) fn has_swept(&self, owed: u64) -> bool {
        let left = self.left.len() as u64;
        assert!(
            self.left_gone <= self.left_owed && self.left_owed <= left,
            "what is gone was owed, and had left"
        );
        let is_settled = left == self.left_owed;
        is_settled && (self.sweep.swept || self.job.slots.is_empty() && self.to_kill(owed) == 0)
    }

    /// The bytes to destroy for the content that was owed at `place` of the data medium, part by part.
    pub(in super::super) fn residue(&self, place: Place) -> Vec<Residue> {
        let slots = place.extent.start.0 / BLOCK_BYTES..place.extent.end().div_ceil(BLOCK_BYTES);
        let residue = |slot: u64| {
            let extent = Extent::new(slot * BLOCK_BYTES, BLOCK_BYTES).overlap(place.extent)?;
            let part = Place { extent, ..place };
            match self.left.get(&Slot(slot))? {
                Fate::Open => None,
                Fate::Owed if self.has_stubs => None,
                Fate::Owed => Some(Residue { part, at: vec![in_slot(Slot(slot))], is_kept: false }),
                Fate::Gone => Some(Residue { part, at: Vec::new(), is_kept: false }),
                Fate::Kept => Some(Residue { part, at: Vec::new(), is_kept: true }),
            }
        };
        slots.filter_map(residue).collect()
    }

    /// Whether a job may destroy the version in `slot`, which is owed.
    pub(in super::super) fn may_kill(&self, slot: Slot) -> bool {
        let others = [&self.fresh, &self.committing, &self.job.slots, &self.leaving];
        let is_left = match self.left.get(&slot) {
            Some(fate) => !self.has_stubs || *fate != Fate::Owed,
            None => false,
        };
        !is_left && !others.iter().any(|slots| slots.contains(&slot))
    }

    /// Whether nothing is left of the version in `slot`, which the journal names.
    pub(in super::super) fn is_gone(&self, slot: Slot) -> bool {
        self.left.get(&slot) == Some(&Fate::Gone)
    }

    /// How many of the `owed` versions are for jobs to destroy, at most.
    pub(in super::super) fn to_kill(&self, owed: u64) -> u64 {
        let left = if self.has_stubs { self.left_gone } else { self.left_owed };
        let others = self.fresh.len() + self.committing.len();
        owed.saturating_sub(others as u64 + left)
    }

    /// Notes that nothing is left of those versions in `slots` that the journal names: which they are.
    fn go(&mut self, slots: &BlockSet<Pos>) -> Vec<Slot> {
        let mut gone = Vec::new();
        for run in slots.runs() {
            let left = self.left.range_mut(slots_of(run));
            for (slot, fate) in left.filter(|(_, fate)| matches!(fate, Fate::Owed | Fate::Kept)) {
                // A forget may have found dead since then what a kept epoch showed.
                self.left_owed += u64::from(*fate == Fate::Kept);
                *fate = Fate::Gone;
                gone.push(*slot);
            }
        }
        self.left_gone += gone.len() as u64;
        assert!(self.left_gone <= self.left_owed, "what is gone was owed");
        gone
    }

    /// Notes that the look for versions, if it has come to the end, has found all that there were.
    pub(in super::super) fn note_swept(&mut self) {
        self.sweep.swept = self.sweep.looked;
    }
}

impl Versions {
    /// Ends what the journal owed at `place`: it names these slots no more.
    pub(in super::super) fn reclaim_slots(&mut self, place: Extent<Pos>) {
        for slot in place.start.0 / BLOCK_BYTES..place.end() / BLOCK_BYTES {
            let slot = Slot(slot);
            let fate = self.killing.left.remove(&slot);
            if let Some(Fate::Owed | Fate::Gone) = fate {
                assert!(self.killing.left_owed > 0, "what is owed is counted");
                self.killing.left_owed -= 1;
                self.killing.left_gone -= u64::from(fate == Some(Fate::Gone));
                self.killed(BlockSet::of_ascending([slot.0]));
            }
            if fate == Some(Fate::Kept) {
                // The looks have passed over this one, and a forget may have found it dead.
                self.killing.begin_sweep();
            }
        }
    }

    /// Notes that the versions in these slots are destroyed. What the journal names stays as it is until it does not.
    pub(in super::super) fn killed(&mut self, mut slots: BlockSet<Pos>) {
        for slot in self.killing.go(&slots) {
            slots.remove(in_slot(slot).extent);
        }
        for run in slots.runs() {
            let Range { start, end } = slots_of(run);
            for replaced in [&mut self.killing.fresh, &mut self.killing.committing] {
                if !replaced.is_empty() {
                    (start.0..end.0).for_each(|slot| _ = replaced.remove(&Slot(slot)));
                }
            }
            if self.killing.gives_back {
                self.killing.spare.insert(run);
            }
            self.change(Change::Destroyed(start, end));
        }
    }

    /// Notes after a crash that every free slot of a medium of `bytes` may have space.
    pub(in super::super) fn find_spare(&mut self, bytes: u64) {
        if !self.killing.gives_back {
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
        let mut slots: BTreeSet<Slot> = slots.take(SLOTS_MAX).collect();
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

    /// The job that reads what is missing.
    fn search(&mut self, Missing(place): Missing) -> Begun {
        if place.on == MediumId::Root {
            self.catalog.homes.pages.job_reads(place);
        }
        (Doing::Search(place), Job::Read(vec![place]))
    }

    /// Takes what a job has read.
    fn searched(&mut self, place: Place, bytes: &[u8]) {
        // Without it the jobs cannot go on. A request that needs it is told why.
        self.killing.stopped = self.catalog.loaded(place, bytes, Reader::Job).err();
        self.take_changes();
    }

    pub(in super::super) fn job_backlog(&self, all: bool) -> Backlog {
        if self.killing.stopped.is_some() {
            return Backlog::Nothing;
        }
        let to_kill = self.killing.to_kill(self.catalog.history.owed());
        let spare = self.killing.spare.len();
        let is_awaited = self.forgetting.awaits_stubs() && to_kill > 0;
        let is_urgent = self.stuck.is_some()
            || self.half_to_destroy().is_some()
            || self.catalog.homes.are_moving()
            || self.catalog.homes.has_stale()
            || is_awaited
            || to_kill > PILE_MAX
            || spare > SPARE_MAX;
        match (is_urgent, to_kill + spare > 0) {
            (is_urgent, has_any) if self.killing.job.remains && (is_urgent || has_any) => Backlog::Remains,
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

    pub(in super::super) fn next_job(&mut self) -> Option<Begun> {
        if let Some(missing) = self.stuck {
            return Some(self.search(missing));
        }
        if let Some(half) = self.half_to_destroy() {
            assert!(half != self.catalog.log.position().0, "the half in use keeps its cell");
            let cell = self.catalog.cells.draw();
            let job = Job::Renew(vec![root::place_of(half)], cell.to_bytes());
            return Some((Doing::Renew(cell), job));
        }
        let job =
            if self.killing.has_stubs { self.stub_job() } else { self.content_job().map_err(Missing::from) };
        match job {
            Ok(Some(job)) => Some(job),
            Ok(None) => self.spare_job(),
            Err(missing) => {
                self.stuck = Some(missing);
                Some(self.search(missing))
            }
        }
    }

    /// The job that destroys content, if there are no stubs that could be destroyed.
    fn content_job(&mut self) -> Result<Option<Begun>, Absent> {
        let (mut slots, mut from, mut looks) = (BTreeSet::new(), self.killing.sweep.next, 0);
        while looks < LOOKS_MAX && slots.len() < SLOTS_MAX {
            let Some(owed) = self.catalog.history.owed_from(from)? else {
                from = Slot(0);
                self.killing.sweep.looked = true;
                break;
            };
            let most = (LOOKS_MAX - looks).min(SLOTS_MAX - slots.len());
            for slot in owed.each().map(|dead| dead.slot).take(most) {
                if self.killing.may_kill(slot) {
                    slots.insert(slot);
                }
                (from, looks) = (Slot(slot.0 + 1), looks + 1);
            }
        }
        assert!(slots.len() <= SLOTS_MAX, "a job has no more slots than fit");
        self.killing.sweep.next = from;
        if slots.is_empty() {
            self.killing.note_swept();
            return Ok(None);
        }
        let places = runs(&slots).into_iter().map(|extent| Place { on: MediumId::Data, extent }).collect();
        self.killing.job.slots = slots;
        Ok(Some((Doing::Content, Job::Destroy(places))))
    }

    /// The job that gives space back.
    fn spare_job(&mut self) -> Option<Begun> {
        let slots = self.hold_spare();
        let space = runs(&slots);
        assert!(self.killing.job.slots.is_empty(), "the slots of the job before are done with");
        self.killing.job.slots = slots;
        (!space.is_empty()).then_some((Doing::Space, Job::Punch(space)))
    }

    pub(in super::super) fn job_done(&mut self, end: JobEnd<'_>) {
        assert!(self.killing.job.doing.is_some(), "a background job ends once");
        let Some(doing) = self.killing.job.doing.take() else { return };
        self.killing.job.remains = matches!(end, JobEnd::Remains(_));
        match (doing, end) {
            (Doing::Homes(homes), _) => self.homes_job_done(homes, end),
            (Doing::Space, _) => {
                let slots = std::mem::take(&mut self.killing.job.slots);
                assert!(!slots.is_empty(), "a job knows the slots whose space it gives back");
                self.release_spare(&slots, end != JobEnd::GivenUp);
            }
            (_, JobEnd::GivenUp | JobEnd::Remains(_)) => {
                // Between the jobs of a move of homes, others may come: the slots are those of the move.
                if !self.catalog.homes.are_moving() {
                    self.killing.job.slots.clear();
                }
                self.killing.begin_sweep();
            }
            (Doing::Search(place), JobEnd::Done(read)) => self.searched(place, read),
            (Doing::Content, JobEnd::Done(_)) => {
                let slots = std::mem::take(&mut self.killing.job.slots);
                assert!(!slots.is_empty(), "a job knows the slots whose content it destroys");
                self.killing.note_swept();
                self.killed(some(&slots));
            }
            (Doing::Renew(cell), JobEnd::Done(_)) => {
                let has_old = self.catalog.old_half().is_some() || mutant::is(Mutant::KillLogEarly);
                assert!(has_old, "no half is used again while its cell is being destroyed");
                let dying = self.catalog.old_half_renewed(cell);
                self.killed(dying);
            }
        }
    }
}

pub(in super::super) fn some(slots: &BTreeSet<Slot>) -> BlockSet<Pos> {
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
    let bytes: u64 = runs.iter().map(|run| run.len).sum();
    assert_eq!(bytes, slots.len() as u64 * BLOCK_BYTES, "the space of each slot is there once");
    runs
}
