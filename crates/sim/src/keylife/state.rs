//! What the state of the page is made of.

use super::{BLOCKS, SECTORS};
use std::collections::BTreeSet;

/// Number of a cell, in the order in which cells are drawn.
pub(super) type CellId = u32;

/// Number of a content; 0 are zeros.
pub(super) type Content = u32;

/// What becomes of a content (3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Fate {
    /// Of the present life of its block.
    Life,
    /// Dead, and its destruction is owed.
    Dying,
    /// Dead, and the purge under way pays for it.
    Taken,
    /// Its destruction has a receipt.
    Receipted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub block: usize,
    pub cell: CellId,
    pub fate: Fate,
    /// Its ciphertext was put anywhere.
    pub is_seen: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Block {
    /// By the ledger: the address is dead.
    pub is_dead: bool,
    /// By the ledger: an old key of the block is owed.
    pub is_owed: bool,
    /// Came to owe since the purge under way began.
    pub owes_anew: bool,
    /// Has an early cell, which no frame names yet.
    pub is_early: bool,
    /// Had an early cell when the purge under way began, or since.
    pub is_touched: bool,
    /// The cell that the server's memory has, unless the block is dead and not early.
    pub cell: CellId,
    /// The content of the write under way, and how many sectors it has put.
    pub writing: Option<(Content, usize)>,
    /// What the host's cache has of each sector,
    pub newest: [Content; SECTORS],
    /// and the medium.
    pub settled: [Content; SECTORS],
}

impl Block {
    pub fn is_shown(&self) -> bool {
        !self.is_dead || self.is_early
    }
}

/// An entry of the log. The page does not keep prepared cells: a start finds them by the frame that stages the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub block: usize,
    pub cell: CellId,
    pub is_active: bool,
}

/// What a root opens, and what its slot has of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Root {
    pub number: u32,
    /// The cell of each block that a start finds: that of the tree, or that of the last active entry which is durable.
    pub says: [CellId; BLOCKS],
    /// The sectors of its log that are not synced.
    pub pending: Vec<Vec<Entry>>,
    /// All cells that were ever written where the root opens them.
    pub ever: BTreeSet<CellId>,
    /// The cache has it,
    pub is_newest: bool,
    /// the medium has it,
    pub is_settled: bool,
    /// and the medium may have it or its remains (7).
    pub remains: bool,
    /// A sync makes the slot durable.
    pub is_dirty: bool,
}

impl Root {
    pub fn of(number: u32, says: [CellId; BLOCKS]) -> Self {
        let (pending, ever) = (Vec::new(), says.into());
        Self {
            number,
            says,
            pending,
            ever,
            is_newest: false,
            is_settled: false,
            remains: false,
            is_dirty: false,
        }
    }

    pub fn is_gone(&self) -> bool {
        !(self.is_newest || self.is_settled || self.remains)
    }

    /// The first `count` unsynced sectors of the log become durable, the others are lost.
    pub fn keep_log(&mut self, count: usize) {
        for entry in std::mem::take(&mut self.pending).into_iter().take(count).flatten() {
            if entry.is_active {
                self.says[entry.block] = entry.cell;
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flush {
    pub done: u8,
    pub named: [bool; BLOCKS],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rewrite {
    pub done: u8,
    pub block: usize,
    pub content: Content,
    pub cell: CellId,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Purge {
    pub done: u8,
    /// Dead when it began.
    pub was_dead: [bool; BLOCKS],
    /// Dead or owed when it began.
    pub batch: [bool; BLOCKS],
    /// Steps done after a doubt, as long as the root is in doubt.
    pub settling: Option<u8>,
}
