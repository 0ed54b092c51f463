//! The trees of the marked files: which inodes are marked, and which blocks they name.
//!
//! 1. The names of an inode count if and only if it is in [`Tree::followed`]; those in a block of pointers, or
//!    of a folder, if and only if its [`Node::is_read`]. Both are the names in the content that was shown last,
//!    so that the exact inverse takes them back later.
//! 2. New names are counted before old ones are taken back: what an owner keeps is never without a name.
//! 3. No unmarked file costs memory, and no block is read but those of the trees.

use crate::formats::format::{Block, Branch, Marking, Owner, Role};
use crate::rules::marks::counted::Counted;
use crate::rules::rule::needed::Needed;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Most blocks of pointers and of folders, and most blocks or inodes with more than one name.
const ENTRIES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Inodes with the flag.
    pub(super) flagged: RoaringBitmap,
    /// Inodes that entries of marked folders name.
    pub(super) named: Counted,
    /// Inodes that had the flag, or that such entries named. They stay marked until they belong to another file.
    pub(super) kept: RoaringBitmap,
    /// Marked inodes whose names count.
    pub(super) followed: RoaringBitmap,
    /// Blocks that marked files name.
    pub(super) blocks: Counted,
    /// Blocks of pointers, and of folders.
    pub(super) nodes: BTreeMap<(Block, Role), Node>,
    /// Blocks whose content is needed.
    pub(super) needed: Needed,
    /// Blocks that gained a name and do not count as sensitive yet.
    pub(super) gained: RoaringBitmap,
    /// Limits were exceeded: what is missing is not known.
    pub(super) is_overfull: bool,
}

/// A block that leads to more of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Node {
    /// Number of names in this role.
    pub(super) names: u32,
    /// Whether what the block names counts.
    pub(super) is_read: bool,
}

impl Tree {
    /// The blocks within `blocks` whose old content is needed before they change.
    pub(crate) fn sources_within(&self, blocks: RangeInclusive<Block>) -> Vec<Block> {
        let nodes = self.nodes.range((*blocks.start(), Role::MIN)..=(*blocks.end(), Role::MAX));
        nodes.map(|((block, _), _)| *block).chain(self.needed.within(blocks)).collect()
    }

    /// Takes `content` of a block of inodes. `is_first` says that none of it was seen before.
    pub(crate) fn table_seen(&mut self, marking: &dyn Marking, block: Block, content: &[u8], is_first: bool) {
        if !self.needed.take(block) && !is_first {
            return;
        }
        for owner in marking.owners(block, content).into_iter().filter(|owner| owner.is_in_use) {
            if owner.is_marked {
                self.flagged.insert(owner.number);
            }
            if self.is_marked(&owner) && self.followed.insert(owner.number) {
                self.gained.insert(block);
                marking.branches_of(block, content, owner.number).iter().for_each(|it| self.link(it));
            }
        }
    }

    /// Takes a change of a block of inodes.
    pub(crate) fn table_written(&mut self, marking: &dyn Marking, block: Block, old: &[u8], new: &[u8]) {
        self.table_seen(marking, block, old, false);
        let owners = marking.owners(block, old).into_iter().zip(marking.owners(block, new));
        for (was, is) in owners {
            let number = is.number;
            let is_same = (was.generation, was.is_in_use) == (is.generation, is.is_in_use);
            if !is_same {
                self.kept.remove(number);
            }
            if is.is_in_use && is.is_marked {
                self.flagged.insert(number);
            } else if self.flagged.remove(number) && is_same {
                // Content that the file wrote before may be named later.
                self.kept.insert(number);
            }
            let was_followed = self.followed.contains(number);
            let is_followed = is.is_in_use && self.is_marked(&is);
            if !was_followed && !is_followed {
                continue;
            }
            let branches = |counts: bool, content| match counts {
                true => marking.branches_of(block, content, number),
                false => Vec::new(),
            };
            let (lost, found) = difference(branches(was_followed, old), branches(is_followed, new));
            if is_followed {
                self.followed.insert(number);
                self.gained.insert(block);
            } else {
                self.followed.remove(number);
            }
            found.iter().for_each(|branch| self.link(branch));
            lost.iter().for_each(|branch| self.unlink(branch));
        }
    }

    /// Whether the inode of `owner` has the flag, or a marked folder names it.
    fn is_marked(&self, owner: &Owner) -> bool {
        let number = owner.number;
        self.flagged.contains(number) || self.named.all.contains(number) || self.kept.contains(number)
    }

