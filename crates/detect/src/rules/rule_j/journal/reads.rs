//! Reads of the journal, and their purposes.
//!
//! A read keeps its order among the arriving changes: it returns everything written before it was
//! asked for, and nothing written after.

use crate::formats::format::Block;
use crate::rules::rule_j::journal::copies;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Purpose {
    /// No longer needed.
    Void,
    /// The content of a block that was written in parts, or never seen.
    Content,
    /// A copy in the log.
    Copy(Wanted),
}

/// A copy whose content is wanted.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Wanted {
    /// Serial number of the commit that waits for the copy; `None` if the trees of marked files need it.
    pub(in super::super) serial: Option<u64>,
    pub(in super::super) copy: copies::Copy,
}

/// Pending reads.
#[derive(Debug, Default)]
pub(in super::super) struct Reads {
    wanted: BTreeMap<Block, Purpose>,
    /// Purposes of reads under way; several reads of one block are answered in order.
    asked: BTreeMap<Block, VecDeque<Purpose>>,
    /// Wanted copies about to be overwritten: the old content is shown first.
    shown: BTreeMap<Block, Wanted>,
}

impl Reads {
    /// Asks for the content of `block`.
    pub(in super::super) fn want(&mut self, block: Block) {
        self.wanted.insert(block, Purpose::Content);
    }

    /// Asks for the copy in `block`. Returns whether it can be had.
    pub(in super::super) fn want_copy(&mut self, block: Block, copy: Wanted) -> bool {
        let is_free = !self.shown.contains_key(&block);
        is_free && self.wanted.insert(block, Purpose::Copy(copy)).is_none()
    }

    pub(in super::super) fn next(&mut self) -> Option<Block> {
        let (block, purpose) = self.wanted.pop_first()?;
        self.asked.entry(block).or_default().push_back(purpose);
        Some(block)
    }

    /// Notes a write to `block`, and asks for its content if that was the last of several parts.
    pub(in super::super) fn written(&mut self, block: Block, is_last_part: bool) {
        if let Some(Purpose::Copy(copy)) = self.wanted.remove(&block) {
            self.shown.insert(block, copy);
        }
        for purpose in self.asked.get_mut(&block).into_iter().flatten() {
            if matches!(purpose, Purpose::Content) {
                *purpose = Purpose::Void;
            }
        }
        if is_last_part {
            self.want(block);
        }
    }

    /// The purpose of the content of `block` that is given now.
    pub(in super::super) fn given(&mut self, block: Block) -> Purpose {
        let Some(asked) = self.asked.get_mut(&block) else { return Purpose::Void };
        let purpose = asked.pop_front().unwrap_or(Purpose::Void);
        if asked.is_empty() {
            self.asked.remove(&block);
        }
        purpose
    }

    /// The blocks within `blocks` whose old content is needed before they are overwritten.
    pub(in super::super) fn shown_within(&self, blocks: RangeInclusive<Block>) -> BTreeSet<Block> {
        self.shown.range(blocks).map(|(block, _)| *block).collect()
    }

    pub(in super::super) fn hold_copy(&self, blocks: RangeInclusive<Block>) -> bool {
        let is_copy = |purpose: &Purpose| matches!(purpose, Purpose::Copy(_));
        self.wanted.range(blocks.clone()).any(|(_, purpose)| is_copy(purpose))
            || self.asked.range(blocks.clone()).any(|(_, asked)| asked.iter().any(is_copy))
            || self.shown.range(blocks).next().is_some()
    }

    /// Takes the wanted copy whose `block` is about to be overwritten.
    pub(in super::super) fn shown(&mut self, block: Block) -> Option<Wanted> {
        self.shown.remove(&block)
    }

    /// Drops the reads of copies: no commit waits for one any more.
    pub(in super::super) fn forget_copies(&mut self) {
        self.shown.clear();
        self.wanted.retain(|_, purpose| matches!(purpose, Purpose::Content));
        for purpose in self.asked.values_mut().flatten() {
            if matches!(purpose, Purpose::Copy(_)) {
                *purpose = Purpose::Void;
            }
        }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.asked.is_empty() && self.shown.is_empty()
    }
}
