//! Content that lies in its place under a key of its own: as many bytes of ciphertext, sector by sector.

use crate::base::cell::Cell;
use crate::base::units::{Addr, Block, Extent};
use crate::media::sealing::Sealer;
use std::fmt::Debug;

/// Bytes that are encrypted together, and can be written alone.
pub const SECTOR_BYTES: u64 = 512;

/// Encrypts and decrypts sectors, by the master key of a disk. Does no input and output.
pub trait Cipher: Debug + Send + Sync {
    /// Turns whole sectors of `block`, from sector `from` of it on, into ciphertext under `cell`, in place.
    fn encrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]);

    /// Turns ciphertext back into content, in place. A sector of zeros stays one: it is a hole, under any key.
    fn decrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]);
}

/// What a disk's content is sealed and opened with.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// Blocks have stubs.
    Sealer(&'a dyn Sealer),
    /// Blocks lie under cells.
    Cipher(&'a dyn Cipher),
}

/// Part of one block that lies under a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyed {
    /// The cell of the block.
    pub cell: Cell,
    /// The part, as many bytes as its place.
    pub part: Extent<Addr>,
}
