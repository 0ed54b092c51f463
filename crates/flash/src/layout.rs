//! Where units and records lie in blocks.
//!
//! Page 0 of a block is its header. Runs follow: pages of data, then a record page. A page holds whole units, or a unit takes several
//! pages side by side.

use crate::nand::{EraseBlock, Geometry, Page};
use crate::record::{
    ENTRY_BYTES, GAP_BYTES, GAPS_MAX, LISTED_MAX, MARKS_MAX, RECORD_HEAD_BYTES, RUN_HEAD_BYTES, Run,
};
use crate::units::{Slot, UNIT_BYTES};
use std::ops::Range;

/// The page of a block in which its first run begins.
pub(crate) const FIRST_PAGE: u32 = 1;
/// The arithmetic of a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) geometry: Geometry,
    /// Number of pages that a unit takes, at least one.
    pub(crate) unit_pages: u32,
    /// Number of units in a page, at least one.
    pub(crate) page_units: u32,
}

impl Layout {
    /// The layout of a chip; `None` if its pages do not suit: they have a power of two of bytes, from 2 KiB to 64 KiB, and a block has 4 pages
    /// to 65,535 and a multiple of those of a unit.
    pub(crate) fn new(geometry: Geometry) -> Option<Self> {
        let bytes = geometry.page_bytes as usize;
        let layout = Self {
            geometry,
            unit_pages: (UNIT_BYTES / bytes.max(1)).max(1) as u32,
            page_units: (bytes / UNIT_BYTES).max(1) as u32,
        };
        let pages = geometry.block_pages;
        let suits = bytes.is_power_of_two()
            && (2048..=65_536).contains(&bytes)
            && (4..=65_535).contains(&pages)
            && pages.is_multiple_of(layout.unit_pages)
            && layout.room(FIRST_PAGE) > 0
            && u64::from(geometry.blocks) * u64::from(pages) * u64::from(layout.page_units) < 1 << 31;
        suits.then_some(layout)
    }

    /// Number of units that one run can hold which begins in page `next` of a block.
    pub(crate) fn room(&self, next: u32) -> usize {
        let data = self.geometry.block_pages.saturating_sub(next + 1);
        let by_pages = (data / self.unit_pages * self.page_units) as usize;
        by_pages.min(self.run_units_max())
    }

    fn run_units_max(&self) -> usize {
        let head = RECORD_HEAD_BYTES + 4 * LISTED_MAX + GAPS_MAX * GAP_BYTES;
        let fixed = head + RUN_HEAD_BYTES + MARKS_MAX * ENTRY_BYTES;
        (self.geometry.page_bytes as usize).saturating_sub(fixed) / ENTRY_BYTES
    }

    /// Number of units that a block holds if no sync ends a run early.
    pub(crate) fn block_units(&self) -> u32 {
        let data = |records: u32| {
            (self.geometry.block_pages - FIRST_PAGE - records) / self.unit_pages * self.page_units
        };
        data(data(1).div_ceil(self.run_units_max() as u32))
    }

    /// Number of pages of data that a run of `units` units has.
    pub(crate) fn run_pages(&self, units: usize) -> u32 {
        units.div_ceil(self.page_units as usize) as u32 * self.unit_pages
    }

    /// The page, within its block, of the record of `run`.
    pub(crate) fn record_page(&self, run: &Run) -> u32 {
        run.first + self.run_pages(run.entries.len())
    }

    /// The slot of unit `n` of a run that begins in page `first` of `block`.
    pub(crate) fn slot(&self, block: EraseBlock, first: u32, n: usize) -> Slot {
        let page = block.0 * self.geometry.block_pages + first;
        Slot(page * self.page_units + n as u32 * self.unit_pages)
    }

    /// The block that has `slot`.
    pub(crate) fn block(&self, slot: Slot) -> EraseBlock {
        EraseBlock(slot.0 / (self.geometry.block_pages * self.page_units))
    }

    /// The first page of `slot`, and the bytes of it that hold the unit.
    pub(crate) fn page(&self, slot: Slot) -> (Page, Range<usize>) {
        let start = (slot.0 % self.page_units) as usize * UNIT_BYTES;
        let len = UNIT_BYTES.min(self.geometry.page_bytes as usize);
        (Page(slot.0 / self.page_units), start..start + len)
    }

    /// The place of `slot` in a table with one entry for each unit that the chip could hold. Slots of a block that exist together have
    /// different places: a unit of several pages begins at any page, but no other begins before its end.
    pub(crate) fn index(&self, slot: Slot) -> usize {
        (slot.0 / self.unit_pages) as usize
    }

    /// The places of `block` in such a table.
    pub(crate) fn index_range(&self, block: EraseBlock) -> Range<usize> {
        let entries = self.geometry.block_pages * self.page_units / self.unit_pages;
        let first = (block.0 * entries) as usize;
        first..first + entries as usize
    }

    /// Number of entries of such a table.
    pub(crate) fn indices(&self) -> usize {
        self.index_range(EraseBlock(self.geometry.blocks)).start
    }
}
