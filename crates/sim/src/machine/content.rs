//! Content that identifies itself.
//!
//! Each write has a [`Tag`] of its own, and each byte that it writes follows
//! from the tag and the byte's address on the disk. So content is recognised
//! wherever it turns up, whatever moved it there: in its place, in a slot of
//! the journal, at any offset.
//!
//! The disk is thought of in cells of [`CELL_BYTES`]. A cell of tagged content
//! is, little-endian: a magic number (4 bytes), the tag (4), the cell's number
//! (4), a checksum (4), and 48 bytes that follow from tag and number. That a
//! random pattern looks like one has a chance of 2^-64 a position.

use crate::machine::rng::mix;
use memchr::memmem::Finder;
use quietus_core::base::units::{Addr, Address, Extent};
use std::ops::Range;
use std::sync::LazyLock;

pub const CELL_BYTES: u64 = 64;
/// Bytes at the start of a cell by which the cell is recognised.
pub const HEAD_BYTES: usize = 16;

const MAGIC: [u8; 4] = [0xd7, 0x1f, 0xe6, 0x93];
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(&MAGIC));

/// Number of a write. Later requests have larger tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(pub u32);

/// A cell's number: its address in cells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell(pub u32);

impl Cell {
    /// The bytes of the cell on the disk.
    pub fn extent(self) -> Extent<Addr> {
        Extent::new(u64::from(self.0) * CELL_BYTES, CELL_BYTES)
    }

    /// The content of the cell as write `tag` writes it.
    pub fn bytes(self, tag: Tag) -> [u8; CELL_BYTES as usize] {
        let mut bytes = [0; CELL_BYTES as usize];
        let root = root(tag, self);
        bytes[..HEAD_BYTES].copy_from_slice(&head(tag, self, root));
        for (n, word) in bytes[HEAD_BYTES..].chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&mix(root ^ (n as u64 + 1)).to_le_bytes());
        }
        bytes
    }
}

/// The number from which a cell's bytes follow. Not 0 for cell 0 of tag 0: a magic number that is
/// cut off, before zeros, is not a head.
fn root(tag: Tag, cell: Cell) -> u64 {
    mix(!((u64::from(tag.0) << 32) | u64::from(cell.0)))
}

fn head(tag: Tag, cell: Cell, root: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&tag.0.to_le_bytes());
    head[8..12].copy_from_slice(&cell.0.to_le_bytes());
    head[12..].copy_from_slice(&root.to_le_bytes()[..4]);
    head
}

/// Fills `into` with the content of write `tag` from address `start` on.
pub fn fill(tag: Tag, start: u64, into: &mut [u8]) {
    for (cell, from, to) in cells(start, into.len()) {
        let at = (u64::from(cell.0) * CELL_BYTES).saturating_sub(start) as usize;
        into[at..at + (to - from)].copy_from_slice(&cell.bytes(tag)[from..to]);
    }
}

/// Whether `bytes` are the content of write `tag` from address `start` on.
pub fn is_content(tag: Tag, start: u64, bytes: &[u8]) -> bool {
    cells(start, bytes.len()).all(|(cell, from, to)| {
        let at = (u64::from(cell.0) * CELL_BYTES).saturating_sub(start) as usize;
        bytes[at..at + (to - from)] == cell.bytes(tag)[from..to]
    })
}

/// The cells of `len` bytes from `start`, each with the part of it that counts.
fn cells(start: u64, len: usize) -> impl Iterator<Item = (Cell, usize, usize)> {
    let end = start + len as u64;
    (start / CELL_BYTES..end.div_ceil(CELL_BYTES)).map(move |cell| {
        let base = cell * CELL_BYTES;
        let (from, to) = (start.max(base) - base, end.min(base + CELL_BYTES) - base);
        (Cell(cell as u32), from as usize, to as usize)
    })
}

/// Tagged content that was recognised in some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Offset of the cell in the bytes.
    pub at: usize,
    pub tag: Tag,
    /// The cell of the disk whose content it is.
    pub cell: Cell,
}

/// Finds all content that can be recognised in `bytes`, at any offset.
pub fn marks(bytes: &[u8]) -> impl Iterator<Item = Mark> + '_ {
    FINDER.find_iter(bytes).filter_map(|at| {
        let found = bytes.get(at..at + HEAD_BYTES)?;
        let number = |from: usize| Some(u32::from_le_bytes(found[from..from + 4].try_into().ok()?));
        let (tag, cell) = (Tag(number(4)?), Cell(number(8)?));
        (found == head(tag, cell, root(tag, cell))).then_some(Mark { at, tag, cell })
    })
}

/// The bytes of `extent`'s space as indices into a slice that begins at `base`.
pub fn indices<A: Address>(extent: Extent<A>, base: u64) -> Range<usize> {
    (extent.start.get() - base) as usize..(extent.end() - base) as usize
}

#[cfg(test)]
mod tests;
