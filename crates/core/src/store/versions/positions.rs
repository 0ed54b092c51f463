//! Where blocks, slots and pages of the index lie.

use crate::base::units::{Addr, BLOCK_BYTES, Block, Extent, Slot};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::tree::{Absent, PAGE_BYTES, PageNo};

/// The blocks that `extent` touches, each with the part of `extent` within it.
pub(super) fn blocks(extent: Extent<Addr>) -> impl Iterator<Item = (Block, Extent<Addr>)> {
    let (first, end) = (extent.start.0 / BLOCK_BYTES, extent.end().div_ceil(BLOCK_BYTES));
    (first..end).filter_map(move |block| {
        let block = Block(block);
        Some((block, outline(block).overlap(extent)?))
    })
}

/// Where the content of a slot lies.
pub(super) fn in_slot(slot: Slot) -> Place {
    Place { on: MediumId::Data, extent: Extent::new(slot.0 * BLOCK_BYTES, BLOCK_BYTES) }
}

/// The place that has to be read before there is an answer: a page of the index, or cells of the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Missing(pub(super) Place);

impl From<Absent> for Missing {
    fn from(Absent(page): Absent) -> Self {
        Self(page_place(page))
    }
}

/// Where a page of the index lies.
pub(super) fn page_place(page: PageNo) -> Place {
    Place { on: MediumId::Map, extent: Extent::new(page.position(), PAGE_BYTES as u64) }
}

/// A block as bytes of a disk whose last block is whole.
pub(super) fn outline(block: Block) -> Extent<Addr> {
    Extent::new(block.0 * BLOCK_BYTES, BLOCK_BYTES)
}
