//! A translation layer in straight lines: what it has in memory, runs, and how blocks are cleared, wiped and retired.

use super::chip::{Chip, Entry, Found, Kind, Record, Stop};
use crate::unitlife::{BLOCKS, Fault, Keep, Outcome, PAGES, UNITS};

/// Times that a block is erased before it is retired.
const ERASE_TRIES: usize = 2;
/// Times that a deletion looks for blocks.
const ROUNDS_MAX: usize = 16;

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum State {
    /// Erased since the start.
    Blank,
    Open,
    Closed,
    Bad,
    /// Will neither erase nor blacken.
    Stuck,
}

/// What counts for a unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Where {
    Zeros,
    /// The version in this page of this block.
    At(usize, usize),
    /// The mark in this page of this block.
    Marked(usize, usize),
}

/// A chip, and the memory of the layer above it.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub chip: Chip,
    pub fault: Option<Fault>,
    pub sequence: u32,
    pub state: [State; BLOCKS],
    pub is_murky: [bool; BLOCKS],
    pub is_failing: [bool; BLOCKS],
    /// The units of which a page has a version.
    pub names: [[[bool; UNITS]; PAGES]; BLOCKS],
    pub at: [Where; UNITS],
    /// The open block, and its next page.
    pub next: Option<(usize, usize)>,
    /// What the last record lists.
    pub listed: Vec<usize>,
    /// Sequences that do not count, until what has them is erased.
    pub gaps: Vec<(u32, u32)>,
    /// The blocks that a start may take before its session counts.
    pub candidates: Option<Vec<usize>>,
    pub pending: [Entry; UNITS],
}

