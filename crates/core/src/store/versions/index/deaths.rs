//! Versions that have died and that kept epochs still show, sorted so that a forget finds its dead at once.
//!
//! A version [born, died) is shown by the kept epochs e with born <= e < died. The list D(n) of a kept epoch
//! n, whose predecessor among the kept ones is p, has the versions that died in (p, n] and were born at p or
//! before. When p is forgotten, and q is its predecessor, what dies is exactly what was born after q; the
//! rest of D(n) and all of D(p) is D(n) from then on. A list is made of *runs*, each sorted by birth; so the
//! dead are the tails of the runs. Runs of similar length are merged, so that a list has few.
//!
//! An entry of a run is a [`Span`]: what was written at once, and dies at once, is a few entries. Tombstones stay in the list of the
//! version whose place they take: so they go with the last epoch that showed it.

use crate::base::units::Epoch;
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, number, pack};
use crate::store::versions::index::span::{Dead, LEN, Span};
use crate::tree::{Absent, Pages, Root, Tree};
use roaring::RoaringBitmap;

/// More runs in a list than this are merged.
const RUNS_MAX: usize = 8;
/// Most entries that are taken out of a run at once.
const TAIL_MAX: usize = 32;

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
pub(in super::super) struct Deaths {
    /// By run, birth and first block: the first slot, and how many versions.
    pub(in super::super) entries: Tree<{ 3 * NUMBER }, { NUMBER + LEN }>,
    /// By list and run: how many entries the run has.
    pub(in super::super) runs: Tree<{ 2 * NUMBER }, NUMBER>,
    /// How many versions all entries have, tombstones apart.
    pub(in super::super) versions: u64,
    /// The number of the last run that was begun since the start.
    last_run: u64,
    /// The merge under way.
    merging: Option<Merge>,
    /// How many entries were looked at for what dies.
    pub(in super::super) looked: u64,
    /// How many entries were moved by merges.
    pub(in super::super) merged: u64,
}

impl Deaths {
    pub(in super::super) fn new(entries: (u8, Root), runs: (u8, Root), versions: u64) -> Self {
        Self {
            entries: Tree::new(entries.0, entries.1),
            runs: Tree::new(runs.0, runs.1),
            versions,
            last_run: 0,
            merging: None,
            looked: 0,
            merged: 0,
        }
    }

    pub(in super::super) fn roots(&self) -> [Root; 2] {
        [self.entries.root(), self.runs.root()]
    }

    /// Adds all pages of the lists to `used`.
    pub(in super::super) fn reach(&self, pages: &Pages, used: &mut RoaringBitmap) -> Result<(), Absent> {
        self.entries.reach(pages, used)?;
        self.runs.reach(pages, used)
    }

    /// Adds a version to the list of `list`.
    pub(in super::super) fn add(&mut self, pages: &mut Pages, list: Epoch, dead: Dead) -> Result<(), Absent> {
        let run = match self.run_from(pages, list, 0)? {
            Some(run) => run,
            None => self.next_run(pages)?,
        };
        let len = self.len_of(pages, list, run)?;
        let (key, new) = (entry(run, dead), Span::of(dead));
        self.entries.get(pages, &key)?;
        let before = self.last_up_to(pages, run, &key)?;
        if before.is_some_and(|before| before.has(dead)) {
            return Ok(());
        }
        self.last_run = self.last_run.max(run);
        self.versions += new.stored();
        if let Some(both) = before.and_then(|before| before.joined(new)) {
            return self.put(pages, run, both);
        }
        self.put(pages, run, new)?;
        self.set_len(pages, list, run, len + 1)
    }

