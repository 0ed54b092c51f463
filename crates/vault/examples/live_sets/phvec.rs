//! The paper's section 4.5: a perfect hash function by hash, displace and compress, and a bit vector of its range.
//!
//! As in section 5.1, fingerprints are parted by prefix, 16,384 to a part on average. A part of n has n / λ buckets and
//! c · n places, or some more: a prime number of them. The fingerprints of a bucket are at (f₁ + d₀ f₂ + d₁) mod m, with the first pair (d₀, d₁) for which all of these places
//! are free; buckets are placed in falling order of their size. The number of the pair is kept, in ten bits or compressed.

use quietus_vault::{Fingerprint, Reference};

use crate::keys::{Keys, mix, sorted, word};
use crate::sequence::{Numbers, Words};
use crate::set::Set;

const PART_FINGERPRINTS: u64 = 1 << 14;
/// Attempts at a part, each with other hashes.
const ATTEMPTS: u8 = 40;

/// What is chosen for a set.
#[derive(Clone, Copy)]
pub struct Parameters {
    /// λ: fingerprints of a bucket.
    pub bucket: f64,
    /// c: places of a fingerprint.
    pub places: f64,
    pub numbers: Numbers,
}

impl Parameters {
    fn buckets(&self, fingerprints: u16) -> u64 {
        (f64::from(fingerprints) / self.bucket).ceil() as u64
    }

    /// A prime number, as in the authors' library: with others, a step may meet few of the places.
    fn places(&self, fingerprints: u16) -> u64 {
        let least = (f64::from(fingerprints) * self.places).ceil() as u64;
        (least..).find(|&at| is_prime(at)).expect("a prime number")
    }
}

/// The entry of a part in the table of offsets.
#[derive(Clone, Copy)]
struct Part {
    first_word: u32,
    /// Bits of the numbers: the bit vector comes behind them.
    number_bits: u32,
    places: u32,
    fingerprints: u16,
    attempt: u8,
}

/// Hashes of a fingerprint in a part: which bucket, and where.
#[derive(Clone, Copy)]
struct Hash {
    bucket: u64,
    first: u64,
    step: u64,
}

impl Hash {
    fn new(fingerprint: &Fingerprint, attempt: u8, buckets: u64, places: u64) -> Hash {
        let within = |hash: u64, range: u64| ((hash >> 32) * range) >> 32;
        let salt = u64::from(attempt);
        let bucket = mix(word(fingerprint, 1) ^ salt);
        let place = mix(word(fingerprint, 2) ^ salt);
        Hash {
            bucket: within(bucket, buckets),
            first: within(place, places),
            step: 1 + within(place << 32, (places - 1).max(1)),
        }
    }

    /// The place that a pair gives, by the pair's number: d₀ counts first.
    fn place(&self, number: u64, places: u64) -> u64 {
        let (step, shift) = match number < places {
            true => (number, 0),
            false => (number % places, number / places),
        };
        (self.first + step * self.step + shift) % places
    }
}

pub struct Phvec {
    parameters: Parameters,
    parts: Vec<Part>,
    words: Words,
    sorted: Vec<Fingerprint>,
}

/// How the attempts at the parts went.
#[derive(Default)]
pub struct Attempts {
    pub parts: u64,
    /// Attempts in which a bucket had no number: the part was tried again with other hashes.
    pub failed: u64,
    /// Parts that no attempt did for: there is no set then.
    pub given_up: u64,
}

impl Phvec {
    /// None if a part cannot be made.
    pub fn new(keys: &Keys, parameters: Parameters) -> (Option<Phvec>, Attempts) {
        let parts = keys.count().div_ceil(PART_FINGERPRINTS);
        let mut made = Phvec { parameters, parts: Vec::new(), words: Words::default(), sorted: Vec::new() };
        let (mut attempts, mut room, mut some) = (Attempts::default(), Room::default(), Vec::new());
        let mut all = keys.all().peekable();
        for part in 0..parts {
            some.clear();
            while let Some(fingerprint) = all.next_if(|next| part_of(next, parts) == part) {
                some.push(fingerprint);
            }
            attempts.parts += 1;
            if !made.build(&some, &mut room, &mut attempts) {
                attempts.given_up += 1;
                return (None, attempts);
            }
        }
        made.words.end();
        (Some(made), attempts)
    }

    fn build(&mut self, fingerprints: &[Fingerprint], room: &mut Room, attempts: &mut Attempts) -> bool {
        let count = u16::try_from(fingerprints.len()).expect("hashes spread evenly over the parts");
        let (buckets, places) = (self.parameters.buckets(count), self.parameters.places(count));
        for attempt in 0..ATTEMPTS {
            let hashes = fingerprints.iter().map(|it| Hash::new(it, attempt, buckets, places));
            if room.place_all(hashes, buckets, places, self.parameters.numbers.limit()) {
                let first_word = self.words.align();
                let number_bits = self.parameters.numbers.write(&mut self.words, &room.numbers);
                self.words.push_zeros(places);
                let places = places as u32;
                self.parts.push(Part { first_word, number_bits, places, fingerprints: count, attempt });
                return true;
            }
            attempts.failed += 1;
        }
        false
    }

