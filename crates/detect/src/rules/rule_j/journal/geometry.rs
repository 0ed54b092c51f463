//! Writes of the superblock and of what else describes the file system.

use crate::formats::format::{Block, Geometry};
use crate::rules::rule::set_member;
use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::journal::log::Log;

impl RuleJ {
    /// Takes a write of `block` of geometry, which changes it from `old` to `new`.
    pub(in super::super) fn geometry_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        let change = self.format.geometry(block, old, new);
        self.may_have_crashed(change);
        set_member(&mut self.marks, block, change != Geometry::Same);
        match change {
            Geometry::Same => {}
            Geometry::InUse | Geometry::Mounted => self.in_use = true,
            Geometry::Unmounted => self.cleaned(self.log.as_ref().is_some_and(Log::is_empty)),
            Geometry::Clean => self.cleaned(false),
            Geometry::Changed => return self.changed = true,
        }
        if self.format.learn(block, new) {
            self.lose_marks();
        }
    }

    /// Notes that everything was written, so that the maps on the disk can be trusted.
    fn cleaned(&mut self, in_order: bool) {
        self.in_use = false;
        let in_order = in_order && !self.attached.is_cached();
        self.unwritten.rests(in_order);
        self.unwritten_at_rest();
        self.reread_maps(in_order);
        self.search_marks(in_order);
    }
}
