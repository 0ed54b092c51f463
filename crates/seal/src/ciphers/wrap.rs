//! How the key of a block is wrapped: as 32 random bytes, which the keys of a session turn into the block's key by three
//! calls of AES-256.
//!
//! For one who lacks the session's keys, the keys of different bytes are independent of each other (up to the birthday
//! bound of AES, 2⁶⁴ blocks), also where some of them leak, so that to alter what is wrapped is to guess a key. For one
//! who has them, bytes and keys map one to one, so that lost bytes are a lost key. Nothing more is needed: the tag of the
//! data commits to its key.

use crate::ciphers::ctr::{wipe, xor};
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use aes::{Aes256Enc, Block};
use zeroize::ZeroizeOnDrop;

/// Bytes of a block's key, and of what stands for it.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the session's keys: W, L₁, L₂ of `docs/formats/sealing.md`.
pub(crate) const WRAP_BYTES: usize = 64;

/// The session's keys: W, expanded, and the two masks.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Wrap {
    cipher: Aes256Enc,
    masks: [[u8; 16]; 2],
}

impl Wrap {
    pub(crate) fn new(keys: &[u8; WRAP_BYTES]) -> Wrap {
        let (cipher, masks) = keys.split_at(32);
        let masks = std::array::from_fn(|half| std::array::from_fn(|at| masks[16 * half + at]));
        Wrap { cipher: Aes256Enc::new_from_slice(cipher).expect("32 bytes"), masks }
    }

    /// The key that `wrapped` stands for. The caller wipes it.
    pub(crate) fn open(&self, wrapped: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        self.cipher.encrypt_with_backend(Opening { masks: &self.masks, wrapped, key: &mut key });
        key
    }
}

/// Three calls of the cipher in one: each call from outside would prepare its wide round keys.
struct Opening<'a> {
    masks: &'a [[u8; 16]; 2],
    wrapped: &'a [u8; KEY_BYTES],
    key: &'a mut [u8; KEY_BYTES],
}

impl BlockSizeUser for Opening<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Opening<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let (left, right) = self.wrapped.split_at(16);
        let mut mixed = Block::try_from(left).expect("16 bytes");
        backend.encrypt_block((&mut mixed).into());
        xor(&mut mixed, right);
        let mut halves = [mixed; 2];
        for (half, mask) in halves.iter_mut().zip(self.masks) {
            xor(half, mask);
            backend.encrypt_block(half.into());
        }
        xor(&mut halves[0], left);
        self.key.copy_from_slice(Block::slice_as_flattened(&halves));
        wipe(&mut halves);
        wipe(std::slice::from_mut(&mut mixed));
    }
}

#[cfg(test)]
mod tests {
    use crate::ciphers::wrap::*;

    fn wrap() -> Wrap {
        Wrap::new(&std::array::from_fn(|at| u8::try_from(at).expect("64 bytes")))
    }

    /// Each half of the key depends on each half of what stands for it: no change leaves a half as it was.
    #[test]
    fn every_bit_of_the_wrapped_bytes_changes_both_halves_of_the_key() {
        let wrap = wrap();
        let key = wrap.open(&[0x3c; KEY_BYTES]);
        for bit in 0..8 * KEY_BYTES {
            let mut wrapped = [0x3c; KEY_BYTES];
            wrapped[bit / 8] ^= 1 << (bit % 8);
            let other = wrap.open(&wrapped);
            assert!(key[..16] != other[..16] && key[16..] != other[16..], "bit {bit}");
        }
    }

    /// If both masks were zeros, a key would show an input of the cipher and its output, and so half of the key of bytes
    /// that are made of them.
    #[test]
    fn a_key_that_leaks_foretells_no_half_of_another() {
        let wrap = wrap();
        let mut shown = wrap.open(&[0x3c; KEY_BYTES]);
        xor(&mut shown[..16], &[0x3c; 16]);
        let (input, output) = shown.split_at(16);
        assert_ne!(input, output, "the masks are equal");
        let mut chosen = shown;
        xor(&mut chosen[16..], input);
        assert_ne!(wrap.open(&chosen)[..16], chosen[16..], "the first half was foretold");
    }
}
