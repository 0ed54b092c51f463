//! Which blocks the observed pointers name: the second witness of a death.
//!
//! There is no table of owners. A name is counted when a pointer is first seen
//! and taken back when the same pointer is seen to be gone; both come from
//! differences of the same contents, so that they cancel exactly.

use super::RuleE;
use crate::format::{Block, Change, Format, Kind, Link, Reason};
use crate::mutant::{self, Mutant};
use crate::options::Grade;
use crate::rule::history::Lately;
use roaring::RoaringBitmap;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

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
    /// Blocks that hold pointers, and the level that they are taken for.
    pub(super) pointers: BTreeMap<Block, u8>,
    /// How often more than once each is named as a block of pointers, by level: a block that
    /// changed its owner may have another level for the old one than for the new one.
    pub(super) pointers_again: BTreeMap<(Block, u8), u32>,
    /// Those whose type is not certain yet.
    pub(super) uncertain: Lately,
    /// What is to be done with the content of a block of pointers once it has
    /// been read.
    pub(super) tasks: BTreeMap<Block, Task>,
    /// Where the next read is looked for.
    pub(super) cursor: Block,
}

/// What was made of the pointers in a block so far. Reading it makes of them
/// what it is named as by then; or certain, if nothing else is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Task {
    /// Their names are counted: their level.
    counted: Option<u8>,
    /// They were given up since, or are of another generation: their level.
    ended: Option<u8>,
}

impl Task {
    fn is_to_confirm(self) -> bool {
        self.counted.is_some() && self.ended.is_none()
    }
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
        let guessed = self.guessed.contains(block) && !mutant::is(Mutant::GuessesAreCertain);
        self.named.contains(block) && !guessed
    }

    /// Those of `blocks` that an observed pointer names which certainly is one.
    pub(super) fn owned_among(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        (blocks & &self.named) - &self.guessed
    }

    /// Those of `blocks` whose content means, or is yet to mean, something.
    pub(super) fn pointers_within(&self, blocks: RangeInclusive<Block>) -> BTreeSet<Block> {
        let pointers = self.pointers.range(blocks.clone()).map(|(block, _)| *block);
        pointers.chain(self.tasks.range(blocks).map(|(block, _)| *block)).collect()
    }

    /// Whether every pointer that is known of has been followed.
    pub(super) fn are_known(&self) -> bool {
        self.tasks
            .iter()
            .all(|(block, task)| task.is_to_confirm() && task.counted == self.pointers.get(block).copied())
    }

    /// The next blocks to be read, at most `most`: those one behind the other
    /// as one.
    pub(super) fn next_read(&mut self, most: usize) -> Option<RangeInclusive<Block>> {
        let mut tasks = self.tasks.range(self.cursor..).map(|(block, _)| *block);
        let first = tasks.next()?;
        let behind = tasks.zip(first + 1..).take(most.saturating_sub(1));
        let last = behind.take_while(|(block, next)| block == next).last().map_or(first, |(block, _)| block);
        self.cursor = last.checked_add(1)?;
        Some(first..=last)
    }

    /// Gives a name more to each of `blocks`.
    fn name_all(&mut self, blocks: Range<Block>, guess: bool) {
        if blocks.len() == 1 || self.named.range(blocks.clone()).next().is_some() {
            return blocks.for_each(|block| self.name(block, guess));
        }
        self.named.insert_range(blocks.clone());
        if guess {
            self.guessed.insert_range(blocks);
        }
    }

    /// Whether more blocks are named more than once than can be, if `blocks` are
    /// named once more.
    fn are_too_many(&self, blocks: &Range<Block>) -> bool {
        let known = self.again.len().max(self.pointers_again.len());
        let more =
            if blocks.len() < NAMED_AGAIN_MAX { 0 } else { self.named.range_cardinality(blocks.clone()) };
        known as u64 + more > NAMED_AGAIN_MAX as u64
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

    /// Whether all of `blocks` are named, and none more than once.
    fn are_alone(&self, blocks: &Range<Block>) -> bool {
        self.again.range(blocks.clone()).next().is_none()
            && self.named.range_cardinality(blocks.clone()) == blocks.len() as u64
    }

    /// Takes the only name of each of `blocks`.
    fn unname_all(&mut self, blocks: &Range<Block>) {
        self.guessed.remove_range(blocks.clone());
        self.named.remove_range(blocks.clone());
    }

    /// Whether it is named no more. If it is, what is left may be guesses.
    fn unname(&mut self, block: Block) -> bool {
        if take_one(&mut self.again, block) {
            self.guessed.insert(block);
            return false;
        }
        self.guessed.remove(block);
        self.named.remove(block)
    }

    /// `block` holds pointers of `level`.
    fn link_pointers(&mut self, block: Block, level: u8) {
        let Entry::Vacant(vacant) = self.pointers.entry(block) else {
            *self.pointers_again.entry((block, level)).or_default() += 1;
            return;
        };
        vacant.insert(level);
        let task = self.tasks.get(&block).copied().unwrap_or_default();
        self.set_task(block, task);
    }

    /// Somebody says no more that `block` holds pointers of `level`. Nobody may be left who
    /// says so; or those who are say another level, and it is read again as that.
    fn unlink_pointers(&mut self, block: Block, level: u8) {
        let any = self.pointers_again.range(all_levels(block)).next().map(|(named, _)| *named);
        let again = any.filter(|_| mutant::is(Mutant::LevelOutlivesOwner)).unwrap_or((block, level));
        if take_one(&mut self.pointers_again, again) || self.pointers.get(&block) != Some(&level) {
            return;
        }
        self.pointers.remove(&block);
        self.uncertain.remove(block..=block);
        let task = self.tasks.get(&block).copied().unwrap_or(Task { counted: Some(level), ended: None });
        let others = self.pointers_again.range(all_levels(block)).next();
        let ended = match others.map(|((_, other), _)| *other) {
            Some(other) => {
                take_one(&mut self.pointers_again, (block, other));
                self.pointers.insert(block, other);
                task.ended
            }
            None => Some(level),
        };
        self.set_task(block, Task { ended, ..task });
    }

    /// The pointers in `block`, if they are of `level`, are of another
    /// generation.
    fn renew_pointers(&mut self, block: Block, level: u8) {
        let held = Task { counted: self.pointers.get(&block).copied(), ended: None };
        let task = self.tasks.get(&block).copied().unwrap_or(held);
        if task.counted.is_none_or(|counted| counted == level) {
            self.set_task(block, Task { ended: task.ended.or(Some(level)), ..task });
        }
    }

    fn set_task(&mut self, block: Block, task: Task) {
        self.tasks.insert(block, task);
        self.cursor = self.cursor.min(block);
    }

    pub(super) fn settle(&mut self, now: u64, period: u64) {
        for block in self.uncertain.expire(now, period) {
            if self.tasks.contains_key(&block) {
                self.uncertain.insert(block..=block);
            } else if let Some(level) = self.pointers.get(&block).copied() {
                self.set_task(block, Task { counted: Some(level), ended: None });
            }
        }
    }

    /// `block` may hold no pointers: it was written.
    fn doubt_pointers(&mut self, block: Block) {
        self.uncertain.remove(block..=block);
        self.uncertain.insert(block..=block);
    }
}

