//! The order of changes: changes of the same bytes are carried out in order of arrival.
//!
//! Each byte knows the last change to arrive for it that has not ended. A change
//! follows those alone: all earlier ones end before them. So a change costs as
//! many steps as it has neighbours, however many wait.

use crate::base::extents::{ExtentMap, Value};
use crate::base::numbers::Numbered;
use crate::base::units::{Addr, Epoch, Extent};
use crate::volume::origin::Origin;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::volume) struct Order {
    last: ExtentMap<Addr, Change>,
    members: Numbered<Origin, Member>,
    /// How many cuts of evidence there were.
    cuts: u64,
    /// Changes that had arrived at the last cut, and have not ended.
    before_cut: usize,
    /// How many changes of each epoch have not had their effect yet.
    by_epoch: BTreeMap<Epoch, usize>,
}

/// The last change to arrive for some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Change(Origin);

impl Value for Change {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self == next).then_some(*self)
    }
}

/// A change that has not ended.
#[derive(Debug)]
struct Member {
    bytes: Extent<Addr>,
    /// How many others have to end before this one may begin.
    ahead: usize,
    followers: Vec<Origin>,
    /// How many cuts there were before this change arrived.
    cuts: u64,
    /// The epoch that the change belongs to.
    epoch: Epoch,
    has_effect: bool,
}

impl Order {
    /// Adds change `id` of `bytes`, which arrives and belongs to `epoch`.
    pub(in crate::volume) fn enter(&mut self, id: Origin, bytes: Extent<Addr>, epoch: Epoch) {
        let ahead: BTreeSet<Origin> = self.last.within(bytes).map(|(_, it)| it.0).collect();
        for other in &ahead {
            if let Some(other) = self.members.get_mut(other) {
                other.followers.push(id);
            }
        }
        let (ahead, followers, cuts) = (ahead.len(), Vec::new(), self.cuts);
        let member = Member { bytes, ahead, followers, cuts, epoch, has_effect: false };
        assert!(self.members.insert(id, member).is_none(), "a change enters the order once");
        *self.by_epoch.entry(epoch).or_default() += 1;
        self.last.insert(bytes, Change(id));
    }

    /// Ends change `id`; returns the changes that may begin now.
    pub(in crate::volume) fn leave(&mut self, id: Origin) -> Vec<Origin> {
        let freed = self.retire(id);
        if let Some(member) = self.members.remove(&id) {
            let was_before = usize::from(member.cuts < self.cuts);
            assert!(self.before_cut >= was_before, "a cut waits for each change before it, once");
            self.before_cut -= was_before;
            assert!(self.before_cut <= self.members.len(), "a cut waits for changes that have not ended");
        }
        freed
    }

    /// Change `id` has had its effect, which is not durable yet: as evidence it has not ended.
    /// Returns those that may begin now.
    pub(in crate::volume) fn retire(&mut self, id: Origin) -> Vec<Origin> {
        let Some(member) = self.members.get_mut(&id) else { return Vec::new() };
        let (bytes, mut freed) = (member.bytes, std::mem::take(&mut member.followers));
        if !std::mem::replace(&mut member.has_effect, true)
            && let Entry::Occupied(mut left) = self.by_epoch.entry(member.epoch)
        {
            assert!(*left.get() > 0, "a change has its effect once");
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
            }
        }
        let own = self.last.within(bytes).filter(|(_, it)| it.0 == id);
        for part in own.map(|(part, _)| part).collect::<Vec<_>>() {
            self.last.remove(part);
        }
        freed.retain(|id| {
            let Some(follower) = self.members.get_mut(id) else { return false };
            assert!(follower.ahead > 0, "a change waits for each earlier one once");
            follower.ahead -= 1;
            follower.ahead == 0
        });
        freed
    }

    /// Whether change `id` follows no other.
    pub(in crate::volume) fn is_first(&self, id: Origin) -> bool {
        self.members.get(&id).is_none_or(|it| it.ahead == 0)
    }

    /// The epoch that change `id` belongs to.
    pub(in crate::volume) fn epoch(&self, id: Origin) -> Epoch {
        self.members.get(&id).map_or(Epoch::default(), |it| it.epoch)
    }

    /// Whether a change of `epoch`, or of one before it, has not had its effect yet.
    pub(in crate::volume) fn has_of(&self, epoch: Epoch) -> bool {
        self.by_epoch.first_key_value().is_some_and(|(first, _)| *first <= epoch)
    }

    /// Whether a change of `extent` has arrived and not ended.
    pub(in crate::volume) fn overlaps(&self, extent: Extent<Addr>) -> bool {
        self.last.overlaps(extent)
    }

    /// Whether every change that has arrived has ended.
    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Marks a cut of evidence: [`Order::is_cut_complete`] tells when all changes that have arrived by now
    /// have ended.
    pub(in crate::volume) fn cut(&mut self) {
        self.cuts += 1;
        self.before_cut = self.members.len();
    }

    /// Whether all changes have ended that had arrived at the last cut.
    pub(in crate::volume) fn is_cut_complete(&self) -> bool {
        self.before_cut == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(n: u64) -> Origin {
        Origin::Own(n)
    }

    #[test]
    fn a_change_begins_when_all_before_it_on_its_bytes_have_ended() {
        let mut order = Order::default();
        for (n, start, len) in [(1, 0, 8), (2, 8, 8), (3, 4, 8), (4, 4, 2), (5, 20, 4)] {
            order.enter(id(n), Extent::new(start, len), Epoch(0));
        }
        assert_eq!([1, 2, 3, 4, 5].map(|n| order.is_first(id(n))), [true, true, false, false, true]);
        assert_eq!(order.leave(id(1)), []);
        assert_eq!(order.leave(id(2)), [id(3)]);
        assert_eq!(order.leave(id(3)), [id(4)]);
        assert!(order.overlaps(Extent::new(0, 6)) && !order.overlaps(Extent::new(6, 14)));
    }

    #[test]
    fn a_cut_waits_for_what_had_arrived_and_for_nothing_else() {
        let mut order = Order::default();
        order.enter(id(1), Extent::new(0, 8), Epoch(0));
        order.cut();
        order.enter(id(2), Extent::new(0, 8), Epoch(0));
        assert!(!order.is_cut_complete());
        assert_eq!(order.leave(id(1)), [id(2)]);
        assert!(order.is_cut_complete());
    }

    #[test]
    fn an_epoch_has_its_changes_until_each_has_had_its_effect() {
        let mut order = Order::default();
        for (n, epoch) in [(1, 1), (2, 1), (3, 2)] {
            order.enter(id(n), Extent::new(0, 8), Epoch(epoch));
        }
        assert_eq!([1, 2, 3].map(|n| order.epoch(id(n)).0), [1, 1, 2]);
        order.retire(id(1));
        order.leave(id(1));
        assert!(order.has_of(Epoch(1)), "the second change is left");
        order.retire(id(2));
        assert!(!order.has_of(Epoch(1)) && order.has_of(Epoch(2)));
        order.leave(id(3));
        assert!(!order.has_of(Epoch(9)));
    }

    #[test]
    fn a_thousand_changes_of_one_block_cost_no_more_each_than_two() {
        let mut order = Order::default();
        crate::base::steps::taken();
        for n in 0..1000 {
            order.enter(id(n), Extent::new(0, 4096), Epoch(0));
        }
        for n in 0..1000 {
            assert_eq!(order.leave(id(n)).len(), usize::from(n < 999));
        }
        assert!(crate::base::steps::taken() < 8 * 2000);
    }
}
