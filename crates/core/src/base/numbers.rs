//! Tables by numbers that the program gave itself: of requests, of I/O operations, of pages.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by such a number.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// The hash of a number: a multiplication, which spreads neighbours. No attacker chooses the numbers.
#[derive(Clone, Default, Debug)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
