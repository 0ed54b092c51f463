//! Making a perfect hash vector of fingerprints as they come, sorted.

use super::order::Order;
use super::part::{Directory, Key, LEVELS, Level};
use super::shape::{Curve, SEEDS};
use super::{Cover, PART_FINGERPRINTS, Perfect};
use crate::Fingerprint;

/// Salts that are tried for a part. All but one part of millions take the first.
const SALTS: u8 = 32;

/// Why the set could not be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// Fingerprints are out of order; the order makes the parts.
    #[error("set of live chunks: fingerprints come out of order, or one twice; the index must be sorted")]
    Unsorted,
    /// The caller's count of fingerprints was far too low, or they are not hashes.
    #[error(
        "set of live chunks: {0} fingerprints share one prefix; they are not hashes, or more than announced"
    )]
    Crowded(usize),
    /// The fingerprints are not hashes.
    #[error("set of live chunks: two fingerprints agree in bytes 8 to 24; they are not hashes")]
    Clash,
}

/// Takes fingerprints in ascending order; needs memory for one part besides the set.
#[derive(Debug)]
pub struct Builder {
    made: Perfect,
    last: Option<Fingerprint>,
    keys: Vec<Key>,
    part: Part,
}

impl Builder {
    /// A builder of the set for `cover`; `seed` is random.
    pub fn new(cover: Cover, seed: u64) -> Builder {
        let parts = (cover.end - cover.first) as usize;
        let made = Perfect {
            cover,
            seed,
            curve: Curve::new(),
            directories: Vec::with_capacity(parts),
            words: Vec::with_capacity(parts * WORDS_EXPECTED),
            order: Order::default(),
        };
        Builder { made, last: None, keys: Vec::new(), part: Part::default() }
    }

    /// Adds the next fingerprint. A fingerprint that the set does not cover is left out.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; the builder is of no use then.
    pub fn push(&mut self, fingerprint: &Fingerprint) -> Result<(), BuildError> {
        if self.last.as_ref().is_some_and(|last| last >= fingerprint) {
            return Err(BuildError::Unsorted);
        }
        self.last = Some(*fingerprint);
        let Some(index) = self.made.cover.index(fingerprint) else { return Ok(()) };
        self.end_parts(index)?;
        self.keys.push(Key::new(fingerprint, self.made.seed));
        if self.keys.len() > usize::from(u16::MAX) {
            return Err(BuildError::Crowded(self.keys.len()));
        }
        Ok(())
    }

    /// The set, with nothing marked.
    ///
    /// # Errors
    ///
    /// As [`push`](Builder::push).
    pub fn finish(mut self) -> Result<Perfect, BuildError> {
        self.end_parts((self.made.cover.end - self.made.cover.first) as usize)?;
        self.made.words.push(0);
        self.made.words.shrink_to_fit();
        Ok(self.made)
    }

    /// Ends all parts before `index`.
    fn end_parts(&mut self, index: usize) -> Result<(), BuildError> {
        while self.made.directories.len() < index {
            let directory = self.part.build(&self.made.curve, &self.keys, &mut self.made.words)?;
            self.made.directories.push(directory);
            self.keys.clear();
        }
        Ok(())
    }
}

/// Words of a part of the expected size, about: 2.4 bits a fingerprint.
const WORDS_EXPECTED: usize = (PART_FINGERPRINTS * 12 / 5 / 64) as usize + 16;

/// The memory in which parts are made.
#[derive(Default, Debug)]
struct Part {
    /// The keys of the level that is being made, by bucket.
    sorted: Vec<Key>,
    /// The first key of each bucket, and the end of the last one.
    starts: Vec<u32>,
    /// Buckets, the largest first.
    order: Vec<u32>,
    /// Which places are taken, a bit each.
    taken: Vec<u64>,
    /// Keys that the next level has to place.
    left: Vec<Key>,
}

impl Part {
    /// Appends the part of `keys` to `words`.
    fn build(&mut self, curve: &Curve, keys: &[Key], words: &mut Vec<u64>) -> Result<Directory, BuildError> {
        let first = words.len();
        for salt in 0..SALTS {
            if let Some(levels) = self.levels(curve, keys.iter().map(|key| key.salted(salt)), words) {
                return Ok(Directory::new(first, salt, levels));
            }
            words.truncate(first);
        }
        Err(BuildError::Clash)
    }

    /// Appends all levels; `None` if keys are left over behind the last.
    fn levels(
        &mut self,
        curve: &Curve,
        keys: impl Iterator<Item = Key>,
        words: &mut Vec<u64>,
    ) -> Option<[u16; LEVELS]> {
        let mut counts = [0; LEVELS];
        let first = words.len() as u64 * 64;
        let mut at = first;
        let mut keys: Vec<Key> = keys.collect();
        for count in &mut counts {
            if keys.is_empty() {
                break;
            }
            *count = keys.len() as u16;
            let level = Level::new(curve, keys.len() as u64, at);
            at = level.end();
            words.resize((at as usize).div_ceil(64), 0);
            self.place_all(curve, level, &keys, words);
            keys.clear();
            keys.extend(self.left.drain(..).map(Key::next));
        }
        keys.is_empty().then_some(counts)
    }

    /// Gives each bucket a seed, the largest first; keys of buckets without a seed are `left`.
    fn place_all(&mut self, curve: &Curve, level: Level, keys: &[Key], words: &mut [u64]) {
        self.sort(curve, level, keys);
        self.taken.clear();
        self.taken.resize((level.places() as usize).div_ceil(64), 0);
        for &bucket in &self.order {
            let keys = &self.sorted
                [self.starts[bucket as usize] as usize..self.starts[bucket as usize + 1] as usize];
            match SEEDS.clone().find(|&seed| take(&mut self.taken, level, keys, seed)) {
                Some(seed) => level.put_seed(words, u64::from(bucket), seed),
                None => self.left.extend(keys),
            }
        }
    }

    /// Sorts the keys by bucket, and the buckets by size.
    fn sort(&mut self, curve: &Curve, level: Level, keys: &[Key]) {
        let buckets = level.buckets() as usize;
        self.starts.clear();
        self.starts.resize(buckets + 1, 0);
        for key in keys {
            self.starts[level.bucket(curve, *key) as usize] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self.sorted.clear();
        self.sorted.resize(keys.len(), keys[0]);
        for key in keys {
            let start = &mut self.starts[level.bucket(curve, *key) as usize];
            *start -= 1;
            self.sorted[*start as usize] = *key;
        }
        let size = |bucket: u32| self.starts[bucket as usize + 1] - self.starts[bucket as usize];
        self.order.clear();
        self.order.extend((0..buckets as u32).filter(|&bucket| size(bucket) > 0));
        self.order.sort_unstable_by_key(|&bucket| (std::cmp::Reverse(size(bucket)), bucket));
    }
}

/// Takes the places of all keys of a bucket if that seed gives each a free one; else takes no place.
fn take(taken: &mut [u64], level: Level, keys: &[Key], seed: u64) -> bool {
    for (done, key) in keys.iter().enumerate() {
        let place = level.index(*key, seed);
        let bit = 1 << (place % 64);
        if taken[place / 64] & bit != 0 {
            for key in &keys[..done] {
                let place = level.index(*key, seed);
                taken[place / 64] &= !(1 << (place % 64));
            }
            return false;
        }
        taken[place / 64] |= bit;
    }
    true
}
