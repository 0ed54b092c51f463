//! The bytes of a disk, as a source.

use quietus_core::base::units::{Addr, Extent};
use quietus_files::{Source, Unread};

/// A disk in memory. Counts what is read of it.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub read_bytes: u64,
}

impl Image {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, read_bytes: 0 }
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        self.bytes[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    pub fn u16(&self, at: u64) -> u64 {
        self.number(at, 2)
    }

    pub fn u32(&self, at: u64) -> u64 {
        self.number(at, 4)
    }

    fn number(&self, at: u64, len: usize) -> u64 {
        self.bytes[at as usize..][..len].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

impl Source for Image {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        self.read_bytes += at.len;
        Ok(self.bytes[at.start.0 as usize..at.end() as usize].to_vec())
    }
}

/// Numbers that look like chance, from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Content of `len` bytes in which no two blocks are equal.
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice(seed);
    (0..len).map(|_| dice.below(256) as u8).collect()
}
