//! Versions that have died and that kept epochs still show, sorted so that a forget finds its dead at once.
//!
//! A version [born, died) is shown by the kept epochs e with born <= e < died. The list D(n) of a kept epoch
//! n, whose predecessor among the kept ones is p, has the versions that died in (p, n] and were born at p or
//! before. When p is forgotten, and q is its predecessor, what dies is exactly what was born after q; the
//! rest of D(n) and all of D(p) is D(n) from then on. A list is made of *runs*, each sorted by birth; so the
//! dead are the tails of the runs. Runs of similar length are merged, so that a list has few.

use super::key::{NUMBER, NUMBER_MAX, number, pack};
use crate::sealing::{Block, Slot};
use crate::tree::{Absent, Pages, Root, Tree};
use crate::units::Epoch;
use roaring::RoaringBitmap;

/// More runs in a list than this are merged.
const RUNS_MAX: usize = 8;
/// Most versions that are taken out of a run at once.
const TAIL_MAX: usize = 32;

/// A version that has died.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Dead {
    pub(super) born: Epoch,
    pub(super) block: Block,
    pub(super) slot: Slot,
}

/// All entries of one run are moved to another one of the same list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Merge {
    list: Epoch,
    from: u64,
    to: u64,
}

/// See the module's documentation.
///
/// Each method changes nothing if it returns [`Absent`].
#[derive(Debug)]
pub(super) struct Deaths {
    /// By run, birth and block: the slot.
    entries: Tree<{ 3 * NUMBER }, NUMBER>,
    /// By list and run: how many entries the run has.
    runs: Tree<{ 2 * NUMBER }, NUMBER>,
    /// The number of the last run that was begun since the start.
    last_run: u64,
    /// The merge under way.
    merging: Option<Merge>,
    /// How many entries were looked at for what dies.
    pub(super) looked: u64,
    /// How many entries were moved by merges.
    pub(super) merged: u64,
}

impl Deaths {
    pub(super) fn new(entries: (u8, Root), runs: (u8, Root)) -> Self {
        Self {
            entries: Tree::new(entries.0, entries.1),
            runs: Tree::new(runs.0, runs.1),
            last_run: 0,
            merging: None,
            looked: 0,
            merged: 0,
        }
    }

    pub(super) fn roots(&self) -> [Root; 2] {
        [self.entries.root(), self.runs.root()]
    }

    /// Adds all pages of the lists to `used`.
    pub(super) fn reach(&self, pages: &Pages, used: &mut RoaringBitmap) -> Result<(), Absent> {
        self.entries.reach(pages, used)?;
        self.runs.reach(pages, used)
    }

    /// How many versions are in all lists.
    pub(super) fn len(&self) -> u64 {
        self.entries.len()
    }

    /// Adds a version to the list of `list`.
    pub(super) fn add(&mut self, pages: &mut Pages, list: Epoch, dead: Dead) -> Result<(), Absent> {
        let run = match self.run_from(pages, list, 0)? {
            Some(run) => run,
            None => self.next_run(pages)?,
        };
        let len = self.len_of(pages, list, run)?;
        self.entries.get(pages, &entry(run, dead))?;
        self.last_run = self.last_run.max(run);
        if self.entries.insert(pages, &entry(run, dead), &pack(&[dead.slot.0]))?.is_none() {
            self.set_len(pages, list, run, len + 1)?;
        }
        Ok(())
    }

    /// A number that no run has.
    fn next_run(&self, pages: &Pages) -> Result<u64, Absent> {
        let last = self.entries.at_or_before(pages, &[u8::MAX; 3 * NUMBER])?;
        Ok(last.map_or(0, |(key, _)| number(&key, 0)).max(self.last_run) + 1)
    }

    fn len_of(&self, pages: &Pages, list: Epoch, run: u64) -> Result<u64, Absent> {
        let len = self.runs.get(pages, &pack(&[list.0, run]))?;
        Ok(len.map_or(0, |len| number(&len, 0)))
    }

