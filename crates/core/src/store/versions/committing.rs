//! Commits: what has ended and is not durable yet.

use super::catalog::IndexCheckpoint;
use crate::base::units::{Block, Epoch};
use crate::media::place::Place;
use std::collections::BTreeSet;

/// Commits on their way to the media, and the blocks that wait for the next one.
#[derive(Debug, Default)]
pub(super) struct Committing {
    /// Whether a commit is under way.
    pub(super) is_under_way: bool,
    /// The open epoch when it began.
    pub(super) open: Epoch,
    /// What the commit under way has still to write to the log.
    pub(super) log: Option<(Place, Vec<u8>)>,
    /// The last commit, if it was given up: the next one has it too.
    pub(super) again: Option<(Place, Vec<u8>)>,
    /// The checkpoint of the index that is part of it.
    pub(super) index: Option<IndexCheckpoint>,
    /// Whether the next commit has to have a checkpoint of the index.
    pub(super) wants_index: bool,
    /// The blocks that were written since the last commit began, and those of that commit.
    pub(super) fresh: BTreeSet<Block>,
    pub(super) blocks: BTreeSet<Block>,
}

impl Committing {
    pub(super) fn begin(&mut self, open: Epoch) {
        assert!(!self.is_under_way && self.blocks.is_empty(), "one commit at a time");
        assert!(self.log.is_none() && self.index.is_none(), "nothing of the last commit is left to write");
        assert!(open >= self.open, "the numbers of open epochs only grow");
        (self.is_under_way, self.open) = (true, open);
        self.blocks.append(&mut self.fresh);
    }

    pub(super) fn abort(&mut self) {
        assert!(self.is_under_way, "a commit that is given up has begun");
        (self.is_under_way, self.log) = (false, None);
        self.fresh.append(&mut self.blocks);
    }

    /// Whether a write of `block` has ended that is not durable.
    pub(super) fn has(&self, block: Block) -> bool {
        self.fresh.contains(&block) || self.blocks.contains(&block)
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_under_way || self.again.is_some()
    }

    /// Whether a checkpoint of the index is wanted or under way.
    pub(super) fn has_index_to_write(&self) -> bool {
        self.wants_index || self.index.is_some()
    }
}
