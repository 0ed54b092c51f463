//! The homes of stubs, page by page, and the cells of the root that hide them.
//!
//! The checkpoint that brings a page its first stubs writes all of it, under a fresh cell; later ones add stubs under the same
//! one. When some stubs of a page are to die, the others are written under another cell, and when all are, nothing is;
//! then the cell that the page had is destroyed. So no copy of the page opens anything that has died.
//!
//! Invariants:
//! 1. A page that has stubs which the log has not is durable as a whole, and so is its cell.
//! 2. While pages get other cells, no checkpoint brings stubs home, and all stubs of these pages are in memory.
//! 3. The place for a cell that a page does not use holds zeros, durably, or is stale.
//! 4. Before stubs come home, and before pages get other cells, the cells that this needs are held in memory.

mod starting;
mod table;

use crate::base::cell::{CELL_BYTES, Cell, Cells};
use crate::base::units::{Block, Epoch, Extent, Pos, Slot};
use crate::base::zeros::is_zeros;
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::sealing::{Sealing, SealingAt, home_bytes, parse_home};
use crate::mutant::{self, Mutant};
use crate::store::Rekey;
use crate::store::versions::positions::Missing;
use crate::store::versions::stubs::root;
use crate::store::versions::stubs::root::CellOf;
use crate::store::versions::stubs::{HomePage, Layout, PAGE_BYTES, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use table::Table;

pub(in super::super) use table::Reader;

/// The message of the panic of a defect.
const HELD: &str = "the cell is held before it is needed";

/// See the module's documentation. Of a disk without stubs there is no cell, and all homes are as they are.
#[derive(Debug)]
pub(in super::super) struct Homes {
    layout: Layout,
    /// The pages that have a cell.
    pub(in super::super) pages: Table,
    /// The pages that the checkpoint under way writes as a whole.
    made: BTreeSet<HomePage>,
    /// Where a cell was that is not in use any more.
    stale: BTreeSet<CellOf>,
    /// The page whose cell is held next for the checkpoint that is to begin.
    holding: HomePage,
    /// The pages that are getting other cells.
    moving: Option<Moving>,
    /// Stubs that are known, although they are at home.
    known: BTreeMap<Slot, Sealing>,
}

/// The cell of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Home {
    side: u8,
    cell: Cell,
    /// Whether the whole page was written under the cell. Else what is there is in the log, too.
    is_made: bool,
}

/// A stub as a home has it, revealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Stub {
    pub(in super::super) slot: Slot,
    pub(in super::super) block: Block,
    pub(in super::super) born: Epoch,
    pub(in super::super) sealing: Sealing,
}

/// Pages of which stubs are to die, and the stubs that stay.
pub(in super::super) type Doomed = BTreeMap<HomePage, BTreeSet<Slot>>;

/// See [`Homes::begin`].
#[derive(Debug)]
struct Moving {
    doomed: Doomed,
    /// The pages of which stubs stay, as they will be; `None` before they have been read.
    written: Option<Vec<(CellOf, Cell, Vec<u8>)>>,
}

impl Homes {
    pub(in super::super) fn new(layout: Layout) -> Self {
        let (pages, made, stale) = (Table::default(), BTreeSet::new(), BTreeSet::new());
        Self { layout, pages, made, stale, holding: HomePage(0), moving: None, known: BTreeMap::new() }
    }

    /// How the content of a slot was sealed, whose stub is at home.
    ///
    /// # Errors
    /// The cell of its page has to be read.
    pub(in super::super) fn sealing(&self, slot: Slot) -> Result<SealingAt, Missing> {
        if let Some(sealing) = self.known.get(&slot) {
            return Ok(SealingAt::Known(sealing.clone()));
        }
        let place = Place { on: MediumId::Stubs, extent: self.layout.home(slot) };
        let home = self.pages.get(self.layout.page_of(slot))?;
        Ok(SealingAt::Home(place, home.map(|it| it.cell)))
    }

    /// [Holds](Table::hold) the cells of the pages that `pages` names from one on, in order. Goes on where one had to be read, and ends
    /// once it finds all that are needed at one go.
    ///
    /// # Errors
    /// A cell has to be read.
    pub(in super::super) fn hold_all<Of: Iterator<Item = HomePage>>(
        &mut self,
        pages: impl Fn(HomePage) -> Of,
    ) -> Result<(), Missing> {
        loop {
            let (first, mut last) = (self.holding, None);
            for page in pages(first) {
                if last.replace(page) != Some(page) {
                    self.holding = page;
                    self.pages.hold(page)?;
                }
            }
            self.holding = HomePage(0);
            if first == HomePage(0) {
                return Ok(());
            }
        }
    }

