//! Pointers in `i_block`, and blocks of pointers of up to three levels.

use crate::Error;
use crate::ext::bytes::at;
use crate::ext::units::{FsBlock, Piece};
use crate::ext::walk::Walk;
use zerocopy::little_endian::U32;

/// Number of direct pointers in `i_block`; one pointer of each level of indirection follows.
const EXT2_NDIR_BLOCKS: u64 = 12;
const LEVELS_MAX: u32 = 3;
const POINTER_BYTES: u64 = 4;

/// Blocks of a file that a pointer of `level` reaches.
fn span(block_bytes: u64, level: u32) -> u64 {
    (block_bytes / POINTER_BYTES).pow(level)
}

/// Most blocks of a file.
pub(super) fn file_blocks_max(block_bytes: u64) -> u64 {
    EXT2_NDIR_BLOCKS + (1..=LEVELS_MAX).map(|level| span(block_bytes, level)).sum::<u64>()
}

/// Walks the pointers of `i_block`. `Ok(false)`: the walk was ended.
pub(super) fn walk(walk: &mut Walk, i_block: [u32; 15]) -> Result<bool, Error> {
    let mut from = 0;
    for (n, block) in (0_u64..).zip(i_block) {
        let level = (n + 1).saturating_sub(EXT2_NDIR_BLOCKS) as u32;
        if !pointer(walk, block.into(), level, from)? {
            return Ok(false);
        }
        from += span(walk.disk.block_bytes(), level);
    }
    Ok(true)
}

/// Walks what a pointer of `level` reaches, from block `from` of the file on. A pointer of 0 is a hole.
fn pointer(walk: &mut Walk, block: u64, level: u32, from: u64) -> Result<bool, Error> {
    let reach = span(walk.disk.block_bytes(), level);
    if block == 0 || !walk.touches(&(from..from + reach)) {
        return Ok(true);
    }
    if level == 0 {
        return walk.piece(Piece::single(from, block));
    }
    let (node, below) = (walk.node(FsBlock(block))?, reach / span(walk.disk.block_bytes(), 1));
    for n in 0..node.len() / POINTER_BYTES as usize {
        let block = at::<U32>(&node, n * POINTER_BYTES as usize).map_or(0, |it| u64::from(it.get()));
        if !pointer(walk, block, level - 1, from + n as u64 * below)? {
            return Ok(false);
        }
    }
    Ok(true)
}
