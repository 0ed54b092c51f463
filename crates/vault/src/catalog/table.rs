//! The table of slots: the state and the container of each.

use std::collections::{BTreeMap, BTreeSet};

use quietus_core::base::fields::Fields;
use quietus_core::base::units::Pos;
use quietus_core::media::medium::Medium;

use super::CatalogError;
use super::layout::{ENTRY_BYTES, Layout, PAGE_BYTES, PAGE_SLOTS, TABLE_HEAD_BYTES};
use super::log::Write;
use crate::container::Class;
use crate::mutant::{self, Mutant};
use crate::{ContainerSequence, SlotNumber};

/// The use of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// The slot holds nothing that betrays content.
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
    /// The state of the slot.
    pub state: SlotState,
    /// The container that it has or had; 0 if it is free.
    pub container: ContainerSequence,
    /// The container's content in figures.
    pub class: Class,
    /// Whether a part of the container was found damaged.
    pub is_damaged: bool,
}

/// The entry of a free slot.
pub(crate) const FREE: SlotEntry = SlotEntry {
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
    /// Slots of which both copies of the entry are damaged: what they have is not known.
    lost: BTreeSet<SlotNumber>,
    free: BTreeSet<SlotNumber>,
    condemned: BTreeSet<SlotNumber>,
    containers: BTreeMap<ContainerSequence, SlotNumber>,
    pages: Vec<PageState>,
}

/// A page of the table. Both of its places have it, unless a crash came between the two writes, or one is damaged.
#[derive(Clone, Copy, Debug)]
struct PageState {
    /// The expected generation: the one of the snapshot with which the page was written last. 0 if all its slots were always free,
    /// so that the page is not read.
    generation: u64,
    /// The place that surely has the page, and is written last.
    place: u8,
    is_dirty: bool,
}

const UNUSED: PageState = PageState { generation: 0, place: 0, is_dirty: false };

impl Table {
    /// Slots that are all free.
    pub(super) fn new(slots: u32) -> Table {
        let pages = (slots as usize).div_ceil(PAGE_SLOTS);
        Table {
            slots: vec![FREE; slots as usize],
            lost: BTreeSet::new(),
            free: (0..slots).map(SlotNumber).collect(),
            condemned: BTreeSet::new(),
            containers: BTreeMap::new(),
            pages: vec![UNUSED; pages],
        }
    }

    /// The slot that has a container; `None` if it is condemned or destroyed.
    pub fn slot(&self, container: ContainerSequence) -> Option<SlotNumber> {
        self.containers.get(&container).copied()
    }

