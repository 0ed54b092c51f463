//! The records of homes: which version lies in which slot.

use crate::base::cell::Cell;
use crate::base::units::{Block, Epoch, Extent, Pos, Slot};
use crate::media::medium::Medium;
use crate::media::sealing::parse_home;
use crate::store::versions::VersionsError;
use crate::store::versions::opening::rebuilding::{Step, go_on};
use crate::store::versions::stubs::root::{CellOf, Found, pages_of, read_cells};
use crate::store::versions::stubs::{HomePage, Layout, PAGE_BYTES, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of homes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The versions whose stubs can be revealed; of a disk without stubs, those that a home was last written for.
    pub(super) versions: BTreeMap<Slot, (Block, Epoch)>,
    /// The slots whose homes cannot be read, so that what lies there is not known.
    pub(super) unknown: BTreeMap<Slot, Pos>,
}

/// The cells of the pages of homes.
#[derive(Default)]
struct Pages {
    cells: BTreeMap<HomePage, Vec<Cell>>,
    /// The pages that may have had a cell: damage, or passes, have left something.
    remains: BTreeSet<HomePage>,
}

impl Records {
    /// Reads all homes.
    pub(super) fn read(
        layout: Layout,
        [stubs, root]: [&dyn Medium; 2],
        step: Step<'_>,
    ) -> Result<Self, VersionsError> {
        let mut pages = Pages::default();
        if layout.stub_bytes > 0 {
            read_cells(root, pages_of(root), |CellOf(page, _), found| match found {
                Found::Cell(cell) => pages.cells.entry(page).or_default().push(cell),
                Found::Remains => _ = pages.remains.insert(page),
                Found::Nothing => {}
            })?;
        }
        let mut records = Self::default();
        // Homes without stubs are written one by one, and the last sector may have a part only.
        let end = stubs.size().next_multiple_of(SECTOR_BYTES);
        let start = layout.homes().0.min(end);
        for piece in Extent::<Pos>::between(start, end).pieces(READ_BYTES) {
            let mut bytes = vec![0; piece.len as usize];
            let there = piece.end().min(stubs.size()).saturating_sub(piece.start.0);
            stubs.read(piece.start, &mut bytes[..there as usize])?;
            let sectors =
                (piece.start.0..).step_by(SECTOR_BYTES as usize).zip(bytes.chunks(SECTOR_BYTES as usize));
            sectors.for_each(|(at, sector)| records.take(layout, &pages, (Pos(at), sector)));
            go_on(step, piece.end() - start, end - start)?;
        }
        Ok(records)
    }

    /// Takes the homes of a sector.
    fn take(&mut self, layout: Layout, pages: &Pages, (at, sector): (Pos, &[u8])) {
        let homes = layout.homes_in(at);
        if layout.stub_bytes > 0 {
            let number = (at.0 - layout.homes().0) / SECTOR_BYTES;
            let page = HomePage(number / (PAGE_BYTES / SECTOR_BYTES));
            let check = sector.first_chunk().map(|check| u64::from_le_bytes(*check));
            let cells = pages.cells.get(&page);
            if !cells.is_some_and(|cells| cells.iter().any(|cell| Some(cell.check(number)) == check)) {
                // Without a cell no stub of the page is left.
                if cells.is_some() || pages.remains.contains(&page) {
                    self.unknown.extend(homes.map(|(slot, _)| (slot, at)));
                }
                return;
            }
        }
        for (slot, home) in homes {
            let home = &sector[(home.start.0 - at.0) as usize..][..home.len as usize];
            let version = parse_home(home).map(|(block, born, _)| (block, born));
            self.versions.extend(version.filter(|(_, born)| born.0 > 0).map(|it| (slot, it)));
        }
    }
}
