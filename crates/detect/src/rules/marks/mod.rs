//! Classes of content: whose content is sensitive, because its file has a mark (`chattr +s`).
//!
//! `docs/decisions/0025-marks.md` has the rules and their reasons. Invariants:
//! 1. Content is plain only if an unmarked file owns it, by names that settled, and nothing of a marked file
//!    was left below it.
//! 2. Sensitive content stays so until it is destroyed. What is not known is never plain.
//! 3. Without any mark nothing is kept, and everything is plain.

pub(crate) mod classes;
pub(crate) mod committed;
mod counted;
#[cfg(test)]
mod tests;
mod tree;
mod view;

use crate::formats::format::Block;
use crate::mutant::{self, Mutant};
use classes::Classes;
use quietus_core::watch::Class;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;
pub(crate) use tree::Tree;

/// The limits of what marks can do, for the status.
pub(crate) const NOT_COVERED: &str =
    "marks do not cover names left in live folders, nor attribute values left in live inodes";

/// The classes of all content of one file system, and the trees of its marked files.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) tree: Tree,
    pub(crate) classes: Classes,
    /// All inodes were read once.
    is_known: bool,
    /// At the attach, content was not certain to be that of its owner.
    is_doubtful: bool,
    /// Unsettled blocks whose content is that of their owner, if they have one.
    settling: RoaringBitmap,
}

impl Marks {
    /// The marks of a file system of so many `blocks`, of which those in `fixed` hold no content of files.
    /// `is_doubtful` says that it was in use: then content may be of another file than the one that names it.
    pub(crate) fn new(blocks: Block, fixed: RoaringBitmap, is_doubtful: bool) -> Self {
        Self { classes: Classes::new(blocks, fixed), is_doubtful, ..Self::default() }
    }

    /// Whether a name that was seen is yet to be followed.
    pub(crate) fn is_reading(&self) -> bool {
        !self.tree.needed.is_empty()
    }

    pub(crate) fn next_read(&mut self, most: u32) -> Option<RangeInclusive<Block>> {
        self.tree.needed.next_read(most)
    }

    /// Lets the trees take content, or a change of it.
    pub(crate) fn follow(&mut self, take: impl FnOnce(&mut Tree)) {
        take(&mut self.tree);
        self.named();
    }

    /// Content that a marked file names from now on is sensitive.
    fn named(&mut self) {
        if !self.classes.has_any && !self.tree.flagged.is_empty() {
            self.unsettle_all();
        }
        self.classes.named(std::mem::take(&mut self.tree.gained));
        if mutant::is(Mutant::SensitiveTakenBack) {
            self.classes.sensitive &= &self.tree.blocks.all;
        }
    }

    /// Begins to keep classes, at the first mark.
    fn unsettle_all(&mut self) {
        self.classes.has_any = true;
        let all = self.classes.all();
        if self.is_doubtful && !self.is_known {
            self.classes.named(all);
            return;
        }
        self.classes.unsettle(&all);
        if self.is_known {
            self.settling = self.classes.unsettled.clone();
        }
    }

    /// All inodes have been read, and the names in them were followed. Returns whether nothing is marked, and
    /// that was not known before.
    pub(crate) fn surveyed(&mut self) -> bool {
        if self.is_known || self.is_reading() {
            return false;
        }
        self.is_known = true;
        self.settling |= &self.classes.unsettled;
        !self.classes.has_any
    }

    /// As [`Classes::written`].
    pub(crate) fn written(
        &mut self,
        blocks: RangeInclusive<Block>,
        whole: Option<RangeInclusive<Block>>,
        live: &RoaringBitmap,
    ) {
        if self.classes.has_any {
            self.settling.remove_range(blocks.clone());
            self.classes.written(blocks, whole, live, &self.tree.blocks.all);
        }
    }

    /// Reads all trees anew: a change of a block of them was refused.
    pub(crate) fn again(&mut self) {
        self.tree = Tree::default();
        self.is_known = false;
    }

    /// As [`Classes::crashed`].
    pub(crate) fn crashed(&mut self) {
        if !mutant::is(Mutant::CrashSettles) {
            self.settling.clear();
            self.classes.crashed();
        }
    }

    /// Notes that the owner of each of `blocks`, if it has one, has written it by now.
    pub(crate) fn calm(&mut self, blocks: &RoaringBitmap) {
        self.settling |= &self.classes.unsettled & blocks;
    }

    /// Unsettled blocks whose owners, if they have some, count from now on; `None` while something is being read.
    pub(crate) fn take_settling(&mut self) -> RoaringBitmap {
        if self.is_known && !self.is_reading() { std::mem::take(&mut self.settling) } else { <_>::default() }
    }

    /// As [`Classes::below_destroyed`].
    pub(crate) fn below_destroyed(&mut self, blocks: RangeInclusive<Block>) {
        self.classes.below_destroyed(blocks.clone());
        self.settling.extend(self.classes.unsettled.range(blocks));
    }

    /// The members of `blocks` whose content is plain.
    pub(crate) fn plain(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        if !self.is_known || self.tree.is_overfull {
            return RoaringBitmap::new();
        }
        self.classes.plain(blocks)
    }

    pub(crate) fn class(&self, block: Block) -> Class {
        if self.tree.is_overfull {
            return Class::Sensitive;
        }
        match self.classes.class(block) {
            Class::Plain if !self.is_known && !mutant::is(Mutant::UnsettledIsPlain) => Class::Unsettled,
            class => class,
        }
    }

    pub(crate) fn figures(&self) -> [(&'static str, u64); 3] {
        [
            ("marked inodes", self.tree.followed.len()),
            ("marked blocks", self.tree.blocks.all.len()),
            ("unsettled blocks", self.classes.unsettled.len()),
        ]
    }

    /// The limits of marks, or why everything is sensitive.
    pub(crate) fn note(&self) -> Result<&'static str, &'static str> {
        if self.tree.is_overfull {
            Err("too many folders or shared blocks are marked")
        } else {
            Ok(NOT_COVERED)
        }
    }
}
