//! Older versions of content: where content keeps its place and the medium [erases](crate::media::medium::Capabilities::erases), what a
//! write replaces is left elsewhere on the medium.
//!
//! Invariants:
//! 1. A write over bytes that are dead, or suspicious, waits for nothing. Until a sync has ended, the journal calls them what they were, so
//!    that a crash loses the write alone. Then one frame says that what lay there before is owed at the place, and the address owes nothing.
//! 2. While older versions of some bytes are destroyed, none of these bytes is written: the record would end what that write owes.
//! 3. A start after a crash cannot know whether suspicious bytes were written over, so it owes what lies below them, in any store.

use crate::base::units::{Addr, BLOCK_BYTES, Extent, Millis};
use crate::erase::{Destroy, Method, Priority, RUNS_MAX, Zeros};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::owed::journal::{Change, State};
use crate::owed::ledger::{Due, Obligation};
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::task::{EraseTask, Kind, Placed};

/// Most places to look at in search of those that are ready.
const LOOKS_MAX: usize = RUNS_MAX;

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

    /// The erase task that destroys older versions that are owed, if some can be now. `is_busy`: a request writes to these addresses.
    pub(in crate::volume) fn destroy_older(
        &self,
        is_busy: impl Fn(Extent<Addr>) -> bool,
    ) -> Option<EraseTask> {
        let pieces = self.state.owed.iter().take(LOOKS_MAX).flat_map(|(place, content)| {
            let pieces = place.extent.pieces(self.limits().run_bytes_max.next_multiple_of(BLOCK_BYTES));
            pieces.map(move |extent| (Place { extent, ..place }, content))
        });
        let ready = pieces.filter(|(place, content)| {
            let is_free = !self.commits.undurable.has(*place) && !self.remaining.has_any(&[*place]);
            is_free && !is_busy(content.address(place.extent))
        });
        let ready = self.limits().batch(ready, |(place, _)| place.extent.len);
        let with_address =
            ready.map(|(place, content)| (place, (content.address(place.extent), content.cause)));
        let (places, addresses): (Vec<_>, Vec<_>) = with_address.unzip();
        let (runs, causes): (Vec<_>, Vec<_>) = self.once_each(&places, &addresses).into_iter().unzip();
        let method = Destroy {
            residue: places.iter().copied().map(Site::Place).collect(),
            at_once: 1,
            zeros: Zeros::AfterPasses,
            medium: Site::all_of(MediumId::Data),
            forget: Vec::new(),
            checkpoint: false,
            record: true,
        };
        let kind = Kind::DestroyOwed { places, causes, what: Placed::Older };
        let is_any = !runs.is_empty();
        is_any.then(|| self.erase_task(kind, runs, Method::Destroy(method), Priority::Due))
    }

    /// Whether a write may go over bytes that owe `due` without waiting for their destruction.
    pub(in crate::volume) fn may_go_over(&self, due: Due) -> bool {
        due.is_dead() || self.leaves_older()
    }
}
