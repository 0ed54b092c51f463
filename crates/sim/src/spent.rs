//! A store of the simulator's own, whose places can be written once, as those of flash: a slot that was written, or that a
//! write has failed at, is *spent*. It is blank again after the erasure of all the slots of its unit.
//!
//! What dies or is replaced stays in its slot. The other blocks of the unit move away, then the unit is erased: by the volume if
//! the journal owes something there, by a job if not. The map is one sector, which a checkpoint writes.
//!
//! Invariants:
//! 1. A slot is written only while it is blank.
//! 2. A unit is erased only while neither the map, nor the durable one, nor one that is about to be durable, names any of its
//!    slots, and no write goes there.
//! 3. A unit is blank again once it is erased and the journal owes nothing there.

use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Epoch, Extent, Pos};
use quietus_core::media::medium::{Medium, MediumError};
use quietus_core::media::place::Place;
use quietus_core::media::places::Places;
use quietus_core::media::{Media, MediumId};
use quietus_core::store::{
    Backlog, Batch, Content, Destruction, Geometry, Job, JobEnd, MapState, Mapped, Opened, Opener, Opening,
    Residue, Store, StoreError, StoreStatus, WritePlan, Written,
};
use std::collections::{BTreeMap, BTreeSet};

const UNIT_SLOTS: u64 = 4;
pub const UNIT_BYTES: u64 = UNIT_SLOTS * BLOCK_BYTES;
/// Bytes of the map: one sector, which is written whole or not at all.
const MAP_BYTES: u64 = 512;
const MAGIC: [u8; 8] = *b"SPENTMAP";

/// The slot of each block that has one.
type Map = BTreeMap<u64, u64>;

/// Opens such a store with at most this many units.
#[derive(Debug)]
pub struct Units(pub u64);

#[derive(Debug, Default)]
struct Spent {
    size: u64,
    units_max: u64,
    units: u64,
    map: Map,
    durable: Map,
    /// The map that the checkpoint under way makes durable, and whether it has handed that out.
    taken: Option<(Map, bool)>,
    blank: BTreeSet<u64>,
    /// The slots of blocks that are being written.
    writing: BTreeMap<u64, u64>,
    /// The slots that blocks are moving to.
    moving: BTreeSet<u64>,
    /// The slots that the journal owes.
    owed: BTreeSet<u64>,
    /// The other slots that are spent, and that the map does not name.
    waste: BTreeSet<u64>,
    /// The units that the medium would not erase.
    remaining: BTreeSet<u64>,
    /// The unit that a job erases, if it does not move blocks.
    erasing: Option<u64>,
    /// How many units became blank.
    erased: u64,
}

/// Makes the map of an empty disk.
pub fn format_map(map: &dyn Medium) -> Result<(), MediumError> {
    map.write(Pos(0), &to_bytes(&Map::new()), true)
}

fn to_bytes(map: &Map) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    map.iter()
        .flat_map(|(block, slot)| [*block, *slot + 1])
        .for_each(|it| bytes.extend((it as u16).to_le_bytes()));
    assert!(bytes.len() as u64 <= MAP_BYTES, "the map is one sector");
    bytes.resize(MAP_BYTES as usize, 0);
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<Map> {
    let entry = |it: &[u8]| [0, 2].map(|at| u64::from(u16::from_le_bytes([it[at], it[at + 1]])));
    let entries = bytes.strip_prefix(&MAGIC)?.chunks_exact(4).map(entry);
    Some(entries.filter(|[_, slot]| *slot > 0).map(|[block, slot]| (block, slot - 1)).collect())
}

fn blocks(extent: Extent<Addr>) -> std::ops::Range<u64> {
    extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES)
}

fn slots(unit: u64) -> std::ops::Range<u64> {
    unit * UNIT_SLOTS..(unit + 1) * UNIT_SLOTS
}

