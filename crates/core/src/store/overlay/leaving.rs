//! Places that are given up while the journal says what is owed there.
//!
//! An address that has died is written again: it leaves its place, and gets another.
//! The durable map may name the old place until it is made durable. So the journal
//! knows the old place before the durable map can forget it; and at the next start
//! the map forgets an address only where it still names that place (compare and
//! void): what was written since is somewhere else.

use super::{Overlay, address, in_slot, map};
use crate::blocks::BlockSet;
use crate::media::MediumId;
use crate::medium::Medium;
use crate::mutant::{self, Mutant};
use crate::owed::Owed;
use crate::place::Place;
use crate::store::overlay::map::{BASE, FIRST_SLOT, MapError, PAGE_BLOCKS, PURGED};
use crate::units::{BLOCK_BYTES, Extent};

impl Overlay {
    /// See [`Store::leave`](crate::store::Store::leave).
    pub(super) fn leave_block(&mut self, block: u64) -> Vec<Place> {
        let (whole, page) = (address(block), block / PAGE_BLOCKS);
        let mut places = Vec::new();
        if self.is_held(block) {
            let slot = self.slot(block);
            places.push(in_slot(slot, whole));
            self.held.void(whole);
            if mutant::is(Mutant::ReuseOwed) {
                self.slots.free(slot, true);
            }
        }
        let may_show_base = self.based.contains(block) || !self.map.are_sealed(page..=page);
        if self.base_data.contains(block) && may_show_base {
            places.push(Place { on: MediumId::Base, extent: Extent::new(whole.start.0, whole.len) });
        }
        self.begin_page(page);
        self.forget_block(block);
        places
    }

    /// `block` reads as zeros from now on.
    fn forget_block(&mut self, block: u64) {
        self.search.outdate();
        self.based.remove(address(block));
        if self.base_data.contains(block) {
            self.purged.insert(address(block));
        }
        self.map.set(block, forgotten(block, &self.base_data));
    }
}

/// The entry of a block that reads as zeros.
fn forgotten(block: u64, base_data: &BlockSet) -> u32 {
    if base_data.contains(block) { PURGED } else { BASE }
}

/// The blocks that the map on its medium names where `owed` says that nothing lies
/// any more. Unless it is `read_only`, the map forgets them there too.
pub(super) fn stale(
    map: &dyn Medium,
    owed: &Owed,
    base_data: &BlockSet,
    read_only: bool,
) -> Result<BlockSet, MapError> {
    let mut stale = BlockSet::default();
    for (place, debt) in owed.iter() {
        let first = debt.address(place.extent).start.0 / BLOCK_BYTES;
        let slots = place.extent.start.0 / BLOCK_BYTES..place.extent.end() / BLOCK_BYTES;
        for (block, slot) in (first..).zip(slots) {
            let named = if place.on == MediumId::Base { BASE } else { slot as u32 + FIRST_SLOT };
            if map::entry(map, block)? != named && !mutant::is(Mutant::VoidBlindly) {
                continue;
            }
            stale.insert(address(block));
            if !read_only {
                map::put(map, block, forgotten(block, base_data))?;
            }
        }
    }
    if !stale.is_empty() && !read_only {
        map.sync()?;
    }
    Ok(stale)
}
