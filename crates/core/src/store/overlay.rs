//! A store of an immutable base, and of the changed blocks in a file that grows and shrinks.
//!
//! *Practical Techniques for Eliminating Storage of Deleted Data*, section 3:
//! each block of the disk is in the base, purged, or in a slot of the data
//! medium, and the map says which. A purged block reads as zeros, whatever the
//! base holds there.
//!
//! Invariants:
//! 1. The durable map names a slot only if the content there is durable: a write is in
//!    the map once it has ended ([`Mapped::end_write`]), and the map is written after
//!    the content was synced.
//! 2. A slot is used again, or cut off, only once the durable map does not name it any
//!    more: until then it is pending free.
//! 3. With a policy that has passes, a slot is used again, or cut off, only once
//!    what lay in it is destroyed.
//! 4. No slot is named twice.
//! 5. A block is in at most one of `allocated`, `purged` and `based`.
//!
//! Together they are the order of section 3.2.2: the map entry of what is purged
//! is durable before the last block moves into its slot, and the map entry of
//! what moves before the file is cut off.

mod leaving;
mod map;
mod memory;
mod packing;
mod sector;
mod slots;

use super::allocated::{Allocated, outward};
use super::{
    Backlog, Batch, Content, Destruction, Geometry, Job, JobEnd, MapState, Mapped, Opening, Residue, Store,
    StoreStatus, WritePlan, Written,
};
use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, Extent, Pos};
use crate::media::MediumId;
use crate::media::medium::Medium;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::mutant::{self, Mutant};
use leaving::Uncovered;
pub use leaving::Unsaid;
use map::{BASE, FIRST_SLOT, Map, PURGED};
pub use map::{MAP_HEAD_BYTES, MapError, PAGE_BLOCKS, entry_at, first_block, format_map, map_bytes, mend};
use packing::Search;
use schemars::JsonSchema;
pub use sector::SECTOR_BYTES;
use serde::{Deserialize, Serialize};
use slots::Slots;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How the space of purged blocks is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The last blocks move into the holes at once.
    Packed,
    /// The last blocks move into the holes when the disk is idle, many at a time.
    #[default]
    Lazy,
    /// Holes are punched, and left to the host's file system.
    Punch,
}

/// The parameters of an overlay, besides its media.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How space is given back.
    pub mode: Mode,
    /// The blocks of the disk where the base holds data.
    pub base_data: Arc<BlockSet>,
}

/// The state of an overlay. All sizes are bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OverlayStatus {
    /// How space is given back.
    pub mode: Mode,
    /// The length of the data medium.
    pub medium_bytes: u64,
    /// Free space of the data medium.
    pub free_bytes: u64,
    /// Unallocated space of the data medium that is still to be destroyed.
    pub residue_bytes: u64,
    /// Blocks that read as zeros although the base has data there.
    pub purged_bytes: u64,
    /// Blocks that show the data of the base.
    pub base_bytes: u64,
    /// The part of the map that is in memory.
    pub map_resident_bytes: u64,
    /// The part of the map that is in memory and not durable.
    pub map_dirty_bytes: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Overlay {
    size: u64,
    mode: Mode,
    base: Base,
    /// The bytes in slots.
    allocated: Allocated,
    /// The blocks where the base has data that does not show through any more.
    purged: BlockSet,
    /// The blocks where the base shows data.
    based: BlockSet,
    /// The blocks where the durable map may still show the base.
    uncovered: Uncovered,
    map: Map,
    slots: Slots,
    /// Slots of blocks that are being written: block → slot.
    pending: BTreeMap<u64, u64>,
    search: Search,
    /// The background job under way.
    doing: Option<Doing>,
}

/// The image below the overlay: its length, and its blocks with data.
#[derive(Debug)]
struct Base {
    bytes: u64,
    data: Arc<BlockSet>,
}

/// What a background job is for, and where: see [`Job`].
#[derive(Debug)]
enum Doing {
    /// Destroys residue.
    Clean(Vec<Extent<Pos>>),
    /// Gives free space back.
    Punch(Vec<Extent<Pos>>),
    /// Cuts off the end of the medium.
    Cut(Pos),
    /// Looks in the map for what lies at the end of the medium.
    Search(Extent<Pos>),
    /// Moves content from there.
    Move(Vec<Extent<Pos>>),
}

type Begun = (Doing, Job);

