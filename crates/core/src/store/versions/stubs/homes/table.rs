//! The cells of the pages of homes. Of a page that has one, three bits are always in memory; the cells themselves lie in the root, and are
//! read again in runs.
//!
//! A cell lies here, and in a [`Cell`] of its own while something uses it; each is wiped when it goes.
//!
//! Invariants:
//! 1. A cell whose place in the root may not have it yet is held, and so is one that the next checkpoint needs.
//! 2. What was read is not believed if the run may have changed since that read began. Of the reads of a run that are under way, at most
//!    one is for requests, and one for a job.

use crate::base::cell::{CELL_BYTES, Cell};
use crate::base::memory::{keep, wipe};
use crate::base::units::Extent;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::versions::positions::Missing;
use crate::store::versions::stubs::homes::{Home, HomePage};
use crate::store::versions::stubs::root;
use crate::store::versions::stubs::root::{CellOf, RootError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Pages whose cells lie together.
const RUN_PAGES: usize = 64;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::store::versions) struct Table {
    runs: BTreeMap<u64, Run>,
    held: BTreeMap<HomePage, Cell>,
    /// The runs whose cells are in memory, and how many may be before others make room.
    in_memory: BTreeSet<u64>,
    most: usize,
    /// Where eviction goes on to look.
    hand: u64,
}

/// Neighbouring pages: a bit for each.
#[derive(Debug, Default)]
struct Run {
    /// Whether the page has a cell.
    used: u64,
    /// Whether that is the second one of the page.
    second: u64,
    /// [`Home::is_made`].
    made: u64,
    /// Their cells, if they are in memory.
    cells: Option<Box<Secrets>>,
    /// Whether these were used since eviction last looked.
    is_recent: std::cell::Cell<bool>,
    /// Whether the run has changed since a read of it may have begun.
    doubts: Doubts,
}

#[derive(Clone, Copy, Default, Debug)]
struct Doubts {
    request: bool,
    job: bool,
}

/// The reader of a run: each has at most one read of it under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store::versions) enum Reader {
    Request,
    Job,
}

struct Secrets([[u8; CELL_BYTES]; RUN_PAGES]);

/// The number of the run of a page, and the page's place in it.
fn split(page: HomePage) -> (u64, usize) {
    (page.0 / RUN_PAGES as u64, (page.0 % RUN_PAGES as u64) as usize)
}

fn set(bits: &mut u64, n: usize, value: bool) {
    assert!(n < RUN_PAGES, "a page has its place in the run");
    *bits = *bits & !(1 << n) | u64::from(value) << n;
}

impl Table {
    /// Lets at most so many bytes of cells stay in memory, those apart that are held.
    pub(in crate::store::versions) fn keep_at_most(&mut self, bytes: usize) {
        self.most = bytes / size_of::<Secrets>();
    }

    fn run(&self, page: HomePage) -> Option<(&Run, usize)> {
        let (run, n) = split(page);
        let run = self.runs.get(&run).filter(|run| run.used >> n & 1 == 1)?;
        Some((run, n))
    }

    /// The cell of a page, if it has one.
    ///
    /// # Errors
    /// The page has a cell, and the cell has to be read first.
    pub(super) fn get(&self, page: HomePage) -> Result<Option<Home>, Missing> {
        let Some((run, n)) = self.run(page) else { return Ok(None) };
        let cell = match (self.held.get(&page), &run.cells) {
            (Some(cell), _) => cell.clone(),
            (None, Some(cells)) => {
                run.is_recent.set(true);
                Cell::from_bytes(&cells.0[n]).expect("a cell has its length")
            }
            (None, None) => return Err(Missing(self.place_of(split(page).0))),
        };
        Ok(Some(Home { side: run.side(n), cell, is_made: run.made >> n & 1 == 1 }))
    }

    /// Which cell of its own a page has.
    pub(super) fn side(&self, page: HomePage) -> Option<u8> {
        self.run(page).map(|(run, n)| run.side(n))
    }

    /// Whether the whole page was written under its cell.
    pub(super) fn is_made(&self, page: HomePage) -> bool {
        self.run(page).is_some_and(|(run, n)| run.made >> n & 1 == 1)
    }

