//! A tree of extents, a node at a time: ranges of blocks in the order of the
//! file.

use super::bytes::{u16_at, u32_at};
use super::names::Pointer;

const EXT4_EXT_MAGIC: u16 = 0xF30A;
/// Bytes of a header, and of an entry.
const ENTRY_BYTES: usize = 12;
/// The root of a tree is at most so far above its leaves.
const EXT4_MAX_EXTENT_DEPTH: u8 = 5;
/// A longer extent is one that is allocated and not written yet, and so much
/// shorter.
const EXT_INIT_MAX_LEN: u16 = 1 << 15;
/// Nodes are blocks of pointers of levels of their own: this, and one more than
/// their depth.
const LEVELS: u8 = 0x10;

/// The depth of the node that a block of pointers of `level` holds, if it is to
/// hold one.
pub(super) fn depth_of(level: u8) -> Option<u8> {
    level.checked_sub(LEVELS + 1).filter(|depth| *depth < EXT4_MAX_EXTENT_DEPTH)
}

/// The depth of the tree whose root `node` is, if it is one.
pub(super) fn depth_of_root(node: &[u8]) -> Option<u8> {
    u8::try_from(u16_at(node, 6)).ok().filter(|depth| *depth <= EXT4_MAX_EXTENT_DEPTH)
}

/// The pointers in `node`, in the order of the file; none if it is no node of
/// that depth.
pub(super) fn pointers(node: &[u8], depth: u8) -> impl Iterator<Item = Pointer> + '_ {
    let entries = node.chunks_exact(ENTRY_BYTES).skip(1).take(entries(node, depth));
    entries.map(move |entry| if depth == 0 { extent(entry) } else { index(entry, depth) })
}

/// How many entries there are.
fn entries(node: &[u8], depth: u8) -> usize {
    let room = (node.len() / ENTRY_BYTES).saturating_sub(1);
    let (eh_entries, eh_max) = (usize::from(u16_at(node, 2)), usize::from(u16_at(node, 4)));
    let is_node = u16_at(node, 0) == EXT4_EXT_MAGIC && u16_at(node, 6) == u16::from(depth);
    if is_node && eh_entries <= eh_max && eh_max <= room { eh_entries } else { 0 }
}

/// What is allocated and not written yet is named as well.
fn extent(entry: &[u8]) -> Pointer {
    let ee_len = u16_at(entry, 4);
    let len = if ee_len > EXT_INIT_MAX_LEN { ee_len - EXT_INIT_MAX_LEN } else { ee_len };
    let ee_start = u64::from(u16_at(entry, 6)) << 32 | u64::from(u32_at(entry, 8));
    Pointer { blocks: ee_start..ee_start + u64::from(len), level: 0, at: u32_at(entry, 0).into() }
}

/// Its place is not told: it changes when the file loses its first blocks, and
/// the node below says so itself.
fn index(entry: &[u8], depth: u8) -> Pointer {
    let ei_leaf = u64::from(u16_at(entry, 8)) << 32 | u64::from(u32_at(entry, 4));
    Pointer { blocks: ei_leaf..ei_leaf + 1, level: LEVELS + depth, at: ei_leaf }
}

#[cfg(test)]
mod tests;
