//! AES-256 in XTS mode (IEEE 1619), for whole AES blocks: what disk encryption does today.

use crate::ciphers::ctr::{wipe, xor};
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Block};

/// Bytes of the two keys: data, then tweak.
pub(crate) const KEY_BYTES: usize = 64;
/// Blocks of a batch: 4 KiB, so that the cipher never loads what was only just stored in smaller pieces.
const BATCH_BLOCKS: usize = 256;

/// Both keys, expanded.
pub(crate) struct Xts {
    data: Aes256,
    tweak: Aes256,
}

impl Xts {
    pub(crate) fn new(keys: &[u8; KEY_BYTES]) -> Xts {
        let (halves, _) = keys.as_chunks::<32>();
        Xts { data: Aes256::new((&halves[0]).into()), tweak: Aes256::new((&halves[1]).into()) }
    }

    /// Encrypts whole AES blocks in place, as the data unit of number `unit`.
    pub(crate) fn encrypt(&self, unit: u128, data: &mut [u8]) {
        self.apply(unit, data, |blocks| self.data.encrypt_blocks(blocks));
    }

    /// Decrypts whole AES blocks in place.
    pub(crate) fn decrypt(&self, unit: u128, data: &mut [u8]) {
        self.apply(unit, data, |blocks| self.data.decrypt_blocks(blocks));
    }

    fn apply(&self, unit: u128, data: &mut [u8], cipher: impl Fn(&mut [Block])) {
        let mut first = unit.to_le_bytes().into();
        self.tweak.encrypt_block(&mut first);
        let mut tweak = u128::from_le_bytes(first.into());
        let mut tweaks = [0; 16 * BATCH_BLOCKS];
        let (blocks, _) = data.as_chunks_mut::<16>();
        for batch in blocks.chunks_mut(BATCH_BLOCKS) {
            let tweaks = &mut tweaks[..16 * batch.len()];
            for place in tweaks.chunks_exact_mut(16) {
                place.copy_from_slice(&tweak.to_le_bytes());
                tweak = double(tweak);
            }
            xor(batch.as_flattened_mut(), tweaks);
            cipher(Block::cast_slice_from_core_mut(batch));
            xor(batch.as_flattened_mut(), tweaks);
        }
        wipe(&mut tweaks);
    }
}

/// The product with x in GF(2¹²⁸).
fn double(tweak: u128) -> u128 {
    (tweak << 1) ^ if tweak >> 127 == 1 { 0x87 } else { 0 }
}

#[cfg(test)]
mod tests {
    use crate::ciphers::xts::*;

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
        let xts = Xts::new(keys[..].try_into().unwrap());
        let plain: Vec<u8> = (0..=255).cycle().take(512).collect();
        let mut data = plain.clone();
        xts.encrypt(0xff, &mut data);
        let start = "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d66b317f9ac683f44680a86ac35adfc3345befecb4bb188fd";
        assert_eq!(&data[..64], bytes(start));
        xts.decrypt(0xff, &mut data);
        assert_eq!(data, plain);
    }
}