impl RuleE {
    /// What a change of pointers means. `guess` says that they may be none.
    pub(super) fn apply(&mut self, changes: Vec<Change>, guess: bool) {
        for change in changes {
            match change {
                Change::Unlinked(link) => self.unlinked(&link),
                Change::Linked(link) if self.names.are_too_many(&link.blocks) => {
                    let reason = Reason("too many blocks are claimed more than once".into());
                    return self.broken = Some(reason);
                }
                Change::Linked(link) => self.linked(&link, guess),
            }
        }
    }

    fn linked(&mut self, link: &Link, guess: bool) {
        let Some(last) = link.blocks.end.checked_sub(1).filter(|last| link.blocks.start <= *last) else {
            return;
        };
        self.figures.guessed += if guess { link.blocks.len() as u64 } else { 0 };
        self.names.name_all(link.blocks.clone(), guess);
        self.lately.insert(link.blocks.start..=last);
        self.deaths.renamed_all(link.blocks.start..=last, self.clock.now);
        if let Kind::Pointers(level) = link.kind {
            link.blocks.clone().for_each(|block| self.names.link_pointers(block, level));
        }
    }

    /// Most files: all of `blocks` had this name only.
    fn unlinked_alone(&mut self, blocks: &Range<Block>) {
        self.names.unname_all(blocks);
        self.deaths.renamed_all(blocks.start..=blocks.end - 1, self.clock.now);
        if self.options.grade != Grade::Block && !mutant::is(Mutant::UnlinkIgnored) {
            let mut live = RoaringBitmap::new();
            live.insert_range(blocks.clone());
            live &= &self.live;
            self.figures.unlinked += live.len();
            self.deaths.unlink_all(&live);
        }
    }

