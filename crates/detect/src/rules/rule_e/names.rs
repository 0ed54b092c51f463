//! The blocks that observed pointers name: the second witness of a death.
//!
//! No table keeps owners. A name is counted when a pointer first appears, and subtracted when
//! the same pointer has gone. Both come from differences of the same contents, so that
//! they cancel exactly.

use crate::formats::format::{Block, Change, Format, Kind, Link, Reason};
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::options::Grade;
use crate::rules::rule::history::RecentBlocks;
use crate::rules::rule_e::RuleE;
use roaring::RoaringBitmap;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Most blocks with more than one name: extended-attribute blocks that files share, and the damage
/// of a broken file system.
const NAMED_AGAIN_MAX: usize = 1 << 20;

/// The names, and the blocks that hold pointers.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Blocks that some observed pointer names.
    pub(super) referenced: RoaringBitmap,
    /// Number of names beyond the first, by block.
    pub(super) again: BTreeMap<Block, u32>,
    /// Blocks named only by pointers in a block whose type is not certain.
    pub(super) guessed: RoaringBitmap,
    /// Blocks that hold pointers, and the level assumed for each.
    pub(super) pointers: BTreeMap<Block, u8>,
    /// Number of names as a block of pointers beyond the first, by block and level: a block that
    /// changed its owner may have one level for the old owner and another for the new one.
    pub(super) pointers_again: BTreeMap<(Block, u8), u32>,
    /// Blocks of pointers whose type is not certain yet.
    pub(super) uncertain: RecentBlocks,
    /// Pending work on blocks of pointers, for when their content is read.
    pub(super) tasks: BTreeMap<Block, Task>,
    /// The block from which the next read is searched.
    pub(super) cursor: Block,
}

/// The state of the pointers in a block before a read. The read adapts them to the block's present
/// level; or confirms them, if nothing else is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Task {
    /// The level at which the names in the block were counted.
    counted: Option<u8>,
    /// The level that was given up since, or that is of another generation.
    ended: Option<u8>,
}

impl Task {
    fn is_to_confirm(self) -> bool {
        self.counted.is_some() && self.ended.is_none()
    }
}

impl Names {
    /// Whether an observed pointer, certain to be one, names `block`.
    pub(super) fn owns(&self, block: Block) -> bool {
        let guessed = self.guessed.contains(block) && !mutant::is(Mutant::GuessesAreCertain);
        self.referenced.contains(block) && !guessed
    }

    /// The members of `blocks` that an observed pointer, certain to be one, names.
    pub(super) fn owned_among(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        (blocks & &self.referenced) - &self.guessed
    }

    /// The members of `blocks` that have more names than one.
    pub(super) fn named_again_among(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        self.again.keys().copied().filter(|block| blocks.contains(*block)).collect()
    }

    /// The blocks within `blocks` that hold pointers, or have pending work.
    pub(super) fn pointers_within(&self, blocks: RangeInclusive<Block>) -> BTreeSet<Block> {
        let pointers = self.pointers.range(blocks.clone()).map(|(block, _)| *block);
        pointers.chain(self.tasks.range(blocks).map(|(block, _)| *block)).collect()
    }

    /// Whether every known pointer has been followed.
    pub(super) fn are_known(&self) -> bool {
        self.tasks
            .iter()
            .all(|(block, task)| task.is_to_confirm() && task.counted == self.pointers.get(block).copied())
    }

