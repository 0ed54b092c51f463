//! Places that blocks leave while the journal says what is owed there.
//!
//! A dead block that is written leaves its place, and gets another. The durable map may name the old place
//! until the next checkpoint. So the journal knows the old place before the durable map can forget it. The
//! next start unmaps a block only where the map still names that place (compare and unmap): newer content
//! is somewhere else.

use super::{Overlay, address, in_slot, map};
use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::media::MediumId;
use crate::media::medium::{Medium, MediumErrorKind};
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::owed::Owed;
use crate::owed::ledger::Cause;
use crate::store::overlay::map::{BASE, FIRST_SLOT, MapError, PAGE_BLOCKS, PURGED};

impl Overlay {
    /// See [`Mapped::leave`](crate::store::Mapped::leave).
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
        assert!(places.is_empty() || !self.based.contains(block), "a block has a slot, or the base shows");
        let may_show = self.uncovered.contains(block) && !mutant::is(Mutant::BaseUnowed);
        if self.based.contains(block) || may_show {
            places.push(Place { on: MediumId::Base, extent: Extent::new(whole.start.0, whole.len) });
        }
        self.begin_page(page);
        self.search.outdate();
        self.cover_base(whole);
        self.purge(block);
        assert!(!self.is_allocated(block) && !self.based.contains(block), "a block that has left is nowhere");
        places
    }

    /// Notes that the base shows no more within `extent`. Only the next checkpoint says so durably.
    pub(super) fn cover_base(&mut self, extent: Extent<Addr>) {
        for run in self.based.runs_within(extent).collect::<Vec<_>>() {
            self.uncovered.since.insert(run);
            self.based.remove(run);
        }
    }

    /// Notes that `block` reads as zeros.
    pub(super) fn purge(&mut self, block: u64) {
        if self.base.data.contains(block) {
            self.purged.insert(address(block));
        }
        self.map.set(block, forgotten(block, &self.base.data));
    }
}

/// Blocks where the base shows no more, and the durable map does not say so yet.
#[derive(Debug, Default)]
pub(super) struct Uncovered {
    /// Blocks that were covered since the last checkpoint began.
    since: BlockSet,
    /// Blocks that were covered before; the checkpoint under way says so durably.
    checkpointing: BlockSet,
}

impl Uncovered {
    fn contains(&self, block: u64) -> bool {
        self.since.contains(block) || self.checkpointing.contains(block)
    }

    pub(super) fn begin_checkpoint(&mut self) {
        assert!(self.checkpointing.is_empty(), "one checkpoint at a time");
        self.checkpointing = std::mem::take(&mut self.since);
    }

    pub(super) fn end_checkpoint(&mut self) {
        self.checkpointing = BlockSet::default();
    }

    pub(super) fn abort_checkpoint(&mut self) {
        self.since.union(&std::mem::take(&mut self.checkpointing));
    }
}

/// The entry of a block that reads as zeros.
fn forgotten(block: u64, base_data: &BlockSet) -> u32 {
    if base_data.contains(block) { PURGED } else { BASE }
}

/// Dead blocks of the base that the map could not forget, because the host has no space for it, and why
/// each died.
pub type Unsaid = Vec<(Extent<Addr>, Cause)>;

/// The blocks that the map still names at places that are `owed`. Unless the disk is `read_only`, they are
/// unmapped on the medium too; those for which the host has no space come second.
pub(super) fn stale(
    (map, disk): (&dyn Medium, [u8; 16]),
    owed: &Owed,
    base_data: &BlockSet,
    read_only: bool,
) -> Result<(BlockSet, Unsaid), MapError> {
    let (mut stale, mut unsaid) = (BlockSet::default(), Unsaid::new());
    for (place, content) in owed.iter() {
        let first = content.address(place.extent).start.0 / BLOCK_BYTES;
        let slots = place.extent.start.0 / BLOCK_BYTES..place.extent.end() / BLOCK_BYTES;
        for (block, slot) in (first..).zip(slots) {
            let named = if place.on == MediumId::Base { BASE } else { slot as u32 + FIRST_SLOT };
            if map::entry(map, disk, block)? != named && !mutant::is(Mutant::UnmapBlindly) {
                continue;
            }
            let put =
                if read_only { Ok(()) } else { map::put(map, disk, block, forgotten(block, base_data)) };
            match put {
                Err(MapError::Medium(error))
                    if error.kind == MediumErrorKind::NoSpace && place.on == MediumId::Base =>
                {
                    unsaid.push((address(block), content.cause));
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
