//! The table of slots: in which state each is, and which container it has.

use std::collections::{BTreeMap, BTreeSet};

use quietus_core::fields::Fields;
use quietus_core::medium::Medium;
use quietus_core::units::Pos;

use super::CatalogError;
use super::layout::{ENTRY_BYTES, Layout, PAGE_BYTES, PAGE_SLOTS, TABLE_HEAD_BYTES};
use crate::container::Class;
use crate::mutant::{self, Mutant};
use crate::{ContainerSequence, SlotNumber};

/// The use of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// Nothing that betrays content lies there.
    Free = 0,
    /// A container is being written. After a crash nothing refers to it.
    Open = 1,
    /// A container, whole and durable.
    Sealed = 2,
    /// The slot's content is to be destroyed.
    Condemned = 3,
}

/// The table's entry for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotEntry {
    /// Its state.
    pub state: SlotState,
    /// The container that it has or had; 0 if it is free.
    pub container: ContainerSequence,
    /// The container's content in figures.
    pub class: Class,
    /// Whether a part of it was found damaged.
    pub is_damaged: bool,
}

pub(super) const FREE: SlotEntry = SlotEntry {
    state: SlotState::Free,
    container: ContainerSequence(0),
    class: Class::Data,
    is_damaged: false,
};

impl SlotEntry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.container.0.to_le_bytes());
        (bytes[8], bytes[9], bytes[10]) = (self.state as u8, self.class as u8, u8::from(self.is_damaged));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<SlotEntry> {
        let container = ContainerSequence(Fields(bytes).u64()?);
        let states = [SlotState::Free, SlotState::Open, SlotState::Sealed, SlotState::Condemned];
        let state = states.into_iter().find(|state| *state as u8 == bytes[8])?;
        let is_damaged = [false, true].into_iter().find(|it| u8::from(*it) == bytes[10])?;
        Some(SlotEntry { state, container, class: Class::from_number(u32::from(bytes[9]))?, is_damaged })
    }

    /// Whether chunks can be read there.
    fn has_container(self) -> bool {
        match self.state {
            SlotState::Open | SlotState::Sealed => true,
            SlotState::Condemned => mutant::is(Mutant::KeepCondemned),
            SlotState::Free => false,
        }
    }
}

/// The slots of a vault.
#[derive(Debug)]
pub struct Table {
    slots: Vec<SlotEntry>,
    free: BTreeSet<SlotNumber>,
    condemned: BTreeSet<SlotNumber>,
    containers: BTreeMap<ContainerSequence, SlotNumber>,
    pages: Vec<PageState>,
}

/// A page of the table: which of its two places has what the last snapshot relies on.
#[derive(Clone, Copy, Debug)]
struct PageState {
    place: u8,
    is_dirty: bool,
}

impl Table {
    /// Slots that are all free; every page is to be written.
    pub(super) fn new(slots: u32) -> Table {
        let pages = (slots as usize).div_ceil(PAGE_SLOTS);
        Table {
            slots: vec![FREE; slots as usize],
            free: (0..slots).map(SlotNumber).collect(),
            condemned: BTreeSet::new(),
            containers: BTreeMap::new(),
            pages: vec![PageState { place: 1, is_dirty: true }; pages],
        }
    }

    /// The slot that has a container; none if it is condemned or destroyed.
    pub fn slot(&self, container: ContainerSequence) -> Option<SlotNumber> {
        self.containers.get(&container).copied()
    }