impl Overlay {
    /// Reads the map. Blocks that have left their places ([`Opening::owed`]) are unmapped; those for which
    /// the host had no space are returned. After anything but a clean stop the map is written once more,
    /// unless the disk is read-only.
    ///
    /// # Errors
    /// [`MapError`]. A map that contradicts itself is refused.
    pub fn open(
        setup: &Setup,
        opening: Opening<'_>,
        media: (&dyn Medium, &dyn Medium, &dyn Medium),
    ) -> Result<(Self, Unsaid), MapError> {
        let (data, map, base) = media;
        let Opening { disk, size, kept, policy, read_only, owed, .. } = opening;
        owed.forget_beyond(data.size().next_multiple_of(BLOCK_BYTES));
        // The free space that is erased; unknown after anything but a clean stop.
        let clean = kept.and_then(|bytes| BlockSet::from_bytes(bytes).ok());
        map::check_head(map, disk, size)?;
        let mut slots = Slots::new(data.size().div_ceil(BLOCK_BYTES), !policy.passes().is_empty());
        let (mut allocated, mut purged, mut used) =
            (BlockSet::default(), BlockSet::default(), BlockSet::default());
        let mut spacious = BlockSet::default();
        let (stale, unsaid) = leaving::stale((map, disk), owed, &setup.base_data, read_only)?;
        let rewrite = clean.is_none() && !read_only;
        map::scan(map, (disk, size), rewrite, &mut |block, entry| {
            let address = Extent::new(block * BLOCK_BYTES, BLOCK_BYTES);
            let page = map::place(block / PAGE_BLOCKS).extent;
            if !spacious.contains(page.start.0 / BLOCK_BYTES) {
                spacious.insert(page);
            }
            match entry {
                BASE => {}
                PURGED => purged.insert(address),
                _ if stale.contains(block) => {}
                entry => {
                    let slot = u64::from(entry - FIRST_SLOT);
                    if slot >= slots.end() {
                        return Err(MapError::Beyond { block, slot, slots: slots.end() });
                    }
                    if used.contains(slot) {
                        return Err(MapError::Twice { block, slot });
                    }
                    used.insert(slots::extent(slot));
                    allocated.insert(address);
                }
            }
            Ok(())
        })?;
        let owed = owed.data().iter().filter(|_| !mutant::is(Mutant::ForgetOwed));
        owed.for_each(|(places, _)| used.insert(places));
        slots.adopt(&used, &clean.unwrap_or_default());
        let free = slots.clean() + slots.residue();
        assert!(allocated.len() + free <= slots.end(), "no slot of a block is free");
        let blocks = stale.runs().flat_map(|run| setup.base_data.runs_within(run));
        blocks.for_each(|run| purged.insert(run));
        let mut based = BlockSet::clone(&setup.base_data);
        based.subtract(&allocated);
        based.subtract(&purged);
        let overlay = Self {
            size,
            mode: setup.mode,
            base: Base { bytes: base.size(), data: Arc::clone(&setup.base_data) },
            allocated: Allocated::new(size, allocated),
            purged,
            based,
            uncovered: Uncovered::default(),
            map: Map::new(disk, spacious),
            slots,
            pending: BTreeMap::new(),
            search: Search::default(),
            doing: None,
        };
        Ok((overlay, unsaid))
    }

    /// The blocks of `extent`, each with the part of it that lies in `extent`.
    fn blocks(extent: Extent<Addr>) -> impl Iterator<Item = (u64, Extent<Addr>)> {
        let (first, end) = (extent.start.0 / BLOCK_BYTES, extent.end().div_ceil(BLOCK_BYTES));
        (first..end).filter_map(move |block| Some((block, address(block).overlap(extent)?)))
    }

    fn is_allocated(&self, block: u64) -> bool {
        self.allocated.blocks().contains(block)
    }

    fn slot(&self, block: u64) -> u64 {
        u64::from(self.map.get(block) - FIRST_SLOT)
    }

    /// Whether page `page` of the map has an entry that is not zero.
    fn has_page(&self, page: u64) -> bool {
        let bytes = PAGE_BLOCKS * BLOCK_BYTES;
        let extent = Extent::new(page * bytes, bytes);
        self.allocated.blocks().first_run(extent).is_some() || self.purged.first_run(extent).is_some()
    }

    fn place_block(&self, block: u64, part: Extent<Addr>, places: &mut Vec<Place>) {
        if self.is_allocated(block) {
            return places.push(in_slot(self.slot(block), part));
        }
        let in_base = Extent::<Pos>::between(part.start.0, self.base.bytes.clamp(part.start.0, part.end()));
        if !self.based.contains(block) || in_base.is_empty() {
            return places.push(nowhere(part.len));
        }
        places.push(Place { on: MediumId::Base, extent: in_base });
        if in_base.len < part.len {
            places.push(nowhere(part.len - in_base.len));
        }
    }

