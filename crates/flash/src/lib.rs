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
//! | how a small secret dies by one erase | `flash::apart` |
//! | how content is destroyed | `flash::{erase,clear}` |
//! | which bytes have content | `flash::present` |
//! | what a raw read of the whole chip shows | `flash::audit` |
//!
//! Drivers of real chips, and a [`Medium`](quietus_core::media::medium::Medium) above a disk, lie in the program's `host::media::flash`. There is no
//! root of keys on the chip. Spare areas are not used. A cut of the power is taken to harm only the page that is programmed, or the block that
//! is erased: so it is with one bit a cell, or in the single-bit mode of other chips.
//! Content that waits for a sync lies in memory that is not wiped.
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
pub mod mutant;
pub mod nand;
mod pending;
mod record;
mod units;

pub use error::{FlashError, FlashErrorKind};
pub use flash::audit::{Audit, REMAINS_MAX, Remain};
pub use flash::{Flash, Wear};
pub use nand::{EraseBlock, Geometry, Nand, NandError, Page, Reading};
pub use record::DiskId;
pub use units::UNIT_BYTES;
