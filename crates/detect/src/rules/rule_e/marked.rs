//! Marks below rule E: classes of content, by what the rule knows of names and of time
//! (`docs/decisions/0025-marks.md`).

use crate::formats::format::{Block, Format, Geometry, Kind, Marking};
use crate::mutant::{self, Mutant};
use crate::rules::marks::{Marks, Tree};
use crate::rules::options::{Options, Sensitive};
use crate::rules::rule::placed;
use crate::rules::rule_e::RuleE;
use quietus_core::watch::Class;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

impl RuleE {
    /// The marks of `format`, if they are to be followed, and can be. `is_in_use` as it was at the attach.
    pub(super) fn marks_of(format: &dyn Format, options: Options, is_in_use: bool) -> Option<Marks> {
        format.marking().filter(|_| options.sensitive == Sensitive::Marked)?;
        let fixed = placed(format, [Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed]);
        Some(Marks::new(format.blocks(), fixed, is_in_use))
    }

    /// Lets the trees of marked files take content, or a change of it, if marks are followed.
    pub(super) fn follow_marks(&mut self, take: impl FnOnce(&mut Tree, &dyn Marking)) {
        if let (Some(marks), Some(marking)) = (&mut self.classes, self.format.marking()) {
            marks.follow(|tree| take(tree, marking));
        }
    }

    /// Takes content for its owner's, if the owner has no mark, and would have written it by now.
    pub(super) fn settle_content(&mut self) {
        let Some(marks) = &mut self.classes else { return };
        if self.survey.is_done() && marks.surveyed() {
            self.deaths.take_condemned();
            self.unwritten.hollow.clear();
            self.deaths.forgive_all();
        }
        if !self.names.are_known() {
            return;
        }
        let calm = marks.take_settling();
        let owners_write = self.format.marking().is_some_and(|marking| marking.owners_write());
        if calm.is_empty() || !owners_write {
            return;
        }
        let mut owned = self.names.owned_among(&calm) & &self.live;
        if !mutant::is(Mutant::NameSettles) {
            let lately = self.lately.within(&owned);
            owned -= lately;
        }
        let below = self.deaths.unlinked.within(&owned);
        owned -= below;
        owned -= &self.deaths.conservative;
        owned -= &self.suspicious;
        marks.classes.settled(&owned);
    }

    /// A file system that is mounted, or called clean by a tool, while it is in use was not unmounted.
    pub(super) fn may_have_crashed(&mut self, change: Geometry) {
        if self.in_use
            && matches!(change, Geometry::Mounted | Geometry::Clean)
            && let Some(marks) = &mut self.classes
        {
            marks.crashed();
        }
    }

    /// The members of `blocks` with plain content.
    pub(super) fn plain(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        self.classes.as_ref().map_or_else(RoaringBitmap::new, |marks| marks.plain(blocks))
    }

    pub(super) fn is_plain(&self, block: Block) -> bool {
        self.classes.as_ref().is_some_and(|marks| marks.class(block) == Class::Plain)
    }

    /// Notes that the blocks of `found` are handed out before all of `whole` is overwritten.
    pub(super) fn taken(&mut self, found: &RoaringBitmap, whole: RangeInclusive<Block>) {
        if let Some(marks) = &mut self.classes {
            let whole: RoaringBitmap = found.range(whole).collect();
            marks.classes.taken(&whole);
        }
    }
}
