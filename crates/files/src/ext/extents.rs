//! A tree of extents: nodes of ranges, in the order of the file.
//!
//! 1. Each node lies one level below its parent, and its ranges within what the parent leaves to it, so that a
//!    node with entries is not visited twice.
//! 2. Extents that are allocated and not written yet are holes.

use crate::Error;
use crate::ext::bytes::at;
use crate::ext::units::{FileBlock, FsBlock, Piece};
use crate::ext::walk::Walk;
use quietus_detect::formats::ext2::raw::{
    ENTRY_BYTES, EXT4_EXT_MAGIC, EXT4_MAX_EXTENT_DEPTH, RawExtent, RawExtentHeader, RawExtentIndex,
};
use std::ops::Range;

/// A file of extents has at most this many blocks.
pub(super) const FILE_BLOCKS_MAX: u64 = 1 << 32;

/// Walks the tree with the root `i_block`. `Ok(false)`: the walk was ended.
pub(super) fn walk(walk: &mut Walk, i_block: &[u8]) -> Result<bool, Error> {
    let eh_depth = at::<RawExtentHeader>(i_block, 0).map_or(0, |header| header.eh_depth.get());
    if eh_depth > EXT4_MAX_EXTENT_DEPTH.into() {
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
    let header: &RawExtentHeader = at(node, 0).ok_or("a node of extents is cut off")?;
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
    for extent in (1..=entries).filter_map(|n| at::<RawExtent>(node, n * ENTRY_BYTES)) {
        let ee_block = u64::from(extent.ee_block);
        let blocks = extent.blocks();
        let end = ee_block + u64::from(blocks);
        if blocks == 0 || ee_block < free.start || end > free.end {
            let bounds = format!("{}..{}", free.start, free.end);
            return Err(walk.damaged(&format!("ee_block {ee_block}, ee_len {blocks} not within {bounds}")));
        }
        free.start = end;
        let piece =
            Piece { at: FileBlock(ee_block), first: FsBlock(extent.ee_start()), blocks: blocks.into() };
        if (extent.is_written() || walk.takes_unwritten) && !walk.piece(piece)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn indexes(
    walk: &mut Walk,
    node_bytes: &[u8],
    entries: usize,
    depth: u16,
    range: Range<u64>,
) -> Result<bool, Error> {
    let index = |n: usize| at::<RawExtentIndex>(node_bytes, n * ENTRY_BYTES).filter(|_| n <= entries);
    let mut least = range.start;
    for (n, entry) in (1..=entries).filter_map(|n| Some((n, index(n)?))) {
        let ei_block = u64::from(entry.ei_block);
        let end = index(n + 1).map_or(range.end, |next| next.ei_block.into());
        if ei_block < least || end <= ei_block || end > range.end {
            return Err(walk.damaged(&format!("ei_block {ei_block} not within {least}..{end}")));
        }
        least = end;
        if walk.touches(&(ei_block..end)) {
            let below = walk.node(FsBlock(entry.ei_leaf()))?;
            if !node(walk, &below, depth - 1, ei_block..end)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