    /// Whether stubs may be brought home.
    pub(in super::super) fn may_bring(&self) -> bool {
        self.stale.is_empty() && (self.moving.is_none() || mutant::is(Mutant::BringMeanwhile))
    }

    /// Whether pages are getting other cells.
    pub(in super::super) fn are_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Brings stubs home, in the order of their slots: the writes of the stub medium, and those of the root.
    ///
    /// # Panics
    /// If the cell of a page is not [held](Table::hold).
    pub(in super::super) fn bring(&mut self, stubs: &[Stub], cells: &mut Cells) -> Vec<(Place, Vec<u8>)> {
        assert!(self.may_bring(), "no page gets another cell meanwhile, and the places for cells are empty");
        assert!(stubs.is_sorted_by(|one, next| one.slot < next.slot), "the stubs of a page come together");
        let (mut homes, mut keys) = (Vec::new(), Vec::new());
        for stubs in stubs.chunk_by(|a, b| self.layout.page_of(a.slot) == self.layout.page_of(b.slot)) {
            let page = self.layout.page_of(stubs[0].slot);
            if self.layout.stub_bytes == 0 {
                homes.extend(stubs.iter().map(|it| self.home(it, None)));
                continue;
            }
            let Home { side, cell, is_made } = self.pages.get(page).expect(HELD).unwrap_or_else(|| {
                let fresh = Home { side: 0, cell: cells.draw(), is_made: false };
                self.pages.put(page, &fresh);
                fresh
            });
            if is_made {
                homes.extend(stubs.iter().map(|it| self.home(it, Some(&cell))));
                continue;
            }
            let is_news = self.made.insert(page);
            assert!(is_news, "a page is written as a whole once, with all of its stubs");
            homes.push((self.page_place(page), self.image(page, &cell, stubs)));
            let mut pair = [vec![0; CELL_BYTES], vec![0; CELL_BYTES]];
            pair[usize::from(side)] = cell.to_bytes();
            keys.push((root::pair_place(page), pair.concat()));
        }
        homes.extend(keys);
        homes
    }

    /// Notes that the stubs are at home, durably.
    pub(in super::super) fn brought(&mut self) {
        for page in std::mem::take(&mut self.made) {
            assert!(self.has_cell(page), "a page that was written has its cell");
            self.pages.note_made(page, true);
        }
        self.pages.release();
        self.pages.make_room();
    }

    /// Notes that the stubs may be at home or not: the pages are written as a whole again.
    pub(in super::super) fn gave_up(&mut self) {
        self.made.clear();
    }

    fn page_place(&self, page: HomePage) -> Place {
        Place { on: MediumId::Stubs, extent: self.layout.page(page) }
    }

    /// A stub in its home.
    fn home(&self, stub: &Stub, cell: Option<&Cell>) -> (Place, Vec<u8>) {
        let Stub { slot, block, born, sealing } = stub.clone();
        let hidden = cell.map_or(sealing.clone(), |cell| sealing.masked(cell));
        let bytes = home_bytes((block, born), (hidden.session, hidden.number), &hidden.stub);
        (Place { on: MediumId::Stubs, extent: self.layout.home(slot) }, bytes)
    }

    /// The bytes of a page that has these stubs and no others.
    fn image(&self, page: HomePage, cell: &Cell, stubs: &[Stub]) -> Vec<u8> {
        assert!(stubs.iter().all(|it| self.layout.page_of(it.slot) == page), "the stubs are of the page");
        let mut bytes = vec![0; PAGE_BYTES as usize];
        for (sector, bytes) in self.sectors(page).zip(bytes.chunks_exact_mut(SECTOR_BYTES as usize)) {
            bytes[..8].copy_from_slice(&cell.check(sector).to_le_bytes());
        }
        let start = self.layout.page(page).start.0;
        for (place, home) in stubs.iter().map(|it| self.home(it, Some(cell))) {
            bytes[(place.extent.start.0 - start) as usize..][..home.len()].copy_from_slice(&home);
        }
        bytes
    }

    /// The numbers of the sectors of a page.
    fn sectors(&self, page: HomePage) -> std::ops::Range<u64> {
        let per_page = PAGE_BYTES / SECTOR_BYTES;
        page.0 * per_page..(page.0 + 1) * per_page
    }