/// The place of `count` slots from `slot` on.
fn place(slot: u64, count: u64) -> Place {
    Place { on: MediumId::Data, extent: Extent::new(slot * BLOCK_BYTES, count * BLOCK_BYTES) }
}

impl Opener for Units {
    fn open(&self, opening: Opening<'_>, media: &Media<'_>) -> Result<Opened, StoreError> {
        let medium = media.get(MediumId::Map).ok_or(StoreError::NoMedium(MediumId::Map))?;
        let mut bytes = vec![0; MAP_BYTES as usize];
        medium.read(Pos(0), &mut bytes)?;
        let mut map = from_bytes(&bytes).ok_or_else(|| StoreError::Damaged("the store has no map".into()))?;
        let units = media.data().size().div_ceil(UNIT_BYTES);
        opening.owed.forget_beyond(media.data().size().next_multiple_of(BLOCK_BYTES));
        let mut owed = BTreeSet::new();
        for (place, content) in opening.owed.iter() {
            let slots = place.extent.start.0 / BLOCK_BYTES..place.extent.end() / BLOCK_BYTES;
            let left: Vec<_> = blocks(content.address(place.extent)).zip(slots).collect();
            // A block that was written since then is elsewhere.
            map.retain(|block, slot| !left.contains(&(*block, *slot)));
            owed.extend(left.into_iter().map(|(_, slot)| slot));
        }
        // The map that was read may lie in a cache only.
        medium.write(Pos(0), &to_bytes(&map), true)?;
        let used: BTreeSet<_> = map.values().chain(&owed).copied().collect();
        let waste = (0..units * UNIT_SLOTS).filter(|slot| !used.contains(slot)).collect();
        let (size, durable) = (opening.size, map.clone());
        let spent = Spent { size, units_max: self.0, units, map, durable, owed, waste, ..Spent::default() };
        Ok(Opened { store: Box::new(spent), knows_holes: true, unsaid: Vec::new() })
    }
}

impl Spent {
    /// Takes `count` blank slots.
    fn take(&mut self, count: usize) -> Option<Vec<u64>> {
        while self.blank.len() < count && self.units < self.units_max {
            self.blank.extend(slots(self.units));
            self.units += 1;
        }
        let has_enough = self.blank.len() >= count;
        has_enough.then(|| (0..count).filter_map(|_| self.blank.pop_first()).collect())
    }

    /// The blocks that lie in `unit`.
    fn live(&self, unit: u64) -> Vec<u64> {
        self.map.iter().filter(|(_, slot)| slots(unit).contains(slot)).map(|(block, _)| *block).collect()
    }

    fn is_erasable(&self, unit: u64) -> bool {
        let taken = self.taken.iter().flat_map(|(map, _)| map.values());
        let named = self.map.values().chain(self.durable.values()).chain(taken);
        let mut used = named.chain(self.writing.values()).chain(&self.moving);
        !used.any(|slot| slots(unit).contains(slot))
    }

    /// Lets nothing more be written in `unit`.
    fn close(&mut self, unit: u64) {
        self.waste.extend(slots(unit).filter(|slot| self.blank.remove(slot)));
    }

    fn erased(&mut self, unit: u64) {
        self.erased += 1;
        for slot in slots(unit) {
            self.waste.remove(&slot);
            self.blank.insert(slot);
        }
    }

    /// The next unit for a job, and the blocks that move away from there first; with `all`, also one that would not be erased.
    fn dirty(&self, all: bool) -> Option<(u64, Vec<u64>)> {
        let units: BTreeSet<_> = self.waste.iter().chain(&self.owed).map(|slot| slot / UNIT_SLOTS).collect();
        units.into_iter().find_map(|unit| {
            let live = self.live(unit);
            let is_owed = || slots(unit).any(|slot| self.owed.contains(&slot));
            let may_erase =
                || !is_owed() && self.is_erasable(unit) && (all || !self.remaining.contains(&unit));
            let may_move = !live.is_empty() && !live.iter().any(|block| self.writing.contains_key(block));
            (may_move || live.is_empty() && may_erase()).then_some((unit, live))
        })
    }

