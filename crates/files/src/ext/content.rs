//! The content of a file: where it lies, and its bytes.

use crate::ext::blocks::{count, pieces};
use crate::ext::disk::{Disk, Stretch};
use crate::ext::inode::{Content, Inode};
use crate::ext::units::Ino;
use crate::ext::xattr;
use crate::{Error, Run};
use quietus_core::base::units::Addr;

/// The content of a file that lies within its inode. What its size has beyond that is a hole.
///
/// # Errors
/// If the attribute with the rest of the content contradicts itself.
pub(super) fn inline(inode: &Inode) -> Result<Vec<u8>, Error> {
    let mut content = inode.i_block().to_vec();
    content.extend(xattr::inline_data(inode)?);
    content.truncate(usize::try_from(inode.i_size).unwrap_or(usize::MAX));
    Ok(content)
}

/// The bytes of a file from byte `at` on, as many as the file has up to `bytes`.
///
/// # Errors
/// If a pointer is impossible, or a block cannot be read.
pub(super) fn read(disk: &mut Disk, inode: &Inode, at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
    let end = at.saturating_add(bytes as u64).min(inode.i_size).max(at);
    if inode.content == Content::Inline {
        let rest = inline(inode)?.into_iter().skip(usize::try_from(at).unwrap_or(usize::MAX));
        let holes = std::iter::repeat(0);
        return Ok(rest.chain(holes).take((end - at) as usize).collect());
    }
    count(disk, inode)?;
    let mut buffer = Buffer { at, content: vec![0; (end - at) as usize] };
    let asked = at / disk.block_bytes()..end.div_ceil(disk.block_bytes());
    pieces(disk, inode, asked, &mut |disk, piece| {
        for stretch in disk.stretches(piece) {
            buffer.fill(disk, &stretch)?;
        }
        Ok(true)
    })?;
    Ok(buffer.content)
}

/// A part of a file's content that is being put together.
struct Buffer {
    /// The first byte of the file.
    at: u64,
    content: Vec<u8>,
}

impl Buffer {
    /// Reads what lies in `stretch`.
    fn fill(&mut self, disk: &mut Disk, stretch: &Stretch) -> Result<(), Error> {
        let (bytes, piece) = (disk.block_bytes(), stretch.piece);
        let first = piece.at.0 * bytes;
        let (start, end) = (first.max(self.at), self.at + self.content.len() as u64);
        let end = end.min(first + piece.blocks * bytes);
        if start >= end {
            return Ok(());
        }
        let found = match stretch.copy {
            Some(_) => {
                let block = disk.block(piece.first)?;
                block.get((start - first) as usize..(end - first) as usize).unwrap_or_default().to_vec()
            }
            None => {
                disk.bytes(piece.first.0.saturating_mul(bytes).saturating_add(start - first), end - start)?
            }
        };
        let into = (start - self.at) as usize;
        self.content[into..into + found.len()].copy_from_slice(&found);
        Ok(())
    }
}

/// Calls `found` for each run of a file, within its size. A block whose copy in the log is escaped has no place with its content.
///
/// # Errors
/// If a pointer is impossible.
pub(super) fn runs(disk: &mut Disk, inode: &Inode, found: &mut dyn FnMut(Run) -> bool) -> Result<(), Error> {
    if inode.content == Content::Inline {
        let bytes = inline(inode)?.len() as u64;
        if bytes > 0 {
            found(Run { at: 0, bytes, place: None });
        }
        return Ok(());
    }
    let asked = 0..count(disk, inode)?;
    pieces(disk, inode, asked, &mut |disk, piece| {
        let bytes = disk.block_bytes();
        Ok(disk.stretches(piece).iter().all(|stretch| found(run(stretch, bytes, inode.i_size))))
    })
}

fn run(stretch: &Stretch, block_bytes: u64, i_size: u64) -> Run {
    let at = stretch.piece.at.0 * block_bytes;
    let place = match stretch.copy {
        Some(copy) if copy.is_escaped => None,
        Some(copy) => Some(copy.block),
        None => Some(stretch.piece.first),
    };
    let bytes = (stretch.piece.blocks * block_bytes).min(i_size - at);
    Run { at, bytes, place: place.map(|block| Addr(block.0 * block_bytes)) }
}

/// Where a symbolic link leads.
///
/// # Errors
/// If the text is empty or exceeds a block, or cannot be read.
pub(super) fn link(disk: &mut Disk, inode: &Inode) -> Result<Vec<u8>, Error> {
    let bytes_max = match inode.content {
        Content::Text => inode.i_block().len() as u64,
        Content::Extents | Content::Indirect | Content::Inline | Content::Nothing => disk.block_bytes(),
    };
    if inode.i_size == 0 || inode.i_size > bytes_max {
        return Err(inode.ino.damaged(&format!("i_size {} of a link", inode.i_size)));
    }
    if inode.content == Content::Text {
        return Ok(inode.i_block()[..inode.i_size as usize].to_vec());
    }
    read(disk, inode, 0, inode.i_size as usize)
}

/// The value of `size` bytes of an extended attribute, from the inode `ino`.
///
/// # Errors
/// If the inode is no such inode, has another size, or cannot be read.
pub(super) fn attribute_value(disk: &mut Disk, ino: Ino, size: u32) -> Result<Vec<u8>, Error> {
    let inode = Inode::read(disk, ino)?;
    if !inode.is_ea_inode() || inode.i_size != u64::from(size) {
        return Err(ino.damaged(&format!("i_size {} of an attribute with {size} bytes", inode.i_size)));
    }
    read(disk, &inode, 0, size as usize)
}
