//! Runs: units that become durable together.

use super::Flash;
use super::space::{Open, SHARED_MIN, Stream};
use crate::blocks::State;
use crate::error::{FlashError, FlashErrorKind};
use crate::layout::FIRST_PAGE;
use crate::map::Where;
use crate::mutant::{self, Mutant};
use crate::nand::{EraseBlock, Nand, NandError};
use crate::record::{Entry, Gap, LISTED_MAX, MARKS_MAX, Mark, Record, Run, RunKind};
use crate::units::Unit;
use std::collections::BTreeSet;

/// Number of blocks that a run tries before the layer gives up.
const TRIES_MAX: usize = 8;

impl<N: Nand> Flash<N> {
    /// Number of units that the next run of `stream` can have, at least one.
    pub(super) fn room(&self, stream: Stream) -> usize {
        self.layout.room(self.space.open(stream).map_or(FIRST_PAGE, |open| open.next))
    }

    /// Writes runs of marks alone, until those that are left fit into one run.
    pub(super) fn flush_marks(&mut self, stream: Stream) -> Result<(), FlashError> {
        while self.pending.count_marks(MARKS_MAX + 1) > MARKS_MAX {
            self.write_run(stream, Vec::new())?;
        }
        Ok(())
    }

    /// Writes a run with these units and as many of the pending marks as it can have.
    pub(super) fn write_run(
        &mut self,
        stream: Stream,
        units: Vec<(Unit, Vec<u8>)>,
    ) -> Result<(), FlashError> {
        let mut marks = self.pending.take_marks(MARKS_MAX);
        marks.retain(|_| !mutant::is(Mutant::TrimVolatile));
        self.write_run_of(stream, RunKind::Plain, &units, marks)
    }

    /// Writes a run, and an empty one behind it if failed programs used up too many of the blocks that both of the last records list.
    pub(super) fn write_run_of(
        &mut self,
        stream: Stream,
        kind: RunKind,
        units: &[(Unit, Vec<u8>)],
        marks: Vec<Mark>,
    ) -> Result<(), FlashError> {
        let shared = self.write_one_run(stream, kind, units, marks)?;
        if kind != RunKind::Trial && shared < SHARED_MIN.min(self.space.ahead.len()) {
            self.write_one_run(stream, RunKind::Plain, &[], Vec::new())?;
        }
        Ok(())
    }

    /// Writes a run; after a failed program, in another block. The number of blocks that its record and the one before list.
    fn write_one_run(
        &mut self,
        stream: Stream,
        kind: RunKind,
        units: &[(Unit, Vec<u8>)],
        marks: Vec<Mark>,
    ) -> Result<usize, FlashError> {
        // Blocks whose marks are pending are not listed before these are on the chip.
        if kind != RunKind::Trial && !self.pending.has_marks() {
            self.space.refill();
        }
        for _ in 0..TRIES_MAX {
            let block = self.ensure_open(stream, units.len())?;
            if kind == RunKind::Trial {
                self.end_gap(block);
            }
            match self.program_run(stream, kind, units, &marks) {
                Ok((run, listed, next)) => {
                    let shared = self.space.shared(&listed);
                    self.note_run(stream, run, listed, next);
                    return Ok(shared);
                }
                Err(NandError::Gone(reason)) => return Err(NandError::Gone(reason).into()),
                Err(NandError::Failed | NandError::Uncorrectable) => self.abandon(stream),
            }
        }
        let message =
            format!("cannot write to the flash chip: programs failed in {TRIES_MAX} blocks in a row");
        Err(FlashError::new(FlashErrorKind::Io, message))
    }

    /// The block of `stream` with room for so many units. Opens one, if there is none.
    fn ensure_open(&mut self, stream: Stream, units: usize) -> Result<EraseBlock, FlashError> {
        if self.room(stream) < units {
            self.space.close(stream);
        }
        if let Some(open) = self.space.open(stream) {
            return Ok(open.block);
        }
        let block = self.take(stream)?;
        self.space.blocks[block].state = State::Open;
        self.space.streams[stream as usize] = Some(Open { block, next: FIRST_PAGE, runs: Vec::new() });
        Ok(block)
    }

