//! How the key of a block is wrapped: as 32 random bytes, which a session key turns into the key by three
//! calls of AES-256.
//!
//! For one who lacks the session key, keys of different bytes are independent of each other (up to the birthday
//! bound of AES, 2⁶⁴ blocks), so that to alter what is wrapped is to guess a key. For one who has them, bytes and keys
//! map one to one, so that lost bytes are a lost key. Nothing more is needed: the tag of the data commits to its key.

use crate::ctr::{wipe, xor};
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use aes::{Aes256Enc, Block};

/// Bytes of a block's key, of what stands for it, and of the session key between them.
pub(crate) const KEY_BYTES: usize = 32;

/// The session key, expanded.
pub(crate) struct Wrap(Aes256Enc);

impl Wrap {
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Wrap {
        Wrap(Aes256Enc::new(key.into()))
    }

    /// The key that `wrapped` stands for. The caller wipes it.
    pub(crate) fn open(&self, wrapped: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        self.0.encrypt_with_backend(Opening { wrapped, key: &mut key });
        key
    }
}

/// Three calls of the cipher in one: each call from outside would prepare its wide round keys.
struct Opening<'a> {
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
        backend.encrypt_block((&mut mixed).into());
        self.key[..16].copy_from_slice(&mixed);
        xor(&mut self.key[..16], left);
        backend.encrypt_block((&mut mixed).into());
        self.key[16..].copy_from_slice(&mixed);
        wipe(&mut mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each half of the key depends on each half of what stands for it: no change leaves a half as it was.
    #[test]
    fn every_bit_of_the_wrapped_bytes_changes_both_halves_of_the_key() {
        let wrap = Wrap::new(&std::array::from_fn(|at| u8::try_from(at).expect("32 bytes")));
        let key = wrap.open(&[0x3c; KEY_BYTES]);
        for bit in 0..8 * KEY_BYTES {
            let mut wrapped = [0x3c; KEY_BYTES];
            wrapped[bit / 8] ^= 1 << (bit % 8);
            let other = wrap.open(&wrapped);
            assert!(key[..16] != other[..16] && key[16..] != other[16..], "bit {bit}");
        }
    }
}
