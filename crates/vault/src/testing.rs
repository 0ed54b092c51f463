//! Content for tests.

use crate::Fingerprint;

/// Numbers that look random: SplitMix64.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// `length` bytes, a multiple of 8.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length / 8).flat_map(|_| self.next().to_le_bytes()).collect()
    }
}

/// Lines that compress well.
pub(crate) fn text(length: usize) -> Vec<u8> {
    (0..)
        .flat_map(|number| format!("{number:08} a line of a log that says little\n").into_bytes())
        .take(length)
        .collect()
}

pub(crate) fn fingerprint(noise: &mut Noise) -> Fingerprint {
    let mut bytes = [0; 32];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&noise.next().to_be_bytes());
    }
    Fingerprint(bytes)
}
