//! The translation layer: a disk of units above a chip.

mod apart;
pub mod audit;
mod clear;
mod collect;
mod erase;
mod format;
mod open;
mod present;
mod run;
mod scan;
mod space;
#[cfg(test)]
mod tests;
mod wipe;

use crate::access::Access;
use crate::blocks::State;
use crate::error::{FlashError, FlashErrorKind};
use crate::layout::Layout;
use crate::map::{Map, Where};
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand, NandError, Page, Reading};
use crate::pending::{Pending, extent, units};
use crate::record::DiskId;
use crate::units::{Slot, UNIT_BYTES, Unit};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Extent, Pos};
use space::{Space, Stream};

/// A disk above raw flash. It has one owner; each operation returns when it is done.
///
/// Invariants:
/// 1. A block is erased, or programmed for the first time, only if the last record on the chip lists it. So a start knows which blocks a
///    cut of the power can have touched: those, and the ones whose last page has no record.
/// 2. What a record lists holds nothing that counts, once that record is on the chip.
/// 3. A trimmed unit has a mark on the chip for as long as a block that is not listed may hold a version of it.
/// 4. A block that was open at the end is never programmed further: a start copies what is live there, and erases it before the first request.
#[derive(Debug)]
pub struct Flash<N> {
    chip: Access<N>,
    layout: Layout,
    disk: DiskId,
    /// The sequence of the last run that was begun.
    sequence: u64,
    map: Map,
    space: Space,
    pending: Pending,
    /// The units that are kept apart.
    apart: BlockSet<Pos>,
    /// The page that the next [`Flash::scrub`] begins with.
    scrubbed: u32,
    /// Why no operation succeeds any more.
    latched: Option<FlashError>,
}

impl<N: Nand> Flash<N> {
    /// Bytes of the disk.
    pub fn size(&self) -> u64 {
        u64::from(self.map.len()) * UNIT_BYTES as u64
    }

    /// The random bytes that name the disk.
    pub fn disk(&self) -> DiskId {
        self.disk
    }

    /// The chip, for what it does beside holding the disk.
    pub fn nand(&mut self) -> &mut N {
        &mut self.chip.nand
    }

    /// Gives the chip back. Writes since the last [`Flash::sync`] are lost.
    pub fn into_nand(self) -> N {
        self.chip.nand
    }

    /// Fills `into` with the bytes at `pos`. Trimmed and unwritten bytes are zeros.
    ///
    /// # Errors
    /// [`FlashErrorKind::Unreadable`], [`FlashErrorKind::Io`]; `into` then holds nothing of use.
    ///
    /// # Panics
    /// If the bytes are not all on the disk.
    pub fn read(&mut self, pos: Pos, into: &mut [u8]) -> Result<(), FlashError> {
        let all = self.within(pos, into.len());
        self.guarded(|flash| {
            let mut unit_bytes = vec![0; UNIT_BYTES];
            for piece in pieces(all) {
                flash.read_unit(piece.unit, &mut unit_bytes)?;
                into[piece.at..piece.at + piece.len].copy_from_slice(&unit_bytes[piece.from..][..piece.len]);
            }
            Ok(())
        })
    }

    /// Writes `from` at `pos`. Durable at the next [`Flash::sync`].
    ///
    /// # Errors
    /// [`FlashErrorKind::NoSpace`], [`FlashErrorKind::Io`]; [`FlashErrorKind::Unreadable`] if only a part of a lost unit is written. Each unit
    /// then holds the old or the new bytes.
    ///
    /// # Panics
    /// If the bytes are not all on the disk.
    pub fn write(&mut self, pos: Pos, from: &[u8]) -> Result<(), FlashError> {
        let all = self.within(pos, from.len());
        self.guarded(|flash| {
            for piece in pieces(all) {
                let mut unit_bytes = vec![0; UNIT_BYTES];
                if piece.len < UNIT_BYTES {
                    flash.read_unit(piece.unit, &mut unit_bytes)?;
                }
                unit_bytes[piece.from..][..piece.len].copy_from_slice(&from[piece.at..piece.at + piece.len]);
                let is_apart = flash.is_apart(piece.unit);
                flash.pending.write(piece.unit, unit_bytes, is_apart);
                flash.flush(false)?;
            }
            Ok(())
        })
    }

