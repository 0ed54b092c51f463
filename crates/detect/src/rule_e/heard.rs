//! Whose word a map is, where the journal lies elsewhere: a recovery from it may
//! bring older maps than those that lie there (`docs/decisions/0012-journal-elsewhere.md`).

use super::RuleE;
use crate::mutant::{self, Mutant};
use quietus_core::units::{Addr, Extent};
use roaring::RoaringBitmap;

/// Why nothing is called dead while [`RuleE::may_be_replayed`].
pub(super) const MAY_BE_REPLAYED: &str =
    "its journal is on another device, and may be replayed: that is over once it is mounted or unmounted";

impl RuleE {
    /// Whether the maps that are written now may be a recovery's, and older than
    /// what lies there.
    pub(super) fn may_be_replayed(&self) -> bool {
        let is_heard = self.heard || mutant::is(Mutant::ReplayBelieved);
        self.in_use && self.format.has_journal_elsewhere() && !is_heard
    }

    /// Those of `freed` against which the map that shows them so may be held.
    /// Above a journal nobody need write an older one again soon: what it may be
    /// too old for is not even doubted.
    pub(super) fn believed(&self, freed: RoaringBitmap) -> RoaringBitmap {
        if self.may_be_replayed() {
            return RoaringBitmap::new();
        }
        let is_lasting = self.in_use && self.format.has_journal_elsewhere();
        if is_lasting && !mutant::is(Mutant::LateMapSettles) {
            let late = self.window().within(&freed);
            return freed - late;
        }
        freed
    }

    /// The guest reads `extent`: if that takes the file system over, what follows
    /// may be a recovery.
    pub(super) fn may_be_opened(&mut self, extent: Extent<Addr>) {
        if self.heard && self.format.is_opened_by(extent) {
            self.heard = mutant::is(Mutant::ReadsIgnored);
        }
    }
}