    /// Whether no cell has to be read.
    pub(in crate::store::versions) fn is_whole(&self) -> bool {
        assert!(self.in_memory.len() <= self.runs.len(), "cells in memory are of runs that are known");
        self.in_memory.len() == self.runs.len()
    }

    /// Where the cells of a run lie which are not held: up to the last of them, as the root may end there.
    fn place_of(&self, number: u64) -> Place {
        let first = number * RUN_PAGES as u64;
        let end = (0..RUN_PAGES as u64).rev().map(|n| HomePage(first + n));
        let last = end.clone().find(|page| self.side(*page).is_some() && !self.held.contains_key(page));
        let (from, to) = [HomePage(first), last.unwrap_or(HomePage(first))].map(root::pair_place).into();
        Place { extent: Extent::between(from.extent.start.0, to.extent.end()), ..from }
    }

    /// Notes that a job begins to read this place.
    pub(in crate::store::versions) fn job_reads(&mut self, place: Place) {
        if let Some(run) = run_at(place).and_then(|number| self.runs.get_mut(&number)) {
            run.doubts.job = false;
        }
    }

    /// Takes a run that was read, unless it may have changed meanwhile.
    ///
    /// # Errors
    /// A cell is not whole.
    pub(in crate::store::versions) fn loaded(
        &mut self,
        place: Place,
        bytes: &[u8],
        by: Reader,
    ) -> Result<(), RootError> {
        let Some(number) = run_at(place) else { return Ok(()) };
        let needed = self.place_of(number).extent.len;
        let Some(run) = self.runs.get_mut(&number) else { return Ok(()) };
        let is_doubted = match by {
            Reader::Request => std::mem::take(&mut run.doubts.request),
            Reader::Job => run.doubts.job,
        };
        if is_doubted || run.cells.is_some() || place.extent.len < needed {
            return Ok(());
        }
        let mut cells = Secrets::empty();
        for n in (0..RUN_PAGES).filter(|n| run.used >> n & 1 == 1) {
            let page = HomePage(number * RUN_PAGES as u64 + n as u64);
            let of = CellOf(page, run.side(n)).place().extent;
            let read = || bytes.get((of.start.0 - place.extent.start.0) as usize..)?.get(..CELL_BYTES);
            let cell = self.held.get(&page).cloned().or_else(|| Cell::from_bytes(read()?));
            let cell = cell.filter(Cell::is_whole).ok_or(RootError::NoCell { at: of.start.0 })?;
            cells.0[n].copy_from_slice(&cell.to_bytes());
        }
        run.cells = Some(cells);
        run.is_recent.set(true);
        let is_news = self.in_memory.insert(number);
        assert!(is_news, "a run comes into memory once");
        self.make_room();
        Ok(())
    }

    /// Puts the cells of runs out of memory that were not used lately, if there are too many. More stay where all are used: a
    /// request that needs many runs at once gets them one by one.
    pub(super) fn make_room(&mut self) {
        for _ in 0..self.in_memory.len() {
            let next = self.in_memory.range(self.hand..).next().or(self.in_memory.first());
            let Some(number) = next.copied().filter(|_| self.in_memory.len() > self.most) else { return };
            self.hand = number + 1;
            let run = self.runs.get_mut(&number).expect("a run with cells is known");
            assert!(run.cells.is_some(), "a run in memory has its cells");
            if !run.is_recent.take() {
                run.cells = None;
                self.in_memory.remove(&number);
            }
        }
    }