    /// Makes `extent` read as zeros: whole units without a copy, bytes of other units by a write. Durable at the next [`Flash::sync`]. Older
    /// versions stay on the chip until it collects them.
    ///
    /// # Errors
    /// As for [`Flash::write`].
    ///
    /// # Panics
    /// If the bytes are not all on the disk.
    pub fn trim(&mut self, extent: Extent<Pos>) -> Result<(), FlashError> {
        let bytes = UNIT_BYTES as u64;
        let (start, end) = (extent.start.0.next_multiple_of(bytes), extent.end() / bytes * bytes);
        if start >= end {
            return self.write_zeros(extent);
        }
        self.write_zeros(Extent::between(extent.start.0, start))?;
        self.write_zeros(Extent::between(end, extent.end()))?;
        let whole = Extent::between(start, end);
        self.within(whole.start, whole.len as usize);
        self.guarded(|flash| {
            flash.pending.trim(whole);
            units(whole).for_each(|unit| flash.place(unit, Where::Absent));
            Ok(())
        })
    }

    /// Makes all that was written and trimmed durable, and does what a block that fails or loses bits needs.
    ///
    /// # Errors
    /// [`FlashErrorKind::NoSpace`], [`FlashErrorKind::Io`]; what is durable is then unknown.
    pub fn sync(&mut self) -> Result<(), FlashError> {
        self.guarded(|flash| {
            flash.flush(true)?;
            flash.tend()
        })
    }

    /// Reads the next `pages` pages of the chip that hold live units, and moves what lies in a block of which a page has half of the wrong bits
    /// that the chip corrects. Call it now and then: bits get lost in content that is never read, too.
    ///
    /// # Errors
    /// As for [`Flash::sync`]. Units that are lost already are no error here, but at their read.
    pub fn scrub(&mut self, pages: u32) -> Result<(), FlashError> {
        self.guarded(|flash| {
            let geometry = flash.layout.geometry;
            for _ in 0..pages.min(geometry.blocks * geometry.block_pages) {
                let page = Page(flash.scrubbed);
                flash.scrubbed = (flash.scrubbed + 1) % (geometry.blocks * geometry.block_pages);
                let (block, _) = geometry.place(page);
                if flash.space.blocks[block].live > 0 {
                    let result = flash.chip.page(page).map(|(reading, _)| reading);
                    flash.note_bits(block, result)?;
                }
            }
            flash.tend()
        })
    }

    /// How worn the chip is.
    pub fn wear(&self) -> Wear {
        let good = || self.space.blocks.iter().filter(|(_, info)| info.state != State::Bad);
        Wear {
            erases_min: good().map(|(_, info)| info.erases).min().unwrap_or(0),
            erases_mean: self.space.blocks.mean_erases(),
            erases_max: good().map(|(_, info)| info.erases).max().unwrap_or(0),
            bad_blocks: self.space.blocks.filter(|info| info.state == State::Bad).len() as u32,
            stuck_blocks: self
                .space
                .blocks
                .filter(|info| info.state == State::Stuck)
                .iter()
                .map(|block| block.0)
                .collect(),
        }
    }

    fn write_zeros(&mut self, extent: Extent<Pos>) -> Result<(), FlashError> {
        if extent.is_empty() { Ok(()) } else { self.write(extent.start, &vec![0; extent.len as usize]) }
    }

    fn within(&self, pos: Pos, len: usize) -> Extent<Pos> {
        let all = Extent::within(pos.0, len as u64, self.size());
        all.expect("requests lie on the disk")
    }

