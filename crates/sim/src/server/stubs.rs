//! The findings of a laboratory on a disk that seals its content: with all keys, a block can be opened as long as its
//! stub can be had. The judge has a copy of all that the medium of stubs ever held; what is out of reach is what was
//! hidden under cells of the root that are destroyed.

use super::disk::layout;
use super::keys::number_of;
use super::{Made, Server};
use crate::machine::content::marks;
use crate::machine::history::Store;
use crate::verdict::{Judged, found};
use quietus_core::base::cell::Cell;
use quietus_core::base::units::{Extent, Pos, Session};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use std::collections::BTreeSet;

/// Where the cells of the halves of the log lie in the root (`docs/formats/root.md`).
const HALVES_AT: [u64; 2] = [4096, 4608];
/// Where the cells of the pages of homes lie, two for each page.
const PAGES_AT: u64 = 8192;
const CELL_BYTES: usize = 32;
const SECTOR_BYTES: usize = 512;
/// Bytes of a sector before its entries, and of an entry before its stub (`docs/formats/stubs.md`).
const SECTOR_HEAD_BYTES: usize = 32;
const RECORD_BYTES: usize = 16;
/// Where the session and the number of a sealing are in a record: of the log, where the sector's head has the session, and
/// of a home.
const NUMBER_IN_LOG: usize = 11;
const SESSION_IN_LOG: usize = 15;
const SESSION_AT_HOME: usize = 5;
const NUMBER_AT_HOME: usize = 7;
/// Bytes of a page of homes.
const PAGE_BYTES: u64 = 4096;

impl Server {
    /// Whether the content of the disk is sealed, with stubs.
    pub fn has_stubs(&self) -> bool {
        matches!(self.setup.store, Store::Versions { seal, .. } if seal.stub_bytes() > 0)
    }

    /// The sealings that could be opened: their stubs can be read, or lack passes.
    pub fn openable(&self) -> Vec<(u32, Made)> {
        let stubs = self.media.on(MediumId::Stubs);
        let traces = |it: &crate::machine::remanence::Remains| {
            it.iter().filter_map(|(_, it)| number_of(it.tag)).collect()
        };
        let mut numbers: BTreeSet<u32> = stubs.inspect(traces);
        let readable = |bytes: &[u8]| numbers.extend(marks(bytes).filter_map(|it| number_of(it.tag)));
        stubs.peek(Extent::new(0, stubs.size()), readable);
        numbers.extend(self.hidden());
        self.keys.made(&numbers)
    }

    /// The sealings whose stubs show under any cell that their half of the log, or their page of homes, has or had.
    fn hidden(&self) -> Vec<u32> {
        let Store::Versions { seal, log_bytes } = self.setup.store else { return Vec::new() };
        if !self.has_stubs() {
            return Vec::new();
        }
        let (layout, stubs) = (layout(seal, log_bytes), self.media.on(MediumId::Stubs));
        let halves = (0..2).map(|half| (vec![HALVES_AT[usize::from(half)]], layout.half(half)));
        let homes = Extent::<Pos>::between(layout.half(1).end(), stubs.size());
        let pages = homes.pieces(PAGE_BYTES).zip(0..).map(|(page, n)| {
            let pair = PAGES_AT + 2 * CELL_BYTES as u64 * n;
            (vec![pair, pair + CELL_BYTES as u64], page)
        });
        let mut found = Vec::new();
        for (cells, extent) in halves.chain(pages) {
            let cells: Vec<Cell> = cells.into_iter().flat_map(|at| self.cells(at)).collect();
            let is_log = extent.start.0 < homes.start.0;
            for sector in extent.pieces(SECTOR_BYTES as u64).filter(|_| !cells.is_empty()) {
                found.extend(self.hidden_in(sector.start, &cells, is_log));
            }
        }
        found
    }

    /// The sealings whose stubs show in one sector, as it is and as it ever was.
    fn hidden_in(&self, sector: Pos, cells: &[Cell], is_log: bool) -> Vec<u32> {
        let Store::Versions { seal, .. } = self.setup.store else { return Vec::new() };
        let entry_bytes = RECORD_BYTES + seal.stub_bytes();
        let mut found = Vec::new();
        for entry in (SECTOR_HEAD_BYTES..=SECTOR_BYTES - entry_bytes).step_by(entry_bytes) {
            let stub = entry + RECORD_BYTES..entry + entry_bytes;
            let (session, number) = match is_log {
                true => (SESSION_IN_LOG, entry + NUMBER_IN_LOG),
                false => (entry + SESSION_AT_HOME, entry + NUMBER_AT_HOME),
            };
            for bytes in self.media.on(MediumId::Stubs).layers(sector, stub.start, stub.end, usize::MAX) {
                let sealed = (&bytes[session..session + 2], &bytes[number..number + 4], &bytes[stub.clone()]);
                found.extend(cells.iter().filter_map(|cell| revealed(cell, sealed)));
            }
        }
        found
    }

    /// All that the cell at `at` of the root is or was, and that was not destroyed.
    fn cells(&self, at: u64) -> Vec<Cell> {
        let (is_page, from) = (at >= PAGES_AT, (at % SECTOR_BYTES as u64) as usize);
        let sector = Pos(at - from as u64);
        // The cell of a half is replaced by a fresh one, which does not count as a pass.
        let passes = if is_page { self.passes() } else { usize::MAX };
        let layers = self.media.on(MediumId::Root).layers(sector, from, from + CELL_BYTES, passes);
        let cells = layers.iter().map(|bytes| &bytes[from..from + CELL_BYTES]);
        let cells = cells.filter(|cell| !is_zeros(cell)).filter_map(Cell::from_bytes);
        cells.filter(|cell| !is_page || cell.is_whole()).collect()
    }

    /// Checks that nothing lies where it could not be destroyed: stubs on the medium of stubs, and content nowhere but
    /// sealed.
    pub(super) fn judge_sealed(&self) -> Judged {
        for id in [MediumId::Data, MediumId::Map, MediumId::Journal] {
            if id == MediumId::Data && !self.has_stubs() {
                continue;
            }
            let trace = self.media.on(id).inspect(|it| it.iter().next().map(|(_, trace)| trace.clone()));
            if let Some(trace) = trace {
                return Err(found(format!("all obligations are completed, {trace:?} on the medium {id:?}")));
            }
        }
        Ok(())
    }
}

/// The number of the sealing whose stub is hidden under `cell`, in an entry of this session and number, if any is.
fn revealed(cell: &Cell, (session, number, stub): (&[u8], &[u8], &[u8])) -> Option<u32> {
    let (session, number) = (Session(u16::from_le_bytes(session.try_into().ok()?)), number.try_into().ok()?);
    let mut stub = stub.to_vec();
    cell.mask(session, u32::from_le_bytes(number), &mut stub);
    marks(&stub).find_map(|it| number_of(it.tag))
}
