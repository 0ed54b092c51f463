//! Disks on raw NAND flash: a chip below the kernel's MTD layer, or a file that stands for one.
//!
//! | question | where |
//! | --- | --- |
//! | how a chip is written | `place` |
//! | kinds of chips that a file can stand for | `kinds` |
//! | a file as a chip | `file` |
//! | an MTD device as a chip | `mtd` |
//! | how disks are made and opened on chips | `disk` |
//! | an open chip, and parts of its disk as media | `open`, `medium` |
//!
//! The layer that turns a chip into a disk is the crate `quietus-flash`.

mod chip;
mod disk;
mod file;
mod kinds;
mod medium;
mod mtd;
mod open;
mod place;
#[cfg(test)]
mod tests;

pub use chip::Chip;
pub use disk::FlashDisk;
pub use file::{Faults, FileChip, Fuse};
pub use kinds::{ChipKind, KindName};
pub use medium::FlashMedium;
pub use mtd::MtdChip;
pub use open::FlashWear;
pub use place::FlashPlace;