    /// Whether nothing is to be read, not even to confirm what is known.
    pub(super) fn are_read(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The next contiguous blocks to read, at most `most`.
    pub(super) fn next_read(&mut self, most: usize) -> Option<RangeInclusive<Block>> {
        let mut tasks = self.tasks.range(self.cursor..).map(|(block, _)| *block);
        let first = tasks.next()?;
        let behind = tasks.zip(first + 1..).take(most.saturating_sub(1));
        let last = behind.take_while(|(block, next)| block == next).last().map_or(first, |(block, _)| block);
        self.cursor = last.checked_add(1)?;
        Some(first..=last)
    }

    fn name_all(&mut self, blocks: Range<Block>, guess: bool) {
        if blocks.len() == 1 || self.referenced.range(blocks.clone()).next().is_some() {
            return blocks.for_each(|block| self.name(block, guess));
        }
        self.referenced.insert_range(blocks.clone());
        if guess {
            self.guessed.insert_range(blocks);
        }
    }

    /// Whether one more name for each of `blocks` exceeds the limit of multiple names.
    fn are_too_many(&self, blocks: &Range<Block>) -> bool {
        let known = self.again.len().max(self.pointers_again.len());
        let more = if blocks.len() < NAMED_AGAIN_MAX {
            0
        } else {
            self.referenced.range_cardinality(blocks.clone())
        };
        known as u64 + more > NAMED_AGAIN_MAX as u64
    }

    fn name(&mut self, block: Block, guess: bool) {
        if !self.referenced.insert(block) {
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
            && self.referenced.range_cardinality(blocks.clone()) == blocks.len() as u64
    }

    /// Removes the only name of each of `blocks`.
    fn unname_all(&mut self, blocks: &Range<Block>) {
        self.guessed.remove_range(blocks.clone());
        self.referenced.remove_range(blocks.clone());
    }

    /// Removes one name of `block`. Returns whether it was the last; the ones left may be guesses.
    fn unname(&mut self, block: Block) -> bool {
        if take_one(&mut self.again, block) {
            self.guessed.insert(block);
            return false;
        }
        self.guessed.remove(block);
        self.referenced.remove(block)
    }

    /// Notes that `block` holds pointers of `level`.
    fn link_pointers(&mut self, block: Block, level: u8) {
        let Entry::Vacant(vacant) = self.pointers.entry(block) else {
            *self.pointers_again.entry((block, level)).or_default() += 1;
            return;
        };
        vacant.insert(level);
        let task = self.tasks.get(&block).copied().unwrap_or_default();
        self.set_task(block, task);
    }

    /// Notes that one owner no longer names `block` as pointers of `level`. If the other owners
    /// name another level, the block is read again at that level.
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

    /// Notes that the pointers in `block`, if they are of `level`, belong to another generation.
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

    /// Takes `blocks` for something else than blocks of pointers. The names in them stay counted.
    pub(super) fn no_pointers(&mut self, blocks: &RoaringBitmap) {
        self.uncertain.subtract(blocks);
        for block in blocks {
            self.pointers.remove(&block);
            self.tasks.remove(&block);
        }
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

    /// Notes that a write to `block` may have replaced its pointers by something else.
    fn distrust_pointers(&mut self, block: Block) {
        self.uncertain.remove(block..=block);
        self.uncertain.insert(block..=block);
    }
}

impl RuleE {
    /// Applies changes of pointers. With `guess`, the bytes may not be pointers at all.
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
        self.stirred(link.blocks.start..=last);
        self.deaths.renamed(link.blocks.start..=last, self.clock.now);
        if let Kind::Pointers(level) = link.kind {
            link.blocks.clone().for_each(|block| self.names.link_pointers(block, level));
        }
    }

    /// Takes the only name of each of `blocks`: the common case of a deleted file.
    fn unlinked_alone(&mut self, blocks: &Range<Block>) {
        self.names.unname_all(blocks);
        self.stirred(blocks.start..=blocks.end - 1);
        self.deaths.renamed(blocks.start..=blocks.end - 1, self.clock.now);
        if self.options.grade != Grade::Block && !mutant::is(Mutant::UnlinkIgnored) {
            let mut live = set_of([blocks.clone()]) & &self.live;
            live -= self.plain(&live);
            self.figures.unlinked += live.len();
            self.deaths.unlinked.extend(&live);
        }
    }

    fn unlinked(&mut self, link: &Link) {
        if link.kind == Kind::Data && link.blocks.len() > 1 && self.names.are_alone(&link.blocks) {
            return self.unlinked_alone(&link.blocks);
        }
        for block in link.blocks.clone() {
            if self.names.unname(block) {
                self.deaths.renamed(block..=block, self.clock.now);
            }
            if let Kind::Pointers(level) = link.kind {
                self.names.unlink_pointers(block, level);
            }
            self.stirred(block..=block);
            self.lost_a_name(block);
        }
    }

    /// Notes a generation death of `block`, unless a map shows more.
    fn lost_a_name(&mut self, block: Block) {
        let counts = self.options.grade != Grade::Block && !mutant::is(Mutant::UnlinkIgnored);
        if counts && self.live.contains(block) && !self.is_plain(block) {
            self.figures.unlinked += 1;
            self.deaths.unlinked.insert(block..=block);
        }
    }

    /// Takes a write over a block of pointers. The old bytes were pointers, whatever the new ones
    /// are: the block may have been freed and reused, with no evidence of that yet.
    pub(super) fn pointers_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        self.pointers_read(block, old);
        if mutant::is(Mutant::PointersNotDiffed) {
            return;
        }
        let Some(level) = self.names.pointers.get(&block).copied() else { return };
        let unwritten = self.unwritten_lost(block, Kind::Pointers(level), old, new);
        let changes = self.format.diff(block, Kind::Pointers(level), old, new);
        self.apply(changes, !self.options.eager);
        self.unwritten_gained(&unwritten, true);
        if !self.options.eager && self.names.pointers.contains_key(&block) {
            self.names.distrust_pointers(block);
        }
    }

    /// Does the pending work on `block`, now that its content is known.
    pub(super) fn pointers_read(&mut self, block: Block, content: &[u8]) {
        let Some(task) = self.names.tasks.remove(&block) else { return };
        let named = self.names.pointers.get(&block).copied();
        match (task.counted, task.ended) {
            (Some(level), None) if named == Some(level) => self.confirmed(block, level, content),
            (counted, Some(level)) if counted == named => {
                self.renewed(block, level, content);
                if named.is_some() {
                    self.names.distrust_pointers(block);
                }
            }
            (Some(level), _) => {
                // The block may name itself, and lose that name: no name in it is counted then.
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

    /// The names in `block` count as certain. They are as old as its last write, so that the settling time has passed since.
    fn confirmed(&mut self, block: Block, level: u8, content: &[u8]) {
        let links = links(&*self.format, block, level, content);
        let named = links.into_iter().flat_map(|link| link.blocks);
        let certain = named.filter(|block| self.names.guessed.remove(*block)).collect();
        self.calmed(&certain);
    }

    /// Subtracts the names of the pointers in `block`, which were of `level` and no longer count.
    fn given_up(&mut self, block: Block, level: u8, content: &[u8]) {
        let nothing = vec![0; content.len()];
        self.unwritten_lost(block, Kind::Pointers(level), content, &nothing);
        let links = links(&*self.format, block, level, content);
        self.apply(links.into_iter().map(Change::Unlinked).collect(), false);
    }

    fn followed(&mut self, block: Block, named: Option<u8>, content: &[u8]) {
        let Some(level) = named else { return };
        let links = links(&*self.format, block, level, content);
        let guess = self.in_use && !self.options.eager;
        self.apply(links.into_iter().map(Change::Linked).collect(), guess);
        self.unwritten_read(block, Kind::Pointers(level), content);
        if guess {
            self.names.distrust_pointers(block);
        }
    }

    /// Takes the same pointers under another generation.
    fn renewed(&mut self, block: Block, level: u8, content: &[u8]) {
        if mutant::is(Mutant::RenewedIgnored) {
            return;
        }
        for link in links(&*self.format, block, level, content) {
            for block in link.blocks {
                self.stirred(block..=block);
                self.lost_a_name(block);
                self.deaths.renamed(block..=block, self.clock.now);
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

/// Subtracts one from the count of `named`, if there is one.
pub(super) fn take_one<K: Ord>(counts: &mut BTreeMap<K, u32>, named: K) -> bool {
    let Entry::Occupied(mut count) = counts.entry(named) else { return false };
    *count.get_mut() -= 1;
    if *count.get() == 0 {
        count.remove();
    }
    true
}

/// All pointers in a block of pointers.
fn links(format: &dyn Format, block: Block, level: u8, content: &[u8]) -> Vec<Link> {
    let changes = format.pointers(block, Kind::Pointers(level), content);
    changes.into_iter().map(|(Change::Linked(link) | Change::Unlinked(link))| link).collect()
}
