//! A walk along the pointers of a file: the limits of what may be visited, and the pieces that come out.
//!
//! 1. A file has each of its blocks once. A walk that meets more blocks than the file system has ends with an error, so that
//!    loops of pointers end.
//! 2. Pieces are given in the order of the file, joined where they follow one another, and within the asked range.

use crate::Error;
use crate::ext::disk::Disk;
use crate::ext::units::{FileBlock, FsBlock, Ino, Piece};
use std::ops::Range;

/// Receives the pieces of a file. `false` ends the walk.
pub(super) type Found<'f> = dyn FnMut(&mut Disk, Piece) -> Result<bool, Error> + 'f;

pub(super) struct Walk<'w, 'd, 'f> {
    pub disk: &'w mut Disk<'d>,
    pub ino: Ino,
    /// The blocks of the file that are asked for.
    pub asked: Range<u64>,
    found: &'w mut Found<'f>,
    /// A piece that the next one may continue.
    pending: Option<Piece>,
    /// Blocks that may still be visited.
    budget: u64,
    /// Whether space that is allocated and not written yet counts, too: it is a hole to a reader.
    pub takes_unwritten: bool,
    /// The blocks of pointers that were visited.
    pub nodes: Vec<FsBlock>,
}

impl<'w, 'd, 'f> Walk<'w, 'd, 'f> {
    pub fn new(disk: &'w mut Disk<'d>, ino: Ino, asked: Range<u64>, found: &'w mut Found<'f>) -> Self {
        let budget = disk.superblock.s_blocks_count;
        Self { disk, ino, asked, found, pending: None, budget, takes_unwritten: false, nodes: Vec::new() }
    }

    /// Whether some block of `range` is asked for.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        range.start < self.asked.end && self.asked.start < range.end
    }

    /// The content of the block of pointers `block`.
    pub fn node(&mut self, block: FsBlock) -> Result<Vec<u8>, Error> {
        self.spend(block, 1)?;
        self.nodes.push(block);
        self.disk.block(block)
    }

    /// Takes note of `piece`. `Ok(false)`: the walk ends.
    pub fn piece(&mut self, piece: Piece) -> Result<bool, Error> {
        let Some(piece) = piece.within(self.asked.start, self.asked.end) else { return Ok(true) };
        self.spend(piece.first, piece.blocks)?;
        match &mut self.pending {
            Some(pending) if pending.is_continued_by(piece) => pending.blocks += piece.blocks,
            _ => return self.replace(Some(piece)),
        }
        Ok(true)
    }

    /// Gives the last piece.
    pub fn finish(mut self) -> Result<(), Error> {
        self.replace(None).map(|_| ())
    }

    /// The same, and returns the blocks of pointers that were visited.
    pub fn finish_with_nodes(mut self) -> Result<Vec<FsBlock>, Error> {
        self.replace(None)?;
        Ok(self.nodes)
    }

    fn replace(&mut self, next: Option<Piece>) -> Result<bool, Error> {
        match std::mem::replace(&mut self.pending, next) {
            Some(piece) => (self.found)(self.disk, piece),
            None => Ok(true),
        }
    }

    /// Checks that the blocks exist, and that the file does not have more blocks than the file system.
    fn spend(&mut self, first: FsBlock, blocks: u64) -> Result<(), Error> {
        self.disk.check(first, blocks).map_err(|beyond| self.damaged(&format!("pointer to {beyond}")))?;
        let left = self.budget.checked_sub(blocks);
        self.budget = left.ok_or_else(|| self.damaged("pointers to more blocks than s_blocks_count"))?;
        Ok(())
    }

    pub fn damaged(&self, what: &str) -> Error {
        self.ino.damaged(what)
    }
}

impl Piece {
    /// The one block `block` of the disk, at block `at` of the file.
    pub fn single(at: u64, block: u64) -> Self {
        Self { at: FileBlock(at), first: FsBlock(block), blocks: 1 }
    }
}
