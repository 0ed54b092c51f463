//! One part: levels of buckets, each with its seeds and its marks.

use super::shape::{Curve, SEED_BITS, places};
use crate::Fingerprint;

/// Most levels: the first, and those for keys that earlier levels left over.
pub(super) const LEVELS: usize = 4;

/// Where a part lies, and how large its levels are: 16 bytes for 16,384 fingerprints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    /// The first of its words, times 256, and the number of salts that failed.
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

    /// The first step of looking for `key` in a level, counted from 0; it reads no word.
    #[inline]
    pub(super) fn probe(&self, curve: &Curve, key: Key, level: usize) -> Probe {
        let count = u64::from(self.levels[level]);
        if count == 0 {
            return Probe::default();
        }
        let end = |at, &count: &u16| Level::new(curve, u64::from(count), at).end();
        let at = self.levels[..level].iter().fold(self.first_bit(), end);
        let key = (0..level).fold(key.salted(self.words_and_salt as u8), |key, _| key.next());
        let level = Level::new(curve, count, at);
        Probe { key, level, seed_at: level.seed_at(level.bucket(curve, key)) }
    }

    fn first_bit(&self) -> u64 {
        (self.words_and_salt >> 8) * 64
    }

    /// The number of marks.
    pub(super) fn marked(&self, words: &[u64], curve: &Curve) -> u64 {
        let (mut at, mut marked) = (self.first_bit(), 0);
        for count in self.levels.iter().map(|&count| u64::from(count)).take_while(|&count| count > 0) {
            let level = Level::new(curve, count, at);
            at = level.end();
            let bits = level.marks()..level.end();
            marked += bits.filter(|bit| words[(bit / 64) as usize] >> (bit % 64) & 1 == 1).count() as u64;
        }
        marked
    }
}

/// A key in a level, before the first access to the words, which fetches the seed of its bucket. By default, one of
/// no level: its seed is 0, and its place the first.
#[derive(Clone, Copy, Default)]
pub(super) struct Probe {
    key: Key,
    level: Level,
    /// Where the seed is, in bits.
    seed_at: u64,
}

impl Probe {
    /// The word that the seed begins in.
    #[inline]
    pub(super) fn seed_word(&self) -> usize {
        (self.seed_at / 64) as usize
    }

    /// The seed of the key's bucket; 0 if the key is placed in a later level.
    #[inline]
    pub(super) fn seed(&self, words: &[u64]) -> u64 {
        let (word, shift) = (self.seed_word(), self.seed_at % 64);
        // Without a branch, and without a word that the seed has no part in: that is another miss of the cache at times.
        let last = words[word + usize::from(shift > 64 - SEED_BITS)];
        let bits = words[word] >> shift | last << 1 << (63 - shift);
        bits & ((1 << SEED_BITS) - 1) & 0u64.wrapping_sub(u64::from(self.level.places > 0))
    }

    /// The place of the mark, in bits, if the bucket has that seed. With any other seed it is a bit of the same level.
    #[inline]
    pub(super) fn place(&self, seed: u64) -> u64 {
        self.level.place(self.key, seed)
    }
}

/// The place of a level among the words: its seeds, then its marks.
#[derive(Clone, Copy, Default)]
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

    /// Where a bucket's seed is, in bits.
    #[inline]
    fn seed_at(&self, bucket: u64) -> u64 {
        self.at + bucket * SEED_BITS
    }

    /// Notes the first seed of a bucket.
    pub(super) fn put_seed(&self, words: &mut [u64], bucket: u64, seed: u64) {
        let bit = self.seed_at(bucket);
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        words[word] |= seed << shift;
        if shift > 64 - SEED_BITS {
            words[word + 1] |= seed >> (64 - shift);
        }
    }
}

/// Two hashes of a fingerprint, all that a part needs of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Key {
    bucket: u64,
    place: u64,
}

impl Key {
    /// `seed` is drawn for each set, so that an attacker cannot choose fingerprints that clash.
    pub(super) fn new(fingerprint: &Fingerprint, seed: u64) -> Key {
        Key { bucket: mix(fingerprint.word(1), seed), place: mix(fingerprint.word(2), !seed) }
    }

    /// The key in a part for which the first `salt` salts failed.
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
