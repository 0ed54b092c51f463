//! Units that are kept apart: each change of them goes to a block of its own.
//!
//! The keys of a sealed disk are few units, and a version of them dies with each deletion. Beside other units it would take these with it, as copies.
//! In a block without any other live unit it dies by one erase.

use super::space::Stream;
use super::{Flash, pieces};
use crate::error::FlashError;
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand};
use crate::pending::{extent, units};
use crate::record::RunKind;
use crate::units::Unit;
use quietus_core::base::units::{Extent, Pos};

/// Most units that are kept apart. Each may have a block of its own, which collection leaves as it is.
pub(super) const APART_MAX: usize = 4;

impl<N: Nand> Flash<N> {
    /// From now on writes the units that `part` touches to blocks in which no other unit is live: a block for each [`Flash::sync`] before which
    /// one of them was written. So [`Flash::erase`] of an older version of them copies nothing. For content that is small and deleted
    /// often. The chip does not know of it: call this after each start. What lies beside other units then stays there until it is written,
    /// collected, or a deletion clears its block.
    ///
    /// # Panics
    /// If the extent is not all on the disk, or if more than four units were to be kept apart.
    pub fn set_apart(&mut self, part: Extent<Pos>) {
        let all = self.within(part.start, part.len as usize);
        pieces(all).for_each(|piece| self.apart.insert(extent(piece.unit, 1)));
        let count = self.apart.runs().flat_map(units).count();
        assert!(count <= APART_MAX, "{count} units are set apart; at most {APART_MAX} can be");
        self.pending.set_apart(&self.apart);
    }

    pub(super) fn is_apart(&self, unit: Unit) -> bool {
        self.apart.contains(u64::from(unit.0))
    }

    /// Brings the pending writes of units apart to the chip, behind all marks: an older mark would trim what is newer.
    pub(super) fn flush_apart(&mut self) -> Result<(), FlashError> {
        if !self.pending.has_apart() {
            return Ok(());
        }
        self.make_space()?;
        while self.pending.has_marks() && !mutant::is(Mutant::ApartBeforeMarks) {
            self.write_run(Stream::Guest, Vec::new())?;
        }
        let units = self.pending.take_apart();
        self.write_apart(units)
    }

    /// Copies the live units of `blocks` that are kept apart.
    pub(super) fn part(&mut self, blocks: &[EraseBlock]) -> Result<(), FlashError> {
        if self.apart.is_empty() {
            return Ok(());
        }
        let live = blocks.iter().flat_map(|block| self.map.live(*block));
        let apart: Vec<_> = live.filter(|(unit, _)| self.is_apart(*unit)).collect();
        let units = self.contents(apart)?;
        self.write_apart(units)
    }

    /// Writes units to a block of their own, and closes it. Their runs have no marks, which would have to be carried on when the block goes.
    fn write_apart(&mut self, mut units: Vec<(Unit, Vec<u8>)>) -> Result<(), FlashError> {
        while !units.is_empty() {
            let behind = units.split_off(units.len().min(self.room(Stream::Apart)));
            self.write_run_of(Stream::Apart, RunKind::Plain, &units, Vec::new())?;
            units = behind;
        }
        self.space.close(Stream::Apart);
        Ok(())
    }

    /// Whether all live units of `block` are kept apart.
    pub(super) fn is_block_apart(&self, block: EraseBlock) -> bool {
        let is_small = self.space.blocks[block].live as usize <= APART_MAX;
        is_small && !self.apart.is_empty() && self.map.live(block).all(|(unit, _)| self.is_apart(unit))
    }
}
