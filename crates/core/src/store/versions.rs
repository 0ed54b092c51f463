//! A store that keeps every epoch of the disk, and can make any of them unreadable for ever.

mod deaths;
mod history;
mod key;
mod slots;

/// A block of the disk, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Block(pub(super) u64);

/// A place of the data medium for one block, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Slot(pub(super) u64);
