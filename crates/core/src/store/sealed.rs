//! A disk whose content dies with its keys.
//!
//! Byte n lies at n. Each block lies under a *cell*, which changes when the block dies and never when it is written. The cells are those of
//! the [key tree](tree), and, for blocks that got one since the last purge, [early] ones, which are in the [log](halves). A
//! [purge] writes the next tree, and destroys the one cell that opens the old one.

mod aead;
mod cache;
mod early;
mod halves;
mod keying;
mod layout;
mod log;
mod opening;
mod page;
mod purge;
mod root;
mod seeds;
#[cfg(test)]
mod tests;
mod tree;

pub use layout::{LEAF_BYTES, ROOT_BYTES};
pub use opening::{SealedError, format, mend};
pub use root::{MAGIC as ROOT_MAGIC, RootError};

use crate::base::blocks::BlockSet;
use crate::base::cell::{Cell, Cells};
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, Extent, Pos};
use crate::media::MediumId;
use crate::media::cipher::Keyed as Part;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::store::allocated::{Allocated, SECTOR_BYTES, outward};
use crate::store::{
    Backlog, Batch, Content, Destruction, Geometry, Job, JobEnd, Keyed, MapState, Mapped, Residue, Store,
    StoreStatus, WritePlan, Written,
};
use early::Early;
use halves::Halves;
use layout::{PAIR_BYTES, PageId};
use purge::{Ended, Purge};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tree::Tree;

/// Bytes of memory that an early cell takes.
const EARLY_MEMORY_BYTES: u64 = 128;

/// Bytes of the map medium of a disk of `size` bytes, most of which are holes.
///
/// # Panics
/// If the disk has more than 2^40 blocks.
#[must_use]
pub fn map_bytes(size: u64) -> u64 {
    layout::Layout::new([0; 16], size).map_bytes()
}

/// Where the log of early cells lies in the map medium, which should have space there: without it a flush can fail.
#[must_use]
pub fn log_extent() -> Extent<Pos> {
    layout::log()
}

/// See the module's documentation.
///
/// Invariants:
/// 1. No content changes its place, and nothing is owed by place.
/// 2. The cell of a block changes only if the block is dead, or becomes [active](Keyed::activate) under a prepared cell.
/// 3. While a purge runs, entries go to both halves of the log.
#[derive(Debug)]
pub struct Sealed {
    size: u64,
    allocated: Allocated,
    tree: Tree,
    early: Early,
    halves: Halves,
    purge: Option<Purge>,
    cells: Cells,
    /// The places of pages that have space on the host, as far as this run knows. A purge then needs no more.
    spacious: BlockSet<Pos>,
    /// Why no purge runs any more: damage.
    stopped: Option<String>,
}

/// The figures of a [`Sealed`] store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SealedStatus {
    /// The number of the last purge.
    pub purge: u32,
    /// Whether a purge is under way.
    pub is_purging: bool,
    /// Number of places in the log of early cells that are in use.
    pub early_entries: u64,
    /// Number of places that the log has.
    pub early_entries_max: u64,
    /// Bytes of memory that keys take.
    pub resident_bytes: u64,
    /// Why no purge runs any more: damage.
    pub stopped: Option<String>,
}