    fn places(&self, extent: Extent<Addr>, slot: impl Fn(u64) -> Option<u64>) -> Places {
        let part = |block: u64| {
            let part = Extent::<Addr>::new(block * BLOCK_BYTES, BLOCK_BYTES).overlap(extent)?;
            let nowhere = Place { on: MediumId::Nowhere, extent: Extent::new(0, part.len) };
            let Some(slot) = slot(block) else { return Some(nowhere) };
            let start = slot * BLOCK_BYTES + part.start.0 % BLOCK_BYTES;
            Some(Place { extent: Extent::new(start, part.len), ..place(slot, 1) })
        };
        blocks(extent).filter_map(part).collect()
    }
}

impl Store for Spent {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            block_bytes: BLOCK_BYTES,
            write_bytes: BLOCK_BYTES,
            death_bytes: BLOCK_BYTES,
        }
    }

    fn destruction(&self) -> Destruction {
        Destruction::OnceLeft
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::InPlace
    }

    fn allocated_bytes(&self) -> u64 {
        self.map.len() as u64 * BLOCK_BYTES
    }

    fn view(&self) -> Vec<u8> {
        Vec::new()
    }

    fn first(&self, _: Content, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        let (block, _) = self.map.range(blocks(extent)).next()?;
        Extent::new(block * BLOCK_BYTES, BLOCK_BYTES).overlap(extent)
    }

    fn locate(&self, extent: Extent<Addr>) -> Places {
        self.places(extent, |block| self.map.get(&block).copied())
    }

    fn begin_write(&mut self, extent: Extent<Addr>, _: Epoch) -> WritePlan {
        let Some(slots) = self.take(blocks(extent).count()) else { return WritePlan::NoSpace };
        self.writing.extend(blocks(extent).zip(slots));
        WritePlan::To(self.places(extent, |block| self.writing.get(&block).copied()))
    }

    fn unmap(&mut self, extent: Extent<Addr>) {
        unreachable!("{extent:?} leaves its place before it is destroyed");
    }

    fn mapped(&self) -> Option<&dyn Mapped> {
        Some(self)
    }

    fn mapped_mut(&mut self) -> Option<&mut dyn Mapped> {
        Some(self)
    }
}

impl Mapped for Spent {
    fn missing(&self, _: Extent<Addr>) -> Option<Place> {
        None
    }

