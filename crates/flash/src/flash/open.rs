//! The start of a disk.
//!
//! Each start is taken for one after a cut of the power. The last run may then be weak: it reads well once, and badly later. So it is
//! copied before a request relies on it, as a *trial*, and a *session* makes the trial count. Until that is on the chip, only blocks are
//! touched that the last two records list: if the last run goes bad in between, the next start finds things as that run had found them. Then
//! all blocks that the cut can have touched are copied and erased. Runs that this start did not find, and that read well at a later one, do not
//! count: the records name the *gap* of their sequences until those blocks are erased. If start after start is cut short until those blocks are used up, the
//! first blank blocks of the chip are taken.

use super::Flash;
use super::scan::{FoundBlock, FoundRun, Scan, find_identity};
use super::space::{Space, Stream};
use crate::access::Access;
use crate::blocks::{Blocks, Info, State};
use crate::error::{FlashError, FlashErrorKind};
use crate::layout::Layout;
use crate::map::{Map, Where};
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand};
use crate::pending::Pending;
use crate::record::{DiskId, GAPS_MAX, Gap, RunKind};
use crate::units::{UNIT_BYTES, Unit};
use quietus_core::base::blocks::BlockSet;
use std::collections::BTreeSet;

/// Number of sequences of a window: more than a start has runs, and more than runs that a cut of the power can have left unreadable.
const WINDOW: u64 = 1 << 16;

/// Number of blocks that a start takes at most before its session counts.
const SESSION_BLOCKS: usize = 2;

/// Number of blank blocks that are not trusted, for each doubtful one, and after a start that was cut short behind its session: starts before took blank
/// blocks only if the listed ones were doubtful, of which some may look unused now.
const TRIED_BLOCKS: usize = 3;

/// What a start needs to know of the end before it.
struct End {
    /// The last run that counts.
    last: FoundRun,
    /// What its record lists: these blocks hold nothing that counts.
    listed: BTreeSet<EraseBlock>,
    /// The gaps in sequences that it names.
    gaps: Vec<Gap>,
    /// The blocks that the record before lists too, and that look blank or full.
    usable: Vec<EraseBlock>,
    /// Others of them. One may have a run whose record was cut: that may read well at the next start, which then needs its data.
    doubtful: Vec<EraseBlock>,
}

impl<N: Nand> Flash<N> {
    /// Opens the disk on a chip, and brings it into a state that the next cut of the power cannot harm.
    ///
    /// # Errors
    /// [`FlashErrorKind::Format`] if the chip has no disk, or pages that do not suit; [`FlashErrorKind::Io`]. A later start goes on where this one
    /// failed.
    pub fn open(nand: N) -> Result<Self, FlashError> {
        let layout = layout(&nand)?;
        let mut chip = Access::new(nand, layout);
        let mut scan = Scan::of(&mut chip, layout)?;
        let newest = scan.runs.last().map_or(0, |found| found.run.sequence);
        let end = end(&mut scan, &mut chip, layout)?;
        let mut flash = Self::empty(chip, layout, scan.disk, scan.units);
        flash.begin_gap(&end, newest);
        flash.know(&scan, &end)?;
        flash.begin_session(&end)?;
        flash.settle_blocks()?;
        Ok(flash)
    }

    /// The disk on `nand`, which does not change; `None` if the chip has no disk of this version.
    ///
    /// # Errors
    /// [`FlashErrorKind::Format`] if the pages do not suit; [`FlashErrorKind::Io`].
    pub fn peek(nand: &mut N) -> Result<Option<DiskId>, FlashError> {
        let layout = layout(nand)?;
        let found = find_identity(&mut Access::new(nand, layout), layout.geometry)?;
        Ok(found.map(|(disk, _)| disk))
    }

    /// Begins a gap in the sequences, in which all runs are that this start does not find. It ends at the trial.
    fn begin_gap(&mut self, end: &End, newest: u64) {
        self.sequence = newest;
        self.space.gaps.clone_from(&end.gaps);
        self.space.gaps.push(Gap { after: end.last.run.sequence, last: newest });
        if self.space.gaps.len() > GAPS_MAX {
            self.space.gaps.remove(0);
        }
    }