    /// Makes page `page` of the map in memory, if the file has no page there.
    fn begin_page(&mut self, page: u64) {
        if !self.map.has(page) && !self.has_page(page) {
            self.map.begin(page);
        }
    }
}

impl Store for Overlay {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, block_bytes: BLOCK_BYTES, write_bytes: 1, death_bytes: 1 }
    }

    fn destruction(&self) -> Destruction {
        Destruction::ThenFreed
    }

    fn locate(&self, extent: Extent<Addr>) -> Places {
        let mut places = Vec::new();
        Self::blocks(extent).for_each(|(block, part)| self.place_block(block, part, &mut places));
        let places: Places = places.into_iter().collect();
        assert_eq!(places.bytes(), extent.len, "each byte lies somewhere, once");
        places
    }

    fn begin_write(&mut self, extent: Extent<Addr>, _: Epoch) -> WritePlan {
        assert!(extent.end() <= self.size, "a write lies on the disk");
        let fresh: Vec<_> = Self::blocks(extent).filter(|(block, _)| !self.is_allocated(*block)).collect();
        if !fresh.is_empty() && self.slots.is_shrinking() {
            return WritePlan::AwaitJob;
        }
        let mut edges = self.geometry().edges(extent);
        let needs_copy = |edge: &Extent<Addr>| !self.is_allocated(edge.start.0 / BLOCK_BYTES);
        if let Some(edge) = edges.find(needs_copy)
            && !mutant::is(Mutant::CopyUpNothing)
        {
            return WritePlan::CopyUp(edge);
        }
        if !self.slots.has_room(fresh.len()) {
            return WritePlan::NoSpace;
        }
        for (block, _) in &fresh {
            assert!(!self.pending.contains_key(block), "one write of a block at a time");
            self.begin_page(block / PAGE_BLOCKS);
        }
        let slots = self.slots.take(fresh.len());
        self.pending.extend(fresh.iter().map(|(block, _)| *block).zip(slots));
        let places = Self::blocks(extent).map(|(block, part)| {
            let slot = self.pending.get(&block).copied();
            in_slot(slot.unwrap_or_else(|| self.slot(block)), part)
        });
        let places: Places = places.collect();
        assert_eq!(places.bytes(), extent.len, "each byte goes somewhere, once");
        for run in self.allocated.blocks().runs_within(extent).collect::<Vec<_>>() {
            self.allocated.allocate(run);
        }
        WritePlan::To(places)
    }

    fn unmap(&mut self, extent: Extent<Addr>) {
        let touched: Vec<_> = self.allocated.blocks().runs_within(outward(extent, BLOCK_BYTES)).collect();
        let slots: Vec<_> =
            touched.into_iter().flat_map(Self::blocks).map(|(block, _)| (block, self.slot(block))).collect();
        self.allocated.unmap(extent);
        for (block, slot) in slots {
            if self.is_allocated(block) {
                continue;
            }
            self.slots.free(slot, true);
            assert!(
                !self.purged.contains(block) && !self.based.contains(block),
                "a block with a slot is nowhere else"
            );
            self.purge(block);
        }
        let Some(whole) = self.allocated.whole_blocks(extent) else { return };
        for run in self.based.runs_within(whole).collect::<Vec<_>>() {
            for (block, _) in Self::blocks(run) {
                assert!(!self.is_allocated(block), "a block where the base shows has no slot");
                self.begin_page(block / PAGE_BLOCKS);
                self.purge(block);
            }
            self.cover_base(run);
        }
    }

    fn first(&self, content: Content, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        let own = self.allocated.first(extent);
        match content {
            Content::Own => own,
            Content::Visible => first_of(own, self.based.first_run(extent)),
            Content::Discardable => {
                // A block of the base dies as a whole.
                let based = self.allocated.whole_blocks(extent).and_then(|whole| self.based.first_run(whole));
                first_of(own, based.and_then(|run| run.overlap(extent)))
            }
        }
    }

    fn allocated_bytes(&self) -> u64 {
        self.allocated.bytes()
    }

    fn view(&self) -> Vec<u8> {
        self.slots.destroyed().to_bytes()
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::Overlay(OverlayStatus {
            mode: self.mode,
            medium_bytes: self.slots.end() * BLOCK_BYTES,
            free_bytes: self.slots.clean() * BLOCK_BYTES,
            residue_bytes: self.slots.residue() * BLOCK_BYTES,
            purged_bytes: self.purged.len() * BLOCK_BYTES,
            base_bytes: self.based.len() * BLOCK_BYTES,
            map_resident_bytes: self.map.resident() as u64 * map::PAGE_BYTES,
            map_dirty_bytes: self.map.dirty_pages() as u64 * map::PAGE_BYTES,
        })
    }

    fn mapped(&self) -> Option<&dyn Mapped> {
        Some(self)
    }

    fn mapped_mut(&mut self) -> Option<&mut dyn Mapped> {
        Some(self)
    }
}

