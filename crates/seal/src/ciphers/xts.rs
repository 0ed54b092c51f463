//! AES-256 in XTS mode (IEEE 1619), for whole AES blocks: what disk encryption does today.

use crate::ciphers::ctr::wipe;
use aes::cipher::consts::{U16, U32};
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, KeySizeUser};
use aes::{Aes256, Aes256Enc, Block};

/// Bytes of the two keys: data, then tweak.
pub(crate) const KEY_BYTES: usize = 64;
/// Bytes of a sector: a part of a data unit that is encrypted alone begins with one.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Bytes of a batch: so many that the cipher never loads what was only just stored in smaller pieces.
const BATCH_BYTES: usize = 4096;

/// Tweaks that are computed side by side.
const LANES: usize = 8;

/// Both keys, expanded: that of the data for what `C` does.
pub(crate) struct Xts<C = Aes256> {
    data: C,
    tweak: Aes256Enc,
}

impl<C: KeyInit + KeySizeUser<KeySize = U32>> Xts<C> {
    pub(crate) fn new(keys: &[u8; KEY_BYTES]) -> Self {
        let (halves, _) = keys.as_chunks::<32>();
        Self { data: C::new((&halves[0]).into()), tweak: Aes256Enc::new((&halves[1]).into()) }
    }
}

impl<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>> Xts<C> {
    /// Encrypts whole AES blocks in place, as the data unit of number `unit` from sector `from` on.
    pub(crate) fn encrypt(&self, unit: u128, from: usize, data: &mut [u8]) {
        self.apply(unit, from, data, |blocks| self.data.encrypt_blocks(blocks));
    }
}

impl<C: BlockCipherDecrypt + BlockSizeUser<BlockSize = U16>> Xts<C> {
    /// Decrypts whole AES blocks in place.
    pub(crate) fn decrypt(&self, unit: u128, from: usize, data: &mut [u8]) {
        self.apply(unit, from, data, |blocks| self.data.decrypt_blocks(blocks));
    }
}

impl<C> Xts<C> {
    fn apply(&self, unit: u128, from: usize, data: &mut [u8], cipher: impl Fn(&mut [Block])) {
        let mut first = unit.to_le_bytes().into();
        self.tweak.encrypt_block(&mut first);
        let tweak = (0..from).fold(u128::from_le_bytes(first.into()), |tweak, _| next_sector(tweak));
        let (blocks, _) = data.as_chunks_mut::<16>();
        // The least write, one sector, does not clear the tweaks of eight.
        match blocks.len() * 16 {
            ..=SECTOR_BYTES => apply_in_batches::<{ SECTOR_BYTES / 16 }>(tweak, blocks, cipher),
            _ => apply_in_batches::<{ BATCH_BYTES / 16 }>(tweak, blocks, cipher),
        }
    }
}

fn apply_in_batches<const COUNT: usize>(first: u128, blocks: &mut [[u8; 16]], cipher: impl Fn(&mut [Block])) {
    let mut tweaks = Tweaks { low: [0; COUNT], high: [0; COUNT] };
    let mut next = first;
    for batch in blocks.chunks_mut(COUNT) {
        next = tweaks.fill(next, batch.len());
        tweaks.xor(batch);
        cipher(Block::cast_slice_from_core_mut(batch));
        tweaks.xor(batch);
    }
    tweaks.wipe();
}

/// Tweaks of some blocks in a row: their halves lie apart, so that one instruction computes several of them.
struct Tweaks<const COUNT: usize> {
    low: [u64; COUNT],
    high: [u64; COUNT],
}

impl<const COUNT: usize> Tweaks<COUNT> {
    /// Makes `count` of them from `first` on. Returns the one after them.
    fn fill(&mut self, first: u128, count: usize) -> u128 {
        let mut tweak = first;
        for n in 0..LANES {
            (self.low[n], self.high[n]) = (tweak as u64, (tweak >> 64) as u64);
            tweak = double(tweak);
        }
        for n in LANES..count.min(COUNT) {
            // The product with x⁸ in GF(2¹²⁸) is the tweak LANES later.
            let (low, high) = (self.low[n - LANES], self.high[n - LANES]);
            let out = high >> 56;
            self.high[n] = high << 8 | low >> 56;
            self.low[n] = (low << 8) ^ out ^ (out << 1) ^ (out << 2) ^ (out << 7);
        }
        let last = u128::from(self.low[count - 1]) | u128::from(self.high[count - 1]) << 64;
        double(last)
    }

