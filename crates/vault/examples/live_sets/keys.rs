//! Fingerprints of chunks, and the order in which they are referred to.

use quietus_vault::{Fingerprint, Ordinal, Reference};

/// Chunks of a container, on average.
pub const CHUNKS_A_CONTAINER: u64 = 1150;
/// Groups of neighbouring fingerprints that references are sorted into.
const GROUPS: usize = 1 << 9;

/// A mixture of all bits.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Eight bytes of a fingerprint, as a number that sorts like them.
pub fn word(fingerprint: &Fingerprint, number: usize) -> u64 {
    u64::from_be_bytes(*fingerprint.0[8 * number..].first_chunk().expect("four words"))
}

/// The chunks of a vault, by number in the order of their fingerprints.
pub struct Keys {
    prefixes: Vec<u64>,
    /// Times the number of a chunk, modulo their count, is its place in the order of arrival; and back.
    arrival: (u64, u64),
}

impl Keys {
    /// Random fingerprints: the distances of their prefixes are exponential.
    pub fn new(count: u64) -> Keys {
        // Less than all of the range by six standard deviations, so that the sum stays within it.
        let mean = 2f64.powi(64) * (1.0 - 6.0 / (count as f64).sqrt()).max(0.1) / count as f64;
        let mut at = 0u64;
        let distance = |number| -(((mix(number) >> 11) as f64 + 0.5) / 2f64.powi(53)).ln() * mean + 1.0;
        let next = |number| {
            at = at.saturating_add(distance(number) as u64);
            at
        };
        Keys { prefixes: (0..count).map(next).collect(), arrival: inverses(count) }
    }

    pub fn count(&self) -> u64 {
        self.prefixes.len() as u64
    }

    pub fn fingerprint(&self, number: u64) -> Fingerprint {
        let mut bytes = [0; 32];
        let words =
            [self.prefixes[number as usize], mix(number ^ 1 << 62), mix(number ^ 1 << 61), mix(number)];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_be_bytes());
        }
        Fingerprint(bytes)
    }

    pub fn reference(&self, number: u64) -> Reference {
        Reference { fingerprint: self.fingerprint(number), ordinal: Ordinal(self.arrived(number)) }
    }

    /// All fingerprints, in order.
    pub fn all(&self) -> impl Iterator<Item = Fingerprint> {
        (0..self.count()).map(|number| self.fingerprint(number))
    }

    /// The place of a chunk in the order of arrival: the one in which containers have them.
    pub fn arrived(&self, number: u64) -> u64 {
        product(number, self.arrival.0, self.count())
    }

    /// The chunk at a place of the order of arrival.
    pub fn at(&self, arrived: u64) -> u64 {
        product(arrived, self.arrival.1, self.count())
    }

    /// The chunk with this fingerprint, as an index on a disk would find it. None if there is none.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.prefixes.binary_search(&word(fingerprint, 0)).ok().map(|number| number as u64)
    }

    /// Chunks of which one in two is live: those with even numbers.
    pub fn live(&self, count: usize) -> Vec<Reference> {
        let pairs = self.count().div_ceil(2);
        (0..count as u64).map(|at| self.reference(mix(at ^ 1 << 60) % pairs * 2)).collect()
    }

    /// Some of the others.
    pub fn dead(&self, count: usize) -> Vec<Reference> {
        let pairs = self.count() / 2;
        (0..count as u64).map(|at| self.reference(mix(at ^ 1 << 59) % pairs * 2 + 1)).collect()
    }
}

/// A chunk that is in no vault.
pub fn stranger(number: u64) -> Reference {
    let words = [1, 2, 3, 4].map(|word| mix(number ^ word << 56).to_be_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(words.as_flattened());
    Reference { fingerprint: Fingerprint(bytes), ordinal: Ordinal(u64::MAX) }
}

fn product(one: u64, other: u64, modulus: u64) -> u64 {
    (u128::from(one) * u128::from(other) % u128::from(modulus)) as u64
}

/// A factor that spreads what it multiplies, and its inverse, modulo `modulus`.
fn inverses(modulus: u64) -> (u64, u64) {
    let first = (modulus as f64 * 0.618) as u64;
    (first.max(1)..)
        .find_map(|factor| inverse(factor as i128, modulus as i128).map(|inverse| (factor, inverse)))
        .expect("a neighbour of the modulus has no common divisor with it")
}

/// Euclid's algorithm; None if there is a common divisor.
fn inverse(factor: i128, modulus: i128) -> Option<u64> {
    let (mut rest, mut next_rest, mut sum, mut next_sum) = (factor, modulus, 1, 0);
    while next_rest != 0 {
        let quotient = rest / next_rest;
        (rest, next_rest) = (next_rest, rest - quotient * next_rest);
        (sum, next_sum) = (next_sum, sum - quotient * next_sum);
    }
    (rest == 1).then(|| (sum % modulus + modulus) as u64 % modulus as u64)
}

/// The fingerprints of a batch, sorted by prefix as far as it saves misses of the processor's table of pages.
pub fn sorted<'a>(chunks: &[Reference], into: &'a mut Vec<Fingerprint>) -> &'a [Fingerprint] {
    let group = |fingerprint: &Fingerprint| word(fingerprint, 0) as usize >> 55;
    let mut next = [0; GROUPS];
    chunks.iter().for_each(|chunk| next[group(&chunk.fingerprint)] += 1);
    let mut sum = 0;
    for next in &mut next {
        (*next, sum) = (sum, sum + *next);
    }
    into.resize(chunks.len(), Fingerprint([0; 32]));
    for chunk in chunks {
        let next = &mut next[group(&chunk.fingerprint)];
        into[*next] = chunk.fingerprint;
        *next += 1;
    }
    into
}
