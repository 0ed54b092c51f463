//! The toy file system in blocks as large as a journal needs them.

use crate::rule_e::toy::{self, Bytes};
pub use crate::rule_e::wide::narrowed;
use quietus_core::units::{Addr, Extent};
use quietus_detect::format::Block;

/// The bytes of `block` on a disk of blocks of `block_bytes`.
pub fn place(block: Block, block_bytes: u32) -> Extent<Addr> {
    Extent::new(u64::from(block) * u64::from(block_bytes), u64::from(block_bytes))
}

/// `page` as it lies on the disk.
pub fn widened(page: &Bytes, block_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![0; block_bytes as usize];
    bytes[..toy::BLOCK_BYTES].copy_from_slice(page);
    bytes
}