    fn loaded(&mut self, _: Place, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn end_write(&mut self, extent: Extent<Addr>, written: Written) {
        for block in blocks(extent) {
            let slot = self.writing.remove(&block).expect("the write has begun");
            let is_there = written != Written::NotThere;
            self.waste.extend(if is_there { self.map.insert(block, slot) } else { Some(slot) });
        }
    }

    fn is_durable(&self, extent: Extent<Addr>) -> bool {
        blocks(extent).all(|block| self.map.get(&block) == self.durable.get(&block))
    }

    fn map_state(&self) -> MapState {
        let is_durable = self.taken.is_none() && self.map == self.durable;
        if is_durable { MapState::Durable } else { MapState::Behind }
    }

    fn begin_checkpoint(&mut self, _: bool) -> bool {
        self.taken = Some((self.map.clone(), false));
        true
    }

    fn next_batch(&mut self) -> Option<Batch> {
        let (map, is_out) = self.taken.as_mut().filter(|(_, is_out)| !is_out)?;
        *is_out = true;
        let at = Place { on: MediumId::Map, extent: Extent::new(0, MAP_BYTES) };
        Some(Batch::phase(vec![(at.into(), to_bytes(map))]))
    }

    fn end_checkpoint(&mut self) {
        (self.durable, _) = self.taken.take().expect("a checkpoint is under way");
    }

    fn abort_checkpoint(&mut self) -> bool {
        self.taken = None;
        false
    }

    fn lacks_space(&self, _: Extent<Addr>, _: bool) -> Option<Place> {
        None
    }

    fn reserved(&mut self, _: Place) {}

    fn leave(&mut self, block: Extent<Addr>, _: Epoch) -> Vec<Place> {
        let left = self.map.remove(&(block.start.0 / BLOCK_BYTES));
        self.owed.extend(left);
        left.into_iter().for_each(|slot| self.close(slot / UNIT_SLOTS));
        left.into_iter().map(|slot| place(slot, 1)).collect()
    }

    fn can_leave(&self, _: Extent<Addr>) -> bool {
        true
    }

    fn residue(&self, at: Place) -> Vec<Residue> {
        let units = at.extent.start.0 / UNIT_BYTES..at.extent.end().div_ceil(UNIT_BYTES);
        let residue = |unit| {
            let unit = place(unit * UNIT_SLOTS, UNIT_SLOTS);
            let part = Place { extent: unit.extent.overlap(at.extent)?, ..at };
            Some(Residue { part, at: vec![unit], is_kept: false })
        };
        units.filter(|unit| self.is_erasable(*unit)).filter_map(residue).collect()
    }

    fn owed_durably(&mut self, _: &[Extent<Pos>]) {}

    fn reclaim(&mut self, places: &[Extent<Pos>]) {
        for slot in places.iter().flat_map(|it| it.start.0 / BLOCK_BYTES..it.end() / BLOCK_BYTES) {
            self.owed.remove(&slot);
            let unit = slot / UNIT_SLOTS;
            if !slots(unit).any(|slot| self.owed.contains(&slot)) {
                self.erased(unit);
            }
        }
    }

    fn reuses(&self) -> Option<u64> {
        Some(self.erased)
    }

    fn backlog(&self, all: bool) -> Backlog {
        match (self.dirty(false), self.dirty(true)) {
            (Some(_), _) if all => Backlog::AtOnce,
            (Some(_), _) => Backlog::WhenIdle,
            (None, Some(_)) => Backlog::Remains,
            (None, None) => Backlog::Nothing,
        }
    }

    fn has_residue(&self) -> bool {
        !self.waste.is_empty()
    }

    fn background(&mut self, _: bool) -> Option<Job> {
        let (unit, live) = self.dirty(false).or_else(|| self.dirty(true))?;
        self.close(unit);
        if live.is_empty() {
            self.erasing = Some(unit);
            return Some(Job::Destroy(vec![place(unit * UNIT_SLOTS, UNIT_SLOTS)]));
        }
        let content = |block: u64| {
            let start = block * BLOCK_BYTES;
            Extent::<Addr>::between(start, (start + BLOCK_BYTES).min(self.size))
        };
        let contents: Vec<_> = live.into_iter().map(content).collect();
        let slots = self.take(contents.len())?;
        let to =
            slots.iter().zip(&contents).map(|(slot, it)| Extent::new(slot * BLOCK_BYTES, it.len)).collect();
        self.moving = slots.into_iter().collect();
        Some(Job::Move { contents, to })
    }

    fn rebind(&mut self, content: Extent<Addr>, to: Extent<Pos>) {
        let slot = to.start.0 / BLOCK_BYTES;
        self.moving.remove(&slot);
        self.waste.extend(self.map.insert(content.start.0 / BLOCK_BYTES, slot));
    }

    fn background_done(&mut self, end: JobEnd<'_>) {
        self.waste.append(&mut self.moving);
        match (self.erasing.take(), end) {
            (Some(unit), JobEnd::Done(_)) => {
                self.remaining.remove(&unit);
                self.erased(unit);
            }
            (Some(unit), JobEnd::Remains(_)) => _ = self.remaining.insert(unit),
            _ => {}
        }
    }

    fn unallocated(&self) -> Option<BlockSet<Pos>> {
        None
    }
}