    fn set_len(&mut self, pages: &mut Pages, list: Epoch, run: u64, len: u64) -> Result<(), Absent> {
        self.runs.insert(pages, &pack(&[list.0, run]), &pack(&[len])).map(drop)
    }

    /// Versions of the first run of the list of `list`, from run `from` on, that has any born after `since`: some of its
    /// youngest, the youngest first; and the run.
    pub(super) fn born_after(
        &mut self,
        pages: &Pages,
        list: Epoch,
        since: Epoch,
        from: u64,
    ) -> Result<Option<(u64, Vec<Dead>)>, Absent> {
        let mut from = from;
        while let Some(run) = self.run_from(pages, list, from)? {
            let (first, last) = (pack(&[run, since.0 + 1, 0]), pack(&[run, NUMBER_MAX, NUMBER_MAX]));
            let found = self.entries.last_in_leaf(pages, (&first, &last), TAIL_MAX)?;
            self.looked += found.len().max(1) as u64;
            if !found.is_empty() {
                return Ok(Some((run, found.iter().map(|(key, slot)| dead(key, slot)).collect())));
            }
            from = run + 1;
        }
        Ok(None)
    }

    /// Counts versions in the list of `list` from a place on (run, birth and block), as many as are in one page: only ones that
    /// were born after `split`, or only others. Whether they were, and where to go on, if there may be more.
    pub(super) fn count_from(
        &self,
        pages: &Pages,
        list: Epoch,
        split: Epoch,
        at: [u64; 3],
    ) -> Result<Option<(u64, bool, [u64; 3])>, Absent> {
        let Some(run) = self.run_from(pages, list, at[0])? else { return Ok(None) };
        let from = if run == at[0] { at } else { [run, 0, 0] };
        let is_young = from[1] > split.0;
        let end = if is_young { [run + 1, 0, 0] } else { [run, split.0 + 1, 0] };
        let (count, next) = self.entries.count_in_leaf(pages, &pack(&from), &pack(&end))?;
        Ok(Some((count, is_young, next.map_or(end, |key| [0, 1, 2].map(|n| number(&key, n))))))
    }

    /// The first run of a list with at least this number.
    fn run_from(&self, pages: &Pages, list: Epoch, from: u64) -> Result<Option<u64>, Absent> {
        let found = self.runs.at_or_after(pages, &pack(&[list.0, from]))?;
        Ok(found.filter(|(key, _)| number(key, 0) == list.0).map(|(key, _)| number(&key, 1)))
    }

    /// The youngest version of a run.
    fn last(&self, pages: &Pages, run: u64) -> Result<Option<Dead>, Absent> {
        let found = self.entries.at_or_before(pages, &pack(&[run, NUMBER_MAX, NUMBER_MAX]))?;
        Ok(found.filter(|(key, _)| number(key, 0) == run).map(|(key, slot)| dead(&key, &slot)))
    }

    /// Removes the youngest versions of a run, as [`Deaths::born_after`] found them.
    pub(super) fn pop(
        &mut self,
        pages: &mut Pages,
        (list, run): (Epoch, u64),
        youngest: &[Dead],
    ) -> Result<(), Absent> {
        let Some(oldest) = youngest.last() else { return Ok(()) };
        let (len, some) = (self.len_of(pages, list, run)?, youngest.len());
        self.entries.remove_run(pages, &entry(run, *oldest), some)?;
        self.shorten(pages, list, (run, len), some as u64)
    }

    /// Removes a version from the list of `list`, if it is there.
    pub(super) fn take_out(&mut self, pages: &mut Pages, list: Epoch, dead: Dead) -> Result<(), Absent> {
        let mut from = 0;
        while let Some(run) = self.run_from(pages, list, from)? {
            if self.entries.get(pages, &entry(run, dead))?.is_some() {
                let len = self.len_of(pages, list, run)?;
                return self.remove(pages, list, (run, len), dead);
            }
            from = run + 1;
        }
        Ok(())
    }