    fn put(&mut self, pages: &mut Pages, run: u64, span: Span) -> Result<(), Absent> {
        self.entries.insert(pages, &entry(run, span.first), &value(span)).map(drop)
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

    /// Entries of the first run of the list of `list`, from run `from` on, that has any born after `since`: some of its
    /// youngest, the youngest first; and the run.
    pub(in super::super) fn born_after(
        &mut self,
        pages: &Pages,
        list: Epoch,
        since: Epoch,
        from: u64,
    ) -> Result<Option<(u64, Vec<Span>)>, Absent> {
        let mut from = from;
        while let Some(run) = self.run_from(pages, list, from)? {
            let (first, last) = (pack(&[run, since.0 + 1, 0]), pack(&[run, NUMBER_MAX, NUMBER_MAX]));
            let found = self.entries.last_in_leaf(pages, (&first, &last), TAIL_MAX)?;
            self.looked += found.len().max(1) as u64;
            if !found.is_empty() {
                return Ok(Some((run, found.iter().map(|(key, value)| Span::dead(key, value)).collect())));
            }
            from = run + 1;
        }
        Ok(None)
    }

    /// Counts versions in the list of `list` from a place on (run, birth and block), as many as are in one page: only ones that
    /// were born after `split`, or only others. Whether they were, and where to go on, if there may be more.
    pub(in super::super) fn count_from(
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
        let (found, next) = self.entries.in_leaf(pages, &pack(&from), &pack(&end))?;
        let count = found.iter().map(|(key, value)| Span::dead(key, value).stored()).sum();
        Ok(Some((count, is_young, next.map_or(end, |key| [0, 1, 2].map(|n| number(&key, n))))))
    }

    /// The first run of a list with at least this number.
    fn run_from(&self, pages: &Pages, list: Epoch, from: u64) -> Result<Option<u64>, Absent> {
        let found = self.runs.at_or_after(pages, &pack(&[list.0, from]))?;
        Ok(found.filter(|(key, _)| number(key, 0) == list.0).map(|(key, _)| number(&key, 1)))
    }

    /// The last entry of a run up to `key`.
    fn last_up_to(&self, pages: &Pages, run: u64, key: &[u8; 3 * NUMBER]) -> Result<Option<Span>, Absent> {
        let found = self.entries.at_or_before(pages, key)?;
        Ok(found.filter(|(key, _)| number(key, 0) == run).map(|(key, value)| Span::dead(&key, &value)))
    }

    /// Removes the youngest versions of a run, as [`Deaths::born_after`] found them, the youngest first; of the oldest entry
    /// among them perhaps only the last versions.
    pub(in super::super) fn pop(
        &mut self,
        pages: &mut Pages,
        (list, run): (Epoch, u64),
        youngest: &[Span],
    ) -> Result<(), Absent> {
        let Some(oldest) = youngest.last() else { return Ok(()) };
        assert!(youngest.len() <= TAIL_MAX, "no more entries die than were found");
        let len = self.len_of(pages, list, run)?;
        let whole = self.last_up_to(pages, run, &entry(run, oldest.first))?;
        let [rest, _] = whole.map_or([None; 2], |whole| whole.without(*oldest));
        let gone = &youngest[..youngest.len() - usize::from(rest.is_some())];
        if let Some(rest) = rest {
            self.put(pages, run, rest)?;
        }
        if let Some(oldest) = gone.last() {
            self.entries.remove_run(pages, &entry(run, oldest.first), gone.len())?;
        }
        self.versions -= youngest.iter().map(|span| span.stored()).sum::<u64>();
        self.shorten(pages, list, (run, len), gone.len() as u64)
    }

    /// Removes a version from the list of `list`, if it is there.
    pub(in super::super) fn take_out(
        &mut self,
        pages: &mut Pages,
        list: Epoch,
        dead: Dead,
    ) -> Result<(), Absent> {
        let mut from = 0;
        while let Some(run) = self.run_from(pages, list, from)? {
            let whole = self.last_up_to(pages, run, &entry(run, dead))?;
            if let Some(whole) = whole.filter(|whole| whole.has(dead)) {
                return self.cut_out(pages, (list, run), whole, dead);
            }
            from = run + 1;
        }
        Ok(())
    }

    /// Removes a version from an entry of a run, which may become two.
    fn cut_out(
        &mut self,
        pages: &mut Pages,
        (list, run): (Epoch, u64),
        whole: Span,
        dead: Dead,
    ) -> Result<(), Absent> {
        let len = self.len_of(pages, list, run)?;
        let [before, behind] = whole.without(Span::of(dead));
        if let Some(behind) = behind {
            self.entries.get(pages, &entry(run, behind.first))?;
        }
        match before {
            Some(before) => self.put(pages, run, before)?,
            None => _ = self.entries.remove(pages, &entry(run, whole.first))?,
        }
        behind.map_or(Ok(()), |behind| self.put(pages, run, behind))?;
        self.versions -= Span::of(dead).stored();
        match (before, behind) {
            (Some(_), Some(_)) => self.set_len(pages, list, run, len + 1),
            (None, None) => self.shorten(pages, list, (run, len), 1),
            _ => Ok(()),
        }
    }

    /// Notes that a run of `len` entries has some fewer.
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
    pub(in super::super) fn hand_over(
        &mut self,
        pages: &mut Pages,
        from: Epoch,
        to: Epoch,
    ) -> Result<bool, Absent> {
        assert!(from != to, "a list is handed over to another one");
        let Some(run) = self.run_from(pages, from, 0)? else { return Ok(false) };
        let len = self.len_of(pages, from, run)?;
        self.runs.get(pages, &pack(&[to.0, run]))?;
        self.drop_run(pages, from, run)?;
        self.set_len(pages, to, run, len)?;
        Ok(true)
    }

    /// Moves one entry, if the list has too many runs, or two of similar length: whether it did.
    pub(in super::super) fn merge_step(&mut self, pages: &mut Pages, list: Epoch) -> Result<bool, Absent> {
        let merge = match self.merging.filter(|merge| merge.list == list) {
            Some(merge) => merge,
            None => match self.similar(pages, list)? {
                Some(merge) => merge,
                None => return Ok(false),
            },
        };
        let last = pack(&[merge.from, NUMBER_MAX, NUMBER_MAX]);
        let Some(span) = self.last_up_to(pages, merge.from, &last)? else {
            unreachable!("a run without entries is dropped")
        };
        assert!(merge.from != merge.to, "a run is merged with another one");
        let (less, more) = (self.len_of(pages, list, merge.from)?, self.len_of(pages, list, merge.to)?);
        self.entries.get(pages, &entry(merge.to, span.first))?;
        self.put(pages, merge.to, span)?;
        self.set_len(pages, list, merge.to, more + 1)?;
        self.merging = Some(merge);
        self.entries.remove(pages, &entry(merge.from, span.first))?;
        self.shorten(pages, list, (merge.from, less), 1)?;
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

fn value(span: Span) -> [u8; NUMBER + LEN] {
    let mut bytes = [0; NUMBER + LEN];
    bytes[..NUMBER].copy_from_slice(&pack::<NUMBER>(&[span.first.slot.0]));
    bytes[NUMBER..].copy_from_slice(&span.len_bytes());
    bytes
}
