//! *Cells*: keys of 32 bytes, each of which hides the stubs that it stands for. Destroying a cell destroys all stubs under
//! it, wherever copies of them are. Why cells need no master key: decision 21.

use crate::units::Session;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use std::fmt;

/// Bytes of a cell, of which the last four are a checksum: so a start knows a cell from what passes have left.
pub(crate) const CELL_BYTES: usize = 32;
const SECRET_BYTES: usize = CELL_BYTES - 4;

/// A key that hides stubs. Without the keys of the disk, neither stubs nor cells say anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cell([u8; CELL_BYTES]);

/// A source of cells, from secret random bytes that were drawn elsewhere. What was given out does not follow from what is
/// left (D. J. Bernstein, *Fast-key-erasure random-number generators*, 2017).
pub struct Cells([u8; CELL_BYTES]);

impl Cell {
    /// The cell in these bytes; none if they have another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The cell with these secret bytes, and their checksum instead of the last four.
    fn with_checksum(mut bytes: [u8; CELL_BYTES]) -> Self {
        let crc = crc32c::crc32c(&bytes[..SECRET_BYTES]).to_le_bytes();
        bytes[SECRET_BYTES..].copy_from_slice(&crc);
        Self(bytes)
    }

    /// Whether the checksum fits, and the cell is not the zeros of an empty place.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::with_checksum(self.0)
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Hides the stub of a sealing, or reveals it. The number of a sealing never repeats within its session, and so
    /// neither does the keystream.
    pub fn mask(self, session: Session, number: u32, stub: &mut [u8]) {
        let mut nonce = [0; 12];
        nonce[..2].copy_from_slice(&session.0.to_le_bytes());
        nonce[2..6].copy_from_slice(&number.to_le_bytes());
        self.apply(nonce, stub);
    }

    /// The mark of a sector that was written under this cell: by its sequence in the log, or its number among the homes.
    pub(crate) fn check(self, sequence: u64) -> u64 {
        let (mut nonce, mut check) = ([0xff; 12], [0; 8]);
        nonce[..8].copy_from_slice(&sequence.to_le_bytes());
        self.apply(nonce, &mut check);
        u64::from_le_bytes(check)
    }

    fn apply(self, nonce: [u8; 12], bytes: &mut [u8]) {
        ChaCha20::new(&self.0.into(), &nonce.into()).apply_keystream(bytes);
    }
}

impl Cells {
    /// A source of cells from secret random bytes that serve nothing else.
    #[must_use]
    pub fn new(entropy: [u8; CELL_BYTES]) -> Self {
        Self(entropy)
    }

    /// Splits a source of cells off `entropy`, which is another one from then on.
    #[must_use]
    pub fn split_off(entropy: &mut [u8; CELL_BYTES]) -> Self {
        Self(split_off(entropy))
    }

    pub(crate) fn draw(&mut self) -> Cell {
        Cell::with_checksum(split_off(&mut self.0))
    }
}

/// Splits secret random bytes off `entropy`, which is another secret from then on.
pub(crate) fn split_off(entropy: &mut [u8; CELL_BYTES]) -> [u8; CELL_BYTES] {
    let mut bytes = [[0; CELL_BYTES]; 2];
    Cell(*entropy).apply([0; 12], bytes.as_flattened_mut());
    let [next, split] = bytes;
    *entropy = next;
    split
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell")
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cells")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_differ_and_neither_what_is_left_nor_the_other_source_shows_them() {
        let (mut entropy, mut seen) = ([7; 32], std::collections::BTreeSet::from([[7; 32]]));
        let mut cells = Cells::split_off(&mut entropy);
        assert!(seen.insert(entropy) && seen.insert(cells.0));
        for _ in 0..100 {
            let cell = cells.draw();
            assert!(cell.is_whole() && seen.insert(cell.0) && seen.insert(cells.0));
        }
    }

    #[test]
    fn a_stub_is_revealed_by_its_cell_alone_and_no_two_are_hidden_alike() {
        let mut cells = Cells::new([3; 32]);
        let (one, other) = (cells.draw(), cells.draw());
        let hidden = |cell: Cell, session, number| {
            let mut stub = [0; 64];
            cell.mask(Session(session), number, &mut stub);
            stub
        };
        let all = [(one, 0, 0), (one, 0, 1), (one, 1, 0), (one, 0, 1 << 16), (one, 256, 0), (other, 0, 0)];
        let all = all.map(|(cell, session, number)| hidden(cell, session, number));
        assert!((1..all.len()).all(|n| !all[..n].contains(&all[n])));
        let mut stub = hidden(one, 1, 2);
        one.mask(Session(1), 2, &mut stub);
        assert_eq!(stub, [0; 64]);
    }

    #[test]
    fn the_keystream_is_that_of_the_format() {
        // RFC 8439, appendix A.1, test vectors 1 and 4 (key and counter zero): the nonce of vector 1 is zeros.
        let mut stub = [0; 8];
        Cell([0; 32]).mask(Session(0), 0, &mut stub);
        assert_eq!(stub, [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }
}
