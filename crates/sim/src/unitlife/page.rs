//! The life of a unit, word for word as `docs/decisions/0039-life-of-a-unit.md` has it.
//!
//! The page has no bytes and no sequences: it knows which run lies in which slot, and which runs each one disowns. An operation is a stack of
//! [tasks](Task); the one on top is done first. Numbers in parentheses name the page's rules.

mod start;
mod tasks;

use super::{
    Answer, BLOCKS, CUTS_MAX, Change, Disk, FAIL_CUTS_MAX, Keep, Left, Look, Outcome, PAGES, Raw, Read, Step,
    UNITS,
};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a run, in the order in which runs were tried.
pub(super) type RunId = u32;

/// A set of blocks, a bit each.
pub(super) type Blocks = u8;

/// A page of the chip: its block, and its number there.
pub(super) type Place = (usize, usize);

/// What a run says of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Say {
    Nothing,
    Trimmed,
    Version(u32),
}

/// What a run is (9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Part {
    Plain,
    /// Counts if a session is in the page behind it.
    Trial,
    Session,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub says: [Say; UNITS],
    pub part: Part,
    pub lists: Blocks,
    /// The run that counted last when this one was tried.
    pub behind: Option<RunId>,
    /// Runs that do not count if this one is the last.
    pub disowns: BTreeSet<RunId>,
}

/// What cells hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Blank,
    Black,
    Holds(RunId, Look),
}

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Use {
    /// Erased since the start.
    Fresh,
    /// Its next page is this one.
    Open(usize),
    Closed,
    Bad,
    Stuck,
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub slots: [Slot; PAGES],
    pub is_marked: bool,
    pub used: Use,
    pub is_murky: bool,
    pub is_failing: bool,
    /// The runs that the layer knows to have put there.
    pub known: [Option<RunId>; PAGES],
}

/// What counts for a unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Counts {
    Zeros,
    Version(u32, Place),
    Mark(Place),
}

impl Counts {
    pub fn place(self) -> Option<Place> {
        match self {
            Self::Zeros => None,
            Self::Version(_, place) | Self::Mark(place) => Some(place),
        }
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Task {
    Run(Part, [Say; UNITS]),
    /// Opens a block if it was wiped.
    Open(usize),
    /// Wipes a block, in which so many erases failed already.
    Wipe(usize, u8),
    Blacken(usize),
    Mark(usize),
    /// Closes the open block if it is one of them, copies what is needed, and wipes them.
    Clear(Blocks),
    /// Copies what is needed until all of them are listed, and wipes them.
    Copy(Blocks),
    WipeClosed(Blocks),
    Tend,
    /// Clears all that may hold a version of the unit other than the present one.
    Destroy(usize),
    /// The pending changes are durable.
    Settled,
    /// Wipes murky blocks that the session lists, then clears the others.
    Sweep,
    /// The records after it disown nothing.
    EndStart,
}

/// How a change ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Well,
    Fails(Left),
    Cut(Left),
}

/// The chip, the layer, and what is under way.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) disk: Disk,
    pub(super) outcome: Option<Outcome>,
    pub(super) blocks: [Block; BLOCKS],
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) counts: [Counts; UNITS],
    pub(super) pending: [Say; UNITS],
    pub(super) listed: Blocks,
    pub(super) disowned: BTreeSet<RunId>,
    /// The last run that counts.
    pub(super) last: Option<RunId>,
    /// The blocks that a start may take before its session.
    pub(super) candidates: Option<Vec<usize>>,
    pub(super) tasks: Vec<Task>,
    pub(super) request: Option<Step>,
    /// The block that has failed.
    pub(super) worn: Option<usize>,
    pub(super) may_fail: bool,
    pub(super) cuts: u8,
    pub(super) owed: BTreeSet<(usize, u32)>,
    receipts: BTreeSet<u32>,
    next_run: RunId,
    written: u32,
}

