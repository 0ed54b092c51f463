//! Room on the host, taken before a change is answered that needs it later: places for pages of the index, which
//! are written copy-on-write with its next head, homes of stubs, and their cells. The log of stubs has its room from the start, and a
//! slot gets its own with its content.
//!
//! Invariants:
//! 1. A write begins only when the index has spare pages for that write and all before it, and for [`DEATHS`] deaths
//!    besides; so on a full host blocks can die, and the next head, which brings pages back, has its room.
//! 2. A death leaves its place only when the index has spare pages for it.
//! 3. A slot is taken only when its home has space, and so have the cells of its page.

use crate::base::units::{Addr, Extent, Pos, Slot};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::store::versions::Versions;
use crate::store::versions::positions::blocks;
use crate::store::versions::stubs::root::{ROOT_BYTES, cells_end};
use crate::tree::{PAGE_BYTES, PageNo};

/// Deaths that always find room, in one head of the index.
const DEATHS: u64 = 64;
/// Pages that one change may need: a copy and a half of a leaf in each of four trees.
const PAGES_PER_CHANGE: u64 = 8;
/// Pages that changes may need besides: above the leaves, and for roots.
const PAGES_BESIDES: u64 = 64;
/// The trees have at least so many pages for each one above the leaves.
const FAN_OUT: u64 = 50;
/// Changes that fill a page.
const CHANGES_PER_PAGE: u64 = 32;
/// Room is taken in pieces of so many bytes.
pub const ROOM_BYTES: u64 = 256 << 10;

/// The room that has been reserved.
#[derive(Debug, Default)]
pub(in super::super) struct Room {
    /// All homes before this position have space.
    homes: Pos,
    /// The same of the cells of the root.
    cells: Pos,
}

impl Versions {
    /// How many pages of the index `more` changes need at most, after those that are under way.
    fn pages_for(&self, more: u64) -> u64 {
        let changes = (self.writing.len() + self.todo.len()) as u64 + more;
        let used = self.catalog.history.pages.used();
        // However many changes there are, each page is copied once, and each copy is cut in two once, until it is full again.
        let most = 2 * used + changes / CHANGES_PER_PAGE;
        most.min(PAGES_PER_CHANGE * changes + used / FAN_OUT) + PAGES_BESIDES
    }

    /// The part of the index that needs space before `extent` is written, or dies.
    pub(in super::super) fn lacks_pages(&self, extent: Extent<Addr>, dies: bool) -> Option<Place> {
        let pages = &self.catalog.history.pages;
        let changes = blocks(extent).count() as u64;
        let needed = self.pages_for(changes) + if dies { 0 } else { self.pages_for(DEATHS) };
        let (from, to) = pages.lacking(needed)?;
        Some(piece(MediumId::Map, from.position(), to * PAGE_BYTES as u64))
    }

    /// The first slot behind all that may be used once `extent` is written.
    fn slots_end(&self, extent: Extent<Addr>) -> Option<Slot> {
        let (first, last) = (blocks(extent).next()?.0, blocks(extent).last()?.0);
        Some(self.catalog.slots.end_after(first, last))
    }

    /// The cells that need space before `extent` is written.
    pub(in super::super) fn lacks_cells(&self, extent: Extent<Addr>) -> Option<Place> {
        let layout = self.catalog.layout;
        let to = cells_end(layout.page_of(self.slots_end(extent)?));
        let from = self.room.cells.0.max(ROOT_BYTES);
        (layout.stub_bytes > 0 && self.room.cells < to).then(|| piece(MediumId::Root, from, to.0))
    }

    /// The homes that need space before `extent` is written.
    pub(in super::super) fn lacks_homes(&self, extent: Extent<Addr>) -> Option<Place> {
        let layout = self.catalog.layout;
        let to = layout.home(self.slots_end(extent)?).start;
        let from = self.room.homes.0.max(layout.half(1).end());
        (self.room.homes < to).then(|| piece(MediumId::Stubs, from, to.0))
    }

    /// Notes that `place` has space.
    pub(in super::super) fn note_room(&mut self, place: Place) {
        let end = place.extent.end();
        let is_ours = matches!(place.on, MediumId::Map | MediumId::Root | MediumId::Stubs);
        assert!(is_ours, "room is for the index, for homes and for cells");
        assert!(end.is_multiple_of(ROOM_BYTES), "room is taken in whole pieces");
        match place.on {
            MediumId::Map => self.catalog.history.pages.reserved(PageNo((end / PAGE_BYTES as u64) as u32)),
            MediumId::Root => self.room.cells = self.room.cells.max(Pos(end)),
            _ => self.room.homes = self.room.homes.max(Pos(end)),
        }
    }

    /// Whether the index has few spare pages, and a head would bring more.
    pub(in super::super) fn is_index_cramped(&self) -> bool {
        let pages = &self.catalog.history.pages;
        pages.knows_room() && pages.spare() < self.pages_for(DEATHS) && pages.released() > pages.spare() / 4
    }
}

/// The bytes from `from` to `to`, and up to the end of a whole piece of room.
fn piece(on: MediumId, from: u64, to: u64) -> Place {
    Place { on, extent: Extent::between(from, to.next_multiple_of(ROOM_BYTES)) }
}
