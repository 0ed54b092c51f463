//! Actions of processes on files.

use super::{Guest, Owner, Stay};
use quietus_detect::format::Block;

/// One thing that a process does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    Create(usize),
    /// A file gets a block in a slot.
    Grow(usize, usize, Block),
    /// A file gets a block of pointers.
    GrowIndirect(usize, Block),
    /// A block is written again, in memory.
    Touch(Block),
    /// A file loses what it has in a slot.
    Punch(usize, usize),
    /// A file loses everything.
    Truncate(usize),
    Delete(usize),
}

impl Action {
    pub fn frees(self) -> bool {
        matches!(self, Self::Punch(..) | Self::Truncate(_) | Self::Delete(_))
    }

    pub fn allocates(self) -> Option<Block> {
        match self {
            Self::Grow(_, _, block) | Self::GrowIndirect(_, block) => Some(block),
            _ => None,
        }
    }
}

impl Guest {
    /// Does `action`, if it can be done; returns what was freed. `begin` is told
    /// of each block that gets an owner.
    pub fn does(&mut self, action: Action, begin: impl FnOnce(Block, Owner) -> Stay) -> Vec<Block> {
        match action {
            Action::Create(file) if self.absent().contains(&file) => self.create(file),
            Action::Grow(file, slot, block) => self.grows(file, Some(slot), block, begin),
            Action::GrowIndirect(file, block) => self.grows(file, None, block, begin),
            Action::Touch(block) => self.touch(block),
            Action::Punch(file, slot) => return self.punch(file, slot),
            Action::Truncate(file) if self.present().contains(&file) => return self.truncate(file),
            Action::Delete(file) if self.present().contains(&file) => return self.delete(file),
            _ => {}
        }
        Vec::new()
    }

    fn grows(
        &mut self,
        file: usize,
        slot: Option<usize>,
        block: Block,
        begin: impl FnOnce(Block, Owner) -> Stay,
    ) {
        let has = slot.map_or_else(|| self.indirect(file), |it| self.at(file, it));
        let is_possible = self.present().contains(&file) && self.free().contains(&block) && has.is_none();
        let is_deep = slot.is_some_and(|it| it >= 2);
        if !is_possible || (is_deep && self.indirect(file).is_none()) {
            return;
        }
        self.grow(file, slot, block, begin(block, self.owner(file)));
    }

    /// Actions on files below `files` in `slots`, with the blocks of
    /// `free`. Of the slots that a file has free the first `most` count.
    pub fn actions(&self, files: usize, slots: &[usize], free: &[Block], most: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        for file in self.present() {
            self.actions_on(file, slots, (free, most), &mut actions);
        }
        actions.extend(self.absent().into_iter().filter(|it| *it < files).map(Action::Create));
        actions
    }

    fn actions_on(
        &self,
        file: usize,
        slots: &[usize],
        (free, most): (&[Block], usize),
        actions: &mut Vec<Action>,
    ) {
        actions.extend([Action::Delete(file), Action::Truncate(file)]);
        if self.indirect(file).is_none() && slots.iter().any(|it| *it >= 2) {
            actions.extend(free.iter().take(most).map(|it| Action::GrowIndirect(file, *it)));
        }
        let (taken, vacant): (Vec<_>, Vec<_>) =
            slots.iter().copied().partition(|it| self.at(file, *it).is_some());
        actions.extend(taken.into_iter().map(|it| Action::Punch(file, it)));
        let vacant = vacant.into_iter().filter(|it| *it < 2 || self.indirect(file).is_some());
        actions.extend(
            vacant.take(most).flat_map(|slot| free.iter().map(move |it| Action::Grow(file, slot, *it))),
        );
    }
}
