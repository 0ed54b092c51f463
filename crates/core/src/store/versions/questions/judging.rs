//! The findings of a look at the stub medium, or at the root: which of the stubs, or cells, there are still needed, and which
//! nothing names.
//!
//! The caller has read the bytes from the medium. What they hold is told from them alone, and compared with the
//! index: a stub of a version that the index does not know any more is dead content.

use crate::base::cell::CELL_BYTES;
use crate::base::units::{Block, Epoch, Pos, Session, Slot};
use crate::base::zeros::is_zeros;
use crate::media::sealing::parse_home;
use crate::request::{Judged, Listed};
use crate::store::versions::Versions;
use crate::store::versions::catalog::Catalog;
use crate::store::versions::index::key;
use crate::store::versions::index::span::is_tombstone;
use crate::store::versions::positions::Missing;
use crate::store::versions::stubs::root;
use crate::store::versions::stubs::root::CellOf;
use crate::store::versions::stubs::{Entry, SECTOR_BYTES, is_head};
use crate::tree::Absent;

/// Most versions in one list.
const LIST_MAX: usize = 1024;

/// A stub that lies on the medium, as the bytes beside it say.
struct Found<'a> {
    at: Pos,
    block: Block,
    born: Epoch,
    slot: Slot,
    session: Session,
    number: u32,
    stub: &'a [u8],
}

/// The fate of a stub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// An epoch shows its version.
    Live,
    /// The stub is still to be destroyed.
    Owed,
    /// Nothing names it.
    Residue,
}

impl Versions {
    /// Judges the stubs in whole sectors of the stub medium, which lie at `at`.
    pub(in super::super) fn judge_stubs(&self, at: Pos, bytes: &[u8]) -> Result<Judged, Missing> {
        let mut judged = Judged::default();
        if self.catalog.layout.stub_bytes == 0 {
            return Ok(judged);
        }
        let positions = (at.0..).step_by(SECTOR_BYTES as usize).map(Pos);
        for (at, sector) in positions.zip(bytes.chunks_exact(SECTOR_BYTES as usize)) {
            if (at == Pos(0) && is_head(sector, self.catalog.disk)) || is_zeros(sector) {
                continue;
            }
            let Some(found) = self.stubs_in(at, sector)? else {
                // Whose stubs these are is not known.
                judged.residue.push(at);
                continue;
            };
            for it in found.iter().filter(|it| !is_zeros(it.stub)) {
                match self.verdict(it)? {
                    Verdict::Live => {
                        judged.live.push(it.slot);
                        if let Err(at) = judged.sessions.binary_search(&it.session) {
                            judged.sessions.insert(at, it.session);
                        }
                    }
                    Verdict::Owed => judged.owed += 1,
                    Verdict::Residue => judged.residue.push(it.at),
                }
            }
        }
        Ok(judged)
    }