    /// Ends the gap of a start before its trial in `block`, which has the first sequence of a window of that block. An earlier start, or a try that failed,
    /// may have left a trial that this start does not find, and that reads well later. It lies in another block, so in another window: either
    /// it is in the gap, or behind all runs of this start, where trials do not count.
    pub(super) fn end_gap(&mut self, block: EraseBlock) {
        if let Some(gap) = self.space.gaps.last_mut() {
            let (blocks, first) = (u64::from(self.layout.geometry.blocks), self.sequence / WINDOW + 2);
            let window = first + (blocks + u64::from(block.0) - first % blocks) % blocks;
            self.sequence = window * WINDOW;
            gap.last = self.sequence;
        }
    }

    /// A disk of which nothing is known yet.
    pub(super) fn empty(chip: Access<N>, layout: Layout, disk: DiskId, units: u32) -> Self {
        let space = Space::new(Blocks::new(layout.geometry.blocks));
        let (map, pending) = (Map::new(layout, units), Pending::default());
        let apart = BlockSet::default();
        Self { chip, layout, disk, sequence: 0, map, space, pending, apart, scrubbed: 0, latched: None }
    }

    /// Notes what the runs say, in their order.
    fn know(&mut self, scan: &Scan, end: &End) -> Result<(), FlashError> {
        for (number, (found, erases)) in (0..).zip(&scan.blocks) {
            let info = &mut self.space.blocks[EraseBlock(number)];
            info.erases = erases.unwrap_or(0);
            let is_listed = end.listed.contains(&EraseBlock(number));
            info.state = match found {
                FoundBlock::Bad => State::Bad,
                FoundBlock::Blank if !is_listed || mutant::is(Mutant::TrustBlank) => State::Blank,
                FoundBlock::Blank | FoundBlock::Full | FoundBlock::Unknown => State::Closed,
            };
            info.is_murky = is_listed || *found == FoundBlock::Unknown && !mutant::is(Mutant::TrustOpen);
        }
        let mean = self.space.blocks.mean_erases();
        for (number, _) in (0..).zip(&scan.blocks).filter(|(_, (_, erases))| erases.is_none()) {
            self.space.blocks[EraseBlock(number)].erases = mean;
        }
        for found in scan.runs.iter() {
            if end.listed.contains(&found.block) && !mutant::is(Mutant::CountListed) {
                continue;
            }
            self.replay(found)?;
        }
        Ok(())
    }

    fn replay(&mut self, found: &FoundRun) -> Result<(), FlashError> {
        let (run, units) = (&found.run, self.map.len());
        let fits = |first: Unit, count: u32| first.0.checked_add(count).is_some_and(|end| end <= units);
        let are_marks_valid = run.marks.iter().all(|mark| fits(mark.first, mark.count));
        if !are_marks_valid || !run.entries.iter().all(|entry| fits(entry.unit, 1)) {
            let message = format!(
                "cannot open the flash chip: a record of block {} names a unit beyond the disk's {units}; \
                 restore the disk from a backup",
                found.block.0
            );
            return Err(FlashError::new(FlashErrorKind::Format, message));
        }
        for mark in &run.marks {
            let to = if mark.is_lost { Where::Lost } else { Where::Absent };
            (mark.first.0..mark.first.0 + mark.count).for_each(|unit| self.place(Unit(unit), to));
        }
        for (n, entry) in run.entries.iter().enumerate() {
            self.place(entry.unit, Where::At(self.layout.slot(found.block, run.first, n)));
        }
        let info = &mut self.space.blocks[found.block];
        info.sequence = run.sequence;
        info.record = self.layout.record_page(run);
        info.has_marks |= !run.marks.is_empty();
        Ok(())
    }