impl Page {
    /// A new disk: an empty run in block 0.
    pub fn new(may_fail: bool) -> Self {
        let all = if may_fail { BLOCKS } else { BLOCKS - 1 };
        let block = |block| Block {
            slots: [Slot::Blank; PAGES],
            is_marked: block >= all,
            used: if block < all { Use::Fresh } else { Use::Bad },
            is_murky: false,
            is_failing: false,
            known: [None; PAGES],
        };
        let mut page = Self {
            disk: Disk::Idle,
            outcome: None,
            blocks: std::array::from_fn(block),
            runs: BTreeMap::new(),
            counts: [Counts::Zeros; UNITS],
            pending: [Say::Nothing; UNITS],
            listed: (1..all).map(|block| 1 << block).sum(),
            disowned: BTreeSet::new(),
            last: Some(0),
            candidates: None,
            tasks: Vec::new(),
            request: None,
            worn: None,
            may_fail,
            cuts: 0,
            owed: BTreeSet::new(),
            receipts: BTreeSet::new(),
            next_run: 1,
            written: 0,
        };
        let first = Run {
            says: [Say::Nothing; UNITS],
            part: Part::Plain,
            lists: page.listed,
            behind: None,
            disowns: BTreeSet::new(),
        };
        page.runs.insert(0, first);
        let block = &mut page.blocks[0];
        (block.slots[0], block.known[0], block.used) = (Slot::Holds(0, Look::Sound), Some(0), Use::Open(1));
        page
    }

    // What may happen (1)

    /// Whether `step` can happen.
    pub fn allows(&self, step: Step) -> bool {
        match step {
            Step::Write(_) | Step::Trim(_) | Step::Flush | Step::Erase(..) => self.disk == Disk::Idle,
            Step::Move(block) => {
                let block = usize::from(block);
                let is_closed = self.blocks[block].used == Use::Closed;
                self.disk == Disk::Idle && is_closed && self.needed() >> block & 1 == 1
            }
            Step::Go => matches!(self.disk, Disk::Busy(..)),
            Step::Fail(left) => {
                let Disk::Busy(change, block) = self.disk else { return false };
                let is_worn = self.worn.is_none_or(|worn| worn == usize::from(block));
                let may_fail = self.may_fail && self.cuts <= FAIL_CUTS_MAX;
                may_fail && is_worn && change.may_leave(left, false)
            }
            Step::Cut(left) => {
                let may_leave = match self.disk {
                    Disk::Idle => left == Left::Untouched,
                    Disk::Busy(change, _) => change.may_leave(left, true),
                    Disk::Down | Disk::Refused => false,
                };
                may_leave && self.cuts < CUTS_MAX
            }
            Step::Start(well) => self.disk == Disk::Down && well & !self.answer().weak() == 0,
        }
    }

    // What shows

    /// What shows now (2).
    pub fn answer(&self) -> Answer {
        let raw = |slot: &Slot| match slot {
            Slot::Blank => Raw::Blank,
            Slot::Black => Raw::Black,
            Slot::Holds(run, look) => Raw::Held(*look, self.runs[run].says.map(version)),
        };
        let found: BTreeSet<(usize, u32)> = self.found().collect();
        Answer {
            disk: self.disk,
            outcome: self.outcome,
            reads: std::array::from_fn(|unit| self.read(unit)),
            raw: self.blocks.each_ref().map(|block| block.slots.each_ref().map(raw)),
            bad: (0..BLOCKS).map(|block| u8::from(self.blocks[block].is_marked) << block).sum(),
            owed: self.owed.intersection(&found).map(|(_, version)| *version).collect(),
            receipts: self.receipts.clone(),
        }
    }

    fn read(&self, unit: usize) -> Read {
        if self.disk != Disk::Idle {
            return Read::Waits;
        }
        match (self.pending[unit], self.counts[unit]) {
            (Say::Version(version), _) | (Say::Nothing, Counts::Version(version, _)) => {
                Read::Version(version)
            }
            (Say::Trimmed, _) | (Say::Nothing, Counts::Zeros | Counts::Mark(_)) => Read::Zeros,
        }
    }

    /// Units and versions that raw reads find.
    fn found(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let says = self.blocks.iter().flat_map(|block| block.slots).filter_map(|slot| match slot {
            Slot::Holds(run, _) => Some(self.runs[&run].says),
            Slot::Blank | Slot::Black => None,
        });
        says.flat_map(|says| says.into_iter().enumerate())
            .filter_map(|(unit, say)| version(say).map(|version| (unit, version)))
    }

    // What happens

