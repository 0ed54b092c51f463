//! AES in counter mode (NIST SP 800-38A, section 6.5), with a counter of 128 bits, big-endian.

use aes::Block;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, ParBlocks, consts::U16,
};
use std::hint::black_box;

/// Bytes that are folded at once: four of the widest registers.
const FOLDED_BYTES: usize = 256;
/// Bytes of a piece: a block of SHA-256.
const PIECE_BYTES: usize = 64;

/// Encrypts or decrypts `data`; its first block is masked with the encryption of `start`.
pub(crate) fn apply<C>(cipher: &C, start: [u8; 16], data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let (counter, piece) = (u128::from_be_bytes(start), usize::MAX);
    cipher.encrypt_with_backend(Masking { counter, data, piece, each: |_: &[u8]| () });
}

/// As [`apply`], and calls `each` with what each piece of [`PIECE_BYTES`] has become. Pieces are so short that a
/// processor which reorders instructions masks the next one while it still hashes the one before.
pub(crate) fn apply_each<C>(cipher: &C, start: [u8; 16], data: &mut [u8], each: impl FnMut(&[u8]))
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let counter = u128::from_be_bytes(start);
    cipher.encrypt_with_backend(Masking { counter, data, piece: PIECE_BYTES, each });
}

/// All of a message. The cipher runs it with the processor features of its own code, so that the
/// counters and the sums are as wide as the rounds.
struct Masking<'a, F> {
    counter: u128,
    data: &'a mut [u8],
    /// Bytes after which `each` is called, at most.
    piece: usize,
    each: F,
}

impl<F> BlockSizeUser for Masking<'_, F> {
    type BlockSize = U16;
}

impl<F: FnMut(&[u8])> BlockCipherEncClosure for Masking<'_, F> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(mut self, backend: &B) {
        let (mut counter, blocks) = (self.counter, B::ParBlocksSize::USIZE);
        let mut masks = ParBlocks::<B>::default();
        for chunk in self.data.chunks_mut(self.piece.min(16 * blocks)) {
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
            (self.each)(chunk);
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

/// The sum of all columns of `N` bytes of `data`; the last may be shorter. The cipher encrypts nothing: its code has the
/// processor's wide registers.
pub(crate) fn fold<const N: usize>(
    cipher: &impl BlockCipherEncrypt<BlockSize = U16>,
    data: &[u8],
) -> [u8; N] {
    let mut sum = [0; N];
    cipher.encrypt_with_backend(Folding { data, sum: &mut sum });
    sum
}

struct Folding<'a, const N: usize> {
    data: &'a [u8],
    sum: &'a mut [u8; N],
}

impl<const N: usize> BlockSizeUser for Folding<'_, N> {
    type BlockSize = U16;
}

impl<const N: usize> BlockCipherEncClosure for Folding<'_, N> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, _: &B) {
        const { assert!(FOLDED_BYTES.is_multiple_of(N)) }
        let mut wide = [0; FOLDED_BYTES];
        let (columns, rest) = self.data.as_chunks::<FOLDED_BYTES>();
        for column in columns {
            xor(&mut wide, column);
        }
        for column in wide.chunks(N).chain(rest.chunks(N)) {
            xor(self.sum, column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn pieces_are_what_the_whole_is() {
        let cipher = aes::Aes256::new(&[7; 32].into());
        for length in [0, 16, 64, 80, 4096 + 48] {
            let [mut whole, mut pieces] = [vec![5; length], vec![5; length]];
            let mut seen = Vec::new();
            apply(&cipher, [9; 16], &mut whole);
            apply_each(&cipher, [9; 16], &mut pieces, |piece| seen.extend_from_slice(piece));
            assert_eq!((&pieces, &seen), (&whole, &whole), "{length} bytes");
        }
    }

    #[test]
    fn fold_adds_a_short_last_column_too() {
        let cipher = aes::Aes256Enc::new(&[7; 32].into());
        assert_eq!(fold::<4>(&cipher, &[1, 2, 4, 8, 16, 32]), [17, 34, 4, 8]);
        let long: Vec<u8> = (0..=255).cycle().take(3 * 256 + 19).collect();
        let mut sum = [0; 16];
        long.chunks(16).for_each(|column| xor(&mut sum, column));
        assert_eq!(fold::<16>(&cipher, &long), sum);
    }
}
