//! AES-256 in XTS mode (IEEE 1619), for whole AES blocks: what disk encryption does today.

use crate::ciphers::ctr::{wipe, xor};
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
            ..=SECTOR_BYTES => apply_in_batches::<SECTOR_BYTES>(tweak, blocks, cipher),
            _ => apply_in_batches::<BATCH_BYTES>(tweak, blocks, cipher),
        }
    }
}

fn apply_in_batches<const BYTES: usize>(
    mut tweak: u128,
    blocks: &mut [[u8; 16]],
    cipher: impl Fn(&mut [Block]),
) {
    let mut tweaks = [0; BYTES];
    let used = tweaks.len().min(16 * blocks.len());
    for batch in blocks.chunks_mut(BYTES / 16) {
        let tweaks = &mut tweaks[..16 * batch.len()];
        tweak = fill(tweaks, tweak);
        xor(batch.as_flattened_mut(), tweaks);
        cipher(Block::cast_slice_from_core_mut(batch));
        xor(batch.as_flattened_mut(), tweaks);
    }
    wipe(&mut tweaks[..used]);
}

/// Fills `tweaks` from `first` on. Returns the one after them. [`LANES`] of them at a time do not wait for each other.
fn fill(tweaks: &mut [u8], first: u128) -> u128 {
    let mut lanes = [first; LANES];
    (1..LANES).for_each(|n| lanes[n] = double(lanes[n - 1]));
    for places in tweaks.chunks_mut(16 * LANES) {
        for (place, lane) in places.chunks_exact_mut(16).zip(&mut lanes) {
            place.copy_from_slice(&lane.to_le_bytes());
            *lane = next_lanes(*lane);
        }
    }
    lanes[tweaks.len() / 16 % LANES]
}

/// The product with x⁸ in GF(2¹²⁸): the tweak [`LANES`] later.
fn next_lanes(tweak: u128) -> u128 {
    let out = tweak >> 120;
    (tweak << 8) ^ out ^ (out << 1) ^ (out << 2) ^ (out << 7)
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
        for count in 0..40 {
            let (mut tweaks, mut tweak) =
                (vec![0; 16 * count], 0x8000_0000_0000_1234_9abc_def0_ffff_0001_u128);
            let after = fill(&mut tweaks, tweak);
            for place in tweaks.chunks(16) {
                assert_eq!(place, tweak.to_le_bytes(), "of {count}");
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
