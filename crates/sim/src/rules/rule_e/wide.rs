//! The toy file systems in blocks as large as a volume's.
//!
//! A block begins with the toy's block of 64 bytes. One of data has two cells of
//! tagged content behind it, one in its first sector and one in its last, so
//! that a torn write shows.

use crate::machine::content::{CELL_BYTES, Tag, fill};
use crate::rules::rule_e::toy;
use crate::rules::rule_e::toy::Bytes;
use quietus_core::base::units::{Addr, Extent};

/// `page` as it lies on the disk.
pub fn widened(page: &Bytes, block_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![0; block_bytes as usize];
    bytes[..toy::BLOCK_BYTES].copy_from_slice(page);
    bytes
}

/// `page` as it lies on the disk `at` a block, with content of `tag` behind it.
pub fn tagged(at: Extent<Addr>, page: &Bytes, tag: Option<Tag>) -> Vec<u8> {
    let mut bytes = widened(page, at.len as u32);
    if let Some(tag) = tag {
        for from in [CELL_BYTES, at.len - CELL_BYTES] {
            let cell = from as usize..(from + CELL_BYTES) as usize;
            fill(tag, at.start.0 + from, &mut bytes[cell]);
        }
    }
    bytes
}

/// The toy's part of a block.
///
/// # Panics
/// If it is shorter than that.
pub fn narrowed(bytes: &[u8]) -> Bytes {
    bytes[..toy::BLOCK_BYTES].try_into().expect("the lengths are the same")
}
