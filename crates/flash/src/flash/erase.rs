//! Deletion that is certain.

use super::{Flash, pieces};
use crate::blocks::State;
use crate::error::{FlashError, FlashErrorKind};
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand};
use crate::pending::extent;
use crate::units::Unit;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::Keep;

/// Number of times that blocks are looked for: a program that fails while one is copied makes another block suspect.
const ROUNDS_MAX: usize = 16;

impl<N: Nand> Flash<N> {
    /// Destroys what `extents` held before, and with [`Keep::Nothing`] what they hold. On return no raw read of any page of the chip finds it,
    /// and everything that was written or trimmed is durable.
    ///
    /// The blocks that have a copy are erased, after what is live beside it was copied to others (Diesburg et al., *TrueErase*, ACSAC 2012).
    ///
    /// # Errors
    /// [`FlashErrorKind::Remains`] if a block will not erase and may hold a copy: with [`Keep::Nothing`], the extents then read as zeros
    /// nevertheless. Otherwise as for [`Flash::write`]; nothing is certain then.
    ///
    /// # Panics
    /// If the extents are not all on the disk.
    pub fn erase(&mut self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), FlashError> {
        let mut touched = BlockSet::<Pos>::default();
        for part in extents {
            let all = self.within(part.start, part.len as usize);
            pieces(all).for_each(|piece| touched.insert(extent(piece.unit, 1)));
            if keep == Keep::Nothing {
                self.trim(all)?;
            }
        }
        self.guarded(|flash| {
            flash.flush(true)?;
            for _ in 0..ROUNDS_MAX {
                let blocks = flash.holders(&touched, State::Closed);
                if blocks.is_empty() {
                    break;
                }
                flash.clear(&blocks)?;
            }
            flash.tend()?;
            let remaining = flash.holders(&touched, State::Stuck);
            if remaining.is_empty() { Ok(()) } else { Err(remains(&remaining)) }
        })
    }

    /// The blocks of that state, open ones beside closed ones, that may hold a version of these units other than the present one.
    fn holders(&self, touched: &BlockSet<Pos>, state: State) -> Vec<EraseBlock> {
        let is_open = |found| found == State::Open && !mutant::is(Mutant::SkipOpen);
        let of_state = |found: State| found == state || (state == State::Closed && is_open(found));
        let is_touched = |(unit, _): &(Unit, EraseBlock)| {
            touched.contains(u64::from(unit.0)) && !mutant::is(Mutant::ForgetStale)
        };
        let murky = self.space.blocks.filter(|info| info.is_murky);
        let mut blocks: Vec<_> =
            self.map.stale().filter(is_touched).map(|(_, block)| block).chain(murky).collect();
        blocks.retain(|block| of_state(self.space.blocks[*block].state));
        blocks.sort();
        blocks.dedup();
        blocks
    }
}

fn remains(blocks: &[EraseBlock]) -> FlashError {
    let numbers: Vec<String> = blocks.iter().map(|block| block.0.to_string()).collect();
    let message = format!(
        "cannot destroy what the flash chip holds in block {}: it fails to erase, and to be overwritten with \
         zeros; destroy the chip",
        numbers.join(", ")
    );
    FlashError::new(FlashErrorKind::Remains, message)
}
