//! How the key of a block is wrapped: as 32 random bytes, which session keys turn into the key by three
//! calls of AES-256.
//!
//! For one who lacks the session keys, keys of different bytes are independent of each other (up to the birthday
//! bound of AES, 2⁶⁴ blocks), so that to alter what is wrapped is to guess a key. For one who has them, bytes and keys
//! map one to one, so that lost bytes are a lost key. Nothing more is needed: the tag of the data commits to its key.

use crate::ctr::{wipe, xor};
use aes::Aes256Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// Bytes of a block's key, and of what stands for it.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the three session keys.
pub(crate) const WRAP_BYTES: usize = 96;

/// The session keys, expanded: A, B, C of `docs/formats/sealing.md`.
pub(crate) struct Wrap([Aes256Enc; 3]);

impl Wrap {
    pub(crate) fn new(keys: &[u8; WRAP_BYTES]) -> Wrap {
        let (keys, _) = keys.as_chunks::<32>();
        Wrap([0, 1, 2].map(|at| Aes256Enc::new((&keys[at]).into())))
    }

    /// The key that `wrapped` stands for. The caller wipes it.
    pub(crate) fn open(&self, wrapped: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
        let [a, b, c] = &self.0;
        let (left, right) = wrapped.split_at(16);
        let mut halves = [aes::Block::try_from(left).expect("16 bytes"); 2];
        a.encrypt_block(&mut halves[0]);
        xor(&mut halves[0], right);
        halves[1] = halves[0];
        b.encrypt_block(&mut halves[0]);
        xor(&mut halves[0], left);
        c.encrypt_block(&mut halves[1]);
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(aes::Block::slice_as_flattened(&halves));
        wipe(&mut halves);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each half of the key depends on each half of what stands for it: no change leaves a half as it was.
    #[test]
    fn every_bit_of_the_wrapped_bytes_changes_both_halves_of_the_key() {
        let wrap = Wrap::new(&std::array::from_fn(|at| u8::try_from(at).expect("96 bytes")));
        let key = wrap.open(&[0x3c; KEY_BYTES]);
        for bit in 0..8 * KEY_BYTES {
            let mut wrapped = [0x3c; KEY_BYTES];
            wrapped[bit / 8] ^= 1 << (bit % 8);
            let other = wrap.open(&wrapped);
            assert!(key[..16] != other[..16] && key[16..] != other[16..], "bit {bit}");
        }
    }

    #[test]
    fn every_session_key_takes_part() {
        let key = Wrap::new(&[1; WRAP_BYTES]).open(&[0x3c; KEY_BYTES]);
        for at in [0, 32, 64] {
            let mut keys = [1; WRAP_BYTES];
            keys[at] ^= 1;
            assert_ne!(Wrap::new(&keys).open(&[0x3c; KEY_BYTES]), key, "key {}", at / 32);
        }
    }
}