impl Layer {
    /// A layer that knows nothing of its chip.
    pub fn of(chip: Chip, fault: Option<Fault>) -> Self {
        Self {
            chip,
            fault,
            sequence: 0,
            state: [State::Closed; BLOCKS],
            is_murky: [false; BLOCKS],
            is_failing: [false; BLOCKS],
            names: Default::default(),
            at: [Where::Zeros; UNITS],
            next: None,
            listed: Vec::new(),
            gaps: Vec::new(),
            candidates: None,
            pending: [Entry::Nothing; UNITS],
        }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The content that counts for `unit`; `Ok(None)` are zeros. An error if its page does not read.
    pub fn read(&self, unit: usize) -> Result<Option<u32>, ()> {
        match (self.pending[unit], self.at[unit]) {
            (Entry::Content(version), _) => Ok(Some(version)),
            (Entry::Trimmed, _) | (Entry::Nothing, Where::Zeros | Where::Marked(..)) => Ok(None),
            (Entry::Nothing, Where::At(block, page)) => match self.chip.read(block, page) {
                Found::Record(Record { entries, .. }) => match entries[unit] {
                    Entry::Content(version) => Ok(Some(version)),
                    Entry::Nothing | Entry::Trimmed => Err(()),
                },
                Found::Blank | Found::Garbage => Err(()),
            },
        }
    }

    /// Whether a block other than `except` may hold a version of `unit` that a start would count.
    fn may_return(&self, unit: usize, except: usize) -> bool {
        let names = |block: usize| self.names[block].iter().any(|page| page[unit]);
        let counts = |block: &usize| {
            *block != except && self.state[*block] != State::Bad && !self.listed.contains(block)
        };
        (0..BLOCKS).filter(counts).any(|block| self.is_murky[block] || names(block))
    }

    /// The block that holds what is needed of `unit`.
    pub fn needed(&self, unit: usize) -> Option<usize> {
        match self.at[unit] {
            Where::Zeros => None,
            Where::At(block, _) => Some(block),
            Where::Marked(block, _) => {
                let is_needed = self.may_return(unit, block) && !self.has(Fault::TrimDropped);
                is_needed.then_some(block)
            }
        }
    }

    /// A copy of what counts for `unit`, as a record has it.
    fn copy(&mut self, unit: usize) -> Entry {
        let Where::At(block, page) = self.at[unit] else { return Entry::Trimmed };
        if let Found::Record(record) = self.chip.read(block, page) {
            return record.entries[unit];
        }
        self.at[unit] = Where::Zeros;
        Entry::Nothing
    }

    /// Copies of what is needed in blocks of which `is_from` is true.
    fn gather(&mut self, is_from: impl Fn(usize) -> bool) -> [Entry; UNITS] {
        let mut entries = [Entry::Nothing; UNITS];
        for (unit, entry) in entries.iter_mut().enumerate() {
            if self.needed(unit).is_some_and(&is_from) {
                *entry = self.copy(unit);
            }
        }
        entries
    }

    /// Takes a block for runs.
    fn take(&mut self) -> Result<usize, Stop> {
        loop {
            let is_usable = |block: &usize| {
                matches!(self.state[*block], State::Blank | State::Closed) && !self.is_failing[*block]
            };
            let block = match &mut self.candidates {
                Some(candidates) => (!candidates.is_empty()).then(|| candidates.remove(0)),
                None => self.listed.iter().copied().find(is_usable),
            };
            let block = block.ok_or(Stop::NoBlock)?;
            if self.state[block] == State::Blank || self.wipe(block)? {
                return Ok(block);
            }
        }
    }

    /// Writes a run; false if it is a session, and failed.
    pub fn run(&mut self, kind: Kind, of: [Entry; UNITS]) -> Result<bool, Stop> {
        loop {
            let (block, page) = match self.next {
                Some(next) => next,
                None => (self.take()?, 0),
            };
            (self.state[block], self.next) = (State::Open, Some((block, page)));
            let mut entries = of;
            if page == PAGES - 1 && kind == Kind::Plain {
                let others = self.gather(|from| from != block);
                for (entry, other) in entries.iter_mut().zip(others) {
                    *entry = if *entry == Entry::Nothing { other } else { *entry };
                }
            }
            let listed = match (&self.candidates, kind) {
                (Some(candidates), Kind::Trial) => {
                    (0..BLOCKS).filter(|block| candidates.contains(block)).collect()
                }
                _ => self.list(block, &entries),
            };
            self.sequence += 1;
            let (sequence, gaps) = (self.sequence, self.gaps.clone());
            let record = Record { sequence, kind, entries, listed: listed.clone(), gaps };
            if self.chip.program(block, page, record)? {
                self.note(block, page, &entries);
                if kind != Kind::Trial {
                    (self.listed, self.candidates) = (listed, None);
                }
                return Ok(true);
            }
            (self.state[block], self.next) = (State::Closed, None);
            (self.is_failing[block], self.is_murky[block]) = (true, true);
            self.gaps.push((sequence - 1, sequence));
            if kind == Kind::Session {
                return Ok(false);
            }
        }
    }

    /// What a record in `own` lists that has `entries`.
    fn list(&self, own: usize, entries: &[Entry; UNITS]) -> Vec<usize> {
        let stays = (0..UNITS).filter(|unit| entries[*unit] == Entry::Nothing);
        let needed: Vec<usize> = stays.filter_map(|unit| self.needed(unit)).collect();
        let is_free =
            |block: &usize| *block != own && self.state[*block] != State::Bad && !needed.contains(block);
        (0..BLOCKS).filter(is_free).collect()
    }

    /// Notes a run that is on the chip.
    fn note(&mut self, block: usize, page: usize, entries: &[Entry; UNITS]) {
        for (unit, entry) in entries.iter().enumerate() {
            match entry {
                Entry::Nothing => {}
                Entry::Trimmed => self.at[unit] = Where::Marked(block, page),
                Entry::Content(_) => {
                    self.at[unit] = Where::At(block, page);
                    self.names[block][page][unit] = true;
                }
            }
        }
        self.next = (page + 1 < PAGES).then_some((block, page + 1));
        if self.next.is_none() {
            self.state[block] = State::Closed;
        }
    }

    /// Erases a listed block; false if it is retired.
    pub fn wipe(&mut self, block: usize) -> Result<bool, Stop> {
        assert!(
            self.listed.contains(&block) || self.fault.is_some(),
            "block {block} is listed when it is wiped"
        );
        for _ in 0..ERASE_TRIES {
            if self.chip.erase(block)? {
                self.forget(block);
                self.state[block] = State::Blank;
                if self.is_failing[block] {
                    break;
                }
                return Ok(true);
            }
        }
        self.is_failing[block] = false;
        let is_silent = self.has(Fault::BadSpared) || self.chip.blacken(block)? && !self.chip.tells(block);
        let is_gone = is_silent && self.chip.mark(block)?;
        self.state[block] = if is_gone { State::Bad } else { State::Stuck };
        if is_gone {
            self.forget(block);
        }
        Ok(false)
    }

    fn forget(&mut self, block: usize) {
        (self.names[block], self.is_murky[block]) = (Default::default(), false);
    }

    /// Copies what is needed of blocks, and wipes them.
    pub fn clear(&mut self, targets: &[usize]) -> Result<(), Stop> {
        if let Some((open, _)) = self.next.filter(|(open, _)| targets.contains(open)) {
            (self.state[open], self.next) = (State::Closed, None);
        }
        if self.has(Fault::EraseBeforeCopy) {
            let entries = self.gather(|block| targets.contains(&block));
            self.wipe_all(targets)?;
            return self.run(Kind::Plain, entries).map(|_| ());
        }
        loop {
            // A failed program can make a mark needed that was not before.
            let state = self.state;
            let is_left = |block: &usize| targets.contains(block) && state[*block] == State::Closed;
            let entries = self.gather(|block| is_left(&block));
            let is_listed = targets.iter().filter(|block| is_left(block)).all(|it| self.listed.contains(it));
            if entries == [Entry::Nothing; UNITS] && is_listed {
                return self.wipe_all(targets);
            }
            self.run(Kind::Plain, entries)?;
        }
    }

    fn wipe_all(&mut self, targets: &[usize]) -> Result<(), Stop> {
        for block in targets {
            if self.state[*block] == State::Closed {
                self.wipe(*block)?;
            }
        }
        Ok(())
    }

    /// Clears blocks in which a program failed.
    pub fn tend(&mut self) -> Result<Outcome, Stop> {
        let is_failing =
            |it: &Self, block: &usize| it.is_failing[*block] && it.state[*block] == State::Closed;
        while let Some(block) = (0..BLOCKS).find(|block| is_failing(self, block)) {
            self.clear(&[block])?;
        }
        self.gaps.clear();
        Ok(Outcome::Done)
    }

    /// Makes a unit read as zeros from the next flush on.
    pub fn trim(&mut self, unit: usize) {
        let has_content = matches!(self.at[unit], Where::At(..));
        self.pending[unit] = if has_content { Entry::Trimmed } else { Entry::Nothing };
    }

    pub fn flush(&mut self) -> Result<Outcome, Stop> {
        let mut entries = self.pending;
        for (unit, entry) in entries.iter_mut().enumerate() {
            if *entry == Entry::Trimmed && self.has(Fault::TrimVolatile) {
                (*entry, self.at[unit]) = (Entry::Nothing, Where::Zeros);
            }
        }
        if entries != [Entry::Nothing; UNITS] {
            self.run(Kind::Plain, entries)?;
        }
        self.pending = [Entry::Nothing; UNITS];
        self.tend()
    }

    pub fn erase(&mut self, unit: usize, keep: Keep) -> Result<Outcome, Stop> {
        if keep == Keep::Nothing {
            self.trim(unit);
        }
        self.flush()?;
        for _ in 0..ROUNDS_MAX {
            let is_open = |state| state == State::Open && !self.has(Fault::SkipOpen);
            let holders = self.holders(unit, |state| state == State::Closed || is_open(state));
            if holders.is_empty() {
                break;
            }
            self.clear(&holders)?;
        }
        self.tend()?;
        let remains = self.holders(unit, |state| state == State::Stuck);
        Ok(if remains.is_empty() { Outcome::Done } else { Outcome::Remains })
    }

    /// The blocks of such states that may hold a version of `unit` other than the present one.
    fn holders(&self, unit: usize, is_state: impl Fn(State) -> bool) -> Vec<usize> {
        let is_stale = |block: usize, page: usize| {
            self.names[block][page][unit] && self.at[unit] != Where::At(block, page)
        };
        let has_stale =
            |block: usize| (0..PAGES).any(|page| is_stale(block, page)) && !self.has(Fault::ForgetStale);
        let holds = |block: &usize| self.is_murky[*block] || has_stale(*block);
        (0..BLOCKS).filter(|block| is_state(self.state[*block])).filter(holds).collect()
    }

    /// Whether a block can be collected.
    pub fn can_move(&self, block: usize) -> bool {
        let is_closed = self.state[block] == State::Closed;
        is_closed && (0..UNITS).any(|unit| self.needed(unit) == Some(block))
    }

    pub fn collect(&mut self, block: usize) -> Result<Outcome, Stop> {
        let entries = self.gather(|from| from == block);
        self.run(Kind::Plain, entries)?;
        self.tend()
    }
}
