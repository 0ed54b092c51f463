//! Which blocks the observed pointers name: the second witness of a death.
//!
//! There is no table of owners. A name is counted when a pointer is first seen
//! and taken back when the same pointer is seen to be gone; both come from
//! differences of the same contents, so that they cancel exactly.

use super::RuleE;
use super::history::Lately;
use crate::format::{Block, Change, Format, Kind, Link, Reason};
use crate::options::Grade;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Most blocks that may be named more than once: extended-attribute blocks
/// that files share, and whatever a broken file system has.
const NAMED_AGAIN_MAX: usize = 1 << 20;

/// The names, and the blocks that hold pointers.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Named by some observed pointer.
    pub(super) named: RoaringBitmap,
    /// How often more than once.
    pub(super) again: BTreeMap<Block, u32>,
    /// Named by nothing but pointers in a block whose type is not certain.
    pub(super) guessed: RoaringBitmap,
    /// Blocks that hold pointers, and their level.
    pub(super) pointers: BTreeMap<Block, u8>,
    /// Those whose type is not certain yet.
    pub(super) uncertain: Lately,
    /// What is to be done with the content of a block of pointers once it has
    /// been read.
    pub(super) tasks: BTreeMap<Block, (Task, u8)>,
    /// Where the next read is looked for.
    pub(super) cursor: Block,
}

/// What to do with the pointers in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Count their names.
    Link,
    /// Take their names back.
    Unlink,
    /// Their generation has changed, and they have not.
    Renew,
    /// They are pointers for certain.
    Confirm,
}

impl Names {
    pub(super) fn len(&self) -> u64 {
        self.named.len()
    }

    pub(super) fn pointer_blocks(&self) -> u64 {
        self.pointers.len() as u64
    }

    /// Whether an observed pointer that certainly is one names `block`.
    pub(super) fn owns(&self, block: Block) -> bool {
        self.named.contains(block) && !self.guessed.contains(block)
    }

    /// Those of `blocks` that an observed pointer names which certainly is one.
    pub(super) fn owned_among(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        (blocks & &self.named) - &self.guessed
    }

    /// Those of `blocks` that are named.
    pub(super) fn among(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        blocks & &self.named
    }

    /// Those of `blocks` whose content means, or is yet to mean, something.
    pub(super) fn pointers_within(&self, blocks: RangeInclusive<Block>) -> BTreeSet<Block> {
        let pointers = self.pointers.range(blocks.clone()).map(|(block, _)| *block);
        pointers.chain(self.tasks.range(blocks).map(|(block, _)| *block)).collect()
    }

    /// Whether every pointer that is known of has been followed.
    pub(super) fn are_known(&self) -> bool {
        !self.tasks.values().any(|(task, _)| *task != Task::Confirm)
    }

    pub(super) fn next_read(&mut self) -> Option<Block> {
        let next = self.tasks.range(self.cursor..).next().map(|(block, _)| *block)?;
        self.cursor = next.checked_add(1)?;
        Some(next)
    }

    fn name(&mut self, block: Block, guess: bool) {
        if !self.named.insert(block) {
            *self.again.entry(block).or_default() += 1;
        } else if guess {
            self.guessed.insert(block);
        }
        if !guess {
            self.guessed.remove(block);
        }
    }

    /// Whether it is named no more.
    fn unname(&mut self, block: Block) -> bool {
        match self.again.get_mut(&block) {
            Some(1) => {
                self.again.remove(&block);
                return false;
            }
            Some(more) => {
                *more -= 1;
                return false;
            }
            None => {}
        }
        self.guessed.remove(block);
        self.named.remove(block)
    }

    /// `block` holds pointers of `level`.
    fn link_pointers(&mut self, block: Block, level: u8) {
        let task = match self.tasks.get(&block) {
            Some((Task::Unlink, old)) if *old == level => Task::Renew,
            Some(_) => return,
            None if self.pointers.contains_key(&block) => return,
            None => Task::Link,
        };
        self.pointers.insert(block, level);
        self.set_task(block, task, level);
    }

