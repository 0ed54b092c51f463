//! Writes to dead blocks where content has no fixed place: they get another place, and wait for nothing.
//! Where a store destroys them once they have left ([`Destruction::OnceLeft`]), they leave even without a write.
//!
//! Invariants:
//! 1. One frame of the journal says both that the old place is owed and that the
//!    address owes nothing any more. That frame is durable before the map that names
//!    the new place. Otherwise a crash could leave both the new content and the death
//!    of its address.
//! 2. A place that is owed is completed when it has its passes and the durable map
//!    does not name it. The place is used again only once the journal does not name
//!    it either. Otherwise a start after a crash would destroy new content.
//! 3. An address leaves its place only while no request reads there, and no job moves it.
//! 4. Without a write, an address leaves its place only once the durable store says that the content is there:
//!    a start after a crash would not know the place, and would show the content before it.

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::owed::journal::Change;
use crate::owed::ledger::Cause;
use crate::store::{Content, Destruction};
use crate::volume::disk::Disk;

/// One part in this many of the disk's size may be owed by place. This limits how far the medium can grow
/// by writes that do not wait.
const OWED_SHARE: u64 = 4;
impl Disk {
    /// Whether dead blocks leave their places at once, without a write.
    pub(in crate::volume) fn dead_leave(&self) -> bool {
        self.store.destruction() == Destruction::OnceLeft
    }

    /// How many bytes may be owed by place.
    pub(in crate::volume) fn owed_bytes_max(&self) -> u64 {
        self.store.geometry().size / OWED_SHARE
    }

    /// Whether `blocks` are dead as a whole, and each has a place.
    pub(in crate::volume) fn is_all_dead(&self, blocks: Extent<Addr>) -> bool {
        let dead: u64 = self.state.ledger.dead().within(blocks).map(|(dead, _)| dead.len).sum();
        dead == blocks.len && blocks.pieces(BLOCK_BYTES).all(|block| self.lies_somewhere(block))
    }

    /// Whether the content of `block`, dead or not, has a place.
    fn lies_somewhere(&self, block: Extent<Addr>) -> bool {
        self.store.first(Content::Visible, block).is_some()
    }

    /// Makes the dead blocks within `extent`, which is about to be written, leave their places.
    pub(in crate::volume) fn leave_places(&mut self, extent: Extent<Addr>) {
        if self.store.same_place() || self.dies_by_key() {
            return;
        }
        let geometry = self.store.geometry();
        let dead = self.state.ledger.dead().within(extent);
        let dead: Vec<_> = dead.map(|(part, it)| (geometry.together(part), it.cause)).collect();
        for (whole, cause) in &dead {
            for block in whole.pieces(BLOCK_BYTES) {
                self.leave_place(block, *cause);
            }
        }
        for (whole, _) in dead {
            self.commits.left_seq = self.change(Change::Clear(whole));
        }
        assert!(!self.state.ledger.dead().overlaps(extent), "no address that is written is dead any more");
    }

    pub(in crate::volume) fn leave_place(&mut self, block: Extent<Addr>, cause: Cause) {
        if !self.state.ledger.dead().overlaps(block) || !self.lies_somewhere(block) {
            return;
        }
        let epoch = self.open_epoch();
        let left = self.store.mapped_mut().map(|it| it.leave(block, epoch));
        for place in left.unwrap_or_default() {
            assert!(place.extent.len == BLOCK_BYTES, "a block leaves whole places");
            self.change(Change::Owe(place, block.start, cause));
        }
    }

    /// The addresses of `places`, each once: a block can be owed both in a slot and in the base, where the
    /// durable map may still show it.
    pub(in crate::volume) fn once_each(
        &self,
        places: &[Place],
        addresses: &[(Extent<Addr>, Cause)],
    ) -> Vec<(Extent<Addr>, Cause)> {
        assert!(places.len() == addresses.len(), "each place has the address that named it");
        let (mut slots, mut died) = (ExtentMap::default(), Vec::new());
        for (place, (address, cause)) in places.iter().zip(addresses) {
            let run = Extent::between(address.start.0, address.end().min(self.store.geometry().size));
            if place.on == MediumId::Base {
                died.extend(slots.gaps(run).into_iter().map(|gap| (gap, *cause)));
            } else {
                slots.insert(run, ());
                died.push((run, *cause));
            }
        }
        died
    }

    /// Frees `places`: the journal says durably that nothing is owed there any more.
    pub(in crate::volume) fn owed_destroyed(&mut self, places: &[Place]) {
        let data = places.iter().filter(|it| it.on == MediumId::Data).map(|it| it.extent);
        let data: Vec<Extent<Pos>> = data.collect();
        if let Some(mapped) = self.store.mapped_mut().filter(|_| !data.is_empty()) {
            mapped.reclaim(&data);
        }
    }
}
