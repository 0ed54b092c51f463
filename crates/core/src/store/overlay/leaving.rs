//! Places that are given up while the journal says what is owed there.
//!
//! An address that has died is written again: it leaves its place, and gets another.
//! The durable map may name the old place until it is made durable. So the journal
//! knows the old place before the durable map can forget it; and at the next start
//! the map forgets an address only where it still names that place (compare and
//! void): what was written since is somewhere else.

use super::{Overlay, address, in_slot, map};
use crate::blocks::BlockSet;
use crate::ledger::Cause;
use crate::media::MediumId;
use crate::medium::{Medium, MediumErrorKind};
use crate::mutant::{self, Mutant};
use crate::owed::Owed;
use crate::place::Place;
use crate::store::overlay::map::{BASE, FIRST_SLOT, MapError, PAGE_BLOCKS, PURGED};
use crate::units::{Addr, BLOCK_BYTES, Extent};

impl Overlay {
    /// See [`Store::leave`](crate::store::Store::leave).
    pub(super) fn leave_block(&mut self, block: u64) -> Vec<Place> {
        let (whole, page) = (address(block), block / PAGE_BLOCKS);
        let mut places = Vec::new();
        if self.is_allocated(block) {
            let slot = self.slot(block);
            places.push(in_slot(slot, whole));
            self.allocated.unmap(whole);
            if mutant::is(Mutant::ReuseOwed) {
                self.slots.free(slot, true);
            }
        }
        let may_show_base = self.based.contains(block) || !self.map.are_durable(page..=page);
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

/// Blocks of the base that have died, for which the map could not say so: the host has no
/// space for it. Why each died.
pub type Unsaid = Vec<(Extent<Addr>, Cause)>;

/// The blocks that the map on its medium names where `owed` says that nothing lies
/// any more. Unless it is `read_only`, the map forgets them there too; those for which
/// there is no space are not among them.
pub(super) fn stale(
    map: &dyn Medium,
    owed: &Owed,
    base_data: &BlockSet,
    read_only: bool,
) -> Result<(BlockSet, Unsaid), MapError> {
    let (mut stale, mut unsaid) = (BlockSet::default(), Unsaid::new());
    for (place, debt) in owed.iter() {
        let first = debt.address(place.extent).start.0 / BLOCK_BYTES;
        let slots = place.extent.start.0 / BLOCK_BYTES..place.extent.end() / BLOCK_BYTES;
        for (block, slot) in (first..).zip(slots) {
            let named = if place.on == MediumId::Base { BASE } else { slot as u32 + FIRST_SLOT };
            if map::entry(map, block)? != named && !mutant::is(Mutant::UnmapBlindly) {
                continue;
            }
            let put = if read_only { Ok(()) } else { map::put(map, block, forgotten(block, base_data)) };
            match put {
                Err(error) if error.kind == MediumErrorKind::NoSpace && place.on == MediumId::Base => {
                    unsaid.push((address(block), debt.cause));
                }
                put => {
                    put?;
                    stale.insert(address(block));
                }
            }
        }
    }
    if !stale.is_empty() && !read_only {
        map.sync()?;
    }
    Ok((stale, unsaid))
}
