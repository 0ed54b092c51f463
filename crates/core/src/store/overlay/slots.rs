//! The slots: which of them are free, and since when, and what they hold.

use super::map::FIRST_SLOT;
use crate::blocks::BlockSet;
use crate::mutant::{self, Mutant};
use crate::store::Job;
use crate::units::{BLOCK_BYTES, Extent, Pos};

/// Most bytes that one job destroys or gives back.
const JOB_BYTES_MAX: u64 = 64 << 20;
/// Longest piece of that.
const PIECE_BYTES_MAX: u64 = 2 << 20;

/// Most slots: the map names them with 32 bits.
const SLOTS_MAX: u64 = (u32::MAX - FIRST_SLOT) as u64;

/// The slots of the data medium. A slot is in one set at most; in none if it is
/// named or being written, or a job has it.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// How many there are.
    end: u64,
    /// How many there can be.
    max: u64,
    /// What free slots hold has to be destroyed.
    secure: bool,
    /// Free.
    clean: BlockSet<Pos>,
    /// Free, once they are destroyed.
    residue: BlockSet<Pos>,
    /// Not named any more, but perhaps by the durable map; free after that.
    limbo: Limbo,
    /// The same, and the map that does not name them is being made durable.
    checkpointing: Limbo,
    /// Clean, and with space of the host's.
    spare: BlockSet<Pos>,
    shrinking: bool,
}

#[derive(Debug, Default)]
struct Limbo {
    clean: BlockSet<Pos>,
    residue: BlockSet<Pos>,
}

impl Slots {
    /// `end` slots, all of them used.
    pub(super) fn new(end: u64, secure: bool) -> Self {
        Self { end, max: SLOTS_MAX, secure, ..Self::default() }
    }

    /// All but the `used` ones are free: the `clean` ones hold nothing.
    pub(super) fn adopt(&mut self, used: &BlockSet<Pos>, clean: &BlockSet<Pos>) {
        let mut free = BlockSet::default();
        free.insert(Extent::new(0, self.end * BLOCK_BYTES));
        free.subtract(used);
        if !self.secure {
            self.clean = free.clone();
            self.spare = free;
            return;
        }
        self.residue = free.clone();
        self.residue.subtract(clean);
        free.subtract(&self.residue);
        self.clean = free.clone();
        self.spare = free;
    }

    /// There can be only so many.
    #[cfg(test)]
    pub(super) fn limit(&mut self, max: u64) {
        self.max = max;
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether none is free.
    pub(super) fn is_full(&self) -> bool {
        self.clean.is_empty()
    }

    /// How many are free.
    pub(super) fn clean(&self) -> u64 {
        self.clean.len()
    }

    /// How many have to be destroyed.
    pub(super) fn residue(&self) -> u64 {
        self.residue.len()
    }

    /// Those that hold nothing, for a start after a clean stop.
    pub(super) fn destroyed(&self) -> &BlockSet<Pos> {
        &self.clean
    }

    pub(super) fn is_shrinking(&self) -> bool {
        self.shrinking
    }

    /// Whether there are so many slots, free or new ones.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.clean.len() + self.max.saturating_sub(self.end) >= count as u64
    }

