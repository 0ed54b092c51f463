//! A raw chip: cells that hold records, and changes that end as a script says.

use crate::unitlife::{BLOCKS, Change, Left, Look, PAGES, UNITS};
use std::collections::VecDeque;

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    Plain,
    Trial,
    Session,
}

/// What a record says of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Entry {
    Nothing,
    Trimmed,
    Content(u32),
}

/// The content of a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Record {
    pub sequence: u32,
    pub kind: Kind,
    pub entries: [Entry; UNITS],
    /// The blocks that hold nothing that counts.
    pub listed: Vec<usize>,
    /// Sequences that do not count: the one before them, and the last one.
    pub gaps: Vec<(u32, u32)>,
}

/// The cells of a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Cells {
    Blank,
    Black,
    Programmed(Record, Look),
}

/// How a change ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum End {
    Well,
    Fails(Left),
    Cut(Left),
}

/// Why an operation does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The script ends before this change.
    Before(Change, usize),
    /// The power was cut.
    Cut,
    /// There is no block to take.
    NoBlock,
}

/// What a read finds.
pub(super) enum Found<'a> {
    Blank,
    Record(&'a Record),
    Garbage,
}

#[derive(Clone, Debug)]
pub(super) struct Chip {
    pub cells: [[Cells; PAGES]; BLOCKS],
    pub is_bad: [bool; BLOCKS],
    /// The block that has failed.
    pub worn: Option<usize>,
    /// Which weak pages read well until the next start.
    pub well: u16,
    pub script: VecDeque<End>,
}

impl Chip {
    pub fn new() -> Self {
        Self {
            cells: std::array::from_fn(|_| std::array::from_fn(|_| Cells::Blank)),
            is_bad: [false; BLOCKS],
            worn: None,
            well: 0,
            script: VecDeque::new(),
        }
    }

    fn end(&mut self, change: Change, block: usize) -> Result<End, Stop> {
        assert!(!self.is_bad[block], "block {block} is marked bad");
        let end = self.script.pop_front().ok_or(Stop::Before(change, block))?;
        if matches!(end, End::Fails(_)) {
            self.worn = Some(block);
        }
        Ok(end)
    }

    pub fn read(&self, block: usize, page: usize) -> Found<'_> {
        match &self.cells[block][page] {
            Cells::Blank | Cells::Programmed(_, Look::Hidden) => Found::Blank,
            Cells::Black | Cells::Programmed(_, Look::Garbled) => Found::Garbage,
            Cells::Programmed(_, Look::Weak) if self.well >> (PAGES * block + page) & 1 == 0 => {
                Found::Garbage
            }
            Cells::Programmed(record, Look::Sound | Look::Weak) => Found::Record(record),
        }
    }

    /// Whether raw reads find anything but black cells in the block.
    pub fn tells(&self, block: usize) -> bool {
        self.cells[block].iter().any(|cells| *cells != Cells::Black)
    }

    /// Programs a page; false if that fails.
    pub fn program(&mut self, block: usize, page: usize, record: Record) -> Result<bool, Stop> {
        let end = self.end(Change::Program, block)?;
        let cells = &mut self.cells[block][page];
        let (left, result) = match end {
            End::Well => (Left::Whole, Ok(true)),
            End::Fails(left) => (left, Ok(false)),
            End::Cut(left) => (left, Err(Stop::Cut)),
        };
        let look = match left {
            Left::Untouched | Left::Half => return result,
            // Two records in one page do not read.
            _ if *cells != Cells::Blank => Look::Garbled,
            Left::Whole => Look::Sound,
            Left::Weak => Look::Weak,
            Left::Hidden => Look::Hidden,
            Left::Garbled => Look::Garbled,
        };
        *cells = Cells::Programmed(record, look);
        result
    }

    /// Erases a block; false if that fails.
    pub fn erase(&mut self, block: usize) -> Result<bool, Stop> {
        let (left, result) = match self.end(Change::Erase, block)? {
            End::Well => (Left::Whole, Ok(true)),
            End::Fails(left) => (left, Ok(false)),
            End::Cut(left) => (left, Err(Stop::Cut)),
        };
        let pages = &mut self.cells[block];
        let mut look = |to: Look| {
            for cells in pages.iter_mut() {
                if let Cells::Programmed(_, look) = cells {
                    *look = to;
                }
            }
        };
        match left {
            Left::Untouched => {}
            Left::Whole => pages.fill(Cells::Blank),
            Left::Half => pages[0] = Cells::Blank,
            Left::Weak => look(Look::Weak),
            Left::Hidden => look(Look::Hidden),
            Left::Garbled => look(Look::Garbled),
        }
        result
    }

    /// Blackens all pages of a block; false if the chip refuses.
    pub fn blacken(&mut self, block: usize) -> Result<bool, Stop> {
        let (is_black, result) = match self.end(Change::Blacken, block)? {
            End::Well => (true, Ok(true)),
            End::Fails(left) => (false, Ok(left == Left::Garbled)),
            End::Cut(left) => (left == Left::Whole, Err(Stop::Cut)),
        };
        if is_black {
            self.cells[block].fill(Cells::Black);
        }
        result
    }

    /// Marks a block bad; false if that fails.
    pub fn mark(&mut self, block: usize) -> Result<bool, Stop> {
        let (is_marked, result) = match self.end(Change::Mark, block)? {
            End::Well => (true, Ok(true)),
            End::Fails(_) => (false, Ok(false)),
            End::Cut(left) => (left == Left::Whole, Err(Stop::Cut)),
        };
        self.is_bad[block] = is_marked;
        result
    }
}