impl Store for Sealed {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, block_bytes: BLOCK_BYTES, write_bytes: SECTOR_BYTES, death_bytes: 1 }
    }

    fn destruction(&self) -> Destruction {
        Destruction::Rekeyed
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::Sealed(SealedStatus {
            purge: self.tree.purge,
            is_purging: self.purge.is_some(),
            early_entries: self.halves.used() + self.early.pending(),
            early_entries_max: halves::ENTRIES_MAX,
            resident_bytes: self.tree.bytes() + self.early.len() * EARLY_MEMORY_BYTES,
            stopped: self.stopped.clone(),
        })
    }

    fn allocated_bytes(&self) -> u64 {
        self.allocated.bytes()
    }

    fn view(&self) -> Vec<u8> {
        self.allocated.blocks().to_bytes()
    }

    fn first(&self, content: Content, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        match content {
            Content::Own | Content::Visible | Content::Discardable => self.allocated.first(extent),
        }
    }

    fn locate(&self, extent: Extent<Addr>) -> Places {
        assert!(
            !extent.is_empty() && extent.end() <= self.size.next_multiple_of(BLOCK_BYTES),
            "content lies on the disk"
        );
        let mut places = None;
        self.each_cell(blocks_of(extent), |block, cell| {
            let whole = Extent::new(block * BLOCK_BYTES, BLOCK_BYTES);
            let part = whole.overlap(extent).expect("a block of the extent has a part of it");
            let place = Place { on: MediumId::Data, extent: Extent::new(part.start.0, part.len) };
            push(&mut places, place, Part { cell, part });
        });
        places.expect("an extent has a block")
    }

    fn begin_write(&mut self, extent: Extent<Addr>, _: Epoch) -> WritePlan {
        assert!(extent.end() <= self.size, "a write lies on the disk");
        assert!(self.geometry().merged(extent, false).next().is_none(), "whole sectors are written");
        self.allocated.allocate(extent);
        WritePlan::To(self.locate(outward(extent, SECTOR_BYTES)))
    }

    fn unmap(&mut self, extent: Extent<Addr>) {
        self.allocated.unmap(extent);
    }

    fn mapped(&self) -> Option<&dyn Mapped> {
        Some(self)
    }

    fn mapped_mut(&mut self) -> Option<&mut dyn Mapped> {
        Some(self)
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }

    fn keyed_mut(&mut self) -> Option<&mut dyn Keyed> {
        Some(self)
    }
}

impl Mapped for Sealed {
    fn missing(&self, extent: Extent<Addr>) -> Option<Place> {
        let blocks = self.whole(extent);
        let parts = self.early.others(blocks).into_iter();
        let missing = parts.map(blocks_of).find_map(|blocks| self.tree.missing(blocks))?;
        Some(self.tree.layout.pair(missing))
    }

    fn loaded(&mut self, place: Place, bytes: &[u8]) -> Result<(), String> {
        assert!(place.on == MediumId::Map, "pages of the key tree lie on the map");
        self.tree.loaded(place.extent.start, bytes)
    }

    fn end_write(&mut self, extent: Extent<Addr>, written: Written) {
        let blocks = self.whole(extent);
        match written {
            Written::There(sealings) => {
                assert!(sealings.is_empty(), "a block under a cell needs no sealing");
                self.early.end_write(blocks, true);
            }
            Written::NotThere => self.early.end_write(blocks, false),
        }
    }

    fn is_durable(&self, extent: Extent<Addr>) -> bool {
        self.early.is_durable(self.whole(extent))
    }

    fn map_state(&self) -> MapState {
        if !self.early.has_written() {
            MapState::Durable
        } else if self.halves.is_crowded(self.early.sectors(0, 0)) {
            MapState::Due
        } else {
            MapState::Behind
        }
    }

    fn begin_checkpoint(&mut self, _: bool) -> bool {
        self.halves.begin_checkpoint();
        self.early.begin_checkpoint();
        self.early.has_next()
    }

    fn next_batch(&mut self) -> Option<Batch> {
        let writes = self.halves.batch(&mut self.early, &mut self.cells);
        // Each batch is a phase: a later one may turn out to be empty, because its blocks got other cells meanwhile.
        (!writes.is_empty())
            .then(|| Batch::phase(writes.into_iter().map(|(place, bytes)| (place.into(), bytes)).collect()))
    }

    fn end_checkpoint(&mut self) {
        self.halves.end_checkpoint();
        self.early.end_checkpoint();
    }

    fn abort_checkpoint(&mut self) -> bool {
        self.early.abort_checkpoint();
        false
    }

