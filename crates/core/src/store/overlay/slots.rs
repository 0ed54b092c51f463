//! The slots of the data medium: which are free, which must be destroyed first, and which have to wait
//! for a checkpoint.

use super::map::FIRST_SLOT;
use super::{Begun, Doing};
use crate::base::blocks::BlockSet;
use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::Job;

/// Most bytes that one background job destroys or gives back.
const JOB_BYTES_MAX: u64 = 64 << 20;
/// Longest run of such a job, in bytes.
const PIECE_BYTES_MAX: u64 = 2 << 20;

/// Most slots of refused writes that wait to be destroyed while new slots are handed out.
const REFUSED_MAX: u64 = 256;
/// Most slots that there can be: the map names a slot with 32 bits.
const SLOTS_MAX: u64 = (u32::MAX - FIRST_SLOT) as u64;

/// The slots of the data medium. A slot is in one set at most, and in no set while the map names it, a
/// write fills it, or a job works on it. (`pending_punch` is a part of `clean`.)
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// How many slots the medium has.
    end: u64,
    /// How many slots there can be.
    max: u64,
    /// Whether the content of a slot is destroyed before the slot is used again.
    secure: bool,
    /// Free slots that nothing has to be destroyed in.
    clean: BlockSet<Pos>,
    /// Slots that are free once their content is destroyed.
    residue: BlockSet<Pos>,
    /// The part of the residue that refused writes have left.
    refused: BlockSet<Pos>,
    /// The part of the residue that the medium would not erase: all else comes first.
    remaining: BlockSet<Pos>,
    /// Slots that the map in memory no longer names, but the durable map may.
    pending_free: PendingFree,
    /// The same; the checkpoint under way makes the map durable that does not name them.
    checkpointing: PendingFree,
    /// Clean slots that take up space on the host.
    pending_punch: BlockSet<Pos>,
    shrinking: bool,
}

#[derive(Debug, Default)]
struct PendingFree {
    clean: BlockSet<Pos>,
    residue: BlockSet<Pos>,
}

impl Slots {
    /// `end` slots, all of them used.
    pub(super) fn new(end: u64, secure: bool) -> Self {
        Self { end, max: SLOTS_MAX, secure, ..Self::default() }
    }

    /// Frees all slots but the `used` ones. Nothing has to be destroyed in the `clean` ones.
    pub(super) fn adopt(&mut self, used: &BlockSet<Pos>, clean: &BlockSet<Pos>) {
        assert!(self.clean.is_empty() && self.residue.is_empty(), "slots are adopted once");
        let mut free = BlockSet::default();
        free.insert(Extent::new(0, self.end * BLOCK_BYTES));
        free.subtract(used);
        if !self.secure {
            self.clean = free.clone();
            self.pending_punch = free;
            return;
        }
        let count = free.len();
        self.residue = free.clone();
        self.residue.subtract(clean);
        free.subtract(&self.residue);
        self.clean = free.clone();
        self.pending_punch = free;
        assert_eq!(self.clean.len() + self.residue.len(), count, "a free slot is clean, or to be destroyed");
    }

    /// Lowers the number of slots that there can be.
    #[cfg(test)]
    pub(super) fn limit(&mut self, max: u64) {
        self.max = max;
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How many slots are free.
    pub(super) fn clean(&self) -> u64 {
        self.clean.len()
    }

    /// How many slots have to be destroyed.
    pub(super) fn residue(&self) -> u64 {
        self.residue.len()
    }

    /// The free slots in which nothing has to be destroyed, for a start after a clean stop.
    pub(super) fn destroyed(&self) -> &BlockSet<Pos> {
        &self.clean
    }

    pub(super) fn is_shrinking(&self) -> bool {
        self.shrinking
    }

    /// Whether there are `count` slots to be had, free or new ones. A guest that tries again and again on
    /// a full host gets no new ones until the slots of its refused writes are destroyed.
    pub(super) fn has_room(&self, count: usize) -> bool {
        let new = if self.is_crowded() { 0 } else { self.max.saturating_sub(self.end) };
        self.clean.len() + new >= count as u64
    }

    /// Whether refused writes have left so many slots that those are destroyed first.
    pub(super) fn is_crowded(&self) -> bool {
        self.refused.len() >= REFUSED_MAX
    }

    /// Takes `count` slots for a write: the first free ones, then new ones.
    pub(super) fn take(&mut self, count: usize) -> Vec<u64> {
        assert!(self.has_room(count), "slots are taken where there is room");
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let left = (count - taken.len()) as u64;
            let run = match self.clean.first_run(self.all()) {
                Some(run) => Extent::new(run.start.0, run.len.min(left * BLOCK_BYTES)),
                None => {
                    assert!(!self.shrinking, "what is being cut off does not grow");
                    assert!(self.end + left <= self.max, "the map can name each slot");
                    let run = Extent::new(self.end * BLOCK_BYTES, left * BLOCK_BYTES);
                    self.end += left;
                    run
                }
            };
            self.hand_out(run);
            taken.extend(run.start.0 / BLOCK_BYTES..run.end() / BLOCK_BYTES);
        }
        assert_eq!(taken.len(), count, "each block of a write has a slot");
        taken
    }

