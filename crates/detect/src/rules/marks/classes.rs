//! The class of all content of one file system, whatever says which blocks marked files name.

use crate::formats::format::Block;
use crate::input::sets::{runs, set_of};
use crate::mutant::{self, Mutant};
use quietus_core::watch::Class;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// Most blocks that are looked up one by one rather than as a set.
const FEW: u64 = 256;

/// The classes, once a file has had a mark.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(super) blocks: Block,
    /// Blocks that hold no content of files by their place.
    pub(crate) fixed: RoaringBitmap,
    /// The file system had a mark, at some time since the attach. Until then no set is kept.
    pub(crate) has_any: bool,
    /// One overwrite does not destroy all content of a block.
    pub(crate) has_layers: bool,
    /// Blocks with sensitive content.
    pub(super) sensitive: RoaringBitmap,
    /// Sensitive blocks that were overwritten from end to end since: their present content is of an unknown owner.
    pub(super) buried: RoaringBitmap,
    /// Blocks with content whose owner is not known; disjoint from the sensitive ones.
    pub(crate) unsettled: RoaringBitmap,
    /// Blocks handed out as dead, and not written since.
    pub(super) handed_out: RoaringBitmap,
}

impl Classes {
    /// The classes of a file system of so many `blocks`, of which those in `fixed` hold no content of files.
    pub(crate) fn new(blocks: Block, fixed: RoaringBitmap) -> Self {
        Self { blocks, fixed, has_layers: true, ..Self::default() }
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
        set_of([blocks.clone()]) - members(&self.fixed, blocks)
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
        // A write touches few blocks, and the sets may have many: nothing here walks over a whole set.
        let of = |set: &RoaringBitmap| members(set, blocks.clone());
        let data = self.data_within(blocks.clone());
        let whole = whole.map_or_else(RoaringBitmap::new, |whole| members(&data, whole));
        let (named, mut sensitive) = (of(named), of(&self.sensitive) & &data);
        let mut ended = &whole & &sensitive;
        if self.has_layers && !mutant::is(Mutant::OverwriteDestroys) {
            // What was not live was handed out, and is destroyed before the write.
            let is_live = &ended & of(live);
            ended -= is_live - of(&self.handed_out);
        }
        sensitive -= &ended;
        let buried = (whole & &sensitive) - &named;
        sensitive |= &data & named;
        take(&mut self.sensitive, &ended);
        take(&mut self.handed_out, &data);
        take(&mut self.buried, &data);
        add(&mut self.buried, &buried);
        add(&mut self.sensitive, &sensitive);
        add(&mut self.unsettled, &(data - sensitive));
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

    /// The members of `blocks` whose content is plain.
    pub(crate) fn plain(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        if blocks.len() <= FEW {
            return blocks.iter().filter(|block| self.class(*block) == Class::Plain).collect();
        }
        let plain = blocks - &self.sensitive;
        if mutant::is(Mutant::UnsettledIsPlain) { plain } else { plain - &self.unsettled }
    }

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

fn members(set: &RoaringBitmap, blocks: RangeInclusive<Block>) -> RoaringBitmap {
    set.range(blocks).collect()
}

/// Adds the members of `few`, most of which are neighbours.
fn add(set: &mut RoaringBitmap, few: &RoaringBitmap) {
    for run in runs(few) {
        set.insert_range(run);
    }
}

/// Removes the members of `few`, most of which are neighbours.
fn take(set: &mut RoaringBitmap, few: &RoaringBitmap) {
    for run in runs(few) {
        set.remove_range(run);
    }
}

#[cfg(test)]
mod tests;
