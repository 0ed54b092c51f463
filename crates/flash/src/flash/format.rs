//! A new disk.

use super::Flash;
use super::apart::APART_MAX;
use super::open::layout;
use super::space::{AHEAD, FREE_MIN, Stream};
use crate::access::Access;
use crate::blocks::State;
use crate::error::{FlashError, FlashErrorKind};
use crate::layout::Layout;
use crate::nand::{EraseBlock, Geometry, Nand};
use crate::record::{DiskId, RunKind};
use crate::units::UNIT_BYTES;

/// Blocks that may be open, one for the guest and one for copies, and one that collection needs to get on.
const OPEN_BLOCKS: u32 = 3;

impl<N: Nand> Flash<N> {
    /// Bytes of the largest disk on a chip with so many good blocks; 0 if its pages do not suit. 2 % of the blocks, at least two, are kept for
    /// those that go bad, and four for [units apart](Flash::set_apart). The less of this a disk takes, the less is copied.
    #[must_use]
    pub fn size_max(geometry: Geometry, good_blocks: u32) -> u64 {
        Layout::new(geometry).map_or(0, |layout| {
            let reserve = FREE_MIN as u32 + OPEN_BLOCKS + APART_MAX as u32 + (good_blocks / 50).max(2);
            u64::from(good_blocks.saturating_sub(reserve) * layout.block_units()) * UNIT_BYTES as u64
        })
    }

    /// Number of good blocks that a disk of `size` bytes needs to take writes: those of its content, and the reserve without which nothing
    /// can be collected; `u32::MAX` if the pages do not suit.
    #[must_use]
    pub fn blocks_min(geometry: Geometry, size: u64) -> u32 {
        Layout::new(geometry).map_or(u32::MAX, |layout| {
            let content = size.div_ceil(u64::from(layout.block_units()) * UNIT_BYTES as u64);
            u32::try_from(content).unwrap_or(u32::MAX).saturating_add(FREE_MIN as u32 + OPEN_BLOCKS)
        })
    }

    /// Erases the whole chip, and makes a disk of `size` bytes on it, which reads as zeros. Counts of erases begin anew. `disk` is random.
    ///
    /// # Errors
    /// [`FlashErrorKind::Format`] if the size is not a positive multiple of 4096 or larger than [`Flash::size_max`], or the pages do not suit;
    /// [`FlashErrorKind::Io`].
    pub fn format(mut nand: N, disk: DiskId, size: u64) -> Result<Self, FlashError> {
        let layout = layout(&nand)?;
        let mut bad = 0;
        for block in (0..layout.geometry.blocks).map(EraseBlock) {
            bad += u32::from(nand.is_bad(block)?);
        }
        let size_max = Self::size_max(layout.geometry, layout.geometry.blocks - bad);
        if size == 0 || size > size_max || !size.is_multiple_of(UNIT_BYTES as u64) {
            let message = format!(
                "cannot make a disk of {size} bytes on the flash chip; expected a multiple of {UNIT_BYTES}, at most {size_max}"
            );
            return Err(FlashError::new(FlashErrorKind::Format, message));
        }
        let mut flash =
            Self::empty(Access::new(nand, layout), layout, disk, (size / UNIT_BYTES as u64) as u32);
        flash.erase_all()?;
        flash.space.refill();
        flash.space.listed = flash.space.list();
        assert!(flash.space.ahead.len() <= AHEAD, "few blocks are listed");
        flash.write_run_of(Stream::Copies, RunKind::Trial, &[], Vec::new())?;
        flash.write_run_of(Stream::Copies, RunKind::Session, &[], Vec::new())?;
        Ok(flash)
    }

    fn erase_all(&mut self) -> Result<(), FlashError> {
        for block in (0..self.layout.geometry.blocks).map(EraseBlock) {
            if self.chip.nand.is_bad(block)? {
                self.space.blocks[block].state = State::Bad;
            } else if !self.wipe(block)? {
                self.retire(block)?;
            }
        }
        Ok(())
    }
}