    fn lacks_space(&self, extent: Extent<Addr>, _: bool) -> Option<Place> {
        let layout = &self.tree.layout;
        let lacks = |page: &PageId| !self.spacious.contains(layout.pair(*page).extent.start.0 / BLOCK_BYTES);
        let first_of = |level| {
            let mut pages = layout.above(blocks_of(extent), level);
            let first = layout.pair(pages.find(lacks)?);
            let pairs = 1 + pages.take_while(lacks).count() as u64;
            Some(Place { on: first.on, extent: Extent::new(first.extent.start.0, pairs * PAIR_BYTES) })
        };
        // A leaf gets its space last. Once it has that, a write looks no further.
        let leaves = first_of(0)?;
        (1..=layout.top().level).rev().find_map(first_of).or(Some(leaves))
    }

    fn reserved(&mut self, place: Place) {
        self.spacious.insert(place.extent);
    }

    fn leave(&mut self, _: Extent<Addr>, _: Epoch) -> Vec<Place> {
        Vec::new()
    }

    fn can_leave(&self, _: Extent<Addr>) -> bool {
        false
    }

    fn residue(&self, _: Place) -> Vec<Residue> {
        Vec::new()
    }

    fn owed_durably(&mut self, _: &[Extent<Pos>]) {}

    fn reclaim(&mut self, _: &[Extent<Pos>]) {}

    fn reuses(&self) -> Option<u64> {
        None
    }

    fn backlog(&self, _: bool) -> Backlog {
        match &self.purge {
            Some(purge) if self.stopped.is_none() && purge.is_left() => Backlog::Remains,
            Some(_) if self.stopped.is_none() => Backlog::AtOnce,
            _ => Backlog::Nothing,
        }
    }

    fn has_residue(&self) -> bool {
        false
    }

    fn background(&mut self, _: bool) -> Option<Job> {
        let purge = self.purge.as_mut().filter(|_| self.stopped.is_none())?;
        Some(purge.job(&mut self.tree, &self.early, &mut self.cells))
    }

    fn rebind(&mut self, _: Extent<Addr>, _: Extent<Pos>) {}

    fn background_done(&mut self, end: JobEnd<'_>) {
        let purge = self.purge.as_mut().expect("a job is a part of a purge");
        match purge.done(end, &self.tree) {
            Ended::Nothing => {}
            Ended::Turned { top, is_over } => {
                self.tree.turn(top);
                self.early.end_purge();
                self.halves.end_purge();
                self.purge.take_if(|_| is_over);
            }
            Ended::Over => self.purge = None,
            Ended::Damaged(what) => self.stopped = Some(what),
        }
    }

    fn unallocated(&self) -> Option<BlockSet<Pos>> {
        None
    }
}

impl Sealed {
    /// The blocks that `extent` touches, as whole ones.
    fn whole(&self, extent: Extent<Addr>) -> Extent<Addr> {
        outward(extent, BLOCK_BYTES)
    }

    /// Calls `each` with every block of `blocks` and its present cell, in order.
    fn each_cell(&self, blocks: Range<u64>, mut each: impl FnMut(u64, Cell)) {
        let extent = Extent::between(blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES);
        let mut next = blocks.start;
        let early = |until: u64, next: u64, each: &mut dyn FnMut(u64, Cell)| {
            for block in next..until {
                each(block, self.early.cell(block).expect("the tree has the cells of all other blocks"));
            }
        };
        for part in self.early.others(extent).into_iter().map(blocks_of) {
            early(part.start, next, &mut each);
            next = part.end;
            self.tree.cells(part, &mut each);
        }
        early(blocks.end, next, &mut each);
    }
}

/// The numbers of the blocks that `extent` touches.
fn blocks_of(extent: Extent<Addr>) -> Range<u64> {
    extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES)
}

fn push(places: &mut Option<Places>, place: Place, part: Part) {
    match places {
        Some(places) => places.push_keyed(place, part),
        None => *places = Some((place, part).into()),
    }
}
