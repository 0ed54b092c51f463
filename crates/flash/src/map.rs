//! Where units lie, and what lies in slots: 4 bytes a unit, and 4 bytes for each unit that the chip could hold.

use crate::layout::Layout;
use crate::nand::EraseBlock;
use crate::units::{Slot, Unit};

/// Instead of a slot: the unit reads as zeros.
const ABSENT: u32 = u32::MAX;
/// Instead of a slot: the chip lost the unit.
const LOST: u32 = u32::MAX - 1;
/// Instead of a unit: the slot holds nothing that is known.
const EMPTY: u32 = u32::MAX;

/// Where the content of a unit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    /// Nowhere: the unit reads as zeros.
    Absent,
    /// The chip lost it.
    Lost,
    /// In this slot.
    At(Slot),
}

/// Both directions of the map.
///
/// Invariant: the slot of a unit names the unit. Other slots that name it hold stale versions.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    layout: Layout,
    slots: Vec<u32>,
    units: Vec<u32>,
}

impl Map {
    pub(crate) fn new(layout: Layout, units: u32) -> Self {
        Self { layout, slots: vec![ABSENT; units as usize], units: vec![EMPTY; layout.indices()] }
    }

    /// Number of units of the disk.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn find(&self, unit: Unit) -> Where {
        match self.slots[unit.0 as usize] {
            ABSENT => Where::Absent,
            LOST => Where::Lost,
            slot => Where::At(Slot(slot)),
        }
    }

    pub(crate) fn set(&mut self, unit: Unit, to: Where) {
        self.slots[unit.0 as usize] = match to {
            Where::Absent => ABSENT,
            Where::Lost => LOST,
            Where::At(slot) => slot.0,
        };
        if let Where::At(slot) = to {
            self.name(slot, unit);
        }
    }

    /// Notes that `slot` holds a version of `unit`.
    pub(crate) fn name(&mut self, slot: Slot, unit: Unit) {
        self.units[self.layout.index(slot)] = unit.0;
    }

    /// Notes that `block` is erased.
    pub(crate) fn forget(&mut self, block: EraseBlock) {
        self.units[self.layout.index_range(block)].fill(EMPTY);
    }

    /// The live units in `block`, with their slots, in the order of the chip.
    pub(crate) fn live(&self, block: EraseBlock) -> impl Iterator<Item = (Unit, Slot)> + '_ {
        self.layout.index_range(block).filter_map(|index| {
            let unit = self.units[index];
            let slot = *self.slots.get(unit as usize)?;
            let is_live = slot < LOST && self.layout.index(Slot(slot)) == index;
            is_live.then_some((Unit(unit), Slot(slot)))
        })
    }

    /// The stale versions on the chip: the unit, and the block that has the version.
    pub(crate) fn stale(&self) -> impl Iterator<Item = (Unit, EraseBlock)> + '_ {
        let block_entries = self.layout.index_range(EraseBlock(0)).len();
        self.units.iter().enumerate().filter_map(move |(index, unit)| {
            let slot = *self.slots.get(*unit as usize)?;
            let is_live = slot < LOST && self.layout.index(Slot(slot)) == index;
            (!is_live).then_some((Unit(*unit), EraseBlock((index / block_entries) as u32)))
        })
    }
}