    fn unlinked(&mut self, link: &Link) {
        if link.kind == Kind::Data && link.blocks.len() > 1 && self.names.are_alone(&link.blocks) {
            return self.unlinked_alone(&link.blocks);
        }
        for block in link.blocks.clone() {
            if self.names.unname(block) {
                self.deaths.renamed(block, self.clock.now);
            }
            if let Kind::Pointers(level) = link.kind {
                self.names.unlink_pointers(block, level);
            }
            self.lost_a_name(block);
        }
    }

    /// A generation death, unless a map says more.
    fn lost_a_name(&mut self, block: Block) {
        let counts = self.options.grade != Grade::Block && !mutant::is(Mutant::UnlinkIgnored);
        if counts && self.live.contains(block) {
            self.figures.unlinked += 1;
            self.deaths.unlink(block);
        }
    }

    /// A block of pointers is overwritten: whatever the new bytes are, the old
    /// ones were pointers. The new ones may be none: it may have been freed,
    /// and used again, and nobody has said so yet.
    pub(super) fn pointers_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        self.pointers_read(block, old);
        if mutant::is(Mutant::PointersNotDiffed) {
            return;
        }
        let Some(level) = self.names.pointers.get(&block).copied() else { return };
        let changes = self.format.diff(block, Kind::Pointers(level), old, new);
        self.apply(changes, !self.options.eager);
        if !self.options.eager && self.names.pointers.contains_key(&block) {
            self.names.doubt_pointers(block);
        }
    }

    /// Does what was to be done with the content of `block`.
    pub(super) fn pointers_read(&mut self, block: Block, content: &[u8]) {
        let Some(task) = self.names.tasks.remove(&block) else { return };
        let named = self.names.pointers.get(&block).copied();
        match (task.counted, task.ended) {
            (Some(level), None) if named == Some(level) => self.confirmed(block, level, content),
            (counted, Some(level)) if counted == named => {
                self.renewed(block, level, content);
                if named.is_some() {
                    self.names.doubt_pointers(block);
                }
            }
            (Some(level), _) => {
                // The block may name itself, and lose that name: nothing of it is counted then.
                self.names.set_task(block, Task::default());
                self.given_up(block, level, content);
                if self.names.tasks.get(&block) == Some(&Task::default()) {
                    self.names.tasks.remove(&block);
                }
                self.followed(block, self.names.pointers.get(&block).copied(), content);
            }
            (None, ended) => {
                if let Some(level) = ended {
                    self.renewed(block, level, content);
                }
                self.followed(block, named, content);
            }
        }
    }

    fn confirmed(&mut self, block: Block, level: u8, content: &[u8]) {
        for link in links(&*self.format, block, level, content) {
            for block in link.blocks {
                if self.names.guessed.remove(block) {
                    self.lately.insert(block..=block);
                }
            }
        }
    }

    /// The pointers in `block` were of `level`, and count no more.
    fn given_up(&mut self, block: Block, level: u8, content: &[u8]) {
        let links = links(&*self.format, block, level, content);
        self.apply(links.into_iter().map(Change::Unlinked).collect(), false);
    }

    fn followed(&mut self, block: Block, named: Option<u8>, content: &[u8]) {
        let Some(level) = named else { return };
        let links = links(&*self.format, block, level, content);
        let guess = self.in_use && !self.options.eager;
        self.apply(links.into_iter().map(Change::Linked).collect(), guess);
        if guess {
            self.names.doubt_pointers(block);
        }
    }

    /// The same pointers, of another generation.
    fn renewed(&mut self, block: Block, level: u8, content: &[u8]) {
        if mutant::is(Mutant::RenewedIgnored) {
            return;
        }
        for link in links(&*self.format, block, level, content) {
            for block in link.blocks {
                self.lost_a_name(block);
                self.deaths.renamed(block, self.clock.now);
                if let Kind::Pointers(level) = link.kind {
                    self.names.renew_pointers(block, level);
                }
            }
        }
    }
}

fn all_levels(block: Block) -> RangeInclusive<(Block, u8)> {
    (block, 0)..=(block, u8::MAX)
}

/// Takes one from the count of `named`, if there is one.
fn take_one<K: Ord>(counts: &mut BTreeMap<K, u32>, named: K) -> bool {
    let Entry::Occupied(mut count) = counts.entry(named) else { return false };
    *count.get_mut() -= 1;
    if *count.get() == 0 {
        count.remove();
    }
    true
}

/// All pointers in a block of them.
fn links(format: &dyn Format, block: Block, level: u8, content: &[u8]) -> Vec<Link> {
    let changes = format.pointers(block, Kind::Pointers(level), content);
    changes.into_iter().map(|(Change::Linked(link) | Change::Unlinked(link))| link).collect()
}
