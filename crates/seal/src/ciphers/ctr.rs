//! AES in counter mode (NIST SP 800-38A, section 6.5), with a counter of 128 bits, big-endian.

use aes::Block;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, ParBlocks, consts::U16,
};
use std::hint::black_box;

/// Encrypts or decrypts `data`; its first block is masked with the encryption of `start`.
pub(crate) fn apply<C>(cipher: &C, start: [u8; 16], data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    cipher.encrypt_with_backend(Masking { counter: u128::from_be_bytes(start), data });
}

/// All of a message. The cipher runs it with the processor features of its own code, so that the
/// counters and the sums are as wide as the rounds.
struct Masking<'a> {
    counter: u128,
    data: &'a mut [u8],
}

impl BlockSizeUser for Masking<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Masking<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let (mut counter, blocks) = (self.counter, B::ParBlocksSize::USIZE);
        let mut masks = ParBlocks::<B>::default();
        for chunk in self.data.chunks_mut(16 * blocks) {
            let used = chunk.len().div_ceil(16);
            for mask in &mut masks[..used] {
                *mask = counter.to_be_bytes().into();
                counter = counter.wrapping_add(1);
            }
            if used == blocks {
                backend.encrypt_par_blocks((&mut masks).into());
            } else {
                backend.encrypt_tail_blocks((&mut masks[..used]).into());
            }
            xor(chunk, Block::slice_as_flattened(&masks));
        }
        wipe(&mut masks);
    }
}

/// Clears what may be the masks of secrets. `zeroize` would write it byte by byte, which takes longer
/// than the cipher.
#[inline(always)]
pub(crate) fn wipe<T: Default + Copy>(blocks: &mut [T]) {
    blocks.fill(T::default());
    black_box(blocks);
}

/// Adds `mask` to `data`, over the length of the shorter.
#[inline(always)]
pub(crate) fn xor(data: &mut [u8], mask: &[u8]) {
    for (byte, mask) in data.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// The sum of all columns of `N` bytes of `data`; the last may be shorter.
pub(crate) fn fold<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut sum = [0; N];
    let (columns, rest) = data.as_chunks::<N>();
    for column in columns {
        xor(&mut sum, column);
    }
    xor(&mut sum, rest);
    sum
}

#[cfg(test)]
mod tests {
    use crate::ciphers::ctr::*;
    use aes::cipher::KeyInit;

    /// NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt).
    #[test]
    fn counter_mode_agrees_with_the_standard() {
        let key: [u8; 32] = std::array::from_fn(|at| {
            *b"\x60\x3d\xeb\x10\x15\xca\x71\xbe\x2b\x73\xae\xf0\x85\x7d\x77\x81\x1f\x35\x2c\x07\x3b\x61\x08\xd7\x2d\x98\x10\xa3\x09\x14\xdf\xf4".get(at).unwrap()
        });
        let start: [u8; 16] = std::array::from_fn(|at| 0xf0 + u8::try_from(at).unwrap());
        let mut data = *b"\x6b\xc1\xbe\xe2\x2e\x40\x9f\x96\xe9\x3d\x7e\x11\x73\x93\x17\x2a\xae\x2d\x8a\x57\x1e\x03\xac\x9c\x9e\xb7\x6f\xac\x45\xaf\x8e\x51";
        apply(&aes::Aes256::new(&key.into()), start, &mut data);
        let expected = b"\x60\x1e\xc3\x13\x77\x57\x89\xa5\xb7\xa7\xf5\x04\xbb\xf3\xd2\x28\xf4\x43\xe3\xca\x4d\x62\xb5\x9a\xca\x84\xe9\x90\xca\xca\xf5\xc5";
        assert_eq!(&data, expected);
    }

    #[test]
    fn counter_goes_on_from_batch_to_batch_and_wraps() {
        let cipher = aes::Aes256::new(&[7; 32].into());
        let start = (u128::MAX - 70).to_be_bytes();
        let mut data = vec![0; 3 * 1024 + 5];
        apply(&cipher, start, &mut data);
        for (number, found) in (0..).zip(data.chunks(16)) {
            let mut one = vec![0; found.len()];
            apply(&cipher, (u128::MAX - 70).wrapping_add(number).to_be_bytes(), &mut one);
            assert_eq!(found, one, "block {number}");
        }
    }

    #[test]
    fn fold_adds_a_short_last_column_too() {
        assert_eq!(fold::<4>(&[1, 2, 4, 8, 16, 32]), [17, 34, 4, 8]);
    }
}