    fn remove(
        &mut self,
        pages: &mut Pages,
        list: Epoch,
        (run, len): (u64, u64),
        dead: Dead,
    ) -> Result<(), Absent> {
        self.entries.remove(pages, &entry(run, dead))?;
        self.shorten(pages, list, (run, len), 1)
    }

    /// Notes that a run of `len` versions has some fewer.
    fn shorten(
        &mut self,
        pages: &mut Pages,
        list: Epoch,
        (run, len): (u64, u64),
        fewer: u64,
    ) -> Result<(), Absent> {
        if len > fewer {
            return self.set_len(pages, list, run, len - fewer);
        }
        self.drop_run(pages, list, run)
    }

    /// Forgets a run of a list.
    fn drop_run(&mut self, pages: &mut Pages, list: Epoch, run: u64) -> Result<(), Absent> {
        self.merging.take_if(|merge| merge.from == run || merge.to == run);
        self.runs.remove(pages, &pack(&[list.0, run])).map(drop)
    }

    /// Moves the first run of the list of `from` to the list of `to`. Whether there was one.
    pub(super) fn hand_over(&mut self, pages: &mut Pages, from: Epoch, to: Epoch) -> Result<bool, Absent> {
        let Some(run) = self.run_from(pages, from, 0)? else { return Ok(false) };
        let len = self.len_of(pages, from, run)?;
        self.runs.get(pages, &pack(&[to.0, run]))?;
        self.drop_run(pages, from, run)?;
        self.set_len(pages, to, run, len)?;
        Ok(true)
    }

    /// Moves one entry, if the list has too many runs, or two of similar length: whether it did.
    pub(super) fn merge_step(&mut self, pages: &mut Pages, list: Epoch) -> Result<bool, Absent> {
        let merge = match self.merging.filter(|merge| merge.list == list) {
            Some(merge) => merge,
            None => match self.similar(pages, list)? {
                Some(merge) => merge,
                None => return Ok(false),
            },
        };
        let Some(dead) = self.last(pages, merge.from)? else {
            unreachable!("a run without entries is dropped")
        };
        let (less, more) = (self.len_of(pages, list, merge.from)?, self.len_of(pages, list, merge.to)?);
        self.entries.get(pages, &entry(merge.to, dead))?;
        self.entries.insert(pages, &entry(merge.to, dead), &pack(&[dead.slot.0]))?;
        self.set_len(pages, list, merge.to, more + 1)?;
        self.merging = Some(merge);
        self.remove(pages, list, (merge.from, less), dead)?;
        self.merged += 1;
        Ok(true)
    }

    /// Two runs of a list to be merged.
    fn similar(&self, pages: &Pages, list: Epoch) -> Result<Option<Merge>, Absent> {
        let mut runs = self.runs_of(pages, list)?;
        runs.sort_unstable();
        let [(short, from), (long, to), ..] = runs[..] else { return Ok(None) };
        let is_due = runs.len() > RUNS_MAX || 2 * short >= long;
        Ok(is_due.then_some(Merge { list, from, to }))
    }

    /// The runs of a list, each behind its length.
    fn runs_of(&self, pages: &Pages, list: Epoch) -> Result<Vec<(u64, u64)>, Absent> {
        let (mut runs, mut from) = (Vec::new(), 0);
        while let Some(run) = self.run_from(pages, list, from)? {
            runs.push((self.len_of(pages, list, run)?, run));
            from = run + 1;
        }
        Ok(runs)
    }
}

fn entry(run: u64, dead: Dead) -> [u8; 3 * NUMBER] {
    pack(&[run, dead.born.0, dead.block.0])
}

/// The version of an entry.
fn dead(key: &[u8], slot: &[u8]) -> Dead {
    Dead { born: Epoch(number(key, 1)), block: Block(number(key, 2)), slot: Slot(number(slot, 0)) }
}
