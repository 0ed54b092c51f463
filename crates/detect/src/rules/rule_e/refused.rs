//! Changes that were refused after the rule had taken them for evidence.
//!
//! The guest may send such a write again, at any time, as it was. So:
//! 1. Data counts as written, and as suspicious: the old content may be there still, and whatever was to be
//!    destroyed before the write was not.
//! 2. What a map showed free is not durable: everything condemned is live again. The next write of that map
//!    may be the old one, and confirms no death at once.
//! 3. The names that the rule has counted are not those on the disk, so all of them are counted anew.
//! 4. A mark that may not be there tells nothing: the file system is searched for anew.

use crate::formats::format::{Block, Kind};
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::options::Grade;
use crate::rules::rule_e::RuleE;
use crate::rules::rule_e::names::Names;
use crate::rules::rule_e::unwritten::Unwritten;
use quietus_core::base::units::{Addr, Extent, Millis};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

impl RuleE {
    pub(super) fn refused(&mut self, now: Millis, extent: Extent<Addr>, was_shown: bool) {
        self.tick(now);
        let blocks = self.grid.touched(extent).filter(|_| !mutant::is(Mutant::RefusalIgnored));
        let Some(blocks) = blocks else { return };
        self.data_refused(blocks.clone());
        self.marks_refused(blocks.clone(), was_shown);
        if was_shown && self.marks.range_cardinality(blocks.clone()) > 0 {
            self.changed = true;
        }
        let maps = self.fixed.range(blocks.clone()).filter(|block| self.format.kind(*block) == Kind::Map);
        let maps: RoaringBitmap = maps.collect();
        if !maps.is_empty() {
            self.refused |= maps;
            self.take_back();
        }
        let mut inodes = self.sources.range(blocks.clone());
        if was_shown && (inodes.next().is_some() || !self.names.pointers_within(blocks).is_empty()) {
            self.take_back();
            self.count_again();
        }
    }

    fn data_refused(&mut self, blocks: RangeInclusive<Block>) {
        let [condemned, _] = self.deaths.sets();
        // A map that has arrived since shows the condemned ones free.
        let data = set_of([blocks]) - &self.fixed - condemned;
        self.live |= &data;
        self.recent.extend(&data);
        self.lately.extend(&data);
        self.suspect(&data);
    }

    /// Takes back everything condemned that was not handed out.
    fn take_back(&mut self) {
        let taken = self.deaths.take_condemned() | self.unconfirmed.all();
        self.unwritten.refused();
        self.unconfirmed.clear();
        self.live |= &taken;
        self.suspect(&taken);
        self.survey.distrust_order();
    }

    /// Notes that the present content of `blocks`, and content below, may be dead.
    fn suspect(&mut self, blocks: &RoaringBitmap) {
        if self.options.grade != Grade::Block {
            self.suspicious |= blocks;
            self.deaths.unlinked.extend(blocks);
        }
    }

    /// A block of a marked file's tree may not be what was shown: all trees are read anew.
    fn marks_refused(&mut self, blocks: RangeInclusive<Block>, was_shown: bool) {
        let Some(marks) = &mut self.classes else { return };
        marks.classes.refused(blocks.clone());
        if was_shown && !marks.tree.sources_within(blocks).is_empty() {
            self.count_again();
        }
    }

    fn count_again(&mut self) {
        if let Some(marks) = &mut self.classes {
            marks.again();
        }
        self.names = Names::default();
        self.unwritten = Unwritten::new(false);
        self.survey.again(self.format.survey(Kind::Inodes), self.format.block_bytes());
        self.unknown.clear();
        self.surveyed = false;
    }
}
