//! Older versions of content: where content keeps its place and the medium [erases](crate::media::medium::Capabilities::erases), what a
//! write replaces is left elsewhere on the medium.
//!
//! Invariants:
//! 1. A write over bytes that are dead, or suspicious, waits for nothing. Until a sync has ended, the journal calls them what they were, so
//!    that a crash loses the write alone. Then one frame says that what lay there before is owed at the place, and the address owes nothing.
//! 2. While older versions of some bytes are destroyed, none of these bytes is written: the record would end what that write owes.
//! 3. A start after a crash cannot know whether suspicious bytes were written over, so it owes what lies below them, in any store.

use crate::base::units::Millis;
use crate::media::MediumId;
use crate::mutant::{self, Mutant};
use crate::owed::journal::{Change, State};
use crate::owed::ledger::{Due, Obligation};
use crate::volume::disk::Disk;

/// Owes what lies below all suspicious bytes of `state`, which a crash may have left written over.
pub(in crate::volume) fn owe_below_suspicious(state: &mut State) {
    if mutant::is(Mutant::TrustSuspicious) {
        return;
    }
    let below = |(run, it): (_, &Obligation)| Change::Oblige(run, Due::ConservativeOverwrite, it.cause);
    let suspicious: Vec<_> = state.ledger.suspicious().iter().map(below).collect();
    suspicious.into_iter().for_each(|change| state.apply(change, Millis(0)));
}

impl Disk {
    /// Whether what a write replaces is left elsewhere on the medium.
    pub(in crate::volume) fn leaves_older(&self) -> bool {
        self.store.same_place() && self.erases(MediumId::Data)
    }

    /// Whether a write may go over bytes that owe `due` without waiting for their destruction.
    pub(in crate::volume) fn may_go_over(&self, due: Due) -> bool {
        due.is_dead() || self.leaves_older()
    }
}
