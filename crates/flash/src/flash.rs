//! The translation layer: a disk of units above a chip.

mod clear;
mod collect;
mod erase;
mod format;
mod open;
mod run;
mod scan;
mod space;
#[cfg(test)]
mod tests;
mod wipe;

use crate::access::Access;
use crate::error::{FlashError, FlashErrorKind};
use crate::layout::{Layout, Slot, UNIT_BYTES, Unit};
use crate::map::{Map, Where};
use crate::nand::{Nand, NandError};
use crate::pending::{Pending, extent, units};
use crate::record::DiskId;
use quietus_core::base::units::{Extent, Pos};
use run::Stream;
use space::Space;

pub use erase::Keep;

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
    /// Why no operation succeeds any more.
    latched: Option<FlashError>,
}

impl<N: Nand> Flash<N> {
    /// Bytes of the disk.
    pub fn size(&self) -> u64 {
        u64::from(self.map.len()) * UNIT_BYTES as u64
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
                flash.pending.writes.insert(piece.unit, unit_bytes);
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
        if let Some(bytes) = self.pending.writes.get(&unit) {
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
        let weary = self.layout.geometry.correctable_bits.div_ceil(2).max(1);
        match self.chip.unit(slot, into) {
            Ok(bits) => {
                self.space.blocks[self.layout.block(slot)].is_weary |= bits >= weary;
                Ok(true)
            }
            Err(NandError::Uncorrectable | NandError::Failed) => Ok(false),
            Err(error @ NandError::Gone(_)) => Err(error.into()),
        }
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

    /// Brings pending writes and marks to the chip: `all`, or the writes that fill the open block.
    fn flush(&mut self, all: bool) -> Result<(), FlashError> {
        while self.pending.writes.len() >= self.room(Stream::Guest) || all && !self.pending.is_empty() {
            if self.space.open(Stream::Guest).is_none() {
                self.make_space()?;
            }
            self.flush_marks(Stream::Guest)?;
            let units = self.pending.take_writes(self.room(Stream::Guest));
            self.write_run(Stream::Guest, units)?;
        }
        Ok(())
    }
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

fn pieces(all: Extent<Pos>) -> impl Iterator<Item = Piece> {
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
