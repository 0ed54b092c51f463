//! Which fingerprints a part may have: a split block Bloom filter (Putze, Sanders, Singler, *Cache-,
//! Hash- and Space-Efficient Bloom Filters*, 2007; the form that Apache Parquet specifies).
//!
//! A false positive costs a read, and nothing else: the filter does not decide what is live.

use crate::Fingerprint;

/// Bits for each fingerprint: one of a hundred that are not there gets through.
const BITS: u64 = 11;
const BLOCK_BITS: u64 = 256;
const BLOCK_WORDS: usize = 8;
const SALTS: [u32; BLOCK_WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A set of fingerprints that lets some others through.
#[derive(Debug)]
pub struct Filter {
    blocks: Vec<[u32; BLOCK_WORDS]>,
}

impl Filter {
    /// An empty set with room for `fingerprints`.
    pub fn new(fingerprints: u64) -> Filter {
        let blocks = (fingerprints * BITS).div_ceil(BLOCK_BITS).max(1);
        Filter { blocks: vec![[0; BLOCK_WORDS]; blocks as usize] }
    }

    /// Adds a fingerprint.
    pub fn insert(&mut self, fingerprint: &Fingerprint) {
        let block = self.block(fingerprint);
        for (word, bit) in self.blocks[block].iter_mut().zip(bits(fingerprint)) {
            *word |= bit;
        }
    }

    /// Whether the fingerprint was added, or looks so.
    pub fn may_have(&self, fingerprint: &Fingerprint) -> bool {
        let block = &self.blocks[self.block(fingerprint)];
        block.iter().zip(bits(fingerprint)).all(|(word, bit)| word & bit != 0)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<[u32; BLOCK_WORDS]>()
    }

    fn block(&self, fingerprint: &Fingerprint) -> usize {
        ((u128::from(fingerprint.word(3)) * self.blocks.len() as u128) >> 64) as usize
    }
}

/// One bit of each word of a block.
fn bits(fingerprint: &Fingerprint) -> [u32; BLOCK_WORDS] {
    let hash = fingerprint.word(2) as u32;
    SALTS.map(|salt| 1 << (hash.wrapping_mul(salt) >> 27))
}
