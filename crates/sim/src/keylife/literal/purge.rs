//! A purge: in ten steps, or ended by a medium that is busy, or with its root in doubt.

use super::media::{LEAF_BLOCKS, LEAVES, Media, Medium, Sector};
use super::{At, Cell, Kind, Literal, Log, Tree, put_pages};
use crate::keylife::{BLOCKS, Fault, SECTORS};
use std::collections::BTreeSet;

/// A purge under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Purge {
    /// Steps that it has had.
    pub done: u8,
    /// The next keys until step 5, and the old ones after it.
    pub other: Tree,
    /// The cells that the next leaves say, until they are put.
    pub leaves_say: [Cell; BLOCKS],
    /// The leaves that change.
    is_changed: [bool; LEAVES],
    /// The blocks of the batch that were dead,
    dead: [bool; BLOCKS],
    /// and those that were owed.
    owed: [bool; BLOCKS],
    /// The blocks that had an early cell at the beginning, or since.
    pub has_early: [bool; BLOCKS],
    /// The blocks that came to owe since the beginning.
    pub owes_anew: [bool; BLOCKS],
    /// The contents that get receipts.
    pub pays: BTreeSet<u32>,
    /// Steps of settling, while the root is in doubt.
    pub doubt: Option<u8>,
}

impl Purge {
    /// Whether `block` may not be written: its content is being overwritten by zeros, and its cell is in use from the end on.
    pub fn is_closed(&self, block: usize) -> bool {
        self.done >= 8 && self.takes(block)
    }

    /// Whether the purge ends the death of `block`.
    fn takes(&self, block: usize) -> bool {
        self.dead[block] && !self.has_early[block]
    }
}

impl Literal {
    /// The next step of the purge, or the first one.
    pub(super) fn purge(&mut self) {
        let Some(mut purge) = self.memory.purge.take() else {
            self.memory.purge = Some(self.begun());
            return;
        };
        purge.done += 1;
        match purge.done {
            2 => {
                let tree = Tree { cells: purge.leaves_say, ..purge.other.clone() };
                put_pages(&mut self.media, &tree, purge.is_changed);
                purge.leaves_say = Default::default();
            }
            3 if self.fault == Some(Fault::TopBeforePages) => {}
            3 => self.sync_map(),
            4 => self.media.roots[purge.other.half()].put(Some(purge.other.root())),
            5 => {
                self.media.sync(Medium::Root);
                std::mem::swap(&mut self.memory.tree, &mut purge.other);
            }
            6 | 7 if self.fault == Some(Fault::SpareRoot) => {}
            6 => self.media.roots[purge.other.half()].put(None),
            7 => {
                if self.fault != Some(Fault::ReceiptBeforeRoot) {
                    self.media.sync(Medium::Root);
                }
                if self.fault == Some(Fault::TopBeforePages) {
                    self.sync_map();
                }
                // The server wipes the old keys.
                purge.other = Tree::default();
            }
            8 => {
                for block in (0..BLOCKS).filter(|it| purge.takes(*it)) {
                    put_zeros(&mut self.media, block);
                }
            }
            9 => self.media.sync(Medium::Data),
            _ => return self.end_purge(&purge),
        }
        self.memory.purge = Some(purge);
    }

    /// A purge after its first step.
    fn begun(&mut self) -> Purge {
        let (dead, owed) = (self.journal.dead, self.journal.owed);
        let is_in_batch = |block: usize| dead[block] || owed[block];
        let mut is_changed = [false; LEAVES];
        (0..BLOCKS).filter(|it| is_in_batch(*it)).for_each(|it| is_changed[it / LEAF_BLOCKS] = true);
        let tree = &self.memory.tree;
        let entries = self.media.open_log(tree.half(), tree.log).into_iter().flat_map(|(_, it)| it);
        entries.filter(|it| it.kind == Kind::Active).for_each(|it| is_changed[it.block / LEAF_BLOCKS] = true);
        let mut other = Tree { number: tree.number + 1, top_side: 1 - tree.top_side, ..tree.clone() };
        for block in (0..BLOCKS).filter(|it| dead[*it]) {
            let spared = self.spared(block);
            other.cells[block] = spared.unwrap_or_else(|| self.drawn.cell());
        }
        for leaf in (0..LEAVES).filter(|it| is_changed[*it]) {
            other.leaf_sides[leaf] = 1 - other.leaf_sides[leaf];
            if self.fault != Some(Fault::KeepPageCell) {
                other.leaves[leaf] = self.drawn.cell();
            }
        }
        (other.top, other.log) = (self.drawn.cell(), self.drawn.cell());
        self.memory.logs[other.half()] = Log::default();
        let lives = self.lives.iter().enumerate().filter(|(block, _)| is_in_batch(*block));
        Purge {
            done: 1,
            leaves_say: other.cells,
            other,
            is_changed,
            dead,
            owed,
            has_early: self.memory.early.map(|it| it.is_some()),
            owes_anew: [false; BLOCKS],
            pays: lives.flat_map(|(_, life)| life.dying.iter().copied()).collect(),
            doubt: None,
        }
    }

    /// With a fault: the cell of the old leaf, if `block` has an early one.
    fn spared(&self, block: usize) -> Option<Cell> {
        let (leaf, nth) = (block / LEAF_BLOCKS, block % LEAF_BLOCKS);
        let is_spared = self.fault == Some(Fault::SpareWritten) && self.memory.early[block].is_some();
        let old = self.media.open_leaf(leaf, self.memory.tree.leaves[leaf]).filter(|_| is_spared);
        old.map(|(_, cells)| cells[nth])
    }

    /// The last frame of a purge.
    fn end_purge(&mut self, purge: &Purge) {
        for block in 0..BLOCKS {
            if purge.takes(block) {
                self.journal.dead[block] = false;
            }
            if purge.owed[block] && !purge.owes_anew[block] {
                self.journal.owed[block] = false;
            }
            self.lives[block].dying.retain(|it| !purge.pays.contains(it));
        }
        self.receipts.extend(&purge.pays);
        self.frame();
        self.forget();
        self.memory.is_root_late = self.fault == Some(Fault::ReceiptBeforeRoot);
    }

    /// The write of the root failed.
    pub(super) fn doubt(&mut self, reached: bool) {
        let purge = self.memory.purge.as_mut().expect("a purge is under way");
        self.media.roots[purge.other.half()].fail(Some(purge.other.root()), reached);
        purge.doubt = Some(0);
    }

    /// The next step that ends the doubt.
    pub(super) fn settle(&mut self) {
        let mut purge = self.memory.purge.take().expect("a purge is under way");
        let is_unsettled = self.fault == Some(Fault::UnsettledRoot);
        let (next, slot) = (Some(purge.other.root()), &mut self.media.roots[purge.other.half()]);
        let is_there = *slot.place.newest() == next;
        if purge.doubt == Some(0) {
            if !is_unsettled {
                slot.put(next.filter(|_| is_there));
            }
            purge.doubt = Some(1);
        } else {
            if is_unsettled {
                return;
            }
            self.media.sync(Medium::Root);
            if !is_there {
                return;
            }
            std::mem::swap(&mut self.memory.tree, &mut purge.other);
            (purge.done, purge.doubt) = (5, None);
        }
        self.memory.purge = Some(purge);
    }
}

fn put_zeros(media: &mut Media, block: usize) {
    (0..SECTORS).for_each(|sector| media.put(At::Data(block, sector), Sector::Zeros));
}
