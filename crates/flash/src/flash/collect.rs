//! Room for new runs: collection, levelling, and blocks that need care.

use super::Flash;
use super::space::{FREE_MIN, Stream};
use crate::blocks::{Info, State};
use crate::error::{FlashError, FlashErrorKind};
use crate::nand::{EraseBlock, Nand};

/// Number of erases that a block may stay behind the mean before it moves, at least.
const BEHIND_MIN: u32 = 16;

impl<N: Nand> Flash<N> {
    /// Collects blocks until enough are free for a run and a deletion.
    pub(super) fn make_space(&mut self) -> Result<(), FlashError> {
        if self.collect_until(FREE_MIN)? {
            return self.level();
        }
        let message =
            "cannot write to the flash chip: too many of its blocks are bad; copy the disk to another chip";
        Err(FlashError::new(FlashErrorKind::NoSpace, message))
    }

    /// Collects blocks until so many are free; false if that cannot be.
    pub(super) fn collect_until(&mut self, free: usize) -> Result<bool, FlashError> {
        let rounds_max = 4 * self.layout.geometry.blocks;
        for _ in 0..rounds_max {
            if self.space.free().len() >= free {
                return Ok(true);
            }
            let is_dead = |info: &Info| info.state == State::Closed && info.live == 0 && info.has_marks;
            match self.space.blocks.filter(is_dead).first() {
                Some(block) => {
                    self.settle(*block)?;
                    self.flush_marks(Stream::Copies)?;
                }
                None if self.collect()? => {}
                None => break,
            }
        }
        Ok(false)
    }

    /// Copies one run of live units out of the best victims; false if there is none.
    fn collect(&mut self) -> Result<bool, FlashError> {
        let room = self.room(Stream::Copies);
        let (mut units, mut has_victim) = (Vec::new(), false);
        for victim in self.victims() {
            self.part(&[victim])?;
            units.extend(self.gather(&[victim], room - units.len())?);
            has_victim = true;
            if units.len() == room {
                break;
            }
        }
        if has_victim {
            self.write_run(Stream::Copies, units)?;
        }
        Ok(has_victim)
    }

    /// The blocks that are worth collecting, the best first: stale × age / live (Rosenblum and Ousterhout, *The Design and Implementation of a
    /// Log-Structured File System*, TOCS 1992). A slot that no unit took counts as stale. A block of units apart is left: they would lie beside others then. The age in runs counts by its logarithm: as it is, it
    /// would cost 1 % more copies where all units are written equally often.
    fn victims(&self) -> Vec<EraseBlock> {
        let full = self.layout.block_units();
        let worth = |info: &Info| {
            let (stale, age) = (full.saturating_sub(info.live), self.sequence - info.sequence + 1);
            (u64::from(stale) << 32) * u64::from(age.ilog2() + 1) / u64::from(info.live.max(1))
        };
        let is_victim = |info: &Info| info.state == State::Closed && (1..full).contains(&info.live);
        let mut victims = self.space.blocks.filter(is_victim);
        victims.retain(|block| !self.is_block_apart(*block));
        victims.sort_by_key(|block| std::cmp::Reverse(worth(&self.space.blocks[*block])));
        victims
    }

    /// Static levelling: moves the content of the least worn block if that stays behind, since what lies there does not change by itself. Marks
    /// are content too.
    fn level(&mut self) -> Result<(), FlashError> {
        let mean = self.space.blocks.mean_erases();
        let is_cold = |info: &Info| info.state == State::Closed && (info.live > 0 || info.has_marks);
        let cold = self
            .space
            .blocks
            .filter(is_cold)
            .into_iter()
            .min_by_key(|block| self.space.blocks[*block].erases);
        match cold {
            Some(block) if mean - self.space.blocks[block].erases.min(mean) > (mean / 20).max(BEHIND_MIN) => {
                self.clear(&[block])
            }
            _ => Ok(()),
        }
    }

    /// Retires blocks in which a program failed, and moves what lies in blocks that lose bits.
    pub(super) fn tend(&mut self) -> Result<(), FlashError> {
        let needs_care = |info: &Info| match info.state {
            State::Closed => info.is_failing || info.is_weary,
            State::Open => info.is_weary,
            State::Blank | State::Bad | State::Stuck => false,
        };
        while let Some(block) = self.space.blocks.filter(needs_care).first() {
            self.clear(&[*block])?;
        }
        Ok(())
    }
}