    /// Takes the first free slot, if it lies before `slot`.
    pub(super) fn take_below(&mut self, slot: u64) -> Option<u64> {
        let run = self.clean.first_run(Extent::new(0, slot * BLOCK_BYTES))?;
        let first = run.start.0 / BLOCK_BYTES;
        assert!(first < slot, "content moves towards the start of the medium");
        self.hand_out(extent(first));
        Some(first)
    }

    fn hand_out(&mut self, run: Extent<Pos>) {
        self.clean.remove(run);
        self.pending_punch.remove(run);
        assert!(self.pending_punch.len() <= self.clean.len(), "only free space is given back");
    }

    /// Notes that the map names `slot` no more; its content `is_destroyed`, or is not.
    pub(super) fn free(&mut self, slot: u64, is_destroyed: bool) {
        if mutant::is(Mutant::ReuseAtOnce) {
            return self.clean.insert(extent(slot));
        }
        let is_clean = is_destroyed || !self.secure || mutant::is(Mutant::SkipResidue);
        let pending_free = &mut self.pending_free;
        let set = if is_clean { &mut pending_free.clean } else { &mut pending_free.residue };
        set.insert(extent(slot));
    }

    /// Gives back the slot of a refused write.
    pub(super) fn refuse(&mut self, slot: u64) {
        self.release(slot);
        if self.secure {
            self.refused.insert(extent(slot));
        }
    }

    /// Gives back `slot`, which may have been written to, and which the map never named.
    pub(super) fn release(&mut self, slot: u64) {
        assert!(slot < self.end && !self.clean.contains(slot), "a slot that was taken is given back");
        let slot = extent(slot);
        if self.secure {
            self.residue.insert(slot);
        } else {
            self.clean.insert(slot);
            self.pending_punch.insert(slot);
        }
    }

    pub(super) fn has_pending_free(&self) -> bool {
        !self.pending_free.is_empty() || !self.checkpointing.is_empty()
    }

    pub(super) fn begin_checkpoint(&mut self) {
        assert!(self.checkpointing.is_empty(), "slots wait for the checkpoint that frees them");
        self.checkpointing = std::mem::take(&mut self.pending_free);
    }

    pub(super) fn end_checkpoint(&mut self) {
        let PendingFree { clean, residue } = std::mem::take(&mut self.checkpointing);
        self.clean.union(&clean);
        self.pending_punch.union(&clean);
        self.residue.union(&residue);
        assert!(self.pending_punch.len() <= self.clean.len(), "only free space is given back");
    }

    /// Keeps the slots pending: the map that does not name them was not made durable.
    pub(super) fn abort_checkpoint(&mut self) {
        let PendingFree { clean, residue } = std::mem::take(&mut self.checkpointing);
        self.pending_free.clean.union(&clean);
        self.pending_free.residue.union(&residue);
    }

    pub(super) fn has_jobs(&self, punches: bool) -> bool {
        self.residue.len() > self.remaining.len()
            || self.tail().is_some()
            || punches && !self.pending_punch.is_empty()
    }

