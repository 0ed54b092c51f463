//! The cells of homes at a start.
//!
//! A crash may leave a page with both of its cells, and each sector under either. All of them go under one then, and the other
//! is stale. What passes have left of a cell is stale, too: they may not have ended.

use crate::base::units::{Extent, Pos};
use crate::media::medium::{Medium, MediumError};
use crate::mutant::{self, Mutant};
use crate::store::versions::stubs::bytes_at;
use crate::store::versions::stubs::homes::{Home, HomePage, Homes, SECTOR_BYTES, Stub};
use crate::store::versions::stubs::root::{CellOf, Found, RootError, read_cells};
use std::collections::BTreeMap;

/// The pages that have two cells.
type Twice = BTreeMap<HomePage, [Home; 2]>;

impl Homes {
    /// Takes over the cells of the first `pages` pages in the root. Changes nothing if nothing may be written.
    pub(in crate::store::versions) fn start(
        &mut self,
        pages: u64,
        [stubs, root]: [&dyn Medium; 2],
        read_only: bool,
    ) -> Result<(), RootError> {
        let twice = self.find(root, pages)?;
        self.settle(twice, [stubs, root], read_only)
    }

    /// Finds the cells of the first `pages` pages in the root.
    fn find(&mut self, root: &dyn Medium, pages: u64) -> Result<Twice, MediumError> {
        let (mut twice, mut last) = (Twice::new(), None::<(HomePage, Home)>);
        read_cells(root, pages, |place, found| match found {
            Found::Nothing => {}
            Found::Remains => _ = self.stale.insert(place),
            Found::Cell(cell) => {
                let home = Home { side: place.1, cell, is_made: true };
                self.pages.put(place.0, &home);
                match last.replace((place.0, home.clone())) {
                    Some((page, first)) if page == place.0 => {
                        assert!(first.side != home.side, "each place for a cell is read once");
                        twice.insert(page, [first, home]);
                    }
                    _ => {}
                }
            }
        })?;
        Ok(twice)
    }

    /// Notes that the log has all that the page may have, which a checkpoint may have begun to write.
    pub(in crate::store::versions) fn is_perhaps_torn(&mut self, page: HomePage) {
        if !mutant::is(Mutant::TrustTornPage) {
            self.pages.note_made(page, false);
        }
    }

    /// Notes that passes over cells which the page does not use may not be durable.
    pub(in crate::store::versions) fn is_perhaps_stale(&mut self, page: HomePage) {
        let used = self.pages.side(page);
        let unused = [0, 1].into_iter().filter(|side| Some(*side) != used);
        self.stale.extend(unused.map(|side| CellOf(page, side)));
    }

    /// Brings pages with two cells under one of these; if nothing may be written, in memory only.
    fn settle(
        &mut self,
        twice: Twice,
        [stubs, root]: [&dyn Medium; 2],
        read_only: bool,
    ) -> Result<(), RootError> {
        let mut settled = Vec::new();
        for (page, both) in twice {
            let extent = self.layout.page(page);
            let bytes = bytes_at(stubs, extent.start, extent.len as usize)?;
            let (home, found) =
                self.one_of(both, extent, &bytes).ok_or(RootError::OtherHomes { at: extent.start.0 })?;
            let place = CellOf(page, home.side);
            self.stale.insert(place.other());
            self.pages.put(page, &home);
            if read_only {
                self.is_perhaps_torn(page);
                self.known.extend(found.into_iter().map(|it| (it.slot, it.sealing)));
            } else if !mutant::is(Mutant::LeaveMixed) {
                let cell = (place.place().extent.start, home.cell.to_bytes());
                settled.push((cell, (extent.start, self.image(page, &home.cell, &found))));
            }
        }
        if settled.is_empty() {
            return Ok(());
        }
        // After a sync that failed, either may be in the host's cache only.
        let (cells, images): (Vec<_>, Vec<_>) = settled.into_iter().unzip();
        write_all(root, cells)?;
        Ok(write_all(stubs, images)?)
    }

    /// One of the two cells of a page, and all stubs there; `None` if a sector is under neither.
    fn one_of(&self, both: [Home; 2], page: Extent<Pos>, bytes: &[u8]) -> Option<(Home, Vec<Stub>)> {
        let (mut last, mut found) = (0, Vec::new());
        let first = (page.start.0 - self.layout.homes().0) / SECTOR_BYTES;
        for (number, (at, sector)) in
            (first..).zip(page.pieces(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES as usize)))
        {
            let check = u64::from_le_bytes(*sector.first_chunk()?);
            let of = both.iter().position(|home| home.cell.check(number) == check)?;
            found.extend(self.stubs_in(at.start, sector, &both[of].cell));
            last = of;
        }
        Some((both[last].clone(), found))
    }
}

fn write_all(medium: &dyn Medium, writes: Vec<(Pos, Vec<u8>)>) -> Result<(), MediumError> {
    writes.iter().try_for_each(|(at, bytes)| medium.write(*at, bytes, false))?;
    medium.sync()
}
