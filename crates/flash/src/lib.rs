//! Raw NAND flash, with certain deletion.
//!
//! [`Nand`] is the seam to a chip: every fault of a chip enters there and nowhere else. [`Flash`] is a disk above a chip: a translation layer whose
//! [`erase`](Flash::erase) returns when no page of the chip holds what was deleted. [`chip::MemoryChip`] is a chip in memory that is
//! nastier than any real one, and counts the time that a real one would take.
//!
//! | question | where |
//! | --- | --- |
//! | what pages hold | `docs/formats/flash.md`; `layout`, `record` |
//! | how units become durable | `flash::run` |
//! | what a start does after a cut of the power | `flash::{scan,open}` |
//! | how blocks are chosen, collected, levelled, retired | `flash::{space,collect,wipe}` |
//! | how content is destroyed | `flash::{erase,clear}` |
//!
//! There is no driver of a real chip, and no root of keys on the chip. Spare areas are not used. Pages of cells with more than one bit are
//! programmed as if a cut could not harm the pages before: that holds for chips in their single-bit mode.
//!
//! This crate has no clock, no thread and no entropy of its own.
#![forbid(unsafe_code)]

mod access;
mod blocks;
pub mod chip;
mod error;
pub mod flash;
mod layout;
mod map;
pub mod nand;
mod pending;
mod record;

pub use error::{FlashError, FlashErrorKind};
pub use flash::{Flash, Keep};
pub use layout::UNIT_BYTES;
pub use nand::{EraseBlock, Geometry, Nand, NandError, Page, Reading};
pub use record::DiskId;
