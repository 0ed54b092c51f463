//! A tree of extents: nodes of ranges, in the order of the file.
//!
//! 1. Each node lies one level below its parent, and its ranges within what the parent leaves to it, so that a
//!    node with entries is not visited twice.
//! 2. Extents that are allocated and not written yet are holes.

use crate::Error;
use crate::ext::bytes::at;
use crate::ext::units::{FileBlock, FsBlock, Piece};
use crate::ext::walk::Walk;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const EXT4_EXT_MAGIC: u16 = 0xF30A;
/// Bytes of a header, and of an entry.
const ENTRY_BYTES: usize = size_of::<Header>();
/// Most levels between the root of a tree and its leaves.
const EXT4_MAX_EXTENT_DEPTH: u16 = 5;
/// Longest extent that is written. A longer one is not, and shorter by this much.
const EXT_INIT_MAX_LEN: u16 = 1 << 15;
/// A file of extents has at most this many blocks.
pub(super) const FILE_BLOCKS_MAX: u64 = 1 << 32;

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
    ei_block: U32,
    ei_leaf_lo: U32,
    ei_leaf_hi: U16,
    _ei_unused: U16,
}

const _: () = assert!(size_of::<Extent>() == ENTRY_BYTES && size_of::<Index>() == ENTRY_BYTES);

/// Walks the tree with the root `i_block`. `Ok(false)`: the walk was ended.
pub(super) fn walk(walk: &mut Walk, i_block: &[u8]) -> Result<bool, Error> {
    let eh_depth = at::<Header>(i_block, 0).map_or(0, |header| header.eh_depth.get());
    if eh_depth > EXT4_MAX_EXTENT_DEPTH {
        return Err(walk.damaged(&format!("eh_depth {eh_depth} of the root")));
    }
    node(walk, i_block, eh_depth, 0..FILE_BLOCKS_MAX)
}

fn node(walk: &mut Walk, node: &[u8], depth: u16, range: Range<u64>) -> Result<bool, Error> {
    let entries = entries(node, depth).map_err(|what| walk.damaged(&what))?;
    if depth == 0 { leaf(walk, node, entries, range) } else { indexes(walk, node, entries, depth, range) }
}

/// The number of entries of a node, if its header is possible.
fn entries(node: &[u8], depth: u16) -> Result<usize, String> {
    let header: &Header = at(node, 0).ok_or("a node of extents is cut off")?;
    let room = (node.len() / ENTRY_BYTES).saturating_sub(1);
    let (eh_entries, eh_max) = (usize::from(header.eh_entries), usize::from(header.eh_max));
    if header.eh_magic != EXT4_EXT_MAGIC {
        return Err(format!("eh_magic {:#x}", header.eh_magic.get()));
    }
    if header.eh_depth != depth {
        return Err(format!("eh_depth {} at depth {depth}", header.eh_depth));
    }
    if eh_max == 0 || eh_max > room {
        return Err(format!("eh_max {eh_max} where {room} fit"));
    }
    if eh_entries > eh_max || eh_entries == 0 && depth > 0 {
        return Err(format!("eh_entries {eh_entries} of {eh_max}"));
    }
    Ok(eh_entries)
}

fn leaf(walk: &mut Walk, node: &[u8], entries: usize, range: Range<u64>) -> Result<bool, Error> {
    let mut free = range.clone();
    for extent in (1..=entries).filter_map(|n| at::<Extent>(node, n * ENTRY_BYTES)) {
        let ee_block = u64::from(extent.ee_block);
        let (blocks, is_written) = length(extent.ee_len.get());
        let end = ee_block + u64::from(blocks);
        if blocks == 0 || ee_block < free.start || end > free.end {
            let bounds = format!("{}..{}", free.start, free.end);
            return Err(walk.damaged(&format!("ee_block {ee_block}, ee_len {blocks} not within {bounds}")));
        }
        free.start = end;
        let first = FsBlock(u64::from(extent.ee_start_hi) << 32 | u64::from(extent.ee_start_lo));
        let piece = Piece { at: FileBlock(ee_block), first, blocks: blocks.into() };
        if is_written && !walk.piece(piece)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number of blocks of an extent, and whether they are written.
fn length(ee_len: u16) -> (u16, bool) {
    if ee_len > EXT_INIT_MAX_LEN { (ee_len - EXT_INIT_MAX_LEN, false) } else { (ee_len, true) }
}

fn indexes(
    walk: &mut Walk,
    node_bytes: &[u8],
    entries: usize,
    depth: u16,
    range: Range<u64>,
) -> Result<bool, Error> {
    let index = |n: usize| at::<Index>(node_bytes, n * ENTRY_BYTES).filter(|_| n <= entries);
    let mut least = range.start;
    for (n, entry) in (1..=entries).filter_map(|n| Some((n, index(n)?))) {
        let ei_block = u64::from(entry.ei_block);
        let end = index(n + 1).map_or(range.end, |next| next.ei_block.into());
        if ei_block < least || end <= ei_block || end > range.end {
            return Err(walk.damaged(&format!("ei_block {ei_block} not within {least}..{end}")));
        }
        least = end;
        let ei_leaf = FsBlock(u64::from(entry.ei_leaf_hi) << 32 | u64::from(entry.ei_leaf_lo));
        if walk.touches(&(ei_block..end)) {
            let below = walk.node(ei_leaf)?;
            if !node(walk, &below, depth - 1, ei_block..end)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