impl Mapped for Overlay {
    fn end_write(&mut self, extent: Extent<Addr>, written: Written) {
        let (first, end) = (extent.start.0 / BLOCK_BYTES, extent.end().div_ceil(BLOCK_BYTES));
        self.search.outdate();
        let pending: Vec<_> = self.pending.range(first..end).map(|(block, slot)| (*block, *slot)).collect();
        for (block, slot) in pending {
            self.pending.remove(&block);
            if written == Written::NotThere {
                self.slots.refuse(slot);
                continue;
            }
            assert!(!self.is_allocated(block), "a block that gets a slot has none");
            self.map.set(block, slot as u32 + FIRST_SLOT);
            self.purged.remove(address(block));
            self.cover_base(address(block));
            self.allocated.allocate(address(block));
        }
    }

    fn leave(&mut self, block: Extent<Addr>, _: Epoch) -> Vec<Place> {
        let is_one = block.start.0.is_multiple_of(BLOCK_BYTES) && block.len <= BLOCK_BYTES;
        assert!(is_one && block.end() <= self.size, "one block of the disk leaves");
        self.leave_block(block.start.0 / BLOCK_BYTES)
    }

    fn can_leave(&self, _: Extent<Addr>) -> bool {
        true
    }

    fn residue(&self, place: Place) -> Vec<Residue> {
        // Nothing is destroyed in the base.
        let at = if place.on == MediumId::Base { Vec::new() } else { vec![place] };
        vec![Residue { part: place, at, is_kept: false }]
    }

    fn owed_durably(&mut self, _: &[Extent<Pos>]) {}

    fn reclaim(&mut self, places: &[Extent<Pos>]) {
        self.search.outdate();
        self.slots.cleaned(places);
    }

    fn reuses(&self) -> Option<u64> {
        None
    }

    fn unallocated(&self) -> Option<BlockSet<Pos>> {
        Some(self.slots.destroyed().clone())
    }

    fn missing(&self, extent: Extent<Addr>) -> Option<Place> {
        if extent.is_empty() {
            return None;
        }
        let pages =
            extent.start.0 / BLOCK_BYTES / PAGE_BLOCKS..=(extent.end() - 1) / BLOCK_BYTES / PAGE_BLOCKS;
        let mut absent = pages.filter(|page| !self.map.has(*page) && self.has_page(*page));
        absent.next().map(map::place)
    }

    fn loaded(&mut self, place: Place, bytes: &[u8]) -> Result<(), String> {
        assert!(
            place.on == MediumId::Map && place.extent.len == bytes.len() as u64,
            "all of a page was read"
        );
        self.throw_out();
        self.map.load(place, bytes).map_err(|error| error.to_string())
    }

    fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place> {
        let page_bytes = PAGE_BLOCKS * BLOCK_BYTES;
        let changes = |page: u64| {
            let blocks = Extent::new(page * page_bytes, page_bytes).overlap(outward(extent, BLOCK_BYTES));
            !dies || blocks.is_some_and(|blocks| self.based.first_run(blocks).is_some())
        };
        let lacks = |page: &u64| !self.map.has_space(*page) && changes(*page);
        let mut pages = extent.start.0 / page_bytes..extent.end().div_ceil(page_bytes);
        let first = pages.find(lacks)?;
        let more = pages.take_while(lacks).count() as u64;
        let extent = Extent::between(map::position(first), map::position(first + more + 1));
        Some(Place { on: MediumId::Map, extent })
    }

    fn reserved(&mut self, place: Place) {
        assert!(place.on == MediumId::Map, "the map gets its space");
        self.map.reserved(place.extent);
    }

    fn map_state(&self) -> MapState {
        if self.map.is_durable() && !self.slots.has_pending_free() {
            MapState::Durable
        } else if self.map.dirty_pages() > self.changed_pages_max() {
            MapState::Due
        } else {
            MapState::Behind
        }
    }

    fn is_durable(&self, extent: Extent<Addr>) -> bool {
        let pages = extent.start.0 / BLOCK_BYTES / PAGE_BLOCKS..=extent.end() / BLOCK_BYTES / PAGE_BLOCKS;
        self.map.are_durable(pages)
    }

    fn begin_checkpoint(&mut self, _: bool) -> bool {
        self.slots.begin_checkpoint();
        self.uncovered.begin_checkpoint();
        self.map.begin_checkpoint()
    }

