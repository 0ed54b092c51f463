//! Blocks that are erased, or retired.

use super::Flash;
use super::space::Stream;
use crate::blocks::State;
use crate::error::{FlashError, FlashErrorKind};
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand, NandError};
use crate::record::Header;

/// Number of times that a block is erased before it counts as one that will not erase.
const ERASE_TRIES: usize = 2;

impl<N: Nand> Flash<N> {
    /// Takes a block for `stream`, and erases it if it is not blank.
    pub(super) fn take(&mut self, stream: Stream) -> Result<EraseBlock, FlashError> {
        while let Some(block) = self.space.choose(stream) {
            self.space.ahead.retain(|ahead| *ahead != block);
            self.space.last_taker = stream;
            if self.space.blocks[block].state == State::Blank || self.wipe_or_retire(block)? {
                return Ok(block);
            }
        }
        let message = "cannot write to the flash chip: too few of its blocks are still good; replace it";
        Err(FlashError::new(FlashErrorKind::Io, message))
    }

    /// Erases a listed block. False if it must not be used any more: it is bad now, or stuck.
    pub(super) fn wipe_or_retire(&mut self, block: EraseBlock) -> Result<bool, FlashError> {
        let info = &self.space.blocks[block];
        assert_eq!(info.live, 0, "block {} has no live unit when it is erased", block.0);
        assert!(self.space.listed.contains(&block), "block {} is listed when it is erased", block.0);
        let is_failing = info.is_failing;
        if self.wipe(block)? && !is_failing {
            return Ok(true);
        }
        self.retire(block)?;
        Ok(false)
    }

    /// Erases a block and programs its header; false if either fails.
    pub(super) fn wipe(&mut self, block: EraseBlock) -> Result<bool, FlashError> {
        for _ in 0..ERASE_TRIES {
            if self.chip.erase(block)? {
                return self.begin(block);
            }
        }
        Ok(false)
    }

    /// Programs the header of a block that is erased; false if that fails.
    fn begin(&mut self, block: EraseBlock) -> Result<bool, FlashError> {
        self.map.forget(block);
        let info = &mut self.space.blocks[block];
        info.erases += 1;
        let header = Header { erases: info.erases, units: self.map.len() };
        let geometry = self.layout.geometry;
        let page = geometry.page(block, 0);
        match self.chip.program(page, &header.to_bytes(self.disk, geometry, page)) {
            Ok(()) => {}
            Err(NandError::Failed | NandError::Uncorrectable) => return Ok(false),
            Err(error @ NandError::Gone(_)) => return Err(error.into()),
        }
        info.state = State::Blank;
        (info.sequence, info.record) = (0, 0);
        (info.has_marks, info.is_murky, info.is_weary) = (false, false, false);
        Ok(true)
    }

    /// Takes a block out of use: blackens its pages, and marks it bad if they then tell nothing. A block that is marked bad can never be erased
    /// again, so one that still tells is kept as stuck.
    pub(super) fn retire(&mut self, block: EraseBlock) -> Result<(), FlashError> {
        self.space.ahead.retain(|ahead| *ahead != block);
        let is_black = mutant::is(Mutant::BadSpared) || self.chip.blacken(block)?;
        let is_gone = is_black && self.chip.mark_bad(block)?;
        self.space.blocks[block].state = if is_gone { State::Bad } else { State::Stuck };
        if is_gone {
            self.map.forget(block);
            self.space.blocks[block].is_murky = false;
        }
        Ok(())
    }
}
