//! Raw NAND flash.
//!
//! [`Nand`] is the seam to a chip: every fault of a chip enters there and nowhere else. [`chip::MemoryChip`] is a chip in memory that is
//! nastier than any real one, and counts the time that a real one would take.
//!
//! This crate has no clock, no thread and no entropy of its own.
#![forbid(unsafe_code)]

pub mod chip;
pub mod nand;

pub use nand::{EraseBlock, Geometry, Nand, NandError, Page, Reading};
