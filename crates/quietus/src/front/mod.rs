//! Front ends: the protocols by which clients reach disks.

mod exports;
pub mod nbd;

pub use exports::{Disks, Exports};