    /// Copies the last run, and begins a session.
    fn begin_session(&mut self, end: &End) -> Result<(), FlashError> {
        self.space.ahead.clone_from(&end.usable);
        // Starts before may have tried the same ones, which then only look blank. Their order may not change, and none that was tried may be left out.
        let blank = self.space.blocks.filter(|info| info.state == State::Blank);
        let missing = SESSION_BLOCKS.saturating_sub(end.usable.len());
        let signs = end.doubtful.len() + SESSION_BLOCKS * usize::from(end.last.run.kind == RunKind::Session);
        for block in blank.iter().take(missing.max(TRIED_BLOCKS * signs)) {
            let info = &mut self.space.blocks[*block];
            (info.state, info.is_murky) = (State::Closed, true);
        }
        self.space.ahead.extend(blank.into_iter().chain(end.doubtful.iter().copied()).take(missing));
        self.space.listed = self.space.ahead.iter().copied().collect();
        let mut units = Vec::new();
        for entry in &end.last.run.entries {
            let mut bytes = vec![0; UNIT_BYTES];
            match self.map.find(entry.unit) {
                Where::At(slot) if self.layout.block(slot) == end.last.block => {
                    let is_whole =
                        self.read_slot(slot, &mut bytes)? && crc32c::crc32c(&bytes) == entry.checksum;
                    if is_whole {
                        units.push((entry.unit, bytes));
                    }
                }
                Where::At(_) | Where::Absent | Where::Lost => {}
            }
        }
        units.retain(|_| !mutant::is(Mutant::TrustWeak));
        let mut marks = end.last.run.marks.clone();
        marks.retain(|_| !mutant::is(Mutant::TrustWeakMarks));
        self.write_run_of(Stream::Copies, RunKind::Trial, &units, marks)?;
        let is_dead = |block: &EraseBlock| {
            let info = &self.space.blocks[*block];
            info.state == State::Closed && info.live == 0
        };
        self.space.doomed = end.listed.iter().copied().filter(is_dead).collect();
        self.write_run_of(Stream::Copies, RunKind::Session, &[], Vec::new())
    }

    /// Erases what the cut of the power can have touched, after what is live there was copied.
    fn settle_blocks(&mut self) -> Result<(), FlashError> {
        // Without a record in between, which would not list the rest.
        for block in std::mem::take(&mut self.space.doomed) {
            // The session may have gone to one of them, which then is not listed.
            if self.space.blocks[block].state == State::Closed && self.space.listed.contains(&block) {
                self.wipe_or_retire(block)?;
            }
        }
        let is_murky = |info: &Info| info.is_murky && info.state == State::Closed;
        self.clear(&self.space.blocks.filter(is_murky))?;
        self.space.gaps.clear();
        self.write_run(Stream::Copies, Vec::new())?;
        self.tend()
    }
}

/// The layout of a chip.
pub(super) fn layout<N: Nand>(nand: &N) -> Result<Layout, FlashError> {
    let geometry = nand.geometry();
    Layout::new(geometry).ok_or_else(|| {
        let message = format!(
            "cannot use the flash chip: {} blocks of {} pages of {} bytes; expected pages of 2 to 64 KiB, a power of two, and blocks of \
             4 to 65,535 pages",
            geometry.blocks, geometry.block_pages, geometry.page_bytes
        );
        FlashError::new(FlashErrorKind::Format, message)
    })
}

/// The last runs that count, and what their records say.
fn end<N: Nand>(scan: &mut Scan, chip: &mut Access<N>, layout: Layout) -> Result<End, FlashError> {
    scan.drop_trials();
    let Some(last) = scan.runs.last().cloned() else {
        let message = "cannot open the flash chip: no block has a record; format the chip";
        return Err(FlashError::new(FlashErrorKind::Format, message));
    };
    let head = scan.head(chip, layout, &last)?.unwrap_or_default();
    scan.drop_gaps(&head.gaps);
    let listed: BTreeSet<_> = head.listed.into_iter().collect();
    // A run that failed is in a gap of its second try, so it is not taken for the run before. If the run before does not read, since an erase of its
    // block began, an older one is taken: the last run lists that block, so it is whole, and nothing depends on what both list. It is less then, no more.
    let before = match scan.runs.iter().rev().nth(1) {
        Some(before) => scan.head(chip, layout, before)?,
        None => None,
    };
    let is_before = |block: &EraseBlock| before.as_ref().is_none_or(|head| head.listed.contains(block));
    let found = |block: &EraseBlock| scan.blocks[block.0 as usize].0;
    // A block may have been marked bad since it was listed.
    let is_good = |block: &EraseBlock| found(block) != FoundBlock::Bad;
    let looks_unused = |block: &EraseBlock| matches!(found(block), FoundBlock::Blank | FoundBlock::Full);
    let both = listed.iter().copied().filter(|block| is_before(block) && is_good(block));
    let (usable, doubtful) = both.partition(looks_unused);
    Ok(End { last, listed, gaps: head.gaps, usable, doubtful })
}