    fn next_batch(&mut self) -> Option<Batch> {
        self.map.take_writes().map(Batch::phase)
    }

    fn end_checkpoint(&mut self) {
        self.search.outdate();
        self.slots.end_checkpoint();
        self.uncovered.end_checkpoint();
        self.map.end_checkpoint();
        self.throw_out();
    }

    fn abort_checkpoint(&mut self) -> bool {
        self.slots.abort_checkpoint();
        self.uncovered.abort_checkpoint();
        self.map.abort_checkpoint();
        false
    }

    fn background(&mut self, all: bool) -> Option<Job> {
        if self.backlog(all) == Backlog::Remains {
            self.slots.try_remaining();
        }
        assert!(self.doing.is_none(), "one background job at a time");
        let (doing, job) = self.begin_job(all)?;
        self.doing = Some(doing);
        Some(job)
    }

    fn backlog(&self, all: bool) -> Backlog {
        let has_jobs = self.slots.has_jobs(self.mode == Mode::Punch) || self.is_worth_packing(all);
        match self.mode {
            _ if !has_jobs && self.slots.residue() > 0 => Backlog::Remains,
            _ if !has_jobs => Backlog::Nothing,
            Mode::Packed => Backlog::AtOnce,
            _ if self.slots.is_crowded() => Backlog::AtOnce,
            Mode::Lazy | Mode::Punch => Backlog::WhenIdle,
        }
    }

    fn has_residue(&self) -> bool {
        self.slots.residue() > 0
    }

    fn background_done(&mut self, end: JobEnd<'_>) {
        assert!(self.doing.is_some(), "a background job ends once");
        let Some(doing) = self.doing.take() else { return };
        let is_done = matches!(end, JobEnd::Done(_));
        if !(is_done && matches!(doing, Doing::Search(_))) {
            self.search.outdate();
        }
        match (doing, end) {
            (Doing::Clean(slots), JobEnd::Done(_)) => self.slots.cleaned(&slots),
            // Space that the host will not take back stays free.
            (Doing::Punch(slots), _) => self.slots.punched(&slots, end != JobEnd::GivenUp),
            (Doing::Cut(to), _) => self.slots.cut(to, is_done),
            (Doing::Search(part), JobEnd::Done(read)) => self.searched(part, read),
            (Doing::Clean(_), JobEnd::Remains(places)) => self.slots.remain(places),
            (Doing::Move(to), JobEnd::GivenUp | JobEnd::Remains(_)) => {
                to.iter().for_each(|to| self.slots.release(to.start.0 / BLOCK_BYTES));
            }
            (Doing::Search(_), JobEnd::Remains(_))
            | (Doing::Clean(_) | Doing::Search(_), JobEnd::GivenUp)
            | (Doing::Move(_), JobEnd::Done(_)) => {}
        }
    }

    fn rebind(&mut self, content: Extent<Addr>, to: Extent<Pos>) {
        let block = content.start.0 / BLOCK_BYTES;
        assert!(self.is_allocated(block) && !self.pending.contains_key(&block), "content at rest moves");
        assert!(to.end() <= self.slots.end() * BLOCK_BYTES, "content moves within the medium");
        assert!(to.start.0.is_multiple_of(BLOCK_BYTES) && to.len == content.len, "a block moves into a slot");
        let from = self.slot(block);
        self.map.set(block, (to.start.0 / BLOCK_BYTES) as u32 + FIRST_SLOT);
        self.slots.free(from, false);
    }
}

fn address(block: u64) -> Extent<Addr> {
    Extent::new(block * BLOCK_BYTES, BLOCK_BYTES)
}

/// Where `part` of a block lies when the block is in `slot`.
fn in_slot(slot: u64, part: Extent<Addr>) -> Place {
    assert!(part.start.0 % BLOCK_BYTES + part.len <= BLOCK_BYTES, "the part lies in one block");
    let at = slot * BLOCK_BYTES + part.start.0 % BLOCK_BYTES;
    Place { on: MediumId::Data, extent: Extent::new(at, part.len) }
}

fn nowhere(len: u64) -> Place {
    Place { on: MediumId::Nowhere, extent: Extent::new(0, len) }
}

/// The one of two runs that begins first, up to where the other begins.
fn first_of(one: Option<Extent<Addr>>, other: Option<Extent<Addr>>) -> Option<Extent<Addr>> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    let (first, second) = if one.start <= other.start { (one, other) } else { (other, one) };
    Some(Extent::between(first.start.0, first.end().min(second.start.0)))
}

#[cfg(test)]
mod tests;
