//! Trust in maps above an external journal: a recovery from it may write maps that are older than
//! those on the disk (`docs/decisions/0012-external-journal.md`).

use crate::mutant::{self, Mutant};
use crate::rules::rule_e::RuleE;
use quietus_core::base::units::{Addr, Extent};
use roaring::RoaringBitmap;

/// Reason for the status while [`RuleE::may_be_replayed`].
pub(super) const MAY_BE_REPLAYED: &str = "its journal is external, and a replay may bring back old maps; deaths count from the next mount or unmount on";

impl RuleE {
    /// Whether a recovery may be writing maps that are older than those on the disk.
    pub(super) fn may_be_replayed(&self) -> bool {
        let is_observed = self.mount_observed || mutant::is(Mutant::ReplayTrusted);
        self.in_use && self.format.has_external_journal() && !is_observed
    }

    /// The blocks of `freed` against which their map counts. Above an external journal the guest
    /// need not write another map soon: a block for which the map may be too old is not even
    /// unconfirmed.
    pub(super) fn trusted(&self, freed: RoaringBitmap) -> RoaringBitmap {
        if self.may_be_replayed() {
            return RoaringBitmap::new();
        }
        let is_lasting = self.in_use && self.format.has_external_journal();
        if is_lasting && !mutant::is(Mutant::LateMapSettles) {
            let late = self.window().within(&freed);
            return freed - late;
        }
        freed
    }

    /// Notes that the guest reads `extent`: if a mount begins so, a recovery may follow.
    pub(super) fn may_be_opened(&mut self, extent: Extent<Addr>) {
        if self.mount_observed && self.format.is_opened_by(extent) {
            self.mount_observed = mutant::is(Mutant::ReadsIgnored);
        }
    }
}
