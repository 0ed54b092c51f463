//! Where two states of the disk differ: what the store's index says, and what is dead by address by now.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::media::place::Place;
use crate::request::{AsOf, Compared, Refusal, Reply};
use crate::store::Incomparable;
use crate::volume::Command;
use crate::volume::disk::Disk;
use crate::volume::origin::Origin;

/// Most blocks that one request looks at: meanwhile the guest waits.
const LOOKS_MAX: usize = 4096;

impl Disk {
    /// The part of the map that is needed to compare the `states` at the start of `extent`.
    pub(in crate::volume) fn missing_to_compare(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
    ) -> Option<Place> {
        match self.store.epochs()?.compare(extent, states, 1) {
            Err(Incomparable::Missing(place)) => Some(place),
            Ok(_) | Err(Incomparable::NotKept(_)) => None,
        }
    }

    /// Answers request `id`: where the `states` differ in `extent`.
    pub(in crate::volume) fn compare(
        &mut self,
        id: Origin,
        extent: Extent<Addr>,
        states: [AsOf; 2],
        out: &mut Vec<Command>,
    ) {
        let outcome = match self.compare_by_index(extent, states) {
            Ok((mut differing, end)) => {
                let known = Extent::between(extent.start.0, end);
                self.compare_dead(known, states, &mut differing);
                let differing = differing.runs_within(known).collect();
                Ok(Reply::Compared(Compared { end, differing }))
            }
            Err(Incomparable::NotKept(epoch)) => Err(Refusal::Forgotten(epoch)),
            Err(Incomparable::Missing(place)) => unreachable!("{place:?} was fetched before"),
        };
        id.reply(outcome, out);
    }

    fn compare_by_index(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
    ) -> Result<(BlockSet, u64), Incomparable> {
        let epochs = self.store.epochs().expect("a store without epochs refuses this");
        let compared = epochs.compare(extent, states, LOOKS_MAX);
        let goes_on = |(_, end): &(BlockSet, u64)| extent.start.0 < *end && *end <= extent.end();
        assert!(compared.is_err() || compared.as_ref().is_ok_and(goes_on), "each look compares a block");
        compared
    }

    /// Corrects what differs in `extent`, where the index was looked at: it still has content for blocks that are dead by
    /// address.
    fn compare_dead(&self, extent: Extent<Addr>, states: [AsOf; 2], differing: &mut BlockSet) {
        let ([AsOf::Now, other] | [other, AsOf::Now]) = states else { return };
        for dead in self.masks(extent) {
            let whole = self.store.geometry().together(dead);
            differing.remove(Extent::between(whole.start.0, whole.end().next_multiple_of(BLOCK_BYTES)));
            let mut rest = whole;
            while !rest.is_empty() {
                // Too much does no harm. Too little would be a change that is not told.
                let all = |_| {
                    let mut all = BlockSet::default();
                    all.insert(rest);
                    (all, rest.end())
                };
                let (shown, end) = self.compare_by_index(rest, [AsOf::Beginning, other]).unwrap_or_else(all);
                differing.union(&shown);
                rest = Extent::between(end, rest.end());
            }
        }
    }
}
