//! Blocks as a replay of the journal leaves them: the newest committed copy in the log, else what lies at the block itself.
//!
//! 1. A block beyond the file system, or beyond the source, is an error that names the block.
//! 2. The log itself is read in its place, without its copies.

use crate::ext::superblock::Superblock;
use crate::ext::units::{FsBlock, Piece};
use crate::{Error, Source, Unread};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::jbd2::MAGIC;
use std::collections::BTreeMap;

/// A copy of a block in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Copy {
    /// The block of the file system that holds the copy.
    pub block: FsBlock,
    /// The copy has zeros in place of the log's magic number.
    pub is_escaped: bool,
}

/// The newest committed copy of each block in the log, by the block's number.
pub(super) type Copies = BTreeMap<FsBlock, Copy>;

/// A part of a piece that lies in one place of the source.
pub(super) struct Stretch {
    /// The blocks of the file, and where they belong.
    pub piece: Piece,
    /// The copy that stands for the one block of `piece`.
    pub copy: Option<Copy>,
}

/// A source, with the layout of the file system in it.
pub(super) struct Disk<'a> {
    source: &'a mut dyn Source,
    pub superblock: &'a Superblock,
    copies: &'a Copies,
    /// The block of descriptors and the block of inodes that were read last: a folder names neighbours.
    last: [Option<(FsBlock, Vec<u8>)>; 2],
}

/// Blocks of which the one that was read last is kept.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// Blocks of group descriptors.
    Descriptors,
    /// Blocks of inode tables.
    Inodes,
}

impl<'a> Disk<'a> {
    pub fn new(source: &'a mut dyn Source, superblock: &'a Superblock, copies: &'a Copies) -> Self {
        Self { source, superblock, copies, last: [None, None] }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.superblock.block_bytes().into()
    }

    /// Checks that `blocks` blocks from `first` on can hold content.
    pub fn check(&self, first: FsBlock, blocks: u64) -> Result<(), String> {
        let end = first.0.checked_add(blocks).filter(|end| *end <= self.superblock.s_blocks_count);
        let is_within = end.is_some() && first.0 > 0;
        let count = self.superblock.s_blocks_count;
        if is_within { Ok(()) } else { Err(format!("blocks {}+{blocks} of {count}", first.0)) }
    }

    /// The content of a block.
    pub fn block(&mut self, block: FsBlock) -> Result<Vec<u8>, Error> {
        let Some(copy) = self.copies.get(&block).copied() else { return self.in_place(block) };
        let mut content = self.in_place(copy.block)?;
        if let Some(start) = content.first_chunk_mut().filter(|_| copy.is_escaped) {
            *start = MAGIC.to_be_bytes();
        }
        Ok(content)
    }

    /// The content of a block as it lies on the disk, whatever the log says.
    pub fn in_place(&mut self, block: FsBlock) -> Result<Vec<u8>, Error> {
        let (bytes, count) = (self.block_bytes(), self.superblock.s_blocks_count);
        let start = block.0.checked_mul(bytes).filter(|_| block.0 < count);
        let beyond = || Error::Damaged(format!("block {} lies beyond {count} (s_blocks_count)", block.0));
        self.bytes(start.ok_or_else(beyond)?, bytes)
    }

    /// The content of a block, kept until the next one of this kind is read.
    pub fn kept(&mut self, kept: Kept, block: FsBlock) -> Result<&[u8], Error> {
        let slot = kept as usize;
        if self.last[slot].as_ref().is_none_or(|(number, _)| *number != block) {
            self.last[slot] = None;
            self.last[slot] = Some((block, self.block(block)?));
        }
        Ok(self.last[slot].as_ref().map_or(&[], |(_, content)| content))
    }

    /// `len` bytes of the source from byte `start` on.
    pub fn bytes(&mut self, start: u64, len: u64) -> Result<Vec<u8>, Error> {
        let size = self.source.bytes();
        let extent = Extent::<Addr>::within(start, len, size);
        let beyond = || Error::Damaged(format!("bytes {start}+{len} lie beyond the disk of {size} bytes"));
        let found = self.source.read(extent.ok_or_else(beyond)?)?;
        if found.len() as u64 != len {
            return Err(Unread(format!("{} bytes of {len} at byte {start}", found.len())).into());
        }
        Ok(found)
    }

    /// The parts of `piece` that lie in one place each.
    pub fn stretches(&self, piece: Piece) -> Vec<Stretch> {
        let (mut found, mut from) = (Vec::new(), piece.at.0);
        let end = piece.at.0.saturating_add(piece.blocks);
        let plain = |from, to| piece.within(from, to).map(|piece| Stretch { piece, copy: None });
        let last = FsBlock(piece.first.0.saturating_add(piece.blocks));
        for (block, copy) in self.copies.range(piece.first..last) {
            let at = piece.at.0 + (block.0 - piece.first.0);
            found.extend(plain(from, at));
            found.extend(piece.within(at, at + 1).map(|piece| Stretch { piece, copy: Some(*copy) }));
            from = at + 1;
        }
        found.extend(plain(from, end));
        found
    }
}
