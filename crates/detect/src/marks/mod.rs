//! Classes of content: whose content is sensitive, because its file has a mark (`chattr +s`).
//!
//! `docs/decisions/0025-marks.md` has the rules and their reasons. Invariants:
//! 1. Content is plain only if an unmarked file owns it, by names that settled, and nothing of a marked file
//!    was left below it.
//! 2. Sensitive content stays so until it is destroyed. What is not known is never plain.
//! 3. Without any mark nothing is kept, and everything is plain.

mod counted;
mod tree;
mod view;

use crate::format::{Block, Marking};
use crate::mutant::{self, Mutant};
use quietus_core::watch::Class;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;
use tree::Tree;

/// The limits of what marks can do, for the status.
pub(crate) const NOT_COVERED: &str =
    "marks do not cover names left in live folders, nor attribute values left in live inodes";

/// The classes of all content of one file system, and the trees of its marked files.
#[derive(Debug)]
pub(crate) struct Marks {
    tree: Tree,
    /// Number of blocks.
    blocks: Block,
    /// Blocks of metadata in a fixed place. Only those of inodes can be sensitive.
    fixed: RoaringBitmap,
    /// The file system had a mark, at some time since the attach.
    has_any: bool,
    /// All inodes were read once.
    is_known: bool,
    /// One overwrite does not destroy all content of a block.
    has_layers: bool,
    /// At the attach, content was not certain to be that of its owner.
    is_doubtful: bool,
    /// Blocks with sensitive content.
    sensitive: RoaringBitmap,
    /// Sensitive blocks that were overwritten from end to end since: their present content is of an unknown owner.
    buried: RoaringBitmap,
    /// Blocks with content whose owner is not known; disjoint from the sensitive ones.
    unsettled: RoaringBitmap,
    /// Unsettled blocks whose content is that of their owner, if they have one.
    settling: RoaringBitmap,
    /// Blocks handed out as dead, and not written since.
    handed_out: RoaringBitmap,
}

impl Marks {
    /// The marks of a file system of so many `blocks`, of which those in `fixed` hold no content of files.
    /// `is_doubtful` says that it was in use: then content may be of another file than the one that names it.
    pub(crate) fn new(blocks: Block, fixed: RoaringBitmap, is_doubtful: bool) -> Self {
        Self {
            tree: Tree::default(),
            blocks,
            fixed,
            has_any: false,
            is_known: false,
            has_layers: true,
            is_doubtful,
            sensitive: RoaringBitmap::new(),
            buried: RoaringBitmap::new(),
            unsettled: RoaringBitmap::new(),
            settling: RoaringBitmap::new(),
            handed_out: RoaringBitmap::new(),
        }
    }

    /// Whether a name that was seen is yet to be followed.
    pub(crate) fn is_reading(&self) -> bool {
        !self.tree.is_known()
    }

    pub(crate) fn next_read(&mut self, most: u32) -> Option<RangeInclusive<Block>> {
        self.tree.next_read(most)
    }

    pub(crate) fn sources_within(&self, blocks: RangeInclusive<Block>) -> Vec<Block> {
        self.tree.sources_within(blocks)
    }

    /// Takes `content` of a block of inodes.
    pub(crate) fn table_seen(&mut self, marking: &dyn Marking, block: Block, content: &[u8], is_first: bool) {
        self.tree.table_seen(marking, block, content, is_first);
        self.named();
    }

    /// Takes a change of a block of inodes.
    pub(crate) fn table_written(&mut self, marking: &dyn Marking, block: Block, old: &[u8], new: &[u8]) {
        self.tree.table_written(marking, block, old, new);
        self.named();
    }

    /// Takes `content` of any other block.
    pub(crate) fn seen(&mut self, marking: &dyn Marking, block: Block, content: &[u8]) {
        self.tree.seen(marking, block, content);
        self.named();
    }

    /// Takes a change of any other block.
    pub(crate) fn block_written(&mut self, marking: &dyn Marking, block: Block, old: &[u8], new: &[u8]) {
        self.tree.written(marking, block, old, new);
        self.named();
    }

    /// Content that a marked file names from now on is sensitive.
    fn named(&mut self) {
        if !self.has_any && !self.tree.flagged.is_empty() {
            self.has_any = true;
            self.unsettle_all();
        }
        let gained = self.tree.take_gained();
        if !gained.is_empty() {
            self.unsettled -= &gained;
            self.buried -= &gained;
            self.sensitive |= gained;
        }
        if mutant::is(Mutant::SensitiveTakenBack) {
            self.sensitive &= &self.tree.blocks.all;
        }
    }

    /// The blocks within `blocks` that may hold content of files.
    fn data_within(&self, blocks: RangeInclusive<Block>) -> RoaringBitmap {
        let mut data = RoaringBitmap::new();
        data.insert_range(blocks);
        data - &self.fixed
    }

    /// Begins to keep classes, at the first mark.
    fn unsettle_all(&mut self) {
        let Some(last) = self.blocks.checked_sub(1) else { return };
        let data = self.data_within(0..=last);
        if self.is_doubtful && !self.is_known {
            self.sensitive |= &data;
        }
        self.unsettled = data - &self.sensitive;
        if self.is_known {
            self.settling = self.unsettled.clone();
        }
    }

