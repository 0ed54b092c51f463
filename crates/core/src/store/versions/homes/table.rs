//! The cells of the pages of homes: some 33 bytes of memory for each page that has one.
//!
//! A cell lies here, and in a [`Cell`] of its own while something uses it; each is wiped when it goes.

use super::{Home, HomePage};
use crate::cell::{CELL_BYTES, Cell};
use crate::memory::{keep, wipe};
use std::collections::BTreeMap;
use std::fmt;

/// Pages whose cells lie together.
const RUN_PAGES: usize = 64;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<u64, Box<Run>>);

/// The cells of neighbouring pages, and a bit for each page.
struct Run {
    cells: [[u8; CELL_BYTES]; RUN_PAGES],
    /// Whether the page has a cell.
    used: u64,
    /// Whether that is the second one of the page.
    second: u64,
    /// [`Home::is_made`].
    made: u64,
}

const _: () = assert!(size_of::<Run>() <= 33 * RUN_PAGES, "a TiB has millions of pages");

/// The number of the run of a page, and the page's place in it.
fn split(page: HomePage) -> (u64, usize) {
    (page.0 / RUN_PAGES as u64, (page.0 % RUN_PAGES as u64) as usize)
}

fn set(bits: &mut u64, n: usize, value: bool) {
    *bits = *bits & !(1 << n) | u64::from(value) << n;
}

impl Table {
    pub(super) fn get(&self, page: HomePage) -> Option<Home> {
        let (run, n) = split(page);
        let run = self.0.get(&run).filter(|run| run.used >> n & 1 == 1)?;
        let cell = Cell::from_bytes(&run.cells[n])?;
        Some(Home { side: (run.second >> n & 1) as u8, cell, is_made: run.made >> n & 1 == 1 })
    }

    pub(super) fn has(&self, page: HomePage) -> bool {
        let (run, n) = split(page);
        self.0.get(&run).is_some_and(|run| run.used >> n & 1 == 1)
    }

    /// Puts the cell of a page there.
    pub(super) fn put(&mut self, page: HomePage, home: &Home) {
        let (run, n) = split(page);
        let run = self.0.entry(run).or_insert_with(Run::empty);
        run.cells[n].copy_from_slice(&home.cell.to_bytes());
        set(&mut run.used, n, true);
        set(&mut run.second, n, home.side == 1);
        set(&mut run.made, n, home.is_made);
    }

    /// Notes whether the whole page was written under its cell, if it has one.
    pub(super) fn note_made(&mut self, page: HomePage, is_made: bool) {
        let (run, n) = split(page);
        if let Some(run) = self.0.get_mut(&run) {
            set(&mut run.made, n, is_made);
        }
    }

    pub(super) fn remove(&mut self, page: HomePage) {
        let (number, n) = split(page);
        let Some(run) = self.0.get_mut(&number) else { return };
        wipe(&mut run.cells[n]);
        set(&mut run.used, n, false);
        if run.used == 0 {
            self.0.remove(&number);
        }
    }
}

impl Run {
    fn empty() -> Box<Self> {
        let run = Box::new(Self { cells: [[0; CELL_BYTES]; RUN_PAGES], used: 0, second: 0, made: 0 });
        keep(&*run);
        run
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cells.iter_mut().for_each(|cell| wipe(cell));
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cells", self.used.count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cells;

    #[test]
    fn a_table_has_the_cells_that_a_plain_map_has() {
        let (mut cells, mut table, mut plain) = (Cells::new([5; 32]), Table::default(), BTreeMap::new());
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
                assert_eq!(table.get(page).as_ref(), plain.get(&page), "page {page:?} after {n} steps");
                assert_eq!(table.has(page), plain.contains_key(&page));
            }
        }
        (0..300).for_each(|page| table.remove(HomePage(page)));
        assert!(table.0.is_empty(), "no memory stays");
    }
}
