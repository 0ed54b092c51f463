//! What a start finds on the chip.

use crate::access::Access;
use crate::error::{FlashError, FlashErrorKind};
use crate::layout::{FIRST_PAGE, Layout};
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Geometry, Nand};
use crate::record::{DiskId, Gap, Header, Record, Run, RunKind};
use std::collections::BTreeMap;

/// A run, and where it is.
#[derive(Clone, Debug)]
pub(super) struct FoundRun {
    pub(super) block: EraseBlock,
    pub(super) run: Run,
}

/// What one block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundBlock {
    /// Marked bad.
    Bad,
    /// A header, and a blank page behind it.
    Blank,
    /// A record in the last page.
    Full,
    /// Anything else.
    Unknown,
}

/// What a chip has.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) disk: DiskId,
    /// Number of units of the disk.
    pub(super) units: u32,
    /// In the order of their sequences.
    pub(super) runs: Vec<FoundRun>,
    /// What blocks are, and how often they were erased, if a page says so.
    pub(super) blocks: Vec<(FoundBlock, Option<u32>)>,
    /// What the records that were read say beside their runs, by the sequence of their newest run.
    heads: BTreeMap<u64, Head>,
}

/// What a record says beside its runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// Blocks that hold nothing that counts.
    pub(super) listed: Vec<EraseBlock>,
    /// Sequences of runs that do not count.
    pub(super) gaps: Vec<Gap>,
}

impl Scan {
    /// Reads the last page of each full block, the first pages of each blank one, and all pages of others.
    pub(super) fn of<N: Nand>(chip: &mut Access<N>, layout: Layout) -> Result<Self, FlashError> {
        let (disk, units) = identity(chip, layout.geometry)?;
        let (runs, blocks, heads) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut scan = Self { disk, units, runs, blocks, heads };
        for block in (0..layout.geometry.blocks).map(EraseBlock) {
            let found = scan.block(chip, layout.geometry, block)?;
            scan.blocks.push(found);
        }
        scan.runs.sort_by_key(|found| (found.run.sequence, found.block));
        scan.runs.dedup_by_key(|found| (found.run.sequence, found.block));
        Ok(scan)
    }

    fn block<N: Nand>(
        &mut self,
        chip: &mut Access<N>,
        geometry: Geometry,
        block: EraseBlock,
    ) -> Result<(FoundBlock, Option<u32>), FlashError> {
        if chip.nand.is_bad(block)? {
            return Ok((FoundBlock::Bad, None));
        }
        if let Some(erases) = self.record(chip, geometry, block, geometry.block_pages - 1)? {
            return Ok((FoundBlock::Full, Some(erases)));
        }
        let page = geometry.page(block, 0);
        let header = chip.content(page)?.and_then(|bytes| Header::from_bytes(bytes, geometry, page));
        let mut erases = header.filter(|(disk, _)| *disk == self.disk).map(|(_, header)| header.erases);
        let is_blank = matches!(chip.page(geometry.page(block, FIRST_PAGE)), Ok((crate::Reading::Blank, _)));
        if erases.is_some() && is_blank {
            return Ok((FoundBlock::Blank, erases));
        }
        for index in FIRST_PAGE..geometry.block_pages - 1 {
            let found = self.record(chip, geometry, block, index)?;
            erases = found.or(erases);
        }
        Ok((FoundBlock::Unknown, erases))
    }

    /// Notes the runs of the record in that page, and of those that it leaves out. The number of erases that it says; `None` if the page
    /// has no record.
    fn record<N: Nand>(
        &mut self,
        chip: &mut Access<N>,
        geometry: Geometry,
        block: EraseBlock,
        index: u32,
    ) -> Result<Option<u32>, FlashError> {
        let (mut erases, mut index) = (None, index);
        loop {
            let page = geometry.page(block, index);
            let Some(bytes) = chip.content(page)? else { return Ok(erases) };
            let Some(record) = Record::from_bytes(bytes, self.disk, page) else { return Ok(erases) };
            if let Some(newest) = record.runs.first() {
                self.heads.insert(newest.sequence, Head { listed: record.listed, gaps: record.gaps });
            }
            self.runs.extend(record.runs.into_iter().map(|run| FoundRun { block, run }));
            erases = Some(record.erases);
            if record.rest == 0 || record.rest >= index {
                return Ok(erases);
            }
            index = record.rest;
        }
    }

    /// Leaves out trials behind all other runs. They are leftovers of a start that was cut short before its session.
    pub(super) fn drop_trials(&mut self) {
        let is_trial =
            |found: &mut FoundRun| found.run.kind == RunKind::Trial && !mutant::is(Mutant::CountTrials);
        while let Some(found) = self.runs.pop_if(is_trial) {
            self.blocks[found.block.0 as usize].0 = FoundBlock::Unknown;
        }
    }

    /// Leaves out runs that do not count, though they read well now.
    pub(super) fn drop_gaps(&mut self, gaps: &[Gap]) {
        let gaps = if mutant::is(Mutant::CountGaps) { &[] } else { gaps };
        let is_in_gap = |found: &FoundRun| gaps.iter().any(|gap| gap.contains(found.run.sequence));
        for found in self.runs.iter().filter(|found| is_in_gap(found)) {
            self.blocks[found.block.0 as usize].0 = FoundBlock::Unknown;
        }
        self.runs.retain(|found| !is_in_gap(found));
    }

    /// What the record of `found` says beside its runs; `None` if it cannot be read.
    pub(super) fn head<N: Nand>(
        &self,
        chip: &mut Access<N>,
        layout: Layout,
        found: &FoundRun,
    ) -> Result<Option<Head>, FlashError> {
        if let Some(head) = self.heads.get(&found.run.sequence) {
            return Ok(Some(head.clone()));
        }
        let index = layout.record_page(&found.run);
        let page = layout.geometry.page(found.block, index);
        let record = chip.content(page)?.and_then(|bytes| Record::from_bytes(bytes, self.disk, page));
        Ok(record.map(|record| Head { listed: record.listed, gaps: record.gaps }))
    }
}

/// The disk that the first whole header names, and its number of units.
fn identity<N: Nand>(chip: &mut Access<N>, geometry: Geometry) -> Result<(DiskId, u32), FlashError> {
    find_identity(chip, geometry)?.ok_or_else(|| {
        let message =
            "cannot open the flash chip: no block has a header of a disk of this version; format the chip";
        FlashError::new(FlashErrorKind::Format, message)
    })
}

/// As [`identity`]; `None` if no block has a header.
pub(super) fn find_identity<N: Nand>(
    chip: &mut Access<N>,
    geometry: Geometry,
) -> Result<Option<(DiskId, u32)>, FlashError> {
    for block in (0..geometry.blocks).map(EraseBlock) {
        let page = geometry.page(block, 0);
        if chip.nand.is_bad(block)? {
            continue;
        }
        let header = chip.content(page)?.and_then(|bytes| Header::from_bytes(bytes, geometry, page));
        if let Some((disk, header)) = header {
            return Ok(Some((disk, header.units)));
        }
    }
    Ok(None)
}