    /// Does `act`, unless an earlier one failed such that the state of the chip is unknown.
    fn guarded<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, FlashError>) -> Result<T, FlashError> {
        if let Some(error) = &self.latched {
            return Err(error.clone());
        }
        let result = act(self);
        self.latched = result.as_ref().err().filter(|error| error.kind == FlashErrorKind::Io).cloned();
        result
    }

    fn read_unit(&mut self, unit: Unit, into: &mut [u8]) -> Result<(), FlashError> {
        if let Some(bytes) = self.pending.read(unit) {
            into.copy_from_slice(bytes);
            return Ok(());
        }
        let is_read = match self.map.find(unit) {
            Where::Absent => {
                into.fill(0);
                true
            }
            Where::Lost => false,
            Where::At(slot) => self.read_slot(slot, into)?,
        };
        if is_read { Ok(()) } else { Err(unreadable(unit)) }
    }

    /// Fills `into` with the unit in `slot`; false if the chip lost it.
    fn read_slot(&mut self, slot: Slot, into: &mut [u8]) -> Result<bool, FlashError> {
        let result = self.chip.unit(slot, into);
        self.note_bits(self.layout.block(slot), result)
    }

    /// Notes the wrong bits that a read of `block` found; false if they were too many.
    fn note_bits(
        &mut self,
        block: EraseBlock,
        result: Result<Reading, NandError>,
    ) -> Result<bool, FlashError> {
        let weary = self.layout.geometry.correctable_bits.div_ceil(2).max(1);
        match result {
            Ok(Reading::Corrected(bits)) => self.space.blocks[block].is_weary |= bits >= weary,
            Ok(Reading::Good) => {}
            Ok(Reading::Blank) | Err(NandError::Uncorrectable | NandError::Failed) => return Ok(false),
            Err(error @ NandError::Gone(_)) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Notes where the content of `unit` is now.
    fn place(&mut self, unit: Unit, to: Where) {
        if let Where::At(slot) = self.map.find(unit) {
            self.space.blocks[self.layout.block(slot)].live -= 1;
        }
        if let Where::At(slot) = to {
            self.space.blocks[self.layout.block(slot)].live += 1;
        }
        self.map.set(unit, to);
    }

    /// Brings pending writes and marks to the chip: `all`, or the writes that fill the open block. Units apart wait for all.
    fn flush(&mut self, all: bool) -> Result<(), FlashError> {
        if all && mutant::is(Mutant::ApartBeforeMarks) {
            self.flush_apart()?;
        }
        let has_others = |pending: &Pending| pending.count_writes() > 0 || pending.has_marks();
        while self.pending.count_writes() >= self.room(Stream::Guest) || all && has_others(&self.pending) {
            if self.space.open(Stream::Guest).is_none() {
                self.make_space()?;
            }
            self.flush_marks(Stream::Guest)?;
            let units = self.pending.take_writes(self.room(Stream::Guest));
            self.write_run(Stream::Guest, units)?;
        }
        if all { self.flush_apart() } else { Ok(()) }
    }
}

/// How worn a chip is. Counts of erases are since the disk was made, and of blocks that are not bad.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Erases of the least worn block.
    pub erases_min: u32,
    /// Erases of a block on average.
    pub erases_mean: u32,
    /// Erases of the most worn block.
    pub erases_max: u32,
    /// Blocks that are marked bad.
    pub bad_blocks: u32,
    /// Blocks that neither erase nor can be overwritten, by number: deletions may report that content remains there.
    pub stuck_blocks: Vec<u32>,
}

/// A part of a request that lies in one unit.
struct Piece {
    unit: Unit,
    /// Where the part begins in the unit.
    from: usize,
    /// Where the part begins in the request.
    at: usize,
    len: usize,
}

fn pieces(all: Extent<Pos>) -> impl DoubleEndedIterator<Item = Piece> {
    let bytes = UNIT_BYTES as u64;
    let touched = (all.start.0 / bytes)..all.end().div_ceil(bytes);
    let touched = if all.is_empty() { 0..0 } else { touched };
    touched.map(move |unit| {
        let part = extent(Unit(unit as u32), 1).overlap(all).expect("the request touches the unit");
        let (from, at) = (part.start.0 - unit * bytes, part.start.0 - all.start.0);
        Piece { unit: Unit(unit as u32), from: from as usize, at: at as usize, len: part.len as usize }
    })
}

fn unreadable(unit: Unit) -> FlashError {
    let byte = u64::from(unit.0) * UNIT_BYTES as u64;
    let message = format!(
        "cannot read the 4096 bytes from {byte} on: the flash chip has more wrong bits there than it corrects; write them anew"
    );
    FlashError::new(FlashErrorKind::Unreadable, message)
}