    /// All inodes have been read, and the names in them were followed. Returns whether nothing is marked, and
    /// that was not known before.
    pub(crate) fn surveyed(&mut self) -> bool {
        if self.is_known || self.is_reading() {
            return false;
        }
        self.is_known = true;
        self.settling |= &self.unsettled;
        !self.has_any
    }

    /// Takes a write to `blocks`, of which those in `whole` are overwritten from end to end, before the blocks
    /// count as `live`.
    pub(crate) fn written(
        &mut self,
        blocks: RangeInclusive<Block>,
        whole: Option<RangeInclusive<Block>>,
        live: &RoaringBitmap,
    ) {
        if !self.has_any {
            return;
        }
        let whole = whole.map_or_else(RoaringBitmap::new, |whole| self.data_within(whole));
        let mut ended = whole.clone();
        if self.has_layers {
            // What was not live was handed out, and is destroyed before the write.
            ended -= live - &self.handed_out;
        }
        self.sensitive -= ended;
        let data = self.data_within(blocks);
        self.handed_out -= &data;
        self.settling -= &data;
        self.buried -= &data;
        self.buried |= (whole & &self.sensitive) - &self.tree.blocks.all;
        self.sensitive |= &data & &self.tree.blocks.all;
        self.unsettled |= data - &self.sensitive;
    }

    /// Takes a refused write to `blocks`: what it was to replace may be there still.
    pub(crate) fn refused(&mut self, blocks: RangeInclusive<Block>) {
        if self.has_any {
            let data = self.data_within(blocks);
            self.unsettled -= &data;
            self.buried -= &data;
            self.sensitive |= data;
        }
    }

    /// Reads all trees anew: a change of a block of them was refused.
    pub(crate) fn again(&mut self) {
        self.tree = Tree::default();
        self.is_known = false;
    }

    /// The guest has crashed. Owners of blocks may never have written them, so that content of unknown owners
    /// stays what it may be until it is destroyed.
    pub(crate) fn crashed(&mut self) {
        if mutant::is(Mutant::CrashSettles) {
            return;
        }
        self.settling.clear();
        self.buried.clear();
        self.sensitive |= std::mem::take(&mut self.unsettled);
    }

    /// Notes that the owner of each of `blocks`, if it has one, has written it by now.
    pub(crate) fn calm(&mut self, blocks: &RoaringBitmap) {
        self.settling |= &self.unsettled & blocks;
    }

    /// Unsettled blocks whose owners, if they have some, count from now on; none while something is being read.
    pub(crate) fn take_settling(&mut self) -> RoaringBitmap {
        if self.is_known && !self.is_reading() { std::mem::take(&mut self.settling) } else { <_>::default() }
    }

    /// Takes `blocks` for content of files that own them, and have no mark.
    pub(crate) fn settled(&mut self, blocks: &RoaringBitmap) {
        self.unsettled -= blocks;
    }

    /// Takes `blocks` in full as destroyed: the present content of each is overwritten next.
    pub(crate) fn taken(&mut self, blocks: &RoaringBitmap) {
        self.unsettled |= &self.sensitive & blocks;
        self.sensitive -= blocks;
        self.buried -= blocks;
    }

    /// Notes that `blocks` were handed out as dead. They keep their class until they are written.
    pub(crate) fn handed_out(&mut self, blocks: RangeInclusive<Block>) {
        if self.has_any {
            self.handed_out.insert_range(blocks);
        }
    }

    /// Takes everything below the present content of `blocks` as destroyed.
    pub(crate) fn below_destroyed(&mut self, blocks: RangeInclusive<Block>) {
        let buried: RoaringBitmap = self.buried.range(blocks.clone()).collect();
        self.taken(&buried);
        self.settling.extend(self.unsettled.range(blocks));
    }

    /// Notes whether one overwrite leaves something of the old content.
    pub(crate) fn set_layers(&mut self, has_layers: bool) {
        self.has_layers = has_layers;
    }

    /// The members of `blocks` whose content is plain.
    pub(crate) fn plain(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        if !self.is_known || self.tree.is_overfull {
            return RoaringBitmap::new();
        }
        let plain = blocks - &self.sensitive;
        if mutant::is(Mutant::UnsettledIsPlain) { plain } else { plain - &self.unsettled }
    }

    /// The class of the content of `block`.
    pub(crate) fn class(&self, block: Block) -> Class {
        if self.tree.is_overfull || self.sensitive.contains(block) {
            return Class::Sensitive;
        }
        let is_plain = self.is_known && !self.unsettled.contains(block);
        if is_plain || mutant::is(Mutant::UnsettledIsPlain) { Class::Plain } else { Class::Unsettled }
    }

    /// Figures for the status.
    pub(crate) fn figures(&self) -> [(&'static str, u64); 3] {
        [
            ("marked inodes", self.tree.followed.len()),
            ("marked blocks", self.tree.blocks.all.len()),
            ("unsettled blocks", self.unsettled.len()),
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