    /// Takes `content` of a block that is no block of inodes, if it is needed.
    pub(crate) fn seen(&mut self, marking: &dyn Marking, block: Block, content: &[u8]) {
        if !self.needed.take(block) {
            return;
        }
        for role in self.roles(block) {
            match self.nodes.get_mut(&(block, role)) {
                Some(node @ Node { names: 1.., is_read: false }) => {
                    node.is_read = true;
                    self.change(marking, role, None, Some(content));
                }
                Some(Node { names: 0, is_read: true }) => {
                    self.nodes.remove(&(block, role));
                    self.change(marking, role, Some(content), None);
                }
                _ => {}
            }
        }
    }

    /// Takes a change of a block that is no block of inodes.
    pub(crate) fn written(&mut self, marking: &dyn Marking, block: Block, old: &[u8], new: &[u8]) {
        self.seen(marking, block, old);
        for role in self.roles(block) {
            if !self.nodes.get(&(block, role)).is_some_and(|node| node.is_read) {
                continue;
            }
            self.change(marking, role, Some(old), Some(new));
        }
    }

    fn roles(&self, block: Block) -> Vec<Role> {
        let nodes = self.nodes.range((block, Role::MIN)..=(block, Role::MAX));
        nodes.map(|((_, role), _)| *role).collect()
    }

    /// Takes a change of the content of a block in this `role`; without content a block names nothing.
    fn change(&mut self, marking: &dyn Marking, role: Role, old: Option<&[u8]>, new: Option<&[u8]>) {
        if role.level > 0 {
            let branches =
                |content: Option<&[u8]>| content.map_or_else(Vec::new, |it| marking.branches(role, it));
            let (lost, found) = difference(branches(old), branches(new));
            found.iter().for_each(|branch| self.link(branch));
            lost.iter().for_each(|branch| self.unlink(branch));
        } else {
            let entries = |content: Option<&[u8]>| content.map_or_else(Vec::new, |it| marking.entries(it));
            let (lost, found) = difference(entries(old), entries(new));
            found.into_iter().for_each(|number| self.name(marking, number));
            lost.into_iter().for_each(|number| self.unname(number));
        }
    }

    fn link(&mut self, branch: &Branch) {
        let (blocks, role) = (branch.start..branch.end, branch.role);
        let nodes = if role.leads_on() { self.nodes.len() + blocks.len() } else { 0 };
        self.is_overfull |= nodes.max(self.blocks.again.len()) > ENTRIES_MAX;
        if self.is_overfull {
            return;
        }
        self.gained.insert_range(blocks.clone());
        self.blocks.add_all(blocks.clone());
        for block in blocks.filter(|_| role.leads_on()) {
            let node = self.nodes.entry((block, role)).or_default();
            node.names = node.names.saturating_add(1);
            if !node.is_read {
                self.needed.want(block);
            }
        }
    }

    fn unlink(&mut self, branch: &Branch) {
        let (blocks, role) = (branch.start..branch.end, branch.role);
        self.blocks.remove_all(blocks.clone());
        for block in blocks.filter(|_| role.leads_on()) {
            let Some(node) = self.nodes.get_mut(&(block, role)) else { continue };
            node.names = node.names.saturating_sub(1);
            match *node {
                Node { names: 0, is_read: true } => self.needed.want(block),
                Node { names: 0, is_read: false } => {
                    self.nodes.remove(&(block, role));
                }
                _ => {}
            }
        }
    }

    /// Notes an entry of a marked folder.
    fn name(&mut self, marking: &dyn Marking, number: u32) {
        self.is_overfull |= self.named.again.len() > ENTRIES_MAX;
        if let Some(table) = marking.table_of(number)
            && self.named.add(number)
            && !self.followed.contains(number)
        {
            self.needed.want(table);
        }
    }

    /// Notes that an entry of a marked folder has gone. The file stays marked.
    fn unname(&mut self, number: u32) {
        if self.named.remove(number) && self.followed.contains(number) {
            self.kept.insert(number);
        }
    }
}

/// The members of `old` that `new` lacks, and the members of `new` that `old` lacks, with their multiplicity.
fn difference<T: Ord>(mut old: Vec<T>, mut new: Vec<T>) -> (Vec<T>, Vec<T>) {
    old.sort_unstable();
    new.sort_unstable();
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let (mut lost, mut found) = (Vec::new(), Vec::new());
    while let (Some(was), Some(is)) = (old.peek(), new.peek()) {
        match was.cmp(is) {
            std::cmp::Ordering::Less => lost.extend(old.next()),
            std::cmp::Ordering::Greater => found.extend(new.next()),
            std::cmp::Ordering::Equal => {
                old.next();
                new.next();
            }
        }
    }
    lost.extend(old);
    found.extend(new);
    (lost, found)
}
