//! What an operation does next, and what its changes leave.

use super::{Block, Blocks, Counts, End, Page, Part, Run, Say, Slot, Task, Use};
use crate::unitlife::{BLOCKS, Change, Disk, Left, Look, PAGES, UNITS};

/// Erases of a block that may fail before it is retired.
const ERASE_TRIES: u8 = 2;

/// The blocks of a set, in order.
pub(super) fn each(blocks: Blocks) -> impl Iterator<Item = usize> {
    (0..BLOCKS).filter(move |block| blocks >> block & 1 == 1)
}

impl Page {
    /// The blocks of which `is` is true.
    pub(super) fn such(&self, is: impl Fn(&Block) -> bool) -> Blocks {
        (0..BLOCKS).filter(|block| is(&self.blocks[*block])).map(|block| 1 << block).sum()
    }

    fn open(&self) -> Option<(usize, usize)> {
        let page = |block: usize| match self.blocks[block].used {
            Use::Open(page) => Some((block, page)),
            Use::Fresh | Use::Closed | Use::Bad | Use::Stuck => None,
        };
        (0..BLOCKS).find_map(page)
    }

    /// Does all that needs no change of the chip, until one is next or the operation returns.
    pub(super) fn go_on(&mut self) {
        loop {
            let Some(task) = self.tasks.last().cloned() else { return self.returns() };
            let change = match task {
                Task::Run(..) => match self.open() {
                    Some((block, _)) => Some((Change::Program, block)),
                    None if self.takes() => None,
                    None => {
                        self.disk = Disk::Refused;
                        return self.tasks.clear();
                    }
                },
                Task::Wipe(block, _) => Some((Change::Erase, block)),
                Task::Blacken(block) => Some((Change::Blacken, block)),
                Task::Mark(block) => Some((Change::Mark, block)),
                _ => {
                    self.tasks.pop();
                    self.does(task);
                    None
                }
            };
            if let Some((change, block)) = change {
                self.disk = Disk::Busy(change, block as u8);
                return;
            }
        }
    }

    /// A block is taken (3); false if there is no block.
    fn takes(&mut self) -> bool {
        let is_usable = |block: &usize| {
            let it = &self.blocks[*block];
            matches!(it.used, Use::Fresh | Use::Closed) && !it.is_failing
        };
        let block = match &mut self.candidates {
            Some(candidates) if candidates.is_empty() => None,
            Some(candidates) => Some(candidates.remove(0)),
            None => each(self.listed).find(is_usable),
        };
        let Some(block) = block else { return false };
        self.tasks.push(Task::Open(block));
        if self.blocks[block].used != Use::Fresh {
            self.tasks.push(Task::Wipe(block, 0));
        }
        true
    }

    /// A task that changes nothing on the chip by itself.
    fn does(&mut self, task: Task) {
        match task {
            Task::Open(block) => {
                let used = &mut self.blocks[block].used;
                *used = if *used == Use::Fresh { Use::Open(0) } else { *used };
            }
            Task::Settled => self.pending = [Say::Nothing; UNITS],
            Task::Clear(blocks) => {
                if let Some((open, _)) = self.open().filter(|(open, _)| blocks >> open & 1 == 1) {
                    self.blocks[open].used = Use::Closed;
                }
                self.tasks.push(Task::Copy(blocks));
            }
            Task::Copy(blocks) => self.copies_all(blocks),
            Task::WipeClosed(blocks) => {
                let closed = blocks & self.such(|it| it.used == Use::Closed);
                if let Some(first) = each(closed).next() {
                    self.tasks.push(Task::WipeClosed(blocks & !(1 << first)));
                    self.tasks.push(Task::Wipe(first, 0));
                }
            }
            Task::Tend => {
                let failing = self.such(|it| it.is_failing && it.used == Use::Closed);
                match each(failing).next() {
                    Some(first) => self.tasks.extend([Task::Tend, Task::Clear(1 << first)]),
                    None => self.disowned.clear(),
                }
            }
            Task::Destroy(unit) => {
                let holders = self.holders(unit, |used| matches!(used, Use::Closed | Use::Open(_)));
                if holders != 0 {
                    self.tasks.push(Task::Destroy(unit));
                    self.tasks.push(Task::Clear(holders));
                }
            }
            Task::Sweep => {
                let murky = self.such(|it| it.is_murky && it.used == Use::Closed);
                if murky & !self.listed != 0 {
                    self.tasks.push(Task::Clear(murky & !self.listed));
                }
                self.tasks.push(Task::WipeClosed(murky & self.listed));
            }
            Task::EndStart => self.disowned.clear(),
            Task::Run(..) | Task::Wipe(..) | Task::Blacken(_) | Task::Mark(_) => {
                unreachable!("{task:?} changes the chip")
            }
        }
    }