    /// The stubs in a sector that show under a cell of the root; `None` if the sector is damaged.
    fn stubs_in<'a>(&self, at: Pos, sector: &'a [u8]) -> Result<Option<Vec<Found<'a>>>, Missing> {
        let layout = self.catalog.layout;
        if at < layout.homes() {
            return Ok(self.logged_stubs(at, sector));
        }
        if self.catalog.homes.cell_of(at, sector)?.is_none() {
            return Ok((!self.catalog.homes.is_made(at)).then(Vec::new));
        }
        let found = layout.homes_in(at).map(|(slot, home)| {
            let from = (home.start.0 - at.0) as usize;
            let (block, born, sealing) = parse_home(&sector[from..][..home.len as usize])?;
            let stub = layout.stub_in_home(home);
            let bytes = &sector[(stub.start.0 - at.0) as usize..][..stub.len as usize];
            let (session, number) = (sealing.session, sealing.number);
            Some(Found { at: stub.start, block, born, slot, session, number, stub: bytes })
        });
        Ok(found.collect())
    }

    fn logged_stubs<'a>(&self, at: Pos, bytes: &'a [u8]) -> Option<Vec<Found<'a>>> {
        let layout = self.catalog.layout;
        let sector = layout.parse_sector(bytes)?;
        if !self.catalog.log.is_under_cell(self.half_of(at), &sector) {
            return Some(Vec::new());
        }
        let versions = sector.entries.iter().enumerate().filter_map(|(n, entry)| {
            let Entry::Version { block, slot, number, .. } = entry else { return None };
            let stub = layout.stub_in_sector(at, n);
            let it = &bytes[(stub.start.0 - at.0) as usize..][..stub.len as usize];
            let (block, slot, number, born, session) = (*block, *slot, *number, sector.epoch, sector.session);
            Some(Found { at: stub.start, block, born, slot, session, number, stub: it })
        });
        Some(versions.collect())
    }

    /// Judges the cells in whole sectors of the root, which lie at `at`.
    pub(in super::super) fn judge_cells(&self, at: Pos, bytes: &[u8]) -> Result<Judged, Missing> {
        let mut judged = Judged::default();
        let places = (at.0..).step_by(CELL_BYTES).map(Pos).zip(bytes.chunks_exact(CELL_BYTES));
        for (at, cell) in places.filter(|(_, cell)| !is_zeros(cell)) {
            match self.is_cell_in_use(at, cell)? {
                Some((slot, true)) => judged.live.push(slot),
                Some((_, false)) => judged.owed += 1,
                None if at == Pos(0) => {}
                None => judged.residue.push(at),
            }
        }
        Ok(judged)
    }

    /// The first slot below the cell at `at` of the root, and whether the cell is in use or still to be destroyed; `None` if
    /// nothing tells of it.
    fn is_cell_in_use(&self, at: Pos, cell: &[u8]) -> Result<Option<(Slot, bool)>, Missing> {
        let Catalog { layout, homes, log, .. } = &self.catalog;
        if let Some(place) = CellOf::at(at) {
            let is_used = homes.uses(place, cell)?;
            return Ok(is_used.map(|it| (layout.slots_of(place.0).start, it)));
        }
        let half = (0..2).find(|half| root::place_of(*half).extent.start == at);
        let Some(half) = half else { return Ok(None) };
        // The cell of the half that is turned away from hides what the look at the stubs counts, and a start finds a fresh one
        // there. Nothing but its remains is owed by itself.
        let (is_whole, is_old) = (log.uses(half, cell), self.catalog.old_half() == Some(half));
        Ok((is_whole || is_old).then_some((Slot(0), is_whole)))
    }

    /// The half of the log that has these bytes.
    fn half_of(&self, at: Pos) -> u8 {
        u8::from(at >= self.catalog.layout.half(1).start)
    }

    fn verdict(&self, it: &Found<'_>) -> Result<Verdict, Missing> {
        let catalog = &self.catalog;
        // The index does not know yet what waits for this.
        self.stuck.map_or(Ok(()), Err)?;
        let owed =
            catalog.history.owed_from(it.slot)?.map(|span| span.first).filter(|dead| dead.slot == it.slot);
        let is_owed = owed.is_some_and(|dead| (dead.block, dead.born) == (it.block, it.born));
        let is_shown = catalog.history.slot_of(it.block, it.born)? == Some(it.slot);
        // Its home may have another stub by now, which the log has.
        let is_this = match catalog.log.stub(it.slot) {
            Some((born, session, Entry::Version { block, number, .. })) => {
                (*block, born, session, *number) == (it.block, it.born, it.session, it.number)
            }
            _ => true,
        };
        // A half of the log that is to be destroyed as a whole has copies of stubs that were destroyed at home.
        let is_in_old_half =
            it.at < catalog.layout.homes() && catalog.old_half() == Some(self.half_of(it.at));
        Ok(match (is_this, is_shown, is_owed || is_in_old_half) {
            (true, true, _) => Verdict::Live,
            (true, false, true) | (false, _, true) => Verdict::Owed,
            (_, _, false) => Verdict::Residue,
        })
    }

    /// The versions from `block` and `born` on, in order, and where to go on; or the page that is missing at the start.
    pub(in super::super) fn list_versions(&self, block: Block, born: Epoch) -> Result<Listed, Absent> {
        let (mut listed, mut from) = (Listed::default(), (block, born));
        for _ in 0..LIST_MAX {
            let next = match self.catalog.history.version_from(from.0, from.1) {
                Err(absent) if from == (block, born) => return Err(absent),
                Err(_) => break,
                Ok(None) => return Ok(listed),
                Ok(Some(next)) => next,
            };
            let (block, version) = next;
            listed.versions.push((
                block,
                version.born,
                Some(version.slot).filter(|slot| slot.0 < key::NUMBER_MAX && !is_tombstone(*slot)),
            ));
            from = (block, Epoch(version.born.0 + 1));
        }
        listed.next = Some(from);
        Ok(listed)
    }
}