    /// Programs the pages of a run. Returns the run, what its record lists, and the page behind it. Where no further run has room, copies of the
    /// record fill the block: so the last page of a full block has a record, and no page is left out.
    fn program_run(
        &mut self,
        stream: Stream,
        kind: RunKind,
        units: &[(Unit, Vec<u8>)],
        marks: &[Mark],
    ) -> Result<(Run, BTreeSet<EraseBlock>, u32), NandError> {
        self.sequence += 1;
        let open = self.space.open(stream).expect("the stream has an open block");
        // A record in the first page may look blank later, if its program is cut. Then the next start would take the block for a blank one.
        let has_filler = open.next == FIRST_PAGE && units.is_empty();
        let (block, first) = (open.block, open.next + u32::from(has_filler));
        let entry = |(unit, bytes): &(Unit, Vec<u8>)| Entry { unit: *unit, checksum: crc32c::crc32c(bytes) };
        let entries = units.iter().map(entry).collect();
        let run = Run { sequence: self.sequence, kind, first, entries, marks: marks.to_vec() };
        let listed = self.space.list();
        if listed.len() > LISTED_MAX {
            return Err(NandError::Gone(format!(
                "more than {LISTED_MAX} blocks neither erase nor can be retired"
            )));
        }
        let erases = self.space.blocks[block].erases;
        let runs = std::iter::once(&run).chain(&open.runs).cloned().collect();
        let gaps = self.space.gaps();
        let record = Record { erases, rest: 0, listed: listed.iter().copied().collect(), gaps, runs };
        let geometry = self.layout.geometry;
        if has_filler {
            let zeros = vec![0; geometry.page_bytes as usize];
            self.chip.program(geometry.page(block, FIRST_PAGE), &zeros)?;
        }
        let mut next = first;
        for page in self.chip.pages_of(units.iter().map(|(_, bytes)| &bytes[..])) {
            self.chip.program(geometry.page(block, next), &page)?;
            next += 1;
        }
        assert_eq!(
            next,
            first + self.layout.run_pages(units.len()),
            "a run has the pages that readers expect"
        );
        loop {
            let page = geometry.page(block, next);
            let bytes =
                record.to_bytes(self.disk, geometry.page_bytes, page, |run| self.layout.record_page(run));
            self.chip.program(page, &bytes)?;
            next += 1;
            if next == geometry.block_pages || self.layout.room(next) > 0 {
                return Ok((run, listed, next));
            }
        }
    }

    /// Notes a run whose record is on the chip.
    fn note_run(&mut self, stream: Stream, run: Run, listed: BTreeSet<EraseBlock>, next: u32) {
        let block = self.space.open(stream).expect("the stream has an open block").block;
        for (n, entry) in run.entries.iter().enumerate() {
            self.place(entry.unit, Where::At(self.layout.slot(block, run.first, n)));
        }
        for left in self.space.listed.difference(&listed).map(|left| &self.space.blocks[*left]) {
            assert!(
                !left.is_murky || left.state != State::Closed || left.is_failing,
                "murky blocks stay listed"
            );
        }
        (self.space.listed, self.space.failed) = (listed, None);
        let info = &mut self.space.blocks[block];
        info.sequence = run.sequence;
        info.record = self.layout.record_page(&run);
        info.has_marks |= !run.marks.is_empty();
        let open = self.space.streams[stream as usize].as_mut().expect("the stream has an open block");
        open.runs.insert(0, run);
        open.next = next;
        if next == self.layout.geometry.block_pages {
            self.space.close(stream);
        }
    }

    /// Gives up the block of `stream`, in which a program failed: it is retired once its runs are copied. The run that failed does not count.
    fn abandon(&mut self, stream: Stream) {
        let after = self.space.failed.map_or(self.sequence - 1, |failed| failed.after);
        self.space.failed = Some(Gap { after, last: self.sequence });
        let block = self.space.open(stream).expect("the stream has an open block").block;
        self.space.close(stream);
        let info = &mut self.space.blocks[block];
        let is_noted = !mutant::is(Mutant::KeepFailing);
        (info.is_failing, info.is_murky) = (is_noted, is_noted);
    }

    /// The runs of a closed block, the newest first; `None` if a record of it cannot be read.
    pub(super) fn runs(&mut self, block: EraseBlock) -> Result<Option<Vec<Run>>, FlashError> {
        let (mut runs, mut page) = (Vec::new(), self.space.blocks[block].record);
        while page != 0 {
            let page_number = self.layout.geometry.page(block, page);
            let Some(bytes) = self.chip.content(page_number)? else {
                return Ok(None);
            };
            let Some(record) = Record::from_bytes(bytes, self.disk, page_number) else {
                return Ok(None);
            };
            assert!(record.rest < page, "older runs lie before newer ones");
            runs.extend(record.runs);
            page = record.rest;
        }
        Ok(Some(runs))
    }
}
