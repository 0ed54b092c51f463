//! One part: levels of buckets, each with its seeds and its marks.

use super::shape::{Curve, SEED_BITS, places};
use crate::Fingerprint;

/// Levels at most: the first, and those of what earlier ones left over.
pub(super) const LEVELS: usize = 4;

/// Where a part lies, and how large its levels are: 16 bytes for 16,384 fingerprints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    /// The first of its words, times 256, and the number of salts that did not do.
    words_and_salt: u64,
    /// The fingerprints of each level.
    levels: [u16; LEVELS],
}

impl Directory {
    /// `first_word` is below 2⁵⁶.
    pub(super) fn new(first_word: usize, salt: u8, levels: [u16; LEVELS]) -> Directory {
        Directory { words_and_salt: (first_word as u64) << 8 | u64::from(salt), levels }
    }

    pub(super) fn fingerprints(&self) -> u64 {
        u64::from(self.levels[0])
    }

    /// The first step of looking for `key`.
    #[inline]
    pub(super) fn probe(&self, words: &[u64], curve: &Curve, key: Key) -> Probe {
        let key = key.salted(self.words_and_salt as u8);
        let level = Level::new(curve, self.fingerprints(), (self.words_and_salt >> 8) * 64);
        Probe { key, level, seed: level.seed(words, level.bucket(curve, key)) }
    }

    /// The place of the mark, in bits from the first word of all. None where there was none to place,
    /// which no fingerprint meets that the part was built of.
    #[inline]
    pub(super) fn place(&self, words: &[u64], curve: &Curve, probe: Probe) -> Option<u64> {
        match probe.seed {
            0 => self.place_further(words, curve, probe),
            seed => Some(probe.level.place(probe.key, seed)),
        }
    }

    /// How many marks there are.
    pub(super) fn marked(&self, words: &[u64], curve: &Curve) -> u64 {
        let (mut at, mut marked) = ((self.words_and_salt >> 8) * 64, 0);
        for count in self.levels.iter().map(|&count| u64::from(count)).take_while(|&count| count > 0) {
            let level = Level::new(curve, count, at);
            at = level.end();
            let bits = level.marks()..level.end();
            marked += bits.filter(|bit| words[(bit / 64) as usize] >> (bit % 64) & 1 == 1).count() as u64;
        }
        marked
    }

    /// [`place`](Directory::place), in the levels behind the first one.
    #[cold]
    fn place_further(
        &self,
        words: &[u64],
        curve: &Curve,
        Probe { mut key, mut level, .. }: Probe,
    ) -> Option<u64> {
        for count in self.levels[1..].iter().map(|&count| u64::from(count)).take_while(|&count| count > 0) {
            (key, level) = (key.next(), Level::new(curve, count, level.end()));
            match level.seed(words, level.bucket(curve, key)) {
                0 => {}
                seed => return Some(level.place(key, seed)),
            }
        }
        None
    }
}

/// A key after the first access to memory, which fetched its bucket's seed in the first level.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    key: Key,
    level: Level,
    seed: u64,
}

/// The place of a level among the words: its seeds, then its marks.
#[derive(Clone, Copy)]
pub(super) struct Level {
    at: u64,
    buckets: u64,
    places: u64,
}

impl Level {
    /// A level of `fingerprints`, from bit `at` on.
    pub(super) fn new(curve: &Curve, fingerprints: u64, at: u64) -> Level {
        Level { at, buckets: curve.buckets(fingerprints), places: places(fingerprints) }
    }

    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    pub(super) fn bucket(&self, curve: &Curve, key: Key) -> u64 {
        curve.bucket(key.bucket, self.buckets)
    }

    /// The bit behind the last mark.
    pub(super) fn end(&self) -> u64 {
        self.marks() + self.places
    }

    pub(super) fn places(&self) -> u64 {
        self.places
    }

    /// The number, below `places`, of the place of a key in a bucket with that seed.
    #[inline]
    pub(super) fn index(&self, key: Key, seed: u64) -> usize {
        key.within(seed, self.places) as usize
    }

    fn marks(&self) -> u64 {
        self.at + self.buckets * SEED_BITS
    }

    /// The place of the mark, in bits, of a key in a bucket with that seed.
    pub(super) fn place(&self, key: Key, seed: u64) -> u64 {
        self.marks() + self.index(key, seed) as u64
    }

    /// The seed of a bucket. There is a word behind the last one that has seeds, so that no branch needs to
    /// wait for the first.
    #[inline]
    fn seed(&self, words: &[u64], bucket: u64) -> u64 {
        let bit = self.at + bucket * SEED_BITS;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let both = u128::from(words[word]) | u128::from(words[word + 1]) << 64;
        (both >> shift) as u64 & ((1 << SEED_BITS) - 1)
    }

    /// Notes the seed of a bucket that has none.
    pub(super) fn put_seed(&self, words: &mut [u64], bucket: u64, seed: u64) {
        let bit = self.at + bucket * SEED_BITS;
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        words[word] |= seed << shift;
        if shift > 64 - SEED_BITS {
            words[word + 1] |= seed >> (64 - shift);
        }
    }
}

/// Two hashes of a fingerprint, all that a part needs of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    bucket: u64,
    place: u64,
}

impl Key {
    /// `seed` is drawn for each set, so that nobody can choose fingerprints that clash.
    pub(super) fn new(fingerprint: &Fingerprint, seed: u64) -> Key {
        Key { bucket: mix(fingerprint.word(1), seed), place: mix(fingerprint.word(2), !seed) }
    }

    /// The key in a part that the first `salt` salts did not do for.
    pub(super) fn salted(self, salt: u8) -> Key {
        match salt {
            0 => self,
            _ => Key { bucket: mix(self.bucket, u64::from(salt)), place: mix(self.place, u64::from(salt)) },
        }
    }

    /// The key in the next level.
    pub(super) fn next(self) -> Key {
        Key { bucket: mix(self.bucket, NEXT), place: mix(self.place, NEXT) }
    }

    /// The place, of `places`, that a bucket's seed gives it.
    #[inline]
    pub(super) fn within(self, seed: u64, places: u64) -> u64 {
        let hash = (self.place ^ seed.wrapping_mul(SPREAD)).wrapping_mul(FOLD);
        ((hash >> 32) * places) >> 32
    }
}

const NEXT: u64 = 0xA076_1D64_78BD_642F;
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const FOLD: u64 = 0x9FB2_1C65_1E98_DF25;

/// Both halves of a product of 128 bits, folded.
fn mix(value: u64, seed: u64) -> u64 {
    let product = u128::from(value ^ seed) * u128::from(FOLD);
    (product >> 64) as u64 ^ product as u64
}
