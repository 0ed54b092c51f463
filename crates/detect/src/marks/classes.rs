//! The class of all content of one file system, whoever says which blocks marked files name.

use crate::format::Block;
use crate::mutant::{self, Mutant};
use quietus_core::watch::Class;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// The classes, once a file has had a mark.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Number of blocks.
    pub(super) blocks: Block,
    /// Blocks that hold no content of files by their place.
    pub(crate) fixed: RoaringBitmap,
    /// The file system had a mark, at some time since the attach. Until then no set is kept.
    pub(super) has_any: bool,
    /// One overwrite does not destroy all content of a block.
    pub(super) has_layers: bool,
    /// Blocks with sensitive content.
    pub(super) sensitive: RoaringBitmap,
    /// Sensitive blocks that were overwritten from end to end since: their present content is of an unknown owner.
    pub(super) buried: RoaringBitmap,
    /// Blocks with content whose owner is not known; disjoint from the sensitive ones.
    pub(super) unsettled: RoaringBitmap,
    /// Blocks handed out as dead, and not written since.
    pub(super) handed_out: RoaringBitmap,
}

impl Classes {
    /// The classes of a file system of so many `blocks`, of which those in `fixed` hold no content of files.
    pub(crate) fn new(blocks: Block, fixed: RoaringBitmap) -> Self {
        Self {
            blocks,
            fixed,
            has_any: false,
            has_layers: true,
            sensitive: RoaringBitmap::new(),
            buried: RoaringBitmap::new(),
            unsettled: RoaringBitmap::new(),
            handed_out: RoaringBitmap::new(),
        }
    }

    /// Whether classes are kept.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any
    }

    /// Whether one overwrite leaves something of the old content.
    pub(crate) fn has_layers(&self) -> bool {
        self.has_layers
    }

    /// Blocks with content whose owner is not known.
    pub(crate) fn unsettled(&self) -> &RoaringBitmap {
        &self.unsettled
    }

    /// Begins to keep classes, at the first mark.
    pub(crate) fn begin(&mut self) {
        self.has_any = true;
    }

    /// Takes content of `blocks` for that of an unknown owner, unless it is sensitive.
    pub(crate) fn unsettle(&mut self, blocks: &RoaringBitmap) {
        self.unsettled |= (blocks - &self.fixed) - &self.sensitive;
    }

    /// Takes all content for that of an unknown owner, unless it is sensitive, or classes are not kept.
    pub(crate) fn unsettle_all(&mut self) {
        if self.has_any {
            let all = self.all();
            self.unsettle(&all);
        }
    }

    /// All blocks that may hold content of files.
    pub(crate) fn all(&self) -> RoaringBitmap {
        self.blocks.checked_sub(1).map_or_else(RoaringBitmap::new, |last| self.data_within(0..=last))
    }

    /// The blocks within `blocks` that may hold content of files.
    pub(super) fn data_within(&self, blocks: RangeInclusive<Block>) -> RoaringBitmap {
        let mut data = RoaringBitmap::new();
        data.insert_range(blocks);
        data - &self.fixed
    }

    /// Notes that marked files name `blocks` from now on.
    pub(crate) fn named(&mut self, blocks: RoaringBitmap) {
        if !blocks.is_empty() {
            self.unsettled -= &blocks;
            self.buried -= &blocks;
            self.sensitive |= blocks;
        }
    }

    /// Takes a write to `blocks`, of which those in `whole` are overwritten from end to end, before the blocks
    /// count as `live`. Marked files name those in `named`.
    pub(crate) fn written(
        &mut self,
        blocks: RangeInclusive<Block>,
        whole: Option<RangeInclusive<Block>>,
        live: &RoaringBitmap,
        named: &RoaringBitmap,
    ) {
        let whole = whole.map_or_else(RoaringBitmap::new, |whole| self.data_within(whole));
        let mut ended = whole.clone();
        if self.has_layers && !mutant::is(Mutant::OverwriteDestroys) {
            // What was not live was handed out, and is destroyed before the write.
            let is_live = &ended & live;
            ended -= is_live - &self.handed_out;
        }
        self.sensitive -= ended;
        let data = self.data_within(blocks);
        self.handed_out -= &data;
        self.buried -= &data;
        self.buried |= (whole & &self.sensitive) - named;
        self.sensitive |= &data & named;
        self.unsettled |= data - &self.sensitive;
    }

    /// Takes a refused write to `blocks`: what it was to replace may be there still.
    pub(crate) fn refused(&mut self, blocks: RangeInclusive<Block>) {
        if self.has_any {
            let data = self.data_within(blocks);
            self.named(data);
        }
    }

    /// The guest has crashed. Owners of blocks may never have written them, so that content of unknown owners
    /// stays what it may be until it is destroyed.
    pub(crate) fn crashed(&mut self) {
        self.buried.clear();
        self.sensitive |= std::mem::take(&mut self.unsettled);
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
        let buried: RoaringBitmap = self.buried.range(blocks).collect();
        self.taken(&buried);
    }

    /// Notes whether one overwrite leaves something of the old content.
    pub(crate) fn set_layers(&mut self, has_layers: bool) {
        self.has_layers = has_layers;
    }

    /// The members of `blocks` whose content is plain.
    pub(crate) fn plain(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        let plain = blocks - &self.sensitive;
        if mutant::is(Mutant::UnsettledIsPlain) { plain } else { plain - &self.unsettled }
    }

    /// The class of the content of `block`.
    pub(crate) fn class(&self, block: Block) -> Class {
        if self.sensitive.contains(block) {
            Class::Sensitive
        } else if self.unsettled.contains(block) && !mutant::is(Mutant::UnsettledIsPlain) {
            Class::Unsettled
        } else {
            Class::Plain
        }
    }
}
