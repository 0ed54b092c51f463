//! The blocks of a file, in the order of the file.

use crate::Error;
use crate::ext::disk::Disk;
use crate::ext::inode::{Content, Inode};
use crate::ext::units::{FsBlock, Piece};
use crate::ext::walk::{Found, Walk};
use crate::ext::{extents, indirect};
use std::ops::Range;

/// Calls `found` for each piece of a file that lies in blocks within `asked`, counted in blocks of the file, until it returns
/// `false`.
///
/// # Errors
/// If a pointer is impossible, or a block of pointers cannot be read; and those of `found`.
pub(super) fn pieces(
    disk: &mut Disk,
    inode: &Inode,
    asked: Range<u64>,
    found: &mut Found,
) -> Result<(), Error> {
    let mut walk = Walk::new(disk, inode.ino, asked, found);
    if walk_from(&mut walk, inode)? { walk.finish() } else { Ok(()) }
}

/// Calls `found` for each piece that a file has, also behind its end, and where it is allocated and not written yet. Returns the
/// blocks of pointers.
///
/// # Errors
/// As of [`pieces`].
pub(super) fn all_pieces(
    disk: &mut Disk,
    inode: &Inode,
    found: &mut dyn FnMut(Piece),
) -> Result<Vec<FsBlock>, Error> {
    let found: &mut Found = &mut |_, piece| {
        found(piece);
        Ok(true)
    };
    let mut walk = Walk::new(disk, inode.ino, 0..u64::MAX, found);
    walk.takes_unwritten = true;
    walk_from(&mut walk, inode)?;
    walk.finish_with_nodes()
}

/// Walks the blocks of a file. `Ok(false)`: the walk was ended, or there are no blocks.
fn walk_from(walk: &mut Walk, inode: &Inode) -> Result<bool, Error> {
    match inode.content {
        Content::Extents => extents::walk(walk, inode.i_block()),
        Content::Indirect => indirect::walk(walk, inode.pointers()),
        Content::Inline | Content::Text | Content::Nothing => Ok(false),
    }
}

/// The number of blocks that the size of a file takes.
///
/// # Errors
/// If no file can be as large.
pub(super) fn count(disk: &Disk, inode: &Inode) -> Result<u64, Error> {
    let blocks = inode.i_size.div_ceil(disk.block_bytes());
    let blocks_max = match inode.content {
        Content::Extents => extents::FILE_BLOCKS_MAX,
        Content::Indirect => indirect::file_blocks_max(disk.block_bytes()),
        Content::Inline | Content::Text | Content::Nothing => 0,
    };
    if blocks <= blocks_max {
        return Ok(blocks);
    }
    Err(inode.ino.damaged(&format!("i_size {} exceeds {blocks_max} blocks", inode.i_size)))
}
