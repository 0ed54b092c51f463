//! The life of a unit, enumerated: a page of rules ([`page`], `docs/decisions/0039-life-of-a-unit.md`) beside a literal machine of a raw chip,
//! records and a layer that reads them ([`literal`]), in each state that both can reach.
//!
//! The layer is a small one that follows the rules of `docs/formats/flash.md`, since the real one needs more blocks. The disk has two units. The
//! chip has five blocks of three pages. Each page is a run of its own: a record that says of each unit nothing, a version, or that it is trimmed.
//! Each write draws the next number as its version. In the smaller world block 4 is bad from the beginning, and nothing else fails.
//! In the larger one a single block may fail, as often as it likes.
//!
//! # What happens, change by change
//!
//! An operation is a sequence of changes of the chip. [`Step::Flush`], [`Step::Erase`], [`Step::Move`] and [`Step::Start`] only begin one. [`Step::Go`] lets
//! the next change end well, [`Step::Fail`] lets the chip report a failure, and [`Step::Cut`] cuts the power within the change. After the last
//! change the operation returns at once.
//!
//! *Needed* is a version that a unit has now, and a mark as long as another block may hold a version of its unit. Bad blocks and those that the last record
//! lists do not count here. A *murky* block may hold versions that are not known.
//!
//! *A run* goes to the next page of the open block. If the block is full, the first block that the last record lists is taken: it is wiped, unless
//! it was erased since the start. The last page of a block carries all that is needed elsewhere, too. A record lists all other blocks that
//! are not bad and hold nothing needed, once it counts. If the program fails, the block is closed, failing and murky, and the run is tried once more; a session with its trial. Records disown the failed run from then on.
//!
//! *Wipe*: an erase, and a second one if it fails. If both fail, or the block was failing, the block is retired: its pages are blackened, raw
//! reads show whether they are, and then the block is marked bad. If any of this does not succeed the block is *stuck*.
//!
//! *Clear* some blocks: closes the open one, if it is among them; runs with what is needed of them, until that is nothing and all are listed;
//! then a wipe of each that is closed. *Tend*: clears failing blocks, one by one, the first one first.
//!
//! *Flush*: one run with all that is pending, then tend. A trim becomes a mark, unless the unit has one, or no block needs it.
//! *Move*: one run with what is needed of a block, then tend. *Erase*: a trim, unless the present content stays; a flush; then all closed or
//! open blocks that are murky or have another version than the present one are cleared, until there is no such block; then tend. The
//! deletion returns [`Outcome::Remains`] if a stuck block is murky or has such a version.
//!
//! *Start*: reads all pages. Trials without a session in the page behind them do not count, nor do runs that the last one disowns, nor those in
//! blocks that it lists. The run before the last one is the one that counted when that was written; if it does not read, it lists all. All listed blocks are murky, and those that look neither blank nor full. The blocks that may be taken are those that the last two runs list
//! and that look blank or full, in order; if these are fewer than two, then others that both list; if there is no such block, all that the last one
//! lists. (1) A trial with what the last run holds (a session with its trial), which lists the rest of those. (2) A session, which holds nothing. (3) Murky blocks that the session
//! lists are wiped. (4) All other murky blocks are cleared. (5) One empty run. Tend. Records before (5) disown all runs behind the last one that are
//! not of this start, and what the last run disowned.
//!
//! # The chip
//!
//! A page that was left [`Left::Weak`] reads well or badly at each start, as [`Step::Start`] says. [`Left::Hidden`] looks blank, [`Left::Garbled`] does not read; raw
//! reads find the content of both. The power is cut at most [`CUTS_MAX`] times before a start ends: the chip has no blocks for more.

pub mod graph;
mod judge;
mod key;
mod literal;
mod page;

use std::collections::BTreeSet;

/// Units of the disk.
pub const UNITS: usize = 2;
/// Blocks of the chip.
pub const BLOCKS: usize = 5;
/// Pages of a block.
pub const PAGES: usize = 3;
/// Cuts of the power before a start ends: one within an operation, two within starts.
pub const CUTS_MAX: u8 = 3;
/// Cuts of the power before which a block may still fail: a start after more of them has no block to spare.
pub const FAIL_CUTS_MAX: u8 = 1;

/// What a deletion leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Keep {
    /// Nothing: the unit reads as zeros.
    Nothing,
    /// The present content.
    Present,
}

/// What a change that does not end well leaves of its block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Left {
    /// All as it was.
    Untouched,
    /// All as if it had ended well.
    Whole,
    /// Of an erase: the first page is erased, the others are untouched.
    Half,
    /// Pages that read well or badly.
    Weak,
    /// Pages that look blank, and are not.
    Hidden,
    /// Pages that do not read. Of pages that were to be blackened: the chip says that they are, and nothing happened.
    Garbled,
}

impl Left {
    /// All remains.
    pub const ALL: [Self; 6] =
        [Self::Untouched, Self::Whole, Self::Half, Self::Weak, Self::Hidden, Self::Garbled];
}

