//! The difference of two collections of pointers.

use crate::formats::format::{Block, Change, Kind, Link};
use std::ops::Range;

/// Kind of the blocks that a pointer of `level` leads to.
pub(crate) fn kind(level: u8) -> Kind {
    if level == 0 { Kind::Data } else { Kind::Pointers(level) }
}

/// Blocks that an owner names, the level of pointers that they hold, and their shift.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Named {
    blocks: Range<Block>,
    level: u8,
    shift: u64,
}

/// A block at which the number of pointers changes, for a level and a shift, and by how many.
type Edge = ((u8, u64), Block, i32);

/// Collects the changes within one block, with one link for each surplus pointer of a side.
/// Unlinked links come first, so that a block that moves between owners ends up named.
///
/// Pointers of one owner are handed in by [`Self::lose`] and [`Self::gain`], in
/// any order; what both sides have cancels at [`Self::settle`].
#[derive(Default)]
pub(crate) struct Difference {
    old: Vec<Named>,
    new: Vec<Named>,
    edges: Vec<Edge>,
    unlinked: Vec<Link>,
    linked: Vec<Link>,
}

impl Difference {
    /// The owner used to name `blocks`.
    pub(crate) fn lose(&mut self, blocks: Range<Block>, level: u8, shift: u64) {
        join(&mut self.old, Named { blocks, level, shift });
    }

    /// The owner now names `blocks`.
    pub(crate) fn gain(&mut self, blocks: Range<Block>, level: u8, shift: u64) {
        join(&mut self.new, Named { blocks, level, shift });
    }

    /// Ends the current owner's pointers.
    pub(crate) fn settle(&mut self) {
        if self.old != self.new {
            self.edges.clear();
            self.edges.extend(self.old.iter().flat_map(|it| edges(it, -1)));
            self.edges.extend(self.new.iter().flat_map(|it| edges(it, 1)));
            self.edges.sort_unstable_by_key(|(sort, block, _)| (*sort, *block));
            sweep(&self.edges, &mut self.unlinked, &mut self.linked);
        }
        self.old.clear();
        self.new.clear();
    }

    /// An owner of its own used to name `blocks`.
    pub(crate) fn lose_one(&mut self, blocks: Option<Range<Block>>, kind: Kind) {
        blocks.into_iter().for_each(|it| add(&mut self.unlinked, it, kind));
    }

    /// An owner of its own now names `blocks`.
    pub(crate) fn gain_one(&mut self, blocks: Option<Range<Block>>, kind: Kind) {
        blocks.into_iter().for_each(|it| add(&mut self.linked, it, kind));
    }

    pub(crate) fn changes(self) -> Vec<Change> {
        let unlinked = self.unlinked.into_iter().map(Change::Unlinked);
        unlinked.chain(self.linked.into_iter().map(Change::Linked)).collect()
    }
}

/// Adds a link, merged with the last one where the two are contiguous.
fn add(links: &mut Vec<Link>, blocks: Range<Block>, kind: Kind) {
    match links.last_mut() {
        Some(last) if last.blocks.end == blocks.start && last.kind == kind => last.blocks.end = blocks.end,
        _ => links.push(Link { blocks, kind }),
    }
}

/// Adds `next`, merged with the last entry where the two are contiguous.
fn join(lot: &mut Vec<Named>, next: Named) {
    match lot.last_mut() {
        Some(last)
            if (last.level, last.shift, last.blocks.end) == (next.level, next.shift, next.blocks.start) =>
        {
            last.blocks.end = next.blocks.end;
        }
        _ => lot.push(next),
    }
}

fn edges(named: &Named, by: i32) -> [Edge; 2] {
    let sort = (named.level, named.shift);
    [(sort, named.blocks.start, by), (sort, named.blocks.end, -by)]
}

/// Turns sorted edges into links, at most as many as there are edges.
fn sweep(edges: &[Edge], unlinked: &mut Vec<Link>, linked: &mut Vec<Link>) {
    let (mut losing, mut gaining) = (Open::default(), Open::default());
    let mut balance = 0;
    for at in edges.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let ((level, _), block, _) = at[0];
        balance += at.iter().map(|(.., by)| by).sum::<i32>();
        losing.resize(level, block, -balance, unlinked);
        gaining.resize(level, block, balance, linked);
    }
}

/// Links whose end is still open, by their first block, the oldest first.
#[derive(Default)]
struct Open(std::collections::VecDeque<Block>);

impl Open {
    /// Changes the number of open links to `count`, from `block` on.
    fn resize(&mut self, level: u8, block: Block, count: i32, links: &mut Vec<Link>) {
        let count = usize::try_from(count).unwrap_or(0);
        while self.0.len() > count {
            links.extend(self.0.pop_front().map(|start| Link { blocks: start..block, kind: kind(level) }));
        }
        self.0.resize(count, block);
    }
}

#[cfg(test)]
mod tests;
