//! A tree of extents, a node at a time: ranges of blocks in the order of the
//! file.

use crate::formats::ext2::names::Pointer;
use crate::input::bytes::head;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned, transmute_ref};

const EXT4_EXT_MAGIC: u16 = 0xF30A;
/// Bytes of a header, and of an entry.
const ENTRY_BYTES: usize = size_of::<Header>();
/// Greatest depth of a tree: levels between its root and its leaves.
const EXT4_MAX_EXTENT_DEPTH: u8 = 5;
/// Longest extent that is in use. A longer one is allocated and not written yet, and shorter by
/// this much.
const EXT_INIT_MAX_LEN: u16 = 1 << 15;
/// Level of pointers for nodes: this, plus one more than their depth.
const LEVELS: u8 = 0x10;

/// The header of a node (`fs/ext4/ext4_extents.h`).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    eh_magic: U16,
    eh_entries: U16,
    eh_max: U16,
    eh_depth: U16,
    _eh_generation: U32,
}

/// An entry of a leaf.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Extent {
    ee_block: U32,
    ee_len: U16,
    ee_start_hi: U16,
    ee_start_lo: U32,
}

/// An entry of a node above the leaves.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Index {
    _ei_block: U32,
    ei_leaf_lo: U32,
    ei_leaf_hi: U16,
    _ei_unused: U16,
}

/// The depth of the node in a block of pointers of `level`, if that is a level of nodes.
pub(super) fn depth_of(level: u8) -> Option<u8> {
    level.checked_sub(LEVELS + 1).filter(|depth| *depth < EXT4_MAX_EXTENT_DEPTH)
}

/// The depth of the tree with the root `node`, if that is a root.
pub(super) fn depth_of_root(node: &[u8]) -> Option<u8> {
    u8::try_from(head::<Header>(node)?.eh_depth.get()).ok().filter(|depth| *depth <= EXT4_MAX_EXTENT_DEPTH)
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
    entries.filter(|it: &&Extent| it.ee_len.get() > EXT_INIT_MAX_LEN).map(extent)
}

fn entries(node: &[u8], depth: u8) -> usize {
    let Some(header) = head::<Header>(node) else { return 0 };
    let room = node.len() / ENTRY_BYTES - 1;
    let (eh_entries, eh_max) = (usize::from(header.eh_entries), usize::from(header.eh_max));
    let is_node = header.eh_magic == EXT4_EXT_MAGIC && header.eh_depth == u16::from(depth);
    if is_node && eh_entries <= eh_max && eh_max <= room { eh_entries } else { 0 }
}

/// Includes extents that are allocated and not written yet.
fn extent(entry: &Extent) -> Pointer {
    let ee_len = entry.ee_len.get();
    let len = if ee_len > EXT_INIT_MAX_LEN { ee_len - EXT_INIT_MAX_LEN } else { ee_len };
    let ee_start = u64::from(entry.ee_start_hi) << 32 | u64::from(entry.ee_start_lo);
    Pointer { blocks: ee_start..ee_start + u64::from(len), level: 0, at: entry.ee_block.into() }
}

/// The place in the file is left out: it changes when the file loses its first blocks, and the node
/// below states it itself.
fn index(entry: &Index, depth: u8) -> Pointer {
    let ei_leaf = u64::from(entry.ei_leaf_hi) << 32 | u64::from(entry.ei_leaf_lo);
    Pointer { blocks: ei_leaf..ei_leaf + 1, level: LEVELS + depth, at: ei_leaf }
}

#[cfg(test)]
pub(super) mod tests;
