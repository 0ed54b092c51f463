//! The findings of a laboratory on a disk whose content dies with its keys, for any guest.
//!
//! The promises, and so the demands of this oracle:
//!
//! 1. At a receipt for bytes whose key was destroyed: nothing of what was there before they died lies under a cell that an
//!    [attacker](super::attacker) can have, unless they have died again since, and that is owed.
//! 2. When nothing is owed any more: the same of all bytes that ever died in this life of the server, and dead bytes are zeros.
//! 3. No content was ever to be written anywhere but as ciphertext, and no cell of a block anywhere at all in clear.
//! 4. The key of a page seals one page, and a nonce of the log serves once.

use super::Server;
use super::cipher::{CellBytes, Encrypted, IdealCipher};
use crate::machine::content::indices;
use crate::machine::history::Store;
use crate::machine::medium::SimMedium;
use crate::machine::remanence::{SECTOR_BYTES, Trace};
use crate::verdict::{Judged, found};
use quietus_core::base::units::{Addr, Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::owed::ledger::Due;
use quietus_core::request::Liveness;
use quietus_core::volume::Receipt;
use std::collections::BTreeSet;

/// Bytes that have died, and the number of sectors that had been encrypted by then.
pub(super) type Death = (Extent<Addr>, usize);

impl Server {
    /// Whether the content of the disk dies with its keys.
    pub(crate) fn is_keyed(&self) -> bool {
        self.setup.store == Store::Sealed
    }

    /// The cipher, and all that was encrypted.
    fn cipher(&self) -> &IdealCipher {
        self.keys.cipher().expect("content that dies with its keys is encrypted")
    }

    /// Notes that `extent` has died.
    pub(super) fn note_death(&mut self, extent: Extent<Addr>) {
        if self.is_keyed() {
            self.note_held_up_death(extent);
            self.deaths.push((extent, self.cipher().count()));
        }
    }

    /// The cells that an attacker has.
    fn cells_in_reach(&self) -> BTreeSet<CellBytes> {
        let (map, root) = (self.media.on(MediumId::Map), self.media.on(MediumId::Root));
        let (passes, blocks) = (self.passes(), self.cipher().blocks());
        self.attacker.borrow_mut().cells((map, root), passes, &blocks)
    }

    /// What an attacker can open, each sector with its number among those that were encrypted.
    fn opened(&self) -> Vec<(usize, Encrypted)> {
        self.cipher().under(&self.cells_in_reach())
    }

    /// Checks, once all that was written was flushed, that the attacker can open what the disk shows: an attacker who overlooks keys would
    /// find fault with nothing.
    pub(crate) fn judge_attacker(&self) -> Judged {
        if self.is_latched || !self.is_keyed() {
            return Ok(());
        }
        let (cells, mut at) = (self.cells_in_reach(), 0);
        for (len, liveness) in self.volume.liveness(Extent::new(0, self.setup.disk_bytes), usize::MAX) {
            let run = Extent::<Pos>::new(at, len);
            at += len;
            if liveness != Liveness::Live {
                continue;
            }
            let is_sector =
                |it: &Extent<Pos>| it.len == SECTOR_BYTES as u64 && it.start.0.is_multiple_of(it.len);
            for sector in run.pieces(SECTOR_BYTES as u64).filter(is_sector) {
                let number = sector.start.0 / SECTOR_BYTES as u64;
                let look = |bytes: &[u8]| (is_zeros(bytes), self.cipher().cell_of(number, bytes));
                match self.media.data.peek(sector, look) {
                    (true, _) => {}
                    (false, Some(cell)) if cells.contains(&cell) => {}
                    (_, cell) => {
                        let known = if cell.is_some() { "a key that the attacker lacks" } else { "no key" };
                        return Err(found(format!("sector {number} is alive, and lies under {known}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// The content that an attacker can open, each with its sector: what came to a medium. Where a cut took a write from the host's cache
    /// alone, the disk may have found a hole, which cannot die.
    pub(super) fn openable_content(&self) -> Vec<(usize, Trace)> {
        let came = |it: &Encrypted| self.media.data.had(it.hash) || self.media.journal.had(it.hash);
        let traces = |it: Encrypted| it.traces.into_iter().map(move |trace| (it.sector as usize, trace));
        self.opened().into_iter().filter(|(_, it)| came(it)).flat_map(|(_, it)| traces(it)).collect()
    }

    /// Checks a receipt for bytes whose key was destroyed.
    pub(super) fn judge_rekeyed(&self, receipt: &Receipt) -> Judged {
        let dies_again = |word: Extent<Addr>| self.volume.obligations().any(|(it, _)| it.overlaps(word));
        self.judge_deaths(receipt.extent, "a receipt", dies_again)
    }

    /// Checks that nothing of what had died in `extent` can be opened, but where that `is_excused`.
    fn judge_deaths(
        &self,
        extent: Extent<Addr>,
        when: &str,
        is_excused: impl Fn(Extent<Addr>) -> bool,
    ) -> Judged {
        let part = |(death, count): &Death| Some((death.overlap(extent)?, *count));
        let deaths: Vec<Death> = self.deaths.iter().filter_map(part).collect();
        if deaths.is_empty() {
            return self.judge_keys();
        }
        for (number, it) in self.opened() {
            if self.is_copy(Some(it.sector as usize)) {
                continue;
            }
            let dead = deaths.iter().filter(|(_, count)| number < *count).map(|(death, _)| *death);
            let mut words =
                dead.flat_map(|death| it.traces.iter().flat_map(move |trace| trace.lacking(death, 1)));
            if let Some(word) = words.find(|word| !is_excused(*word)) {
                let (tag, sector) = (it.traces[0].tag, it.sector);
                return Err(found(format!(
                    "{when} for {extent:?}: {tag:?} at {word:?}, sector {sector}, can be opened"
                )));
            }
        }
        self.judge_keys()
    }

    /// Checks what is demanded at any time.
    fn judge_keys(&self) -> Judged {
        if let Some(fault) = self.attacker.borrow().fault() {
            return Err(found(fault.clone()));
        }
        let clear = self.media.all().find_map(SimMedium::in_clear);
        clear.map_or(Ok(()), |mark| Err(found(format!("{mark:?} was to be written in clear"))))
    }

    /// Judges such a disk when it is drained.
    pub(super) fn judge_keyed(&self, whole: Extent<Addr>) -> Judged {
        // What may have died stays until it is written over.
        let may_stay = |word: Extent<Addr>| {
            let mut owed = self.volume.obligations();
            owed.any(|(it, owed)| owed.due == Due::Suspicious && it.overlaps(word))
        };
        self.judge_deaths(whole, "all obligations are completed", may_stay)?;
        self.judge_cells()?;
        self.judge_dead(whole)
    }

    /// Checks that no medium but the root was ever to hold a cell of a block.
    fn judge_cells(&self) -> Judged {
        let cells = self.cipher().cells();
        let heads: BTreeSet<u16> = cells.iter().map(|it| u16::from_le_bytes([it[0], it[1]])).collect();
        for id in [MediumId::Data, MediumId::Map, MediumId::Journal] {
            for (pos, bytes) in self.media.on(id).writes_since(0) {
                let is_cell = |it: &&[u8]| {
                    heads.contains(&u16::from_le_bytes([it[0], it[1]]))
                        && CellBytes::try_from(*it).is_ok_and(|it| cells.contains(&it))
                };
                if bytes.windows(32).find(is_cell).is_some() {
                    return Err(found(format!("a cell is among {} bytes at {pos:?} of {id:?}", bytes.len())));
                }
            }
        }
        Ok(())
    }

    /// The content of `extent`, whole sectors, whose ciphertext lies on the medium: in its cache or below it.
    pub(super) fn decrypted(&self, extent: Extent<Addr>, durable: bool) -> Vec<u8> {
        let sector = SECTOR_BYTES as u64;
        let from = extent.start.0 / sector * sector;
        let whole = Extent::<Pos>::between(from, extent.end().next_multiple_of(sector));
        let reveal = |bytes: &[u8]| self.cipher().content(whole.start, bytes);
        let content = match durable {
            true => self.media.data.peek_durable(whole, reveal),
            false => self.media.data.peek(whole, reveal),
        };
        content[indices(extent, from)].to_vec()
    }

    /// The same, with zeros where the disk says that the bytes are dead.
    pub(super) fn shown(&self, extent: Extent<Addr>) -> Vec<u8> {
        let (mut content, mut at) = (self.decrypted(extent, false), 0);
        for (len, liveness) in self.volume.liveness(extent, usize::MAX) {
            let end = at + len as usize;
            if matches!(liveness, Liveness::Dead | Liveness::Queued) {
                content[at..end].fill(0);
            }
            at = end;
        }
        content
    }
}
