//! Encryption of blocks in their places, each under a cell of its own: AES-256-XTS, by `docs/formats/sealing.md`.

use crate::ciphers::mac::derive;
use crate::ciphers::xts::{KEY_BYTES, SECTOR_BYTES, Xts};
use crate::sealer::MasterKey;
use aes::cipher::consts::U32;
use aes::cipher::{KeyInit, KeySizeUser};
use aes::{Aes256Dec, Aes256Enc};
use quietus_core::base::cell::Cell;
use quietus_core::base::memory;
use quietus_core::base::units::{BLOCK_BYTES, Block};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::cipher::Cipher;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// What the key of all blocks is derived for.
const PURPOSE: &[u8] = b"quietus sealed blocks v1";

/// Encrypts and decrypts the sectors of a disk. The keys of a block follow from the disk's key and the block's cell; they are derived for
/// each call, so that they go with the cell, and what that leaves on the stack is overwritten.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SectorCipher([u8; 32]);

impl SectorCipher {
    /// The cipher of a disk with this master key.
    #[must_use]
    pub fn new(master: &MasterKey) -> Self {
        Self(*derive(&[master.as_bytes()], &[], &[PURPOSE]))
    }

    /// The cipher of a disk without a credential: its cells are its only secrets.
    #[must_use]
    pub fn new_without_master() -> Self {
        Self([0; 32])
    }

    /// Has `work` done with the keys of a block, and wipes them.
    #[inline(never)]
    fn with_keys<C: KeyInit + KeySizeUser<KeySize = U32>>(
        &self,
        block: Block,
        cell: &Cell,
        work: impl FnOnce(&Xts<C>),
    ) {
        let mut keys = Zeroizing::new([0; KEY_BYTES]);
        self.derive(block, cell, &mut keys);
        work(&Xts::new(&keys));
    }

    /// The keys of a block: of the data, then of the tweak.
    #[inline(never)]
    fn derive(&self, block: Block, cell: &Cell, keys: &mut [u8; KEY_BYTES]) {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(cell.bytes()).update(&block.0.to_le_bytes());
        hasher.finalize_xof().fill(keys);
    }
}

impl Cipher for SectorCipher {
    fn encrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        assert_in_block(from, content);
        self.with_keys::<Aes256Enc>(block, cell, |xts| xts.encrypt(block.0.into(), from, content));
        memory::wipe_stack();
    }

    fn decrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        assert_in_block(from, content);
        if is_zeros(content) {
            return;
        }
        self.with_keys::<Aes256Dec>(block, cell, |xts| {
            let (sectors, _) = content.as_chunks_mut::<SECTOR_BYTES>();
            let mut at = from;
            for run in sectors.chunk_by_mut(|one, next| is_zeros(one) == is_zeros(next)) {
                if !is_zeros(&run[0]) {
                    xts.decrypt(block.0.into(), at, run.as_flattened_mut());
                }
                at += run.len();
            }
        });
        memory::wipe_stack();
    }
}

fn assert_in_block(from: usize, content: &[u8]) {
    let is_whole = content.len().is_multiple_of(SECTOR_BYTES) && !content.is_empty();
    let ends_in_block = from * SECTOR_BYTES + content.len() <= BLOCK_BYTES as usize;
    assert!(
        is_whole && ends_in_block,
        "{} bytes from sector {from} on are sectors of a block",
        content.len()
    );
}

impl fmt::Debug for SectorCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SectorCipher")
    }
}

#[cfg(test)]
mod tests {
    use crate::cipher::*;

    const SECTOR: usize = SECTOR_BYTES;

    fn cell(byte: u8) -> Cell {
        Cell::from_bytes(&[byte; 32]).unwrap()
    }

    fn cipher() -> SectorCipher {
        SectorCipher::new(&MasterKey::new(&[0x42; 32]))
    }

    fn content() -> Vec<u8> {
        (0..BLOCK_BYTES).map(|at| (at % 251) as u8).collect()
    }

    fn encrypted(cipher: &SectorCipher, block: u64, cell: &Cell) -> Vec<u8> {
        let mut content = content();
        cipher.encrypt(Block(block), cell, 0, &mut content);
        content
    }

    #[test]
    fn content_opens_under_its_master_key_block_and_cell_alone() {
        let (right, other) = (cipher(), SectorCipher::new(&MasterKey::new(&[0x43; 32])));
        let sealed = encrypted(&right, 7, &cell(1));
        let opened = |cipher: &SectorCipher, block, cell| {
            let mut content = sealed.clone();
            cipher.decrypt(Block(block), &cell, 0, &mut content);
            content
        };
        assert!(opened(&right, 7, cell(1)) == content());
        for (cipher, block, cell) in [
            (&right, 8, cell(1)),
            (&right, 7 | 1 << 63, cell(1)),
            (&right, 7, cell(2)),
            (&other, 7, cell(1)),
            (&SectorCipher::new_without_master(), 7, cell(1)),
        ] {
            let wrong = opened(cipher, block, cell);
            assert!(wrong.chunks(16).zip(content().chunks(16)).all(|(one, other)| one != other), "{block}");
        }
    }

    #[test]
    fn sectors_alone_are_as_they_are_in_their_block() {
        let (cipher, whole) = (cipher(), encrypted(&cipher(), 7, &cell(1)));
        for from in 0..8 {
            for to in from + 1..=8 {
                let part = from * SECTOR..to * SECTOR;
                let mut sectors = content()[part.clone()].to_vec();
                cipher.encrypt(Block(7), &cell(1), from, &mut sectors);
                assert!(sectors == whole[part.clone()], "{from}..{to}");
                cipher.decrypt(Block(7), &cell(1), from, &mut sectors);
                assert!(sectors == content()[part], "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_hole_stays_zeros_wherever_it_is_and_content_of_zeros_is_ciphertext() {
        let cipher = cipher();
        let mut zeros = vec![0; 8 * SECTOR];
        cipher.encrypt(Block(7), &cell(1), 0, &mut zeros);
        assert!(zeros.chunks(16).all(|part| !is_zeros(part)));
        cipher.decrypt(Block(7), &cell(1), 0, &mut zeros);
        assert!(is_zeros(&zeros));
        for holes in 0_u32..256 {
            let (mut sealed, mut expected) = (encrypted(&cipher, 7, &cell(1)), content());
            for hole in (0..8).filter(|n| holes >> n & 1 == 1) {
                for bytes in [&mut sealed, &mut expected] {
                    bytes[hole * SECTOR..][..SECTOR].fill(0);
                }
            }
            cipher.decrypt(Block(7), &cell(1), 0, &mut sealed);
            assert!(sealed == expected, "{holes:b}");
        }
        // A sector all of whose bytes but one are zeros is no hole.
        for at in [0, SECTOR - 1] {
            let mut sector = vec![0; SECTOR];
            sector[at] = 1;
            cipher.decrypt(Block(7), &cell(1), 3, &mut sector);
            assert!(sector.chunks(16).all(|part| !is_zeros(part)));
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        assert_eq!(format!("{:?}", cipher()), "SectorCipher");
    }

    #[test]
    #[should_panic(expected = "sectors of a block")]
    fn sectors_behind_the_end_of_the_block_are_refused() {
        cipher().encrypt(Block(0), &cell(1), 1, &mut [0; 8 * SECTOR]);
    }

    #[test]
    #[should_panic(expected = "sectors of a block")]
    fn a_part_of_a_sector_is_refused() {
        cipher().decrypt(Block(0), &cell(1), 0, &mut [0; 511]);
    }
}
