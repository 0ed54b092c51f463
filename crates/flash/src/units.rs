//! Units of a disk, and places for them.

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 4096;

/// A unit of the disk, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Unit(pub(crate) u32);

/// A place of the chip that holds a unit, counted in pages, or in units if a page holds several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(pub(crate) u32);