    /// Holds the cell of a page, if it has one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub(in crate::store::versions) fn hold(&mut self, page: HomePage) -> Result<(), Missing> {
        if let Some(home) = self.get(page)? {
            self.held.insert(page, home.cell);
        }
        Ok(())
    }

    /// Holds no cells any more but those that the root may not have.
    pub(super) fn release(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.retain(|page, _| !self.is_made(*page));
        self.held = held;
    }

    /// Puts the cell of a page there.
    pub(super) fn put(&mut self, page: HomePage, home: &Home) {
        assert!(
            home.side < 2 && home.cell.is_whole(),
            "a page has one of two places, for a cell that a start knows"
        );
        let (number, n) = split(page);
        let has_room = self.in_memory.len() < self.most;
        let in_memory = &mut self.in_memory;
        let run = self.runs.entry(number).or_insert_with(|| {
            if has_room {
                in_memory.insert(number);
            }
            Run { cells: has_room.then(Secrets::empty), ..Run::default() }
        });
        assert_eq!(run.cells.is_some(), self.in_memory.contains(&number), "cells in memory are counted");
        if let Some(cells) = &mut run.cells {
            cells.0[n].copy_from_slice(&home.cell.to_bytes());
        }
        set(&mut run.used, n, true);
        set(&mut run.second, n, home.side == 1);
        set(&mut run.made, n, home.is_made);
        run.doubts = Doubts { request: true, job: true };
        self.held.remove(&page);
        if !home.is_made && !mutant::is(Mutant::DropFreshCell) {
            self.held.insert(page, home.cell.clone());
        }
    }

    /// Notes whether the whole page was written under its cell, if it has one.
    pub(super) fn note_made(&mut self, page: HomePage, is_made: bool) {
        let (run, n) = split(page);
        if let Some(run) = self.runs.get_mut(&run) {
            set(&mut run.made, n, is_made);
        }
    }

    pub(super) fn remove(&mut self, page: HomePage) {
        let (number, n) = split(page);
        self.held.remove(&page);
        let Some(run) = self.runs.get_mut(&number) else { return };
        if let Some(cells) = &mut run.cells {
            wipe(&mut cells.0[n]);
        }
        set(&mut run.used, n, false);
        run.doubts = Doubts { request: true, job: true };
        if run.used == 0 {
            self.in_memory.remove(&number);
            self.runs.remove(&number);
        }
    }
}

/// The run whose cells lie from here on.
fn run_at(place: Place) -> Option<u64> {
    CellOf::at(place.extent.start).map(|CellOf(page, _)| split(page).0)
}

impl Run {
    fn side(&self, n: usize) -> u8 {
        (self.second >> n & 1) as u8
    }
}

impl Secrets {
    fn empty() -> Box<Self> {
        let secrets = Box::new(Self([[0; CELL_BYTES]; RUN_PAGES]));
        keep(&*secrets);
        secrets
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|cell| wipe(cell));
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::cell::Cells;
    use crate::store::versions::stubs::homes::table::*;

    #[test]
    fn a_table_has_the_cells_that_a_plain_map_has() {
        let (mut cells, mut table, mut plain) = (Cells::new([5; 32]), Table::default(), BTreeMap::new());
        table.keep_at_most(1 << 20);
        for n in 0..2000_u64 {
            let page = HomePage(n * 37 % 300);
            match n % 5 {
                0 => {
                    table.remove(page);
                    plain.remove(&page);
                }
                1 => {
                    table.note_made(page, n % 2 == 0);
                    plain.entry(page).and_modify(|it: &mut Home| it.is_made = n % 2 == 0);
                }
                _ => {
                    let home = Home { side: (n % 2) as u8, cell: cells.draw(), is_made: n % 3 == 0 };
                    table.put(page, &home);
                    plain.insert(page, home);
                }
            }
            for page in (0..300).step_by(7).map(HomePage).chain([page]) {
                assert_eq!(table.get(page), Ok(plain.get(&page).cloned()), "page {page:?} after {n} steps");
                assert_eq!(table.side(page), plain.get(&page).map(|it| it.side));
            }
        }
        (0..300).for_each(|page| table.remove(HomePage(page)));
        assert!(
            table.runs.is_empty() && table.in_memory.is_empty() && table.held.is_empty(),
            "no memory stays"
        );
    }

    /// A root, and the table of a few pages in each of several runs, of which one stays in memory.
    struct Rig {
        root: Vec<u8>,
        cells: Cells,
        table: Table,
        plain: BTreeMap<HomePage, Home>,
    }

    impl Rig {
        fn new() -> Self {
            let mut table = Table::default();
            table.keep_at_most(size_of::<Secrets>());
            let (root, cells) = (vec![0; 64 << 10], Cells::new([5; 32]));
            let mut rig = Self { root, cells, table, plain: BTreeMap::new() };
            (0..12).for_each(|n| rig.change(HomePage(n * 31)));
            rig.table.release();
            rig
        }