    /// What the table says of a slot.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    pub fn entry(&self, slot: SlotNumber) -> SlotEntry {
        self.slots[slot.0 as usize]
    }

    /// The class of a container that can be read.
    pub fn class(&self, container: ContainerSequence) -> Option<Class> {
        Some(self.entry(self.slot(container)?).class)
    }

    /// The free slots, in order.
    pub fn free(&self) -> &BTreeSet<SlotNumber> {
        &self.free
    }

    /// The condemned slots, in order.
    pub fn condemned(&self) -> &BTreeSet<SlotNumber> {
        &self.condemned
    }

    /// The containers that can be read, from `first` on and in order, with their slots.
    pub fn containers(
        &self,
        first: ContainerSequence,
    ) -> impl Iterator<Item = (ContainerSequence, SlotNumber)> + '_ {
        self.containers.range(first..).map(|(&container, &slot)| (container, slot))
    }

    /// The slots in one state.
    pub fn in_state(&self, state: SlotState) -> impl Iterator<Item = SlotNumber> + '_ {
        let all = self.slots.iter().zip(0..);
        all.filter(move |(entry, _)| entry.state == state).map(|(_, slot)| SlotNumber(slot))
    }

    pub(super) fn change(&mut self, slot: SlotNumber, state: SlotState) {
        self.set(slot, SlotEntry { state, ..self.entry(slot) });
    }

    pub(super) fn set(&mut self, slot: SlotNumber, entry: SlotEntry) {
        let old = std::mem::replace(&mut self.slots[slot.0 as usize], entry);
        self.pages[slot.0 as usize / PAGE_SLOTS].is_dirty = true;
        if self.containers.get(&old.container) == Some(&slot) {
            self.containers.remove(&old.container);
        }
        self.note(slot);
    }

    /// Brings what is known besides the entries up to an entry.
    fn note(&mut self, slot: SlotNumber) {
        let entry = self.entry(slot);
        let put = |set: &mut BTreeSet<SlotNumber>, is_in| match is_in {
            true => set.insert(slot),
            false => set.remove(&slot),
        };
        put(&mut self.free, entry.state == SlotState::Free);
        put(&mut self.condemned, entry.state == SlotState::Condemned);
        if entry.has_container() {
            self.containers.insert(entry.container, slot);
        }
    }

    /// The pages that have changed since the last snapshot, each where the last snapshot does not need it.
    pub(super) fn take_writes(&mut self, layout: Layout, generation: u64) -> Vec<(Pos, Vec<u8>)> {
        let dirty: Vec<usize> = (0..self.pages.len()).filter(|&page| self.pages[page].is_dirty).collect();
        let mut writes = Vec::with_capacity(dirty.len());
        for page in dirty {
            let place = 1 - self.pages[page].place;
            writes.push((layout.page(page, place), self.page(page, generation)));
            self.pages[page] = PageState { place, is_dirty: false };
        }
        writes
    }

    fn page(&self, page: usize, generation: u64) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend((page as u32).to_le_bytes());
        bytes.extend(generation.to_le_bytes());
        bytes.resize(TABLE_HEAD_BYTES, 0);
        let slots = self.slots.iter().skip(page * PAGE_SLOTS).take(PAGE_SLOTS);
        slots.for_each(|entry| bytes.extend(entry.to_bytes()));
        bytes.resize(PAGE_BYTES, 0);
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The table that a snapshot of `generation` relies on.
    pub(super) fn read(medium: &dyn Medium, layout: Layout, generation: u64) -> Result<Table, CatalogError> {
        let mut table = Table::new(layout.slots);
        for page in 0..layout.pages() {
            let mut places = [vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]];
            for (place, bytes) in (0..).zip(&mut places) {
                medium.read(layout.page(page, place), bytes)?;
            }
            table.read_page(page, &places, generation)?;
        }
        (0..layout.slots).for_each(|slot| table.note(SlotNumber(slot)));
        Ok(table)
    }

    /// A page of a later generation is of a turn that a crash cut short: it does not count, and is written again, so that it
    /// will not count when its generation comes.
    fn read_page(&mut self, page: usize, places: &[Vec<u8>; 2], generation: u64) -> Result<(), CatalogError> {
        let generations = [0, 1].map(|place: usize| page_generation(page, &places[place]));
        let counts = |found: &u64| *found <= generation;
        let best = (0..2).filter(|&place| generations[place].as_ref().is_some_and(counts));
        let place = best
            .max_by_key(|&place| generations[place])
            .ok_or(CatalogError::Damaged("a page of the table of slots is invalid"))?;
        let entries = places[place][TABLE_HEAD_BYTES..].as_chunks::<ENTRY_BYTES>().0;
        let first = page * PAGE_SLOTS;
        for (slot, bytes) in self.slots.iter_mut().skip(first).zip(entries) {
            let damaged = CatalogError::Damaged("an entry of the table of slots cannot be");
            *slot = SlotEntry::from_bytes(bytes).ok_or(damaged)?;
        }
        let is_dirty = generations.iter().flatten().any(|found| !counts(found));
        self.pages[page] = PageState { place: place as u8, is_dirty };
        Ok(())
    }
}

/// The generation of a page that is whole.
fn page_generation(page: usize, bytes: &[u8]) -> Option<u64> {
    let mut fields = Fields(bytes);
    let (checksum, number, generation) = (fields.u32()?, fields.u32()?, fields.u64()?);
    (checksum == crc32c::crc32c(&bytes[4..]) && number as usize == page).then_some(generation)
}