    /// The place of a mark, in bits.
    fn place(&self, fingerprint: &Fingerprint) -> u64 {
        let part = &self.parts[part_of(fingerprint, self.parts.len() as u64) as usize];
        let buckets = self.parameters.buckets(part.fingerprints);
        let places = u64::from(part.places);
        let hash = Hash::new(fingerprint, part.attempt, buckets, places);
        let at = u64::from(part.first_word) * 64;
        let number = self.parameters.numbers.read(&self.words, at, hash.bucket, buckets, part.number_bits);
        at + u64::from(part.number_bits) + hash.place(number, places)
    }
}

fn is_prime(number: u64) -> bool {
    number > 1
        && (2..).take_while(|factor| factor * factor <= number).all(|factor| !number.is_multiple_of(factor))
}

fn part_of(fingerprint: &Fingerprint, parts: u64) -> u64 {
    ((u128::from(word(fingerprint, 0)) * u128::from(parts)) >> 64) as u64
}

impl Set for Phvec {
    fn mark(&mut self, chunks: &[Reference]) {
        let mut room = std::mem::take(&mut self.sorted);
        for fingerprint in sorted(chunks, &mut room) {
            let place = self.place(fingerprint);
            self.words.set(place);
        }
        self.sorted = room;
    }

    fn is_live(&self, chunk: &Reference) -> bool {
        self.words.is_set(self.place(&chunk.fingerprint))
    }

    fn bytes(&self) -> usize {
        self.words.bytes() + self.parts.len() * size_of::<Part>()
    }
}

/// The memory in which parts are made.
#[derive(Default)]
struct Room {
    /// Hashes, by bucket.
    sorted: Vec<Hash>,
    starts: Vec<u32>,
    /// Buckets, the largest first.
    order: Vec<u32>,
    taken: Vec<u64>,
    /// Where the hashes of one bucket are with the present pair.
    places: Vec<u64>,
    /// The number of each bucket's pair.
    numbers: Vec<u32>,
}

impl Room {
    /// Finds a number below `limit` for each bucket, if there is one.
    fn place_all(
        &mut self,
        hashes: impl Iterator<Item = Hash> + Clone,
        buckets: u64,
        places: u64,
        limit: u64,
    ) -> bool {
        self.sort(hashes, buckets as usize);
        self.taken.clear();
        self.taken.resize((places as usize).div_ceil(64), 0);
        self.numbers.clear();
        self.numbers.resize(buckets as usize, 0);
        for at in 0..self.order.len() {
            let bucket = self.order[at] as usize;
            match self.number(bucket, places, limit) {
                Some(number) => self.numbers[bucket] = number,
                None => return false,
            }
        }
        true
    }

    /// The first number with which all hashes of a bucket have places of their own, which are taken then.
    fn number(&mut self, bucket: usize, places: u64, limit: u64) -> Option<u32> {
        let hashes = &self.sorted[self.starts[bucket] as usize..self.starts[bucket + 1] as usize];
        self.places.clear();
        self.places.extend(hashes.iter().map(|hash| hash.first));
        for number in 0..limit {
            if take(&mut self.taken, &self.places) {
                return Some(number as u32);
            }
            let goes_on = (number + 1) % places != 0;
            for (place, hash) in self.places.iter_mut().zip(hashes) {
                // Each step adds f₂; when d₀ begins anew, d₁ counts.
                let next = *place + if goes_on { hash.step } else { hash.step + 1 };
                *place = if next >= places { next - places } else { next };
            }
        }
        None
    }

    /// Sorts the hashes by bucket, and the buckets by size.
    fn sort(&mut self, hashes: impl Iterator<Item = Hash> + Clone, buckets: usize) {
        self.starts.clear();
        self.starts.resize(buckets + 1, 0);
        hashes.clone().for_each(|hash| self.starts[hash.bucket as usize] += 1);
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self.sorted.clear();
        self.sorted.resize(sum as usize, Hash { bucket: 0, first: 0, step: 0 });
        for hash in hashes {
            let start = &mut self.starts[hash.bucket as usize];
            *start -= 1;
            self.sorted[*start as usize] = hash;
        }
        let size = |bucket: u32| self.starts[bucket as usize + 1] - self.starts[bucket as usize];
        self.order.clear();
        self.order.extend((0..buckets as u32).filter(|&bucket| size(bucket) > 0));
        self.order.sort_unstable_by_key(|&bucket| (std::cmp::Reverse(size(bucket)), bucket));
    }
}

/// Takes all places, or none if one of them is taken already.
fn take(taken: &mut [u64], places: &[u64]) -> bool {
    for (done, place) in places.iter().enumerate() {
        let (word, bit) = ((place / 64) as usize, 1 << (place % 64));
        if taken[word] & bit != 0 {
            places[..done].iter().for_each(|place| taken[(place / 64) as usize] &= !(1 << (place % 64)));
            return false;
        }
        taken[word] |= bit;
    }
    true
}
