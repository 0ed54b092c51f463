//! The blocks of a file, in the order of the file.

use crate::Error;
use crate::ext::disk::Disk;
use crate::ext::inode::{Content, Inode};
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
    let is_whole = match inode.content {
        Content::Extents => extents::walk(&mut walk, inode.i_block())?,
        Content::Indirect => indirect::walk(&mut walk, inode.pointers())?,
        Content::Inline | Content::Text | Content::Nothing => false,
    };
    if is_whole { walk.finish() } else { Ok(()) }
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
