//! What a chip holds, read raw, page by page.
//!
//! The records of a block explain its pages. An audit believes a record only at the places where the format puts one: the last programmed page
//! of a block, and the pages to which the chain from there leads. So a guest that writes the bytes of a record explains nothing. What no record
//! explains could hold anything, and is reported.

use super::{Flash, pieces};
use crate::error::FlashError;
use crate::layout::FIRST_PAGE;
use crate::map::Where;
use crate::nand::{EraseBlock, Nand, Page};
use crate::pending::extent;
use crate::record::{Header, Record, Run};
use crate::units::{Slot, UNIT_BYTES, Unit};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Extent, Pos};

/// Most places that an [`Audit`] lists.
pub const REMAINS_MAX: usize = 64;

/// What an audit of a chip found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Number of pages read, each with its spare area.
    pub pages_read: u64,
    /// Number of blocks that are marked bad. Their pages are read too.
    pub blocks_bad: u32,
    /// Number of versions of units on the chip that are not the present ones, of any unit.
    pub stale_units: u64,
    /// Number of versions that must not be there, and of pages that no record explains.
    pub remains_count: u64,
    /// The first [`REMAINS_MAX`] of these, in the order of the chip.
    pub remains: Vec<Remain>,
}

/// A place of the chip that holds what must not be there, or may hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remain {
    /// The block.
    pub block: EraseBlock,
    /// The number of the page within the block; the first one, if the unit has several.
    pub page: u32,
    /// The first byte on the disk of the unit that lies there; `None` if no record explains the page, which could hold anything.
    pub unit: Option<Pos>,
}

/// What must not be on the chip.
struct Forbidden {
    /// Units of which no version may be there.
    all: BlockSet<Pos>,
    /// Units of which only the present version may be there.
    older: BlockSet<Pos>,
}

/// How a page looks, apart from a few wrong bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// Erased, or all zeros.
    Empty,
    Programmed,
    /// A record or a header of this disk, or data of a run.
    Explained,
}

/// The pages of a block, as they look.
struct Block {
    number: EraseBlock,
    pages: Vec<Look>,
}

impl<N: Nand> Flash<N> {
    /// Reads every page of the chip raw, bad blocks and spare areas included, and says where a version of a unit lies that must not be there: any
    /// version of units that lie in `dead` as a whole, and versions other than the present one of all units that `dead` and `older` touch.
    /// Pages that the records on the chip do not explain are listed too. Everything that was written or trimmed is durable on return.
    ///
    /// The map in memory only says which version of a unit is the present one. A page counts as empty if at most as many bits as the
    /// chip corrects differ from those of an erased page or of zeros. What the maker left in the pages of a bad block has no record either. Takes
    /// as long as reading the whole chip once; the memory that it needs is that of one block's records.
    ///
    /// # Errors
    /// As for [`Flash::sync`].
    ///
    /// # Panics
    /// If the extents are not all on the disk.
    pub fn audit(&mut self, dead: &[Extent<Pos>], older: &[Extent<Pos>]) -> Result<Audit, FlashError> {
        let mut forbidden = Forbidden { all: BlockSet::default(), older: BlockSet::default() };
        for (part, is_dead) in
            dead.iter().map(|part| (part, true)).chain(older.iter().map(|part| (part, false)))
        {
            for piece in pieces(self.within(part.start, part.len as usize)) {
                let is_whole = is_dead && piece.len == UNIT_BYTES;
                let set = if is_whole { &mut forbidden.all } else { &mut forbidden.older };
                set.insert(extent(piece.unit, 1));
            }
        }
        self.guarded(|flash| {
            flash.flush(true)?;
            flash.tend()?;
            let mut audit = Audit::default();
            for block in (0..flash.layout.geometry.blocks).map(EraseBlock) {
                flash.audit_block(block, &forbidden, &mut audit)?;
            }
            Ok(audit)
        })
    }

    fn audit_block(
        &mut self,
        number: EraseBlock,
        forbidden: &Forbidden,
        audit: &mut Audit,
    ) -> Result<(), FlashError> {
        let is_bad = self.chip.nand.is_bad(number)?;
        let mut block = self.look(number, is_bad)?;
        audit.blocks_bad += u32::from(is_bad);
        audit.pages_read += block.pages.len() as u64;
        if block.pages[0] == Look::Programmed && self.has_header(number)? {
            block.pages[0] = Look::Explained;
        }
        let mut remains = Vec::new();
        for run in self.explain(&mut block)? {
            for (n, entry) in run.entries.iter().enumerate() {
                let slot = self.layout.slot(number, run.first, n);
                let is_stale = !self.is_present(entry.unit, slot);
                audit.stale_units += u64::from(is_stale);
                if forbidden.has(entry.unit, is_stale) {
                    let page = self.layout.geometry.place(self.layout.page(slot).0).1;
                    remains.push((page, Some(extent(entry.unit, 1).start)));
                }
            }
        }
        let unexplained = (0..).zip(&block.pages).filter(|(_, look)| **look == Look::Programmed);
        remains.extend(unexplained.map(|(page, _)| (page, None)));
        remains.sort();
        audit.remains_count += remains.len() as u64;
        let left = REMAINS_MAX - audit.remains.len();
        let listed = remains.into_iter().take(left).map(|(page, unit)| Remain { block: number, page, unit });
        audit.remains.extend(listed);
        Ok(())
    }

