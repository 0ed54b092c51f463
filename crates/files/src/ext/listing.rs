//! The entries of a folder, from its blocks or its inode.

use crate::ext::blocks::{count, pieces};
use crate::ext::disk::Disk;
use crate::ext::folder::Entries;
use crate::ext::inode::{Content, Inode, generation};
use crate::ext::units::{FsBlock, Ino};
use crate::ext::xattr;
use crate::{Entry, Error, FileId};
use quietus_detect::formats::ext2::raw::I_BLOCK_BYTES;

/// Bytes ahead of the entries of an inline folder: the number of its parent.
const INLINE_PARENT_BYTES: usize = 4;

/// Receives the number of the inode and the name of each entry. `false` ends the listing.
pub(super) type Found<'f> = dyn FnMut(&mut Disk, Ino, &[u8]) -> bool + 'f;

/// Calls `found` for each entry, also behind a block that cannot be read.
///
/// # Errors
/// The first one that was met.
pub(super) fn entries(disk: &mut Disk, folder: &Inode, found: &mut Found) -> Result<(), Error> {
    if folder.content == Content::Inline {
        return inline(disk, folder, found);
    }
    let (asked, mut first) = (0..count(disk, folder)?, Ok(()));
    pieces(disk, folder, asked, &mut |disk, piece| {
        for n in 0..piece.blocks {
            let block = FsBlock(piece.first.0 + n);
            let content = disk.block(block);
            let told = content.and_then(|content| tell(disk, folder, &content, found));
            match told {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => first = std::mem::replace(&mut first, Ok(())).and(Err(error)),
            }
        }
        Ok(true)
    })?;
    first
}

fn inline(disk: &mut Disk, folder: &Inode, found: &mut Found) -> Result<(), Error> {
    let rest = xattr::inline_data(folder)?;
    let size = (folder.i_size as usize).min(I_BLOCK_BYTES + rest.len());
    let head = folder.i_block().get(INLINE_PARENT_BYTES..size.min(I_BLOCK_BYTES)).unwrap_or_default();
    let rest = rest.get(..size.saturating_sub(I_BLOCK_BYTES)).unwrap_or_default();
    if tell(disk, folder, head, found)? {
        tell(disk, folder, rest, found)?;
    }
    Ok(())
}

/// Calls `found` for each entry in `block`. `Ok(false)`: the listing ends.
fn tell(disk: &mut Disk, folder: &Inode, block: &[u8], found: &mut Found) -> Result<bool, Error> {
    for entry in Entries::new(block, disk.superblock.features.filetype) {
        let (ino, name) = entry.map_err(|what| folder.ino.damaged(&what))?;
        if !found(disk, ino, name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The entry with that name and inode. The generation of an inode that cannot be read is 0: the error belongs to that file.
pub(super) fn entry(disk: &mut Disk, ino: Ino, name: &[u8]) -> Entry {
    let generation = generation(disk, ino).unwrap_or(0);
    Entry { name: name.to_vec(), file: FileId { number: ino.0.into(), generation: generation.into() } }
}