    /// Nobody says any more that `block` holds pointers.
    fn unlink_pointers(&mut self, block: Block, level: u8) {
        if self.pointers.get(&block) != Some(&level) {
            return;
        }
        self.pointers.remove(&block);
        self.uncertain.remove(block..=block);
        if let Some((Task::Link, _)) = self.tasks.get(&block) {
            self.tasks.remove(&block);
        } else {
            self.set_task(block, Task::Unlink, level);
        }
    }

    fn set_task(&mut self, block: Block, task: Task, level: u8) {
        self.tasks.insert(block, (task, level));
        self.cursor = self.cursor.min(block);
    }

    pub(super) fn settle(&mut self, now: u64, period: u64) {
        for block in self.uncertain.expire(now, period) {
            if let Some(level) = self.pointers.get(&block).copied()
                && !self.tasks.contains_key(&block)
            {
                self.set_task(block, Task::Confirm, level);
            }
        }
    }
}

impl RuleE {
    /// What a change of pointers means. `guess` says that they may be none.
    pub(super) fn apply(&mut self, changes: Vec<Change>, guess: bool) {
        for change in changes {
            match change {
                Change::Unlinked(link) => self.unlinked(&link),
                Change::Linked(link) => self.linked(&link, guess),
            }
        }
        if self.names.again.len() > NAMED_AGAIN_MAX {
            self.broken = Some(Reason("too many blocks are claimed more than once".into()));
        }
    }

    fn linked(&mut self, link: &Link, guess: bool) {
        for block in link.blocks.clone() {
            self.figures.guessed += u64::from(guess);
            self.names.name(block, guess);
            self.lately.insert(block..=block);
            self.deaths.renamed(block, self.clock.now);
            if let Kind::Pointers(level) = link.kind {
                self.names.link_pointers(block, level);
            }
        }
    }

    fn unlinked(&mut self, link: &Link) {
        for block in link.blocks.clone() {
            let last = self.names.unname(block);
            if last {
                self.deaths.renamed(block, self.clock.now);
            }
            if let (true, Kind::Pointers(level)) = (last, link.kind) {
                self.names.unlink_pointers(block, level);
            }
            self.lost_a_name(block);
        }
    }

    /// A generation death, unless a map says more.
    fn lost_a_name(&mut self, block: Block) {
        if self.options.grade != Grade::Block && self.live.contains(block) {
            self.figures.unlinked += 1;
            self.deaths.unlink(block);
        }
    }

    /// A block of pointers is overwritten: whatever the new bytes are, the old
    /// ones were pointers. The new ones may be none: it may have been freed,
    /// and used again, and nobody has said so yet.
    pub(super) fn pointers_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        self.pointers_read(block, old);
        let Some(level) = self.names.pointers.get(&block).copied() else { return };
        let changes = self.format.diff(block, Kind::Pointers(level), old, new);
        self.apply(changes, true);
        self.names.uncertain.insert(block..=block);
    }

    /// Does what was to be done with the content of `block`.
    pub(super) fn pointers_read(&mut self, block: Block, content: &[u8]) {
        let Some((task, level)) = self.names.tasks.remove(&block) else { return };
        let links = links(&*self.format, block, level, content);
        match task {
            Task::Link => {
                let guess = self.in_use;
                self.apply(links.into_iter().map(Change::Linked).collect(), guess);
                if guess {
                    self.names.uncertain.insert(block..=block);
                }
            }
            Task::Unlink => self.apply(links.into_iter().map(Change::Unlinked).collect(), false),
            Task::Renew => links.iter().for_each(|link| self.renewed(link)),
            Task::Confirm => links.iter().for_each(|link| {
                self.names.guessed.remove_range(link.blocks.clone());
            }),
        }
    }

    /// The same pointers, of another generation.
    fn renewed(&mut self, link: &Link) {
        for block in link.blocks.clone() {
            self.lost_a_name(block);
            if let (Kind::Pointers(level), None) = (link.kind, self.names.tasks.get(&block)) {
                self.names.set_task(block, Task::Renew, level);
            }
        }
    }
}

/// All pointers in a block of them.
fn links(format: &dyn Format, block: Block, level: u8, content: &[u8]) -> Vec<Link> {
    let nothing = vec![0; content.len()];
    let changes = format.diff(block, Kind::Pointers(level), &nothing, content);
    changes.into_iter().map(|(Change::Linked(link) | Change::Unlinked(link))| link).collect()
}