    // What is needed (4)

    /// Whether `unit` may come back from a block other than `except`.
    fn may_return(&self, unit: usize, except: usize) -> bool {
        let others = !self.listed & !(1 << except) & self.such(|it| it.used != Use::Bad);
        each(others).any(|block| self.blocks[block].is_murky || self.has(block, unit, None))
    }

    /// Whether a run that is known in `block` has a version of `unit`, other than `present`.
    fn has(&self, block: usize, unit: usize, present: Option<(usize, usize)>) -> bool {
        let is_other = |page: usize| present != Some((block, page));
        let is_version = |run| matches!(self.runs[&run].says[unit], Say::Version(_));
        let mut known = self.blocks[block].known.into_iter().enumerate();
        known.any(|(page, run)| is_other(page) && run.is_some_and(is_version))
    }

    /// The block that holds what is needed of `unit`.
    fn keeper(&self, unit: usize) -> Option<usize> {
        match self.counts[unit] {
            Counts::Zeros => None,
            Counts::Version(_, (block, _)) => Some(block),
            Counts::Mark((block, _)) => self.may_return(unit, block).then_some(block),
        }
    }

    /// The blocks that hold anything needed.
    pub(super) fn needed(&self) -> Blocks {
        (0..UNITS).filter_map(|unit| self.keeper(unit)).fold(0, |all, block| all | 1 << block)
    }

    /// A run with what is needed in `blocks`.
    pub(super) fn copies(&self, blocks: Blocks) -> [Say; UNITS] {
        std::array::from_fn(|unit| match (self.keeper(unit), self.counts[unit]) {
            (Some(block), Counts::Version(version, _)) if blocks >> block & 1 == 1 => Say::Version(version),
            (Some(block), Counts::Mark(_)) if blocks >> block & 1 == 1 => Say::Trimmed,
            _ => Say::Nothing,
        })
    }

    /// The blocks of such a use that may hold a version of `unit` other than the present one (8).
    pub(super) fn holders(&self, unit: usize, is: impl Fn(Use) -> bool) -> Blocks {
        let present = match self.counts[unit] {
            Counts::Version(_, place) => Some(place),
            Counts::Zeros | Counts::Mark(_) => None,
        };
        let holds = |block: &usize| self.blocks[*block].is_murky || self.has(*block, unit, present);
        let blocks = (0..BLOCKS).filter(|block| is(self.blocks[*block].used));
        blocks.filter(holds).map(|block| 1 << block).sum()
    }

    // Blocks are cleared (6)

    fn copies_all(&mut self, blocks: Blocks) {
        let closed = blocks & self.such(|it| it.used == Use::Closed);
        let says = self.copies(closed);
        if says == [Say::Nothing; UNITS] && closed & !self.listed == 0 {
            self.tasks.push(Task::WipeClosed(blocks));
        } else {
            self.tasks.extend([Task::Copy(blocks), Task::Run(Part::Plain, says)]);
        }
    }

    // Changes end

    /// A run was programmed in the open block (3).
    pub(super) fn programmed(&mut self, block: usize, end: End) {
        let Some(Task::Run(part, mut says)) = self.tasks.last().cloned() else {
            unreachable!("a run is on top")
        };
        let Use::Open(page) = self.blocks[block].used else { unreachable!("runs go to the open block") };
        if page + 1 == PAGES && part == Part::Plain {
            let others = self.copies(!(1 << block));
            for (say, other) in says.iter_mut().zip(others) {
                *say = if *say == Say::Nothing { other } else { *say };
            }
        }
        let id = self.next_run;
        self.next_run += 1;
        let (lists, disowns) = (self.lists(block, part, &says), self.disowned.clone());
        self.runs.insert(id, Run { says, part, lists, behind: self.last, disowns });
        let look = match end {
            End::Well | End::Fails(Left::Whole) | End::Cut(Left::Whole) => Some(Look::Sound),
            End::Fails(left) | End::Cut(left) => match left {
                Left::Weak => Some(Look::Weak),
                Left::Hidden => Some(Look::Hidden),
                Left::Garbled => Some(Look::Garbled),
                Left::Untouched | Left::Half | Left::Whole => None,
            },
        };
        let it = &mut self.blocks[block];
        if let Some(look) = look {
            it.slots[page] = Slot::Holds(id, look);
        }
        match end {
            End::Well => {
                (it.known[page], self.last) = (Some(id), Some(id));
                it.used = if page + 1 < PAGES { Use::Open(page + 1) } else { Use::Closed };
                self.tasks.pop();
                self.count((block, page), says);
                if part != Part::Trial {
                    (self.listed, self.candidates) = (lists, None);
                }
            }
            End::Fails(_) => {
                (it.used, it.is_failing, it.is_murky) = (Use::Closed, true, true);
                self.disowned.insert(id);
                let trial = page.checked_sub(1).and_then(|page| it.known[page]);
                if let Some(trial) = trial.filter(|_| part == Part::Session) {
                    self.tasks.push(Task::Run(Part::Trial, self.runs[&trial].says));
                }
            }
            End::Cut(_) => {}
        }
    }