    fn is_present(&self, unit: Unit, slot: Slot) -> bool {
        unit.0 < self.map.len() && self.map.find(unit) == Where::At(slot)
    }

    /// Reads all pages of a block raw.
    fn look(&mut self, number: EraseBlock, is_bad: bool) -> Result<Block, FlashError> {
        let geometry = self.layout.geometry;
        let (mut bytes, mut spare) =
            (vec![0; geometry.page_bytes as usize], vec![0; geometry.spare_bytes as usize]);
        let mut pages = Vec::new();
        for page in geometry.pages(number) {
            self.chip.nand.raw(page, &mut bytes, &mut spare)?;
            let zeros: u32 = bytes.iter().map(|byte| byte.count_zeros()).sum();
            // The mark of a bad block stands in a spare area. That of zeros has their code.
            let spare_zeros: u32 = if is_bad { 0 } else { spare.iter().map(|byte| byte.count_zeros()).sum() };
            let is_blank = zeros + spare_zeros <= geometry.correctable_bits;
            let is_black = 8 * geometry.page_bytes - zeros <= geometry.correctable_bits;
            pages.push(if is_blank || is_black { Look::Empty } else { Look::Programmed });
        }
        Ok(Block { number, pages })
    }

    fn has_header(&mut self, number: EraseBlock) -> Result<bool, FlashError> {
        let (geometry, disk) = (self.layout.geometry, self.disk);
        let page = geometry.page(number, 0);
        let is_header = |bytes: &[u8]| {
            Header::from_bytes(bytes, geometry, page).filter(|(found, _)| *found == disk).map(|_| ())
        };
        Ok(self.parse(page, is_header)?.is_some())
    }

    /// The runs that the records of a block name. Notes which pages they explain.
    fn explain(&mut self, block: &mut Block) -> Result<Vec<Run>, FlashError> {
        let Some(mut record) = self.last_record(block)? else { return Ok(Vec::new()) };
        self.explain_copies(block, &record.runs[0])?;
        let mut runs = Vec::new();
        loop {
            for run in &record.runs {
                block.pages[run.first as usize..=self.layout.record_page(run) as usize].fill(Look::Explained);
            }
            let (rest, oldest) = (record.rest, record.runs.last().map_or(0, |run| run.first));
            runs.append(&mut record.runs);
            if rest == 0 || rest >= oldest {
                return Ok(runs);
            }
            record = match self.record(block.number, rest)? {
                Some((record, end)) if end == rest => record,
                Some(_) | None => return Ok(runs),
            };
        }
    }

    /// The record in the last programmed page of a block. A page behind it that a fault spoiled stays unexplained.
    fn last_record(&mut self, block: &Block) -> Result<Option<Record>, FlashError> {
        for index in (FIRST_PAGE..self.layout.geometry.block_pages).rev() {
            if block.pages[index as usize] == Look::Empty {
                continue;
            }
            match self.record(block.number, index)? {
                Some((record, end)) if end == index || self.layout.room(end + 1) == 0 => {
                    return Ok(Some(record));
                }
                Some(_) | None => {}
            }
        }
        Ok(None)
    }

    /// Notes the copies of the record of `newest` which fill a block that has no room for another run.
    fn explain_copies(&mut self, block: &mut Block, newest: &Run) -> Result<(), FlashError> {
        for index in self.layout.record_page(newest) + 1..self.layout.geometry.block_pages {
            if block.pages[index as usize] == Look::Programmed {
                let found = self.record(block.number, index)?;
                if found.is_some_and(|(record, _)| record.runs[0].sequence == newest.sequence) {
                    block.pages[index as usize] = Look::Explained;
                }
            }
        }
        Ok(())
    }

    /// The record in that page of a block, and the page in which the record of its newest run must be. `None` if its runs do not lie one before
    /// the other, up to this page.
    fn record(&mut self, number: EraseBlock, index: u32) -> Result<Option<(Record, u32)>, FlashError> {
        let (layout, disk) = (self.layout, self.disk);
        let page = layout.geometry.page(number, index);
        let believed = |bytes: &[u8]| {
            let record = Record::from_bytes(bytes, disk, page)?;
            let mut end = index + 1;
            for run in &record.runs {
                if run.first < FIRST_PAGE || layout.record_page(run) >= end {
                    return None;
                }
                end = run.first;
            }
            let newest = layout.record_page(record.runs.first()?);
            Some((record, newest))
        };
        self.parse(page, believed)
    }

    /// What `parse` finds in the raw bits of a page, or in the corrected ones.
    fn parse<T>(&mut self, page: Page, parse: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, FlashError> {
        let geometry = self.layout.geometry;
        let (mut bytes, mut spare) =
            (vec![0; geometry.page_bytes as usize], vec![0; geometry.spare_bytes as usize]);
        self.chip.nand.raw(page, &mut bytes, &mut spare)?;
        if let Some(found) = parse(&bytes) {
            return Ok(Some(found));
        }
        Ok(self.chip.content(page)?.and_then(parse))
    }
}

impl Forbidden {
    fn has(&self, unit: Unit, is_stale: bool) -> bool {
        let number = u64::from(unit.0);
        self.all.contains(number) || is_stale && self.older.contains(number)
    }
}
