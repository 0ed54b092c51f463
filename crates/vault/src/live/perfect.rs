//! A perfect hash vector: a mark at a place of its own for each of a fixed set of fingerprints,
//! without the fingerprints.
//!
//! The paper's section 4.5 and 5.1: fingerprints are parted by prefix, so that each part has 16,384 on average
//! and can be built in a little memory as they come, sorted, from the index; each part is a
//! perfect hash function, made by hash, displace and compress, and a bit vector of its range.
//! [`part`] is one part, [`Builder`] makes all, [`order`] sorts what is to be marked.
//!
//! Two things differ from the paper, and save 0.4 bits a fingerprint. The buckets of the first level are not of one
//! expected size: the early ones, for which nearly all places are free, are larger
//! (Hermann, Lehmann, Pibiri, Walzer, *PHOBIC*, ESA 2024, for functions that are minimal). And a
//! bucket that no seed can place is passed on to a level of its own, so that 10 bits a seed do for all.

mod build;
mod order;
mod part;
mod shape;

pub use build::{BuildError, Builder};

use super::LiveSet;
use crate::{Fingerprint, Reference};
use order::{Hash, Order};
use part::{Directory, Key, Probe};
use shape::Curve;

/// Fingerprints that a part has on average.
const PART_FINGERPRINTS: u64 = 1 << 14;
/// References whose places are looked for at the same time.
const BATCH: usize = 64;
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
    /// All of `fingerprints` fingerprints.
    pub fn all(fingerprints: u64) -> Cover {
        let parts = fingerprints.div_ceil(PART_FINGERPRINTS).max(1);
        Cover { parts, first: 0, end: parts }
    }

    /// The `turn`th of `turns` shares of them, counted from 0.
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
    /// Bits a fingerprint, of all that is kept.
    pub fn bits_per_fingerprint(&self) -> f64 {
        let count: u64 = self.directories.iter().map(Directory::fingerprints).sum();
        self.bytes() as f64 * 8.0 / count as f64
    }

    /// Which fingerprints it covers.
    pub fn cover(&self) -> Cover {
        self.cover
    }

    /// None if the set does not cover the chunk.
    #[inline]
    fn hash(&self, chunk: &Reference) -> Option<Hash> {
        let part = self.cover.index(&chunk.fingerprint)?;
        Some((part as u32, Key::new(&chunk.fingerprint, self.seed)))
    }

    /// The first step of looking for the place of a mark: it reads the seed.
    #[inline]
    fn probe(&self, (part, key): Hash) -> (u32, Probe) {
        (part, self.directories[part as usize].probe(&self.words, &self.curve, key))
    }

    /// The place of a mark, in bits.
    #[inline]
    fn place(&self, (part, probe): (u32, Probe)) -> Option<u64> {
        self.directories[part as usize].place(&self.words, &self.curve, probe)
    }
}

impl LiveSet for Perfect {
    /// Each step is done for a whole batch, so that its misses of the cache overlap.
    fn mark(&mut self, chunks: &[Reference]) {
        let mut order = std::mem::take(&mut self.order);
        for some in chunks.chunks(SORTED) {
            let hashes = some.iter().filter_map(|chunk| self.hash(chunk));
            for batch in order.sort(hashes, self.directories.len()).chunks(BATCH) {
                let mut probes = [None; BATCH];
                for (probe, hash) in probes.iter_mut().zip(batch) {
                    *probe = Some(self.probe(*hash));
                }
                let mut places = [None; BATCH];
                for (place, probe) in places.iter_mut().zip(probes) {
                    *place = probe.and_then(|probe| self.place(probe));
                }
                for place in places.into_iter().flatten() {
                    self.words[(place / 64) as usize] |= 1 << (place % 64);
                }
            }
        }
        self.order = order;
    }

    fn look_up(&self, chunks: &[Reference], out: &mut Vec<bool>) {
        for batch in chunks.chunks(BATCH) {
            let mut probes = [None; BATCH];
            for (probe, chunk) in probes.iter_mut().zip(batch) {
                *probe = self.hash(chunk).map(|hash| self.probe(hash));
            }
            let places = probes[..batch.len()].iter().map(|probe| probe.and_then(|probe| self.place(probe)));
            let is_marked = |place: u64| self.words[(place / 64) as usize] >> (place % 64) & 1 == 1;
            out.extend(places.map(|place| place.is_none_or(is_marked)));
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