    /// Lets `step` happen.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Write(unit) => {
                self.written += 1;
                self.pending[usize::from(unit)] = Say::Version(self.written);
            }
            Step::Trim(unit) => self.trim(unit.into()),
            Step::Flush => self.begins(step, vec![Task::Tend, Task::Settled]),
            Step::Erase(unit, keep) => {
                self.owe(unit.into(), keep);
                if keep == Keep::Nothing {
                    self.trim(unit.into());
                }
                let unit = usize::from(unit);
                self.begins(step, vec![Task::Tend, Task::Destroy(unit), Task::Tend, Task::Settled]);
            }
            Step::Move(block) => {
                let says = self.copies(1 << block);
                self.begins(step, vec![Task::Tend, Task::Run(Part::Plain, says)]);
            }
            Step::Start(well) => {
                let tasks = self.start(well);
                self.begins(step, tasks);
            }
            Step::Go => self.ends(End::Well),
            Step::Fail(left) => self.ends(End::Fails(left)),
            Step::Cut(left) => {
                self.cuts += 1;
                self.ends(End::Cut(left));
            }
        }
        self.forget_runs();
    }

    /// A trim (5).
    fn trim(&mut self, unit: usize) {
        let has_version = matches!(self.counts[unit], Counts::Version(..));
        self.pending[unit] = if has_version { Say::Trimmed } else { Say::Nothing };
    }

    /// A deletion of `unit` was asked for (8).
    fn owe(&mut self, unit: usize, keep: Keep) {
        let present = match (self.pending[unit], self.counts[unit]) {
            (Say::Version(version), _) | (Say::Nothing, Counts::Version(version, _)) => Some(version),
            _ => None,
        };
        let spared = present.filter(|_| keep == Keep::Present);
        let owed = self.found().filter(|(of, version)| *of == unit && Some(*version) != spared);
        let owed: Vec<_> = owed.collect();
        self.owed.extend(owed);
    }

    fn begins(&mut self, request: Step, tasks: Vec<Task>) {
        // A start that finds no run has refused already.
        if self.disk == Disk::Refused {
            return;
        }
        if matches!(request, Step::Flush | Step::Erase(..)) && self.pending != [Say::Nothing; UNITS] {
            self.tasks = tasks;
            self.tasks.push(Task::Run(Part::Plain, self.pending));
        } else {
            self.tasks = tasks;
        }
        (self.request, self.outcome) = (Some(request), None);
        self.go_on();
    }

    /// The operation returns (8).
    fn returns(&mut self) {
        let mut outcome = Outcome::Done;
        match self.request.take() {
            Some(Step::Erase(unit, _)) => {
                let unit = usize::from(unit);
                if self.holders(unit, |used| used == Use::Stuck) != 0 {
                    outcome = Outcome::Remains;
                } else {
                    self.receipts.extend(self.owed.iter().filter(|(of, _)| *of == unit).map(|(_, it)| *it));
                    self.owed.retain(|(of, _)| *of != unit);
                }
            }
            Some(Step::Start(_)) => self.cuts = 0,
            _ => {}
        }
        (self.disk, self.outcome) = (Disk::Idle, Some(outcome));
    }

    /// The next change of the chip ends, or the power is cut while there is none.
    fn ends(&mut self, end: End) {
        if let Disk::Busy(change, block) = self.disk {
            let block = usize::from(block);
            if matches!(end, End::Fails(_)) {
                self.worn = Some(block);
            }
            match change {
                Change::Program => self.programmed(block, end),
                Change::Erase => self.erased(block, end),
                Change::Blacken => self.blackened(block, end),
                Change::Mark => self.marked(block, end),
            }
        }
        match end {
            End::Cut(_) => self.down(),
            End::Well | End::Fails(_) => self.go_on(),
        }
    }

    /// The power is off: memory is lost (9).
    fn down(&mut self) {
        for block in &mut self.blocks {
            (block.used, block.is_murky, block.is_failing) = (Use::Closed, false, false);
            block.known = [None; PAGES];
        }
        (self.disk, self.outcome, self.request) = (Disk::Down, None, None);
        (self.counts, self.pending) = ([Counts::Zeros; UNITS], [Say::Nothing; UNITS]);
        (self.listed, self.candidates) = (0, None);
        self.disowned.clear();
        self.tasks.clear();
    }

    /// Runs that neither the chip nor the layer knows are of no account.
    fn forget_runs(&mut self) {
        let slots = self.blocks.iter().flat_map(|block| block.slots);
        let held = slots.filter_map(|slot| match slot {
            Slot::Holds(run, _) => Some(run),
            Slot::Blank | Slot::Black => None,
        });
        let known = self.blocks.iter().flat_map(|block| block.known).flatten();
        let all: BTreeSet<RunId> = held.chain(known).collect();
        self.runs.retain(|run, _| all.contains(run));
        for run in self.runs.values_mut() {
            run.disowns.retain(|it| all.contains(it));
            run.behind = run.behind.filter(|it| all.contains(it));
        }
        self.last = self.last.filter(|it| all.contains(it));
        self.disowned.retain(|it| all.contains(it));
    }
}

fn version(say: Say) -> Option<u32> {
    match say {
        Say::Version(version) => Some(version),
        Say::Nothing | Say::Trimmed => None,
    }
}