    fn xor(&self, blocks: &mut [[u8; 16]]) {
        for (block, (low, high)) in blocks.iter_mut().zip(self.low.iter().zip(&self.high)) {
            let tweak = u128::from(*low) | u128::from(*high) << 64;
            *block = (u128::from_le_bytes(*block) ^ tweak).to_le_bytes();
        }
    }

    fn wipe(&mut self) {
        wipe(&mut self.low);
        wipe(&mut self.high);
    }
}

/// The product with x³² in GF(2¹²⁸): the tweak of the next sector.
fn next_sector(tweak: u128) -> u128 {
    let out = tweak >> 96;
    (tweak << 32) ^ out ^ (out << 1) ^ (out << 2) ^ (out << 7)
}

/// The product with x in GF(2¹²⁸).
fn double(tweak: u128) -> u128 {
    (tweak << 1) ^ if tweak >> 127 == 1 { 0x87 } else { 0 }
}

#[cfg(test)]
mod tests {
    use crate::ciphers::xts::*;
    use aes::Aes256Dec;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// IEEE 1619-2007, annex B, vector 10: the start of its ciphertext.
    #[test]
    fn xts_agrees_with_the_standard() {
        let keys = bytes(concat!(
            "2718281828459045235360287471352662497757247093699959574966967627",
            "3141592653589793238462643383279502884197169399375105820974944592"
        ));
        let xts = Xts::<Aes256>::new(keys[..].try_into().unwrap());
        let plain: Vec<u8> = (0..=255).cycle().take(512).collect();
        let mut data = plain.clone();
        xts.encrypt(0xff, 0, &mut data);
        let start = "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d66b317f9ac683f44680a86ac35adfc3345befecb4bb188fd";
        assert_eq!(&data[..64], bytes(start));
        xts.decrypt(0xff, 0, &mut data);
        assert_eq!(data, plain);
    }

    #[test]
    fn tweaks_side_by_side_are_those_one_after_the_other() {
        for count in 1..40 {
            let (mut tweaks, mut tweak) =
                (Tweaks { low: [0; 40], high: [0; 40] }, 0x8000_0000_0000_1234_9abc_def0_ffff_0001_u128);
            let after = tweaks.fill(tweak, count);
            let mut blocks = vec![[0; 16]; count];
            tweaks.xor(&mut blocks);
            for block in blocks {
                assert_eq!(block, tweak.to_le_bytes(), "of {count}");
                tweak = double(tweak);
            }
            assert_eq!(after, tweak, "of {count}");
        }
    }

    #[test]
    fn sectors_of_a_data_unit_are_encrypted_together_as_they_are_one_by_one() {
        let keys: [u8; KEY_BYTES] = std::array::from_fn(|at| u8::try_from(at * 3).unwrap());
        let (both, closes, opens) =
            (Xts::<Aes256>::new(&keys), Xts::<Aes256Enc>::new(&keys), Xts::<Aes256Dec>::new(&keys));
        for unit in 0..20 {
            let plain: Vec<u8> = (0..=255).cycle().take(9 * SECTOR_BYTES).collect();
            let mut whole = plain.clone();
            both.encrypt(unit, 0, &mut whole);
            for from in 0..9 {
                for to in from + 1..=9 {
                    let part = from * SECTOR_BYTES..to * SECTOR_BYTES;
                    let mut data = plain[part.clone()].to_vec();
                    closes.encrypt(unit, from, &mut data);
                    assert_eq!(data, whole[part.clone()], "sectors {from} to {to} of unit {unit}");
                    opens.decrypt(unit, from, &mut data);
                    assert_eq!(data, plain[part], "sectors {from} to {to} of unit {unit}");
                }
            }
        }
    }
}