        /// Gives a page another cell, durably.
        fn change(&mut self, page: HomePage) {
            let side = self.plain.get(&page).map_or(0, |it| 1 - it.side);
            let home = Home { side, cell: self.cells.draw(), is_made: true };
            let [new, old] =
                [CellOf(page, side), CellOf(page, side).other()].map(|it| it.place().extent.start.0 as usize);
            self.root[new..][..CELL_BYTES].copy_from_slice(&home.cell.to_bytes());
            self.root[old..][..CELL_BYTES].fill(0);
            self.table.put(page, &home);
            self.plain.insert(page, home);
        }

        fn read(&self, place: Place) -> Vec<u8> {
            self.root[place.extent.start.0 as usize..place.extent.end() as usize].to_vec()
        }

        fn missing(&self, page: HomePage) -> Option<Place> {
            self.table.get(page).err().map(|Missing(place)| place)
        }

        fn check(&mut self) {
            for (page, home) in self.plain.clone() {
                for _ in 0..3 {
                    let Some(place) = self.missing(page) else { break };
                    let bytes = self.read(place);
                    self.table.loaded(place, &bytes, Reader::Request).expect("it is whole");
                }
                assert_eq!(self.table.get(page), Ok(Some(home)), "{page:?}");
            }
            assert!(self.table.in_memory.len() <= 2, "what was not used lately makes room");
        }
    }

    #[test]
    fn cells_are_read_again_where_they_made_room() {
        let mut rig = Rig::new();
        rig.check();
        rig.check();
        assert!(!rig.table.is_whole() && rig.missing(HomePage(0)).is_some());
        rig.change(HomePage(31));
        rig.check();
    }

    #[test]
    fn a_read_that_began_before_a_change_is_not_believed_whichever_read_it_is() {
        for by in [Reader::Request, Reader::Job] {
            let mut rig = Rig::new();
            rig.check();
            let place = rig.missing(HomePage(0)).expect("it made room");
            rig.check();
            if by == Reader::Job {
                rig.table.job_reads(place);
            }
            let early = rig.read(place);
            rig.change(HomePage(31));
            // Twice, so that the place for the cell has one again, which is another.
            rig.change(HomePage(31));
            rig.table.loaded(place, &early, by).expect("it is not looked at");
            rig.check();
        }
    }

    #[test]
    fn a_cell_that_the_root_may_not_have_is_held_until_its_page_is_made() {
        let mut rig = Rig::new();
        let fresh = Home { side: 0, cell: rig.cells.draw(), is_made: false };
        rig.table.put(HomePage(5), &fresh);
        rig.check();
        assert_eq!(rig.table.get(HomePage(5)), Ok(Some(fresh.clone())), "the root has zeros there");
        rig.table.release();
        assert_eq!(rig.table.get(HomePage(5)), Ok(Some(fresh.clone())));
        let at = CellOf(HomePage(5), 0).place().extent.start.0 as usize;
        rig.root[at..][..CELL_BYTES].copy_from_slice(&fresh.cell.to_bytes());
        rig.table.note_made(HomePage(5), true);
        rig.table.release();
        assert!(!rig.table.held.contains_key(&HomePage(5)));
        rig.plain.insert(HomePage(5), Home { is_made: true, ..fresh });
        rig.check();
    }

    #[test]
    fn a_damaged_cell_is_named_and_its_run_is_not_taken() {
        let mut rig = Rig::new();
        rig.check();
        let place = rig.missing(HomePage(0)).expect("it made room");
        let mut bytes = rig.read(place);
        bytes[0] ^= 1;
        let bad = CellOf(HomePage(0), 0).place().extent.start.0;
        // The first read may have begun before the cells were put there: it is ignored.
        rig.table.loaded(place, &bytes, Reader::Request).expect("not looked at");
        assert_eq!(rig.table.loaded(place, &bytes, Reader::Request), Err(RootError::NoCell { at: bad }));
        rig.check();
    }
}