    /// `count` slots to be written: the first that are free, then new ones.
    pub(super) fn take(&mut self, count: usize) -> Vec<u64> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let left = (count - taken.len()) as u64;
            let run = match self.clean.first_run(self.all()) {
                Some(run) => Extent::new(run.start.0, run.len.min(left * BLOCK_BYTES)),
                None => {
                    assert!(!self.shrinking, "what is being cut off does not grow");
                    let run = Extent::new(self.end * BLOCK_BYTES, left * BLOCK_BYTES);
                    self.end += left;
                    run
                }
            };
            self.hand_out(run);
            taken.extend(run.start.0 / BLOCK_BYTES..run.end() / BLOCK_BYTES);
        }
        taken
    }

    /// The first that is free, if it lies before `slot`.
    pub(super) fn take_below(&mut self, slot: u64) -> Option<u64> {
        let run = self.clean.first_run(Extent::new(0, slot * BLOCK_BYTES))?;
        let first = run.start.0 / BLOCK_BYTES;
        self.hand_out(extent(first));
        Some(first)
    }

    fn hand_out(&mut self, run: Extent<Pos>) {
        self.clean.remove(run);
        self.spare.remove(run);
    }

    /// `slot` is not named any more; what lay there `is_destroyed`, or is not.
    pub(super) fn free(&mut self, slot: u64, is_destroyed: bool) {
        if mutant::is(Mutant::ReuseAtOnce) {
            return self.clean.insert(extent(slot));
        }
        let is_clean = is_destroyed || !self.secure || mutant::is(Mutant::SpareResidue);
        let limbo = &mut self.limbo;
        let set = if is_clean { &mut limbo.clean } else { &mut limbo.residue };
        set.insert(extent(slot));
    }

    /// `slot` was written to, and never named.
    pub(super) fn release(&mut self, slot: u64) {
        let slot = extent(slot);
        if self.secure {
            self.residue.insert(slot);
        } else {
            self.clean.insert(slot);
            self.spare.insert(slot);
        }
    }

    pub(super) fn has_limbo(&self) -> bool {
        !self.limbo.is_empty() || !self.checkpointing.is_empty()
    }

    pub(super) fn begin_checkpoint(&mut self) {
        self.checkpointing = std::mem::take(&mut self.limbo);
    }

    pub(super) fn end_checkpoint(&mut self) {
        let Limbo { clean, residue } = std::mem::take(&mut self.checkpointing);
        self.clean.union(&clean);
        self.spare.union(&clean);
        self.residue.union(&residue);
    }

    /// The map that does not name them was not made durable.
    pub(super) fn abort_checkpoint(&mut self) {
        let Limbo { clean, residue } = std::mem::take(&mut self.checkpointing);
        self.limbo.clean.union(&clean);
        self.limbo.residue.union(&residue);
    }

    pub(super) fn has_jobs(&self, punches: bool) -> bool {
        !self.residue.is_empty() || self.tail().is_some() || punches && !self.spare.is_empty()
    }

    /// Some of what has to be destroyed.
    pub(super) fn residue_job(&self) -> Option<Job> {
        some(&self.residue).map(Job::Destroy)
    }

    /// What there was is destroyed.
    pub(super) fn cleaned(&mut self, slots: &[Extent<Pos>]) {
        for run in slots {
            self.residue.remove(*run);
            self.clean.insert(*run);
            self.spare.insert(*run);
        }
    }

    /// Some free space that the host could have back.
    pub(super) fn begin_punch(&mut self) -> Option<Job> {
        let runs = some(&self.spare)?;
        runs.iter().for_each(|run| self.hand_out(*run));
        Some(Job::Punch(runs))
    }

    /// The host has it back, or `is_done` is false.
    pub(super) fn punched(&mut self, slots: &[Extent<Pos>], is_done: bool) {
        for run in slots {
            self.clean.insert(*run);
            if !is_done {
                self.spare.insert(*run);
            }
        }
    }

    /// The end of the medium, if it is free.
    pub(super) fn begin_cut(&mut self) -> Option<Job> {
        let tail = self.tail()?;
        self.hand_out(tail);
        self.shrinking = true;
        Some(Job::Shrink(tail.start))
    }

    fn tail(&self) -> Option<Extent<Pos>> {
        let last = self.clean.last_run(self.all())?;
        (last.end() == self.end * BLOCK_BYTES).then_some(last)
    }

    /// The medium ends at `to` now, or `is_done` is false.
    pub(super) fn cut(&mut self, to: Pos, is_done: bool) {
        self.shrinking = false;
        if is_done {
            self.end = to.0 / BLOCK_BYTES;
        } else {
            self.punched(&[Extent::between(to.0, self.end * BLOCK_BYTES)], false);
        }
    }

    fn all(&self) -> Extent<Pos> {
        Extent::new(0, self.end * BLOCK_BYTES)
    }
}

impl Limbo {
    fn is_empty(&self) -> bool {
        self.clean.is_empty() && self.residue.is_empty()
    }
}

/// Where `slot` lies.
pub(super) fn extent(slot: u64) -> Extent<Pos> {
    Extent::new(slot * BLOCK_BYTES, BLOCK_BYTES)
}

/// The first runs of a set, as many as make a job.
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
    (!runs.is_empty()).then_some(runs)
}