    /// A job that destroys some of the residue.
    pub(super) fn residue_job(&self) -> Option<Begun> {
        let mut residue = self.residue.clone();
        residue.subtract(&self.remaining);
        let slots = some(&residue)?;
        let places = slots.iter().map(|extent| Place { on: MediumId::Data, extent: *extent }).collect();
        Some((Doing::Clean(slots), Job::Destroy(places)))
    }

    /// Notes that the medium would not erase these places of a job.
    pub(super) fn remain(&mut self, places: &[Place]) {
        places.iter().for_each(|place| self.remaining.insert(place.extent));
    }

    /// Has the residue tried again that the medium would not erase.
    pub(super) fn try_remaining(&mut self) {
        self.remaining = BlockSet::default();
    }

    /// Notes that the content of `slots` is destroyed.
    pub(super) fn cleaned(&mut self, slots: &[Extent<Pos>]) {
        for run in slots {
            self.residue.remove(*run);
            self.refused.remove(*run);
            self.remaining.remove(*run);
            self.clean.insert(*run);
            self.pending_punch.insert(*run);
        }
        assert!(self.refused.len() <= self.residue.len(), "the slots of refused writes are residue");
    }

    /// A job that gives some free space back to the host.
    pub(super) fn begin_punch(&mut self) -> Option<Begun> {
        let runs = some(&self.pending_punch)?;
        runs.iter().for_each(|run| self.hand_out(*run));
        Some((Doing::Punch(runs.clone()), Job::Punch(runs)))
    }

    /// Ends such a job: the host has the space back if `is_done`.
    pub(super) fn punched(&mut self, slots: &[Extent<Pos>], is_done: bool) {
        for run in slots {
            self.clean.insert(*run);
            if !is_done {
                self.pending_punch.insert(*run);
            }
        }
        assert!(self.pending_punch.len() <= self.clean.len(), "only free space is given back");
    }

    /// A job that cuts off the end of the medium, if that is free.
    pub(super) fn begin_cut(&mut self) -> Option<Begun> {
        assert!(!self.shrinking, "one cut at a time");
        let tail = self.tail()?;
        self.hand_out(tail);
        assert!(self.tail().is_none(), "all free slots at the end are cut off at once");
        self.shrinking = true;
        Some((Doing::Cut(tail.start), Job::Shrink(tail.start)))
    }

    fn tail(&self) -> Option<Extent<Pos>> {
        let last = self.clean.last_run(self.all())?;
        (last.end() == self.end * BLOCK_BYTES).then_some(last)
    }

    /// Ends such a job: the medium ends at `to` now if `is_done`.
    pub(super) fn cut(&mut self, to: Pos, is_done: bool) {
        assert!(self.shrinking, "a cut ends once");
        assert!(to.0.is_multiple_of(BLOCK_BYTES), "a medium is cut between two slots");
        self.shrinking = false;
        if is_done {
            assert!(to.0 <= self.end * BLOCK_BYTES, "a medium that is cut does not grow");
            self.end = to.0 / BLOCK_BYTES;
        } else {
            self.punched(&[Extent::between(to.0, self.end * BLOCK_BYTES)], false);
        }
    }

    fn all(&self) -> Extent<Pos> {
        Extent::new(0, self.end * BLOCK_BYTES)
    }
}

impl PendingFree {
    fn is_empty(&self) -> bool {
        self.clean.is_empty() && self.residue.is_empty()
    }
}

/// Where `slot` lies on the data medium.
pub(super) fn extent(slot: u64) -> Extent<Pos> {
    Extent::new(slot * BLOCK_BYTES, BLOCK_BYTES)
}

/// The first runs of `set`, as many as one job takes.
fn some(set: &BlockSet<Pos>) -> Option<Vec<Extent<Pos>>> {
    let mut left = JOB_BYTES_MAX;
    let pieces = set.runs().flat_map(|run| run.pieces(PIECE_BYTES_MAX));
    let runs: Vec<_> = pieces
        .take_while(|run| {
            let fits = left >= run.len;
            left = left.saturating_sub(run.len);
            fits
        })
        .collect();
    assert!(runs.iter().map(|run| run.len).sum::<u64>() <= JOB_BYTES_MAX, "a job stays within its limit");
    (!runs.is_empty()).then_some(runs)
}
