//! Live content of blocks is copied elsewhere, and the blocks are erased.

use super::Flash;
use super::space::{FREE_TO_CLEAR, Stream};
use crate::blocks::State;
use crate::error::FlashError;
use crate::map::Where;
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand};
use crate::pending::{extent, units};
use crate::record::{MARKS_MAX, Mark};
use crate::units::{Slot, UNIT_BYTES, Unit};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::Pos;

/// Most blocks that one record lists as about to be erased.
const DOOMED_MAX: usize = 32;

/// A block to clear, and the number of its erases so far.
type Target = (EraseBlock, u32);

impl<N: Nand> Flash<N> {
    /// Copies what is live in `blocks`, then erases them. Copies and marks are on the chip before the first erase.
    pub(super) fn clear(&mut self, blocks: &[EraseBlock]) -> Result<(), FlashError> {
        for stream in Stream::EVERY {
            if self.space.open(stream).is_some_and(|open| blocks.contains(&open.block)) {
                self.space.close(stream);
            }
        }
        let targets: Vec<Target> =
            blocks.iter().map(|block| (*block, self.space.blocks[*block].erases)).collect();
        let mut rest = &targets[..];
        while !rest.is_empty() {
            self.collect_until(FREE_TO_CLEAR)?;
            let (batch, behind) = rest.split_at(self.batch(rest));
            self.clear_batch(batch)?;
            rest = behind;
        }
        Ok(())
    }

    /// Number of blocks, from the first one on, that are cleared together: their live units fill at most one block and the free ones that deletion
    /// can spare. The more blocks, the fewer runs are cut short at the end of a batch.
    fn batch(&self, targets: &[Target]) -> usize {
        let spare = self.space.free().len().saturating_sub(FREE_TO_CLEAR) as u32;
        let units_max = self.layout.block_units() * (1 + spare);
        let live = targets.iter().scan(0, |sum, (block, _)| {
            *sum += self.space.blocks[*block].live;
            Some(*sum)
        });
        live.take(DOOMED_MAX).take_while(|sum| *sum <= units_max).count().max(1)
    }

    /// The targets that still have to be erased: a stream may have taken one that had nothing live, and erased it before.
    fn left(&self, targets: &[Target]) -> Vec<EraseBlock> {
        let is_left = |(block, erases): &&Target| {
            let info = &self.space.blocks[*block];
            info.erases == *erases && info.state == State::Closed
        };
        targets.iter().filter(is_left).map(|(block, _)| *block).collect()
    }

    fn clear_batch(&mut self, targets: &[Target]) -> Result<(), FlashError> {
        for block in self.left(targets) {
            self.settle(block)?;
        }
        loop {
            self.flush_marks(Stream::Copies)?;
            self.part(&self.left(targets))?;
            let batch = self.left(targets);
            let units = self.gather(&batch, self.room(Stream::Copies))?;
            let live: u32 = batch.iter().map(|block| self.space.blocks[*block].live).sum();
            let is_last = units.len() as u32 == live && self.pending.count_marks(MARKS_MAX + 1) <= MARKS_MAX;
            let is_listed = batch.iter().all(|block| self.space.listed.contains(block));
            if is_last || mutant::is(Mutant::ListBeforeCopy) {
                self.space.doomed.clone_from(&batch);
            }
            if !is_last || !is_listed || !units.is_empty() || self.pending.has_marks() {
                self.write_run(Stream::Copies, units)?;
            }
            if is_last {
                break;
            }
        }
        self.space.doomed.clear();
        for block in self.left(targets) {
            self.wipe_or_retire(block)?;
        }
        Ok(())
    }

    /// The content of at most `max` live units of `blocks`. Units that the chip lost get a mark instead.
    pub(super) fn gather(
        &mut self,
        blocks: &[EraseBlock],
        max: usize,
    ) -> Result<Vec<(Unit, Vec<u8>)>, FlashError> {
        let live = blocks.iter().flat_map(|block| self.map.live(*block)).take(max).collect();
        self.contents(live)
    }

    /// The content of these live units. Units that the chip lost get a mark instead.
    pub(super) fn contents(&mut self, live: Vec<(Unit, Slot)>) -> Result<Vec<(Unit, Vec<u8>)>, FlashError> {
        let mut gathered = Vec::new();
        for (unit, slot) in live {
            let mut bytes = vec![0; UNIT_BYTES];
            if self.read_slot(slot, &mut bytes)? {
                gathered.push((unit, bytes));
            } else {
                self.place(unit, Where::Lost);
                self.pending.mark(extent(unit, 1), true);
            }
        }
        Ok(gathered)
    }

    /// Writes those marks of `block` again that still matter: those of units of which another block holds a version, and those of lost units.
    pub(super) fn settle(&mut self, block: EraseBlock) -> Result<(), FlashError> {
        if !self.space.blocks[block].has_marks || mutant::is(Mutant::TrimDropped) {
            self.space.blocks[block].has_marks = false;
            return Ok(());
        }
        let all = Mark { first: Unit(0), count: self.map.len(), is_lost: false };
        let unknown = [all, Mark { is_lost: true, ..all }];
        let marks: Vec<Mark> = match self.runs(block)? {
            Some(runs) => runs.into_iter().flat_map(|run| run.marks).collect(),
            // Then any unit may have one there.
            None => unknown.to_vec(),
        };
        let set = |is_lost: bool| {
            let mut set = BlockSet::<Pos>::default();
            marks
                .iter()
                .filter(|mark| mark.is_lost == is_lost)
                .for_each(|mark| set.insert(extent(mark.first, mark.count)));
            set
        };
        let (trimmed, lost) = (set(false), set(true));
        for unit in self.still_trimmed(&trimmed, block) {
            self.pending.mark(extent(unit, 1), false);
        }
        for unit in lost.runs().flat_map(units) {
            if self.map.find(unit) == Where::Lost {
                self.pending.mark(extent(unit, 1), true);
            }
        }
        self.space.blocks[block].has_marks = false;
        Ok(())
    }

    /// The units of `trimmed` that are absent, and of which a block other than `except` may hold a version.
    fn still_trimmed(&self, trimmed: &BlockSet<Pos>, except: EraseBlock) -> Vec<Unit> {
        let is_absent = |unit: &Unit| self.map.find(*unit) == Where::Absent;
        let is_murky = |(block, info): (EraseBlock, &crate::blocks::Info)| {
            block != except
                && info.is_murky
                && info.state == State::Closed
                && !self.space.listed.contains(&block)
        };
        if self.space.blocks.iter().any(is_murky) {
            return trimmed.runs().flat_map(units).filter(is_absent).collect();
        }
        let stale = self.map.stale().filter(|(_, block)| *block != except).map(|(unit, _)| unit);
        stale.filter(|unit| trimmed.contains(u64::from(unit.0)) && is_absent(unit)).collect()
    }
}
