//! The trees of the marked files as commits show them: names are only added, in the order of the commits.
//!
//! 1. A marked inode stays so until a commit shows it free, or of another generation.
//! 2. A block stays in the trees until a committed map shows it free.
//! 3. So no old content is needed, and what is not read twice is not missed: a name that has gone is at worst
//!    kept, in vain.

use crate::formats::format::{Block, Branch, Marking, Role};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};

/// Most blocks of pointers and of folders, and most marked inodes.
const ENTRIES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Marked inodes, with the generation of each.
    pub(crate) inodes: BTreeMap<u32, u32>,
    /// Inodes that entries of marked folders name, and that are yet to be looked up.
    pub(super) named: BTreeSet<u32>,
    /// Blocks that marked files name.
    pub(crate) blocks: RoaringBitmap,
    /// Blocks of pointers, and of folders.
    pub(super) nodes: BTreeSet<(Block, Role)>,
    /// Blocks whose content leads on, was not seen yet, and is yet to be asked for.
    pub(crate) needed: RoaringBitmap,
    /// Blocks that gained a name, or were named once more, and do not count as sensitive yet.
    pub(crate) gained: RoaringBitmap,
    /// Limits were exceeded: what is missing is not known.
    pub(crate) is_overfull: bool,
}

impl Committed {
    /// Whether `block` leads to more of a tree.
    pub(crate) fn is_node(&self, block: Block) -> bool {
        self.roles(block).next().is_some()
    }

    fn roles(&self, block: Block) -> impl Iterator<Item = Role> {
        self.nodes.range((block, Role::MIN)..=(block, Role::MAX)).map(|(_, role)| *role)
    }

    /// Drops the blocks of trees that a map shows free. Returns them.
    pub(crate) fn freed(&mut self, free: &RoaringBitmap) -> RoaringBitmap {
        let freed = &self.blocks & free;
        for block in &freed {
            let roles: Vec<Role> = self.roles(block).collect();
            for role in roles {
                self.nodes.remove(&(block, role));
            }
        }
        self.blocks -= &freed;
        freed
    }

    /// Takes `content` of a block of inodes.
    pub(crate) fn table_seen(&mut self, marking: &dyn Marking, block: Block, content: &[u8]) {
        for owner in marking.owners(block, content) {
            let number = owner.number;
            if !owner.is_in_use || self.inodes.get(&number).is_some_and(|it| *it != owner.generation) {
                self.inodes.remove(&number);
            }
            let is_named = self.named.remove(&number);
            if owner.is_in_use && (owner.is_marked || is_named) {
                self.inodes.insert(number, owner.generation);
            }
            if self.inodes.contains_key(&number) {
                marking.branches_of(block, content, number).iter().for_each(|it| self.link(it));
            }
        }
        self.is_overfull |= self.inodes.len() > ENTRIES_MAX;
    }

    /// Takes `content` of a block of pointers, or of a folder.
    pub(crate) fn node_seen(&mut self, marking: &dyn Marking, block: Block, content: &[u8]) {
        let roles: Vec<Role> = self.roles(block).collect();
        for role in roles {
            if role.level > 0 {
                marking.branches(role, content).iter().for_each(|it| self.link(it));
            } else {
                marking.entries(content).into_iter().for_each(|number| self.name(marking, number));
            }
        }
    }

    fn link(&mut self, branch: &Branch) {
        let (blocks, role) = (branch.start..branch.end, branch.role);
        let nodes = if role.leads_on() { self.nodes.len() + blocks.len() } else { 0 };
        self.is_overfull |= nodes > ENTRIES_MAX;
        if self.is_overfull {
            return;
        }
        self.gained.insert_range(blocks.clone());
        self.blocks.insert_range(blocks.clone());
        for block in blocks.filter(|_| role.leads_on()) {
            if self.nodes.insert((block, role)) {
                self.needed.insert(block);
            }
        }
    }

    /// Notes an entry of a marked folder.
    fn name(&mut self, marking: &dyn Marking, number: u32) {
        self.is_overfull |= self.named.len() > ENTRIES_MAX;
        if let Some(table) = marking.table_of(number).filter(|_| !self.is_overfull)
            && !self.inodes.contains_key(&number)
        {
            self.named.insert(number);
            self.needed.insert(table);
        }
    }
}