    /// What a run in `block` lists (3), (9).
    fn lists(&self, block: usize, part: Part, says: &[Say; UNITS]) -> Blocks {
        if let (Some(candidates), Part::Trial) = (&self.candidates, part) {
            return candidates.iter().map(|block| 1 << block).sum();
        }
        let stays = (0..UNITS).filter(|unit| says[*unit] == Say::Nothing);
        let needed = stays.filter_map(|unit| self.keeper(unit)).fold(1 << block, |all, it| all | 1 << it);
        self.such(|it| it.used != Use::Bad) & !needed
    }

    /// From now on a run counts.
    pub(super) fn count(&mut self, place: (usize, usize), says: [Say; UNITS]) {
        for (counts, say) in self.counts.iter_mut().zip(says) {
            *counts = match say {
                Say::Nothing => *counts,
                Say::Trimmed => Counts::Mark(place),
                Say::Version(version) => Counts::Version(version, place),
            };
        }
    }

    /// A block was erased (7).
    pub(super) fn erased(&mut self, block: usize, end: End) {
        let it = &mut self.blocks[block];
        let (left, is_well) = match end {
            End::Well => (Left::Whole, true),
            End::Fails(left) | End::Cut(left) => (left, false),
        };
        let look = |slot: Slot, look: Look| match slot {
            Slot::Holds(run, _) => Slot::Holds(run, look),
            Slot::Blank | Slot::Black => slot,
        };
        match left {
            Left::Untouched => {}
            Left::Whole => it.slots = [Slot::Blank; PAGES],
            Left::Half => it.slots[0] = Slot::Blank,
            Left::Weak => it.slots = it.slots.map(|slot| look(slot, Look::Weak)),
            Left::Hidden => it.slots = it.slots.map(|slot| look(slot, Look::Hidden)),
            Left::Garbled => it.slots = it.slots.map(|slot| look(slot, Look::Garbled)),
        }
        let Some(Task::Wipe(_, failed)) = self.tasks.pop() else { unreachable!("a wipe is on top") };
        if is_well {
            (it.used, it.is_murky, it.known) = (Use::Fresh, false, [None; PAGES]);
        }
        if is_well && it.is_failing || !is_well && failed + 1 == ERASE_TRIES {
            it.is_failing = false;
            self.tasks.push(Task::Blacken(block));
        } else if !is_well {
            self.tasks.push(Task::Wipe(block, failed + 1));
        }
    }

    /// The pages of a block were blackened (7).
    pub(super) fn blackened(&mut self, block: usize, end: End) {
        let it = &mut self.blocks[block];
        self.tasks.pop();
        if matches!(end, End::Well | End::Cut(Left::Whole)) {
            it.slots = [Slot::Black; PAGES];
        }
        if matches!(end, End::Well) {
            self.tasks.push(Task::Mark(block));
        } else if it.slots == [Slot::Black; PAGES] && matches!(end, End::Fails(Left::Garbled)) {
            // An earlier start had blackened them.
            self.tasks.push(Task::Mark(block));
        } else {
            it.used = Use::Stuck;
        }
    }

    /// A block was marked bad (7).
    pub(super) fn marked(&mut self, block: usize, end: End) {
        let it = &mut self.blocks[block];
        self.tasks.pop();
        it.is_marked = matches!(end, End::Well | End::Cut(Left::Whole));
        it.used = if it.is_marked { Use::Bad } else { Use::Stuck };
        if it.is_marked {
            (it.is_murky, it.known) = (false, [None; PAGES]);
        }
    }
}