    /// The stubs in some sectors of homes, the first of which lies at `at`, revealed.
    fn stubs_in(&self, at: Pos, bytes: &[u8], cell: &Cell) -> Vec<Stub> {
        let sectors = (at.0..).step_by(SECTOR_BYTES as usize).zip(bytes.chunks_exact(SECTOR_BYTES as usize));
        let homes = sectors.flat_map(|(at, sector)| {
            self.layout.homes_in(Pos(at)).map(move |(slot, home)| (slot, &sector[part(at, home)]))
        });
        let stubs = homes.filter(|(_, home)| !is_zeros(home)).filter_map(|(slot, home)| {
            let (block, born, sealing) = parse_home(home)?;
            Some(Stub { slot, block, born, sealing: sealing.masked(cell) })
        });
        stubs.collect()
    }

    /// The cell under which the stubs of a sector at `at` are hidden, if its page has that cell.
    ///
    /// # Errors
    /// The cell of the page has to be read.
    pub(in super::super) fn cell_of(&self, at: Pos, sector: &[u8]) -> Result<Option<Cell>, Missing> {
        assert!(at >= self.layout.homes(), "homes lie behind the log");
        let number = (at.0 - self.layout.homes().0) / SECTOR_BYTES;
        let page = HomePage(number / (PAGE_BYTES / SECTOR_BYTES));
        let Some(check) = sector.first_chunk().map(|check| u64::from_le_bytes(*check)) else {
            return Ok(None);
        };
        let fresh = self.moving.iter().flat_map(|it| it.written.iter().flatten());
        let fresh = fresh.filter(|(CellOf(of, _), ..)| *of == page).map(|(_, cell, _)| cell.clone());
        let mut cells = self.pages.get(page)?.map(|it| it.cell).into_iter().chain(fresh);
        Ok(cells.find(|cell| cell.check(number) == check))
    }

    /// Whether the sector at `at` has to be under the cell of its page.
    pub(in super::super) fn is_made(&self, at: Pos) -> bool {
        let page = HomePage((at.0 - self.layout.homes().0) / PAGE_BYTES);
        self.pages.is_made(page)
    }

    /// Whether `bytes` at this place of the root are a cell in use, or one that is still to be destroyed (false); `None` if
    /// nothing tells of them.
    ///
    /// # Errors
    /// The cell of the page has to be read.
    pub(in super::super) fn uses(&self, place: CellOf, bytes: &[u8]) -> Result<Option<bool>, Missing> {
        let is_moving = self.moving.as_ref().is_some_and(|it| it.doomed.contains_key(&place.0));
        if is_moving || self.stale.contains(&place) {
            return Ok(Some(false));
        }
        let used = self.pages.get(place.0)?.filter(|it| it.side == place.1);
        Ok(used.filter(|it| it.cell.to_bytes() == bytes).map(|_| true))
    }

    /// Where some cells lie that are not in use.
    pub(in super::super) fn stale(&self, most: usize) -> Vec<Place> {
        self.stale.iter().take(most).map(|it| it.place()).collect()
    }

    /// Whether there are cells that are not in use.
    pub(in super::super) fn has_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Notes that these cells are destroyed.
    pub(in super::super) fn cleaned(&mut self, places: &[Place]) {
        for place in places {
            if let Some(cell) = CellOf::at(place.extent.start) {
                let was_stale = self.stale.remove(&cell);
                assert!(was_stale, "no cell that is in use is destroyed");
            }
        }
    }

    /// Whether a page has a cell.
    pub(in super::super) fn has_cell(&self, page: HomePage) -> bool {
        self.pages.side(page).is_some()
    }

    /// Begins to give those of the pages other cells that have one: whether any has.
    ///
    /// # Panics
    /// If other pages get other cells.
    pub(in super::super) fn begin(&mut self, mut doomed: Doomed) -> bool {
        assert!(self.moving.is_none(), "one move at a time");
        assert!(self.stale.is_empty(), "a place for a cell is empty before it gets one");
        doomed.retain(|page, stay| {
            self.pages.side(*page).is_some() && (stay.is_empty() || !mutant::is(Mutant::SparePage))
        });
        let needs_nothing = doomed.values().all(BTreeSet::is_empty);
        self.moving =
            Some(Moving { doomed, written: needs_nothing.then(Vec::new) }).filter(|it| !it.doomed.is_empty());
        self.moving.is_some()
    }

    /// The pages that have to be read before [`Homes::prepare`], if any do.
    pub(in super::super) fn unread(&self) -> Vec<Place> {
        let doomed = self.moving.iter().filter(|it| it.written.is_none()).flat_map(|it| &it.doomed);
        doomed.filter(|(_, stay)| !stay.is_empty()).map(|(page, _)| self.page_place(*page)).collect()
    }