/// A change of the chip.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A page is programmed.
    Program,
    /// A block is erased.
    Erase,
    /// All pages of a block are blackened.
    Blacken,
    /// A block is marked bad.
    Mark,
}

impl Change {
    /// Whether the change may leave `left` when the power is cut, or else when it fails.
    fn may_leave(self, left: Left, is_cut: bool) -> bool {
        match (self, left) {
            (Self::Program, Left::Half) => false,
            (Self::Program | Self::Erase, _) | (Self::Blacken | Self::Mark, Left::Untouched) => true,
            (Self::Blacken | Self::Mark, Left::Whole) => is_cut,
            (Self::Blacken, Left::Garbled) => !is_cut,
            (Self::Blacken | Self::Mark, _) => false,
        }
    }
}

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A write of a unit, pending until a flush.
    Write(u8),
    /// A trim of a unit, pending until a flush.
    Trim(u8),
    /// A flush begins.
    Flush,
    /// A deletion of a unit begins.
    Erase(u8, Keep),
    /// A collection of a block begins. Illegal if it is open, or holds nothing needed.
    Move(u8),
    /// The next change of the chip ends well. Illegal if no operation is under way.
    Go,
    /// The next change of the chip fails. Illegal in a block other than the one that failed before.
    Fail(Left),
    /// The power is cut within the next change, or while no operation is under way.
    Cut(Left),
    /// A start begins. The bits say which weak pages read well; page `p` of block `b` is bit `3 b + p`.
    Start(u16),
}

/// What the disk does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disk {
    /// It waits for a request.
    Idle,
    /// An operation is under way; its next change, and the block.
    Busy(Change, u8),
    /// The power is off.
    Down,
    /// An operation found no block to take: the disk is lost.
    Refused,
}

/// What a read of a unit shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Read {
    /// Nothing, as an operation is under way or the power is off.
    Waits,
    /// Zeros.
    Zeros,
    /// A version.
    Version(u32),
    /// An error: a page that counts does not read.
    Error,
}

/// What the last operation returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Success.
    Done,
    /// A block will not erase.
    Remains,
}

/// What raw reads find in a page, and how it looks to the layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Raw {
    /// Erased cells.
    Blank,
    /// Blackened cells.
    Black,
    /// A record with versions of some units.
    Held(Look, [Option<u32>; UNITS]),
}

/// How a page with content reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Look {
    /// Well.
    Sound,
    /// Well or badly.
    Weak,
    /// As if it were blank.
    Hidden,
    /// Badly.
    Garbled,
}

/// What can be seen after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What the disk does.
    pub disk: Disk,
    /// What the last operation returned; `None` if an operation is under way or was cut short.
    pub outcome: Option<Outcome>,
    /// What a read of each unit shows.
    pub reads: [Read; UNITS],
    /// What raw reads of each page find.
    pub raw: [[Raw; PAGES]; BLOCKS],
    /// The blocks that are marked bad, a bit each.
    pub bad: u8,
    /// Versions on the chip of which the destruction was asked for, and has not been confirmed.
    pub owed: BTreeSet<u32>,
    /// Versions whose destruction was confirmed.
    pub receipts: BTreeSet<u32>,
}

impl Answer {
    /// The versions that raw reads find.
    fn found(&self) -> BTreeSet<u32> {
        let held = |raw: &Raw| match raw {
            Raw::Held(_, versions) => *versions,
            Raw::Blank | Raw::Black => [None; UNITS],
        };
        self.raw.iter().flatten().flat_map(held).flatten().collect()
    }

    /// The weak pages, as bits of [`Step::Start`].
    fn weak(&self) -> u16 {
        let is_weak = |raw: &Raw| matches!(raw, Raw::Held(Look::Weak, _));
        let weak = self.raw.iter().flatten().enumerate().filter(|(_, raw)| is_weak(raw));
        weak.map(|(page, _)| 1 << page).sum()
    }
}

/// A rule that the literal machine leaves out, to show that the enumeration notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A deletion looks only for murky blocks.
    ForgetStale,
    /// Blocks are wiped before what is needed of them is copied.
    EraseBeforeCopy,
    /// A deletion leaves the open block as it is.
    SkipOpen,
    /// A start goes on in the block of the last run, at the first page that looks blank.
    ProgramAfterCut,
    /// A trial holds nothing.
    TrustWeak,
    /// A start takes listed blocks for erased if they look blank.
    TrustBlank,
    /// Marks do not reach the chip.
    TrimVolatile,
    /// Marks are not carried on when their block goes.
    TrimDropped,
    /// A block that will not erase is marked bad as it is.
    BadSpared,
    /// A start counts trials that no session follows.
    CountTrials,
    /// A start counts runs in listed blocks.
    CountListed,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 11] = [
        Self::ForgetStale,
        Self::EraseBeforeCopy,
        Self::SkipOpen,
        Self::ProgramAfterCut,
        Self::TrustWeak,
        Self::TrustBlank,
        Self::TrimVolatile,
        Self::TrimDropped,
        Self::BadSpared,
        Self::CountTrials,
        Self::CountListed,
    ];
}
