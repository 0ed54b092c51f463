//! The findings of a laboratory once everything has settled: the dead must be gone from the medium.

use super::Files;
use super::part::Part;
use crate::content::Tag;
use crate::remanence::Trace;
use crate::rule_e::guest::Owner;
use crate::server::found;
use quietus_core::units::{Addr, Extent};
use quietus_detect::format::Block;
use quietus_detect::options::Grade;
use std::collections::BTreeMap;

/// The owner of each block.
type Named = BTreeMap<Block, Owner>;

impl Files {
    pub(super) fn judge_remains(&mut self) -> Result<(), String> {
        self.everywhere(|it| {
            let named = it.named();
            it.judge_contents(&named)?;
            // Below a cache a map may arrive after its block was given away: nothing is promised of layers.
            if it.setup.is_cached() { Ok(()) } else { it.judge_layers(&named) }
        })
    }

    fn judge_layers(&self, named: &Named) -> Result<(), String> {
        let (whole, passes) = (self.extent(), self.server.passes());
        self.server.media.data.inspect(|remains| {
            let mut lacking = remains.iter().filter_map(|(sector, trace)| {
                Some((sector.is_some(), trace, trace.lacking(whole, passes).next()?))
            });
            lacking.try_for_each(|(is_placed, trace, word)| {
                let is_well = self.is_excused(is_placed, trace, word, named);
                if is_well { Ok(()) } else { Err(self.left(trace, word)) }
            })
        })
    }

    fn left(&self, trace: &Trace, word: Extent<Addr>) -> String {
        let mark = self.truth.records[&trace.tag].mark;
        let (has, due) = (trace.passes_within(word).unwrap_or(0), self.server.passes());
        found(format!("what {mark:?} had at {word:?}, write {}, has {has} of {due} passes", trace.tag.0))
            .into()
    }

    /// Checks that no dead content can be read, unless a crash gave it to somebody.
    fn judge_contents(&self, named: &Named) -> Result<(), String> {
        for block in self.system.data() {
            let dead = self.visible(block).filter(|tag| self.is_dead(*tag));
            if let Some(tag) = dead.filter(|_| !named.contains_key(&block)) {
                let mark = self.truth.records[&tag].mark;
                return Err(found(format!("what {mark:?} had in block {block} lies there")).into());
            }
        }
        Ok(())
    }

    /// The write whose content can be read in `block`; a dead one, if there are several.
    fn visible(&self, block: Block) -> Option<Tag> {
        let tags = self.server.visible_tags(self.place(block));
        tags.iter().copied().find(|tag| self.is_dead(*tag)).or_else(|| tags.first().copied())
    }

    /// Whether `word` of `trace`, which lacks passes, may lack them.
    fn is_excused(&self, is_placed: bool, trace: &Trace, word: Extent<Addr>, named: &Named) -> bool {
        let (block, record) = (self.touched(word).start, &self.truth.records[&trace.tag]);
        let is_owed = self.is_dead(trace.tag) || self.setup.options.grade == Grade::Content;
        if self.server.is_current(trace.tag, word) || !is_owed {
            return true;
        }
        let top = self.visible(block);
        if self.server.passes() == 1 {
            return is_placed && top.is_some();
        }
        if top.is_some_and(|tag| self.is_dead(tag)) && named.contains_key(&block) {
            return true;
        }
        let decided = record.mark.and_then(|mark| self.system.excuse(block, mark));
        let (is_forgotten, is_hidden) =
            decided.unwrap_or_else(|| (record.is_excused, self.truth.is_hidden(block, record)));
        is_forgotten || (is_hidden && self.setup.options.grade != Grade::Content)
    }
}

impl Part {
    fn is_dead(&self, tag: Tag) -> bool {
        self.truth.is_dead(self.truth.records[&tag].mark)
    }
}
