//! Changes that were refused after the rule had taken them for evidence. The guest may send such a write
//! again, at any time, as it was.

use crate::formats::format::{Block, Kind};
use crate::input::sets::runs;
use crate::mutant::{self, Mutant};
use crate::rules::rule_j::RuleJ;
use quietus_core::base::units::{Addr, Extent, Millis};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

impl RuleJ {
    pub(super) fn refused(&mut self, now: Millis, extent: Extent<Addr>, was_shown: bool) {
        self.tick(now);
        let blocks = self.grid.touched(extent).filter(|_| !mutant::is(Mutant::RefusalIgnored));
        let Some(blocks) = blocks else { return };
        if was_shown && self.marks.range_cardinality(blocks.clone()) > 0 {
            self.changed = true;
        }
        if self.journal.range_cardinality(blocks.clone()) > 0 {
            self.take_back();
        }
        self.content_refused(blocks.clone());
        if blocks.clone().any(|block| self.format.kind(block) == Kind::Map) {
            self.map_written();
        }
        self.data_refused(blocks);
    }

    /// The old content may be there still, and whatever was to be destroyed before the write was not.
    fn data_refused(&mut self, blocks: RangeInclusive<Block>) {
        let data = blocks.filter(|block| self.format.kind(*block) == Kind::Data);
        let data: RoaringBitmap = data.collect::<RoaringBitmap>() - &self.journal;
        runs(&data).for_each(|run| self.data_written(run));
        self.suspect(data);
    }

    /// Takes back everything condemned that was not handed out, and loses the place in the journal: a
    /// transaction that seemed complete may not be.
    fn take_back(&mut self) {
        let condemned = self.deaths.take_condemned();
        self.live |= &condemned;
        self.suspect(condemned);
        self.survey.distrust_order();
        self.lose();
    }
}
