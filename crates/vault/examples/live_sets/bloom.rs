//! The paper's section 4.4: a Bloom filter that takes one dead chunk of a million for live.

use quietus_vault::Reference;

use crate::keys::{Keys, word};
use crate::set::Set;

/// The share of dead chunks that it takes for live.
const FALSE: f64 = 1e-6;
/// Bits that a fingerprint sets: −log₂ of that share.
const HASHES: u64 = 20;

pub struct Bloom {
    words: Vec<u64>,
    bits: u64,
}

impl Bloom {
    pub fn new(keys: &Keys) -> Bloom {
        let bits = -FALSE.ln() / std::f64::consts::LN_2.powi(2) * keys.count() as f64;
        Bloom { words: vec![0; (bits as usize).div_ceil(64)], bits: bits as u64 }
    }

    fn places(bits: u64, chunk: &Reference) -> impl Iterator<Item = u64> {
        let (first, step) = (word(&chunk.fingerprint, 1), word(&chunk.fingerprint, 2) | 1);
        let place = move |number: u64| u128::from(first.wrapping_add(number.wrapping_mul(step)));
        (0..HASHES).map(move |number| ((place(number) * u128::from(bits)) >> 64) as u64)
    }
}

impl Set for Bloom {
    fn mark(&mut self, chunks: &[Reference]) {
        for place in chunks.iter().flat_map(|chunk| Bloom::places(self.bits, chunk)) {
            self.words[(place / 64) as usize] |= 1 << (place % 64);
        }
    }

    fn is_live(&self, chunk: &Reference) -> bool {
        Bloom::places(self.bits, chunk)
            .all(|place| self.words[(place / 64) as usize] >> (place % 64) & 1 == 1)
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}
