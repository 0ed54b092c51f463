//! What is to be read of the journal, and what for.
//!
//! A read is carried out in order with the changes that arrive: it shows what
//! was written before it was asked for, and not what was written after.

use crate::format::Block;
use crate::jbd2::Tid;
use crate::jbd2::record::Tag;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// What a block is read for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// Nothing any more.
    Void,
    /// It was written in parts, or never seen.
    Content,
    /// It holds the copy of a map.
    Copy(Wanted),
}

/// The copy of a map that a commit waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The commit.
    pub(super) serial: u64,
    pub(super) tid: Tid,
    pub(super) tag: Tag,
}

/// What is to be read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    wanted: BTreeMap<Block, Purpose>,
    /// Asked for, and not given yet; several for one block are given in order.
    asked: BTreeMap<Block, VecDeque<Purpose>>,
    /// Copies that are about to be overwritten: they are shown before.
    shown: BTreeMap<Block, Wanted>,
}

impl Reads {
    /// The content of `block` is wanted.
    pub(super) fn want(&mut self, block: Block) {
        self.wanted.insert(block, Purpose::Content);
    }

    /// The copy in `block` is wanted. Says whether that can be had.
    pub(super) fn want_copy(&mut self, block: Block, copy: Wanted) -> bool {
        let is_free = !self.shown.contains_key(&block);
        is_free && self.wanted.insert(block, Purpose::Copy(copy)).is_none()
    }

    pub(super) fn next(&mut self) -> Option<Block> {
        let (block, purpose) = self.wanted.pop_first()?;
        self.asked.entry(block).or_default().push_back(purpose);
        Some(block)
    }

    /// `block` is written; it is to be read, if the last of several parts came.
    pub(super) fn written(&mut self, block: Block, is_last_part: bool) {
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

    /// What the content of `block` that is given now was asked for.
    pub(super) fn given(&mut self, block: Block) -> Purpose {
        let Some(asked) = self.asked.get_mut(&block) else { return Purpose::Void };
        let purpose = asked.pop_front().unwrap_or(Purpose::Void);
        if asked.is_empty() {
            self.asked.remove(&block);
        }
        purpose
    }

    /// Those of `blocks` that have to be shown before they are overwritten.
    pub(super) fn shown_within(&self, blocks: RangeInclusive<Block>) -> BTreeSet<Block> {
        self.shown.range(blocks).map(|(block, _)| *block).collect()
    }

    /// Whether a copy that is wanted lies in `blocks`.
    pub(super) fn hold_copy(&self, blocks: RangeInclusive<Block>) -> bool {
        let is_copy = |purpose: &Purpose| matches!(purpose, Purpose::Copy(_));
        self.wanted.range(blocks.clone()).any(|(_, purpose)| is_copy(purpose))
            || self.asked.range(blocks.clone()).any(|(_, asked)| asked.iter().any(is_copy))
            || self.shown.range(blocks).next().is_some()
    }

    /// `block` is shown before it is overwritten.
    pub(super) fn shown(&mut self, block: Block) -> Option<Wanted> {
        self.shown.remove(&block)
    }

    /// No commit waits for a copy any more.
    pub(super) fn forget_copies(&mut self) {
        self.shown.clear();
        self.wanted.retain(|_, purpose| matches!(purpose, Purpose::Content));
        for purpose in self.asked.values_mut().flatten() {
            if matches!(purpose, Purpose::Copy(_)) {
                *purpose = Purpose::Void;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.asked.is_empty() && self.shown.is_empty()
    }
}
