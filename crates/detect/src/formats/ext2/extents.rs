//! A tree of extents, a node at a time: ranges of blocks in the order of the
//! file.

use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::raw::{
    ENTRY_BYTES, EXT4_EXT_MAGIC, EXT4_MAX_EXTENT_DEPTH, RawExtent, RawExtentHeader, RawExtentIndex,
};
use crate::input::bytes::head;
use zerocopy::transmute_ref;

/// Level of pointers for nodes: this, plus one more than their depth.
const LEVELS: u8 = 0x10;

/// The depth of the node in a block of pointers of `level`, if that is a level of nodes.
pub(super) fn depth_of(level: u8) -> Option<u8> {
    level.checked_sub(LEVELS + 1).filter(|depth| *depth < EXT4_MAX_EXTENT_DEPTH)
}

/// The depth of the tree with the root `node`, if that is a root.
pub(super) fn depth_of_root(node: &[u8]) -> Option<u8> {
    u8::try_from(head::<RawExtentHeader>(node)?.eh_depth.get())
        .ok()
        .filter(|depth| *depth <= EXT4_MAX_EXTENT_DEPTH)
}

/// The pointers in `node`, in the order of the file; `None` if `node` has another depth, or is no
/// node.
pub(super) fn pointers(node: &[u8], depth: u8) -> impl Iterator<Item = Pointer> + '_ {
    let entries = node.as_chunks::<ENTRY_BYTES>().0.iter().skip(1).take(entries(node, depth));
    entries.map(move |entry| match depth {
        0 => extent(transmute_ref!(entry)),
        _ => index(transmute_ref!(entry), depth),
    })
}

/// The pointers in the leaf `node` to blocks that are allocated and not written yet.
pub(super) fn unwritten(node: &[u8]) -> impl Iterator<Item = Pointer> + '_ {
    let entries = node.as_chunks::<ENTRY_BYTES>().0.iter().skip(1).take(entries(node, 0));
    let entries = entries.map(|entry| transmute_ref!(entry));
    entries.filter(|it: &&RawExtent| !it.is_written()).map(extent)
}

fn entries(node: &[u8], depth: u8) -> usize {
    let Some(header) = head::<RawExtentHeader>(node) else { return 0 };
    let room = node.len() / ENTRY_BYTES - 1;
    let (eh_entries, eh_max) = (usize::from(header.eh_entries), usize::from(header.eh_max));
    let is_node = header.eh_magic == EXT4_EXT_MAGIC && header.eh_depth == u16::from(depth);
    if is_node && eh_entries <= eh_max && eh_max <= room { eh_entries } else { 0 }
}

/// Includes extents that are allocated and not written yet.
fn extent(entry: &RawExtent) -> Pointer {
    let ee_start = entry.ee_start();
    Pointer { blocks: ee_start..ee_start + u64::from(entry.blocks()), level: 0, at: entry.ee_block.into() }
}

/// The place in the file is left out: it changes when the file loses its first blocks, and the node
/// below states it itself.
fn index(entry: &RawExtentIndex, depth: u8) -> Pointer {
    let ei_leaf = entry.ei_leaf();
    Pointer { blocks: ei_leaf..ei_leaf + 1, level: LEVELS + depth, at: ei_leaf }
}

#[cfg(test)]
pub(super) mod tests;
