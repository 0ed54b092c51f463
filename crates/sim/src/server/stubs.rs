//! The findings of a laboratory on a disk that seals its content: with all keys, a block can be opened as long as its
//! stub can be had.

use super::disk::layout;
use super::keys::number_of;
use super::{Made, Server, found};
use crate::content::marks;
use crate::history::Store;
use crate::violation::Violation;
use quietus_core::media::MediumId;
use quietus_core::medium::Medium;
use quietus_core::sealing::Session;
use quietus_core::store::versions::Cell;
use quietus_core::units::{Extent, Pos};
use std::collections::BTreeSet;

/// Where the cells of the halves of the log lie in the root (`docs/formats/root.md`).
const CELLS_AT: [u64; 2] = [4096, 4608];
const CELL_BYTES: usize = 32;
const SECTOR_BYTES: usize = 512;
/// Bytes of a sector before its entries, and of an entry before its stub (`docs/formats/stubs.md`).
const SECTOR_HEAD_BYTES: usize = 32;
const RECORD_BYTES: usize = 16;

impl Server {
    /// Whether the content of the disk is sealed, with stubs.
    pub fn has_stubs(&self) -> bool {
        matches!(self.setup.store, Store::Versions { seal, .. } if seal.stub_bytes() > 0)
    }

    /// The sealings that could be opened: their stubs can be read, or lack passes.
    pub fn openable(&self) -> Vec<(u32, Made)> {
        let stubs = self.media.on(MediumId::Stubs);
        let traces =
            |it: &crate::remanence::Remains| it.iter().filter_map(|(_, it)| number_of(it.tag)).collect();
        let mut numbers: BTreeSet<u32> = stubs.inspect(traces);
        let readable = |bytes: &[u8]| numbers.extend(marks(bytes).filter_map(|it| number_of(it.tag)));
        stubs.peek(Extent::new(0, stubs.size()), readable);
        (0..2).for_each(|half| numbers.extend(self.openable_in_log(half)));
        self.keys.made(&numbers)
    }

    /// The sealings whose stubs are in sectors of a half of the log, as they are or were, and show under any cell that the
    /// half has or had. Only what was destroyed is out of reach, of either.
    fn openable_in_log(&self, half: u8) -> Vec<u32> {
        let Store::Versions { seal, log_bytes } = self.setup.store else { return Vec::new() };
        let (entry_bytes, extent) = (RECORD_BYTES + seal.stub_bytes(), layout(seal, log_bytes).half(half));
        let (cells, stubs) = (self.cells(CELLS_AT[usize::from(half)]), self.media.on(MediumId::Stubs));
        let mut found = Vec::new();
        if !self.has_stubs() {
            return found;
        }
        for sector in (extent.start.0..extent.end()).step_by(SECTOR_BYTES) {
            for entry in (SECTOR_HEAD_BYTES..=SECTOR_BYTES - entry_bytes).step_by(entry_bytes) {
                let stub = entry + RECORD_BYTES..entry + entry_bytes;
                for bytes in stubs.layers(Pos(sector), stub.start, stub.end) {
                    let stub = (&bytes[15..17], &bytes[entry + 11..entry + 15], &bytes[stub.clone()]);
                    found.extend(cells.iter().filter_map(|cell| revealed(*cell, stub)));
                }
            }
        }
        found
    }

    /// All that the cell at `at` of the root is or was, and that was not destroyed.
    fn cells(&self, at: u64) -> Vec<Cell> {
        let layers = self.media.on(MediumId::Root).layers(Pos(at), 0, CELL_BYTES);
        layers.iter().filter_map(|bytes| Cell::from_bytes(&bytes[..CELL_BYTES])).collect()
    }

    /// The numbers of the sealings that were opened since this was last called.
    pub fn take_opened(&self) -> BTreeSet<u32> {
        self.keys.take_opened()
    }

    /// Checks that nothing lies where it could not be destroyed: stubs on the medium of stubs, and content nowhere but
    /// sealed.
    pub(super) fn judge_sealed(&self) -> Result<(), Violation> {
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
fn revealed(cell: Cell, (session, number, stub): (&[u8], &[u8], &[u8])) -> Option<u32> {
    let (session, number) = (Session(u16::from_le_bytes(session.try_into().ok()?)), number.try_into().ok()?);
    let mut stub = stub.to_vec();
    cell.mask(session, u32::from_le_bytes(number), &mut stub);
    marks(&stub).find_map(|it| number_of(it.tag))
}
