//! A perfect hash vector: a mark at a place of its own for each of a fixed set of fingerprints,
//! without the fingerprints.
//!
//! The paper's section 4.5 and 5.1: fingerprints are parted by prefix, so that each part has 16,384 on average
//! and can be built in a little memory as they come, sorted, from the index; each part is a
//! perfect hash function, made by hash, displace and compress, and a bit vector of its range.
//! [`part`] is one part, [`Builder`] makes all, [`order`] sorts the chunks to mark.
//!
//! Two things differ from the paper, and save 0.4 bits a fingerprint. The buckets of the first level are not of one
//! expected size: the early ones, for which nearly all places are free, are larger
//! (Hermann, Lehmann, Pibiri, Walzer, *PHOBIC*, ESA 2024, for functions that are minimal). And a
//! bucket that no seed can place is passed on to a level of its own, so that 10 bits a seed do for all.

mod batch;
mod build;
mod order;
mod part;
mod shape;

pub use build::{BuildError, Builder};

use super::LiveSet;
use crate::{Fingerprint, Reference};
use batch::{BATCH, Batch};
use order::{Hash, Order};
use part::{Directory, Key, LEVELS};
use shape::Curve;

/// Fingerprints that a part has on average.
const PART_FINGERPRINTS: u64 = 1 << 14;
/// References that are sorted before they are marked: their hashes fit into a processor's cache.
const SORTED: usize = 1 << 14;

/// Which of the fingerprints a set covers: those whose part is in `first..end`, of `parts`.
///
/// With too little memory for all parts a sanitization takes several turns (section 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cover {
    parts: u64,
    first: u64,
    end: u64,
}

impl Cover {
    /// The cover of all `fingerprints` fingerprints.
    pub fn all(fingerprints: u64) -> Cover {
        let parts = fingerprints.div_ceil(PART_FINGERPRINTS).max(1);
        Cover { parts, first: 0, end: parts }
    }

    /// The `turn`th of `turns` shares of this cover, counted from 0.
    ///
    /// # Panics
    ///
    /// Unless `turn` is below `turns`.
    pub fn share(self, turn: u64, turns: u64) -> Cover {
        assert!(turn < turns, "turn {turn} of {turns}");
        let bound = |turn| {
            self.first + (u128::from(self.end - self.first) * u128::from(turn) / u128::from(turns)) as u64
        };
        Cover { first: bound(turn), end: bound(turn + 1), ..self }
    }

    /// Whether the set has a place for `fingerprint`, if that was among those that it was built of.
    pub fn has(self, fingerprint: &Fingerprint) -> bool {
        (self.first..self.end).contains(&self.part(fingerprint))
    }

    fn part(self, fingerprint: &Fingerprint) -> u64 {
        ((u128::from(fingerprint.word(0)) * u128::from(self.parts)) >> 64) as u64
    }

    /// The place of the fingerprint's part among those that are covered.
    fn index(self, fingerprint: &Fingerprint) -> Option<usize> {
        let part = self.part(fingerprint);
        (self.first..self.end).contains(&part).then(|| (part - self.first) as usize)
    }
}

/// Marks for the fingerprints that a [`Builder`] was given.
#[derive(Debug)]
pub struct Perfect {
    cover: Cover,
    seed: u64,
    curve: Curve,
    directories: Vec<Directory>,
    words: Vec<u64>,
    order: Order,
}

impl Perfect {
    /// `None` if the set does not cover the chunk.
    fn hash(&self, chunk: &Reference) -> Option<Hash> {
        let part = self.cover.index(&chunk.fingerprint)?;
        Some((part as u32, Key::new(&chunk.fingerprint, self.seed)))
    }

    /// Bits a fingerprint, of all that is kept.
    pub fn bits_per_fingerprint(&self) -> f64 {
        let count: u64 = self.directories.iter().map(Directory::fingerprints).sum();
        self.bytes() as f64 * 8.0 / count as f64
    }

    /// Which fingerprints it covers.
    pub fn cover(&self) -> Cover {
        self.cover
    }

    /// Marks the hashes that have their places in a level. Moves the others to the front of `hashes`; returns their number.
    fn mark_level(&mut self, batch: &mut Batch, level: usize, hashes: &mut [Hash]) -> usize {
        let mut left = 0;
        for start in (0..hashes.len()).step_by(BATCH) {
            let end = hashes.len().min(start + BATCH);
            batch.find(self, level, &hashes[start..end]);
            for (at, (place, is_here)) in (start..end).zip(batch.places()) {
                self.words[(place / 64) as usize] |= u64::from(is_here) << (place % 64);
                hashes[left] = hashes[at];
                left += usize::from(!is_here);
            }
        }
        left
    }

    fn is_marked(&self, place: u64) -> bool {
        self.words[(place / 64) as usize] >> (place % 64) & 1 == 1
    }
}

impl LiveSet for Perfect {
    fn mark(&mut self, chunks: &[Reference]) {
        let (mut order, mut batch) = (std::mem::take(&mut self.order), Batch::new(chunks.len()));
        let (cover, parts, seed) = (self.cover, self.directories.len(), self.seed);
        let part = |chunk: &Reference| cover.index(&chunk.fingerprint).map(|part| part as u32);
        for some in chunks.chunks(SORTED) {
            let hashes = order.sort(some, parts, part, |chunk| Key::new(&chunk.fingerprint, seed));
            let all = hashes.len();
            // A fingerprint that the set was not built of may be left over in the end.
            (0..LEVELS).fold(all, |left, level| self.mark_level(&mut batch, level, &mut hashes[..left]));
        }
        self.order = order;
    }

    fn look_up(&self, chunks: &[Reference], out: &mut Vec<bool>) {
        let mut batch = Batch::new(chunks.len());
        for some in chunks.chunks(BATCH) {
            let first = out.len();
            out.resize(first + some.len(), true);
            let covered = (first..).zip(some).filter_map(|(index, chunk)| Some((index, self.hash(chunk)?)));
            let (mut indices, mut hashes): (Vec<usize>, Vec<Hash>) = covered.unzip();
            for level in 0..LEVELS {
                batch.find(self, level, &hashes);
                let mut left = 0;
                for (at, (place, is_here)) in batch.places().enumerate() {
                    out[indices[at]] = !is_here || self.is_marked(place);
                    (hashes[left], indices[left]) = (hashes[at], indices[at]);
                    left += usize::from(!is_here);
                }
                hashes.truncate(left);
                if hashes.is_empty() {
                    break;
                }
            }
        }
    }

    fn parts(&self) -> usize {
        self.directories.len()
    }

    fn part(&self, chunk: &Reference) -> Option<usize> {
        self.cover.index(&chunk.fingerprint)
    }

    fn marked(&self, part: usize) -> u64 {
        self.directories[part].marked(&self.words, &self.curve)
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 8
            + self.directories.capacity() * size_of::<Directory>()
            + self.order.bytes()
            + size_of::<Perfect>()
    }
}