    /// The entry of a slot.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    pub fn entry(&self, slot: SlotNumber) -> SlotEntry {
        self.slots[slot.0 as usize]
    }

    /// The class of a container; `None` if it cannot be read.
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

    /// The slots of which it is not known what they have, in order.
    pub(crate) fn lost(&self) -> &BTreeSet<SlotNumber> {
        &self.lost
    }

    /// Changes a part of a slot's entry. A slot with unknown content keeps that state, unless the content is to be destroyed in any case.
    pub(super) fn change(&mut self, slot: SlotNumber, change: impl FnOnce(SlotEntry) -> SlotEntry) {
        let (is_lost, entry) = (self.lost.contains(&slot), change(self.entry(slot)));
        self.set(slot, entry);
        if is_lost && entry.state != SlotState::Condemned {
            self.lost.insert(slot);
            self.note(slot);
        }
    }

    pub(super) fn set(&mut self, slot: SlotNumber, entry: SlotEntry) {
        self.lost.remove(&slot);
        let old = std::mem::replace(&mut self.slots[slot.0 as usize], entry);
        self.pages[slot.0 as usize / PAGE_SLOTS].is_dirty = true;
        if self.containers.get(&old.container) == Some(&slot) {
            self.containers.remove(&old.container);
        }
        self.note(slot);
    }

    /// Updates all that is derived from the entries for a changed entry.
    fn note(&mut self, slot: SlotNumber) {
        let (entry, is_known) = (self.entry(slot), !self.lost.contains(&slot));
        let put = |set: &mut BTreeSet<SlotNumber>, is_in| match is_in {
            true => set.insert(slot),
            false => set.remove(&slot),
        };
        put(&mut self.free, entry.state == SlotState::Free && is_known);
        put(&mut self.condemned, entry.state == SlotState::Condemned);
        if entry.has_container() && is_known {
            self.containers.insert(entry.container, slot);
        }
    }

    /// The places of the pages that are to be written, and of which no snapshot relies on either.
    pub(super) fn unwritten(&self, layout: Layout) -> impl Iterator<Item = Pos> + '_ {
        let pages = self.pages.iter().enumerate().filter(|(_, page)| page.generation == 0 && page.is_dirty);
        pages.flat_map(move |(page, _)| [0, 1].map(|place| layout.page(page, place)))
    }

    /// The generations of all pages, for the snapshot that relies on them.
    pub(super) fn generations(&self) -> Vec<u64> {
        self.pages.iter().map(|page| page.generation).collect()
    }

    /// The pages that have changed since the last snapshot, each where that does not need it; and the same pages where it does, to be
    /// written once the next snapshot is durable.
    pub(super) fn take_writes(&mut self, layout: Layout, generation: u64) -> [Vec<Write>; 2] {
        let dirty: Vec<usize> = (0..self.pages.len()).filter(|&page| self.pages[page].is_dirty).collect();
        let (mut first, mut second) = (Vec::with_capacity(dirty.len()), Vec::with_capacity(dirty.len()));
        for page in dirty {
            let (old, bytes) = (self.pages[page].place, self.page(page, generation));
            second.push((layout.page(page, old), bytes.clone()));
            first.push((layout.page(page, 1 - old), bytes));
            self.pages[page] = PageState { generation, place: 1 - old, is_dirty: false };
        }
        [first, second]
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

    /// The table that a snapshot relies on: it says of which generation each page has to be. If that snapshot is followed by a `newer` one
    /// that cannot be read, a page may be of that generation, too: all changes between the two come again.
    pub(super) fn read(
        medium: &dyn Medium,
        layout: Layout,
        generations: &[u64],
        newer: Option<u64>,
    ) -> Result<Table, CatalogError> {
        let mut table = Table::new(layout.slots);
        for page in 0..layout.pages() {
            let wanted = generations.get(page).copied().unwrap_or(0);
            if wanted == 0 && newer.is_none() {
                continue;
            }
            let mut places = [vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]];
            for (place, bytes) in (0..).zip(&mut places) {
                medium.read(layout.page(page, place), bytes)?;
            }
            table.read_page(page, &places, [Some(wanted), newer])?;
        }
        (0..layout.slots).for_each(|slot| table.note(SlotNumber(slot)));
        Ok(table)
    }

    /// A page older than the expected one is of no use: slots that were free then may be in use by now.
    fn read_page(
        &mut self,
        page: usize,
        places: &[Vec<u8>; 2],
        wanted: [Option<u64>; 2],
    ) -> Result<(), CatalogError> {
        let found = [0, 1].map(|place: usize| page_generation(page, &places[place]));
        let counts = |found: &Option<u64>| {
            found.is_some() && (wanted.contains(found) || mutant::is(Mutant::TakeOlder))
        };
        let best = (0..2).filter(|&place| counts(&found[place])).max_by_key(|&place| found[place]);
        let first = page * PAGE_SLOTS;
        let Some(place) = best else {
            // No page was ever written there.
            let is_lost = wanted[0] != Some(0);
            let slots = first..self.slots.len().min(first + PAGE_SLOTS);
            self.lost.extend(slots.filter(|_| is_lost).map(|slot| SlotNumber(slot as u32)));
            self.pages[page] = PageState { is_dirty: is_lost, ..UNUSED };
            return Ok(());
        };
        let entries = places[place][TABLE_HEAD_BYTES..].as_chunks::<ENTRY_BYTES>().0;
        for (slot, bytes) in self.slots.iter_mut().skip(first).zip(entries) {
            let damaged = CatalogError::Damaged("an entry of the table of slots is invalid");
            *slot = SlotEntry::from_bytes(bytes).ok_or(damaged)?;
        }
        let (generation, is_dirty) = (found[place].unwrap_or(0), found[0] != found[1]);
        self.pages[page] = PageState { generation, place: place as u8, is_dirty };
        Ok(())
    }
}

/// The generation of a page that is whole.
fn page_generation(page: usize, bytes: &[u8]) -> Option<u64> {
    let mut fields = Fields(bytes);
    let (checksum, number, generation) = (fields.u32()?, fields.u32()?, fields.u64()?);
    (checksum == crc32c::crc32c(&bytes[4..]) && number as usize == page).then_some(generation)
}