    /// Gives up before anything is written.
    pub(in super::super) fn cancel(&mut self) {
        let is_unwritten = self.moving.as_ref().is_none_or(|it| it.written.is_none());
        assert!(is_unwritten, "a move whose writes may have begun goes on");
        self.moving = None;
        self.pages.release();
    }

    /// Takes the pages that were to be read: makes what will be written.
    ///
    /// # Errors
    /// The first page that is not under its cell. Nothing will be written then, since what stays would be lost.
    ///
    /// # Panics
    /// If the cell of a page of which stubs stay is not [held](Table::hold).
    pub(in super::super) fn prepare(&mut self, read: &[u8], cells: &mut Cells) -> Result<(), Place> {
        let Some(Moving { doomed, written: before }) = &self.moving else { return Ok(()) };
        assert!(before.is_none(), "the pages of a move are made once");
        let stay = doomed.iter().filter(|(_, stay)| !stay.is_empty());
        assert_eq!(
            read.len(),
            stay.clone().count() * PAGE_BYTES as usize,
            "each page was read of which stubs stay"
        );
        let (mut written, mut known) = (Vec::new(), BTreeMap::new());
        for ((page, stay), bytes) in stay.zip(read.chunks_exact(PAGE_BYTES as usize)) {
            let Some(home) = self.pages.get(*page).expect(HELD) else { return Err(self.page_place(*page)) };
            let mut sectors = self.sectors(*page).zip(bytes.chunks_exact(SECTOR_BYTES as usize));
            if !sectors.all(|(n, it)| it.starts_with(&home.cell.check(n).to_le_bytes())) {
                return Err(self.page_place(*page));
            }
            let mut stubs = self.stubs_in(self.layout.page(*page).start, bytes, &home.cell);
            stubs.retain(|it| stay.contains(&it.slot));
            let other = CellOf(*page, home.side).other();
            let cell = if mutant::is(Mutant::KeepHomeCell) { home.cell.clone() } else { cells.draw() };
            let is_other = cell != home.cell || mutant::is(Mutant::KeepHomeCell);
            assert!(is_other, "the rest of a page goes under another cell");
            let image = self.image(*page, &cell, &stubs);
            written.push((other, cell, image));
            known.extend(stubs.into_iter().map(|it| (it.slot, it.sealing)));
        }
        self.known = known;
        if let Some(moving) = &mut self.moving {
            moving.written = Some(written);
        }
        Ok(())
    }

    /// The job that gives the pages their cells, once they have been read.
    pub(in super::super) fn rekey(&self) -> Option<Rekey> {
        let Moving { doomed, written } = self.moving.as_ref()?;
        let mut rekey = Rekey::default();
        for (place, cell, image) in written.as_ref()? {
            assert!(
                self.pages.side(place.0) != Some(place.1),
                "a fresh cell goes to the place that is not in use"
            );
            rekey.keys.0.push(place.place());
            rekey.keys.1.extend(cell.to_bytes());
            rekey.content.0.push(self.page_place(place.0));
            rekey.content.1.extend(image);
        }
        let bytes = [rekey.keys.1.len() / CELL_BYTES, rekey.content.1.len() / PAGE_BYTES as usize];
        assert_eq!(bytes, [rekey.keys.0.len(), rekey.content.0.len()], "each byte of a write has its place");
        let dies = |it: &(&HomePage, &BTreeSet<Slot>)| it.1.is_empty() || !mutant::is(Mutant::KeepHomeCell);
        let old = doomed.iter().filter(dies);
        let old = old.filter_map(|(page, _)| Some(CellOf(*page, self.pages.side(*page)?).place()));
        rekey.old = old.collect();
        let has_all = rekey.old.len() == doomed.len() || mutant::is(Mutant::KeepHomeCell);
        assert!(has_all, "the cell of each page is destroyed");
        Some(rekey)
    }

    /// Notes that the pages have their cells, durably, and that the cells that they had are destroyed.
    pub(in super::super) fn rekeyed(&mut self) {
        let is_written = self.moving.as_ref().is_some_and(|it| it.written.is_some());
        assert!(is_written, "a move ends when its pages were written");
        let Some(Moving { doomed, written }) = self.moving.take() else { return };
        doomed.keys().for_each(|page| self.pages.remove(*page));
        for (CellOf(page, side), cell, _) in written.into_iter().flatten() {
            self.pages.put(page, &Home { side, cell, is_made: true });
        }
        self.known.clear();
    }
}

/// The part of the sector at `at` that is `home`.
fn part(at: u64, home: Extent<Pos>) -> std::ops::Range<usize> {
    let from = (home.start.0 - at) as usize;
    from..from + home.len as usize
}
