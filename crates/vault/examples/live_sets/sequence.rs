//! The numbers of a part's buckets: ten bits each, or compressed.
//!
//! Compressed as by Fredriksson and Nikitin (2007), in the form of the authors' library, cmph: a number v takes
//! ⌊log₂(v + 1)⌋ bits, one behind the other; where each ends is kept in the way of Elias and Fano, with a sample of each
//! 128th.

/// Bits, written one after the other.
#[derive(Default)]
pub struct Words {
    words: Vec<u64>,
    bits: u64,
}

impl Words {
    /// Goes on at the next whole word; its number.
    pub fn align(&mut self) -> u32 {
        self.bits = self.bits.next_multiple_of(64);
        u32::try_from(self.bits / 64).expect("at most 32 GiB")
    }

    fn push(&mut self, value: u64, bits: u64) {
        debug_assert!(bits < 64 && value < 1 << bits);
        self.words.resize(((self.bits + bits) as usize).div_ceil(64), 0);
        if bits > 0 {
            let (word, shift) = ((self.bits / 64) as usize, self.bits % 64);
            self.words[word] |= value << shift;
            if shift + bits > 64 {
                self.words[word + 1] |= value >> (64 - shift);
            }
        }
        self.bits += bits;
    }

    pub fn push_zeros(&mut self, bits: u64) {
        self.bits += bits;
        self.words.resize((self.bits as usize).div_ceil(64), 0);
    }

    /// Nothing is written any more.
    pub fn end(&mut self) {
        self.words.push(0);
        self.words.shrink_to_fit();
    }

    /// The value of fewer than 64 bits, at a bit.
    fn get(&self, at: u64, bits: u64) -> u64 {
        let (word, shift) = ((at / 64) as usize, at % 64);
        let both = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << 64;
        (both >> shift) as u64 & ((1 << bits) - 1)
    }

    pub fn set(&mut self, at: u64) {
        self.words[(at / 64) as usize] |= 1 << (at % 64);
    }

    pub fn is_set(&self, at: u64) -> bool {
        self.words[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// The `which`th bit that is set at or behind `at`, counted from 0.
    fn select(&self, at: u64, which: u64) -> u64 {
        let (mut word, mut left) = ((at / 64) as usize, which);
        let mut bits = self.words[word] & u64::MAX << (at % 64);
        while u64::from(bits.count_ones()) <= left {
            left -= u64::from(bits.count_ones());
            word += 1;
            bits = self.words[word];
        }
        let last = (0..left).fold(bits, |bits, _| bits & (bits - 1));
        word as u64 * 64 + u64::from(last.trailing_zeros())
    }
}

/// How numbers are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Fixed,
    Compressed,
}

const FIXED_BITS: u64 = 10;
const SAMPLED: u64 = 128;
const SAMPLE_BITS: u64 = 20;
/// Bits of the sum of all lengths, at the begin of a sequence.
const TOTAL_BITS: u64 = 24;

impl Numbers {
    /// Numbers are below this.
    pub fn limit(self) -> u64 {
        match self {
            Numbers::Fixed => 1 << FIXED_BITS,
            Numbers::Compressed => 1 << 20,
        }
    }

    /// Writes a sequence; the bits that it takes.
    pub fn write(self, words: &mut Words, numbers: &[u32]) -> u32 {
        let first = words.bits;
        match self {
            Numbers::Fixed => numbers.iter().for_each(|&number| words.push(u64::from(number), FIXED_BITS)),
            Numbers::Compressed => compress(words, numbers),
        }
        u32::try_from(words.bits - first).expect("some KiB")
    }

    /// The number of `bucket`, of a sequence of `buckets` that begins at bit `at` and has `bits`.
    pub fn read(self, words: &Words, at: u64, bucket: u64, buckets: u64, bits: u32) -> u64 {
        match self {
            Numbers::Fixed => words.get(at + bucket * FIXED_BITS, FIXED_BITS),
            Numbers::Compressed => decompress(words, at, bucket, buckets, bits),
        }
    }
}

fn length(number: u32) -> u64 {
    u64::from((number + 1).ilog2())
}

/// Where the parts of a compressed sequence are: the sum of all lengths, samples, the low bits of each end, their
/// high bits as a run of zeros and a one, and the numbers themselves at the end.
struct Shape {
    low_bits: u64,
    samples: u64,
    lows: u64,
    highs: u64,
}

impl Shape {
    fn new(at: u64, buckets: u64, total: u64) -> Shape {
        let low_bits = (total / buckets.max(1)).max(1).ilog2().into();
        let samples = at + TOTAL_BITS;
        let lows = samples + buckets.div_ceil(SAMPLED) * SAMPLE_BITS;
        Shape { low_bits, samples, lows, highs: lows + buckets * low_bits }
    }
}

fn compress(words: &mut Words, numbers: &[u32]) {
    let total: u64 = numbers.iter().map(|&number| length(number)).sum();
    let shape = Shape::new(words.bits, numbers.len() as u64, total);
    let ends: Vec<u64> = numbers
        .iter()
        .scan(0, |end, &number| {
            *end += length(number);
            Some(*end)
        })
        .collect();
    words.push(total, TOTAL_BITS);
    let high = |at: usize| (ends[at] >> shape.low_bits) + at as u64;
    (0..ends.len()).step_by(SAMPLED as usize).for_each(|at| words.push(high(at), SAMPLE_BITS));
    ends.iter().for_each(|end| words.push(end & ((1 << shape.low_bits) - 1), shape.low_bits));
    let mut next = 0;
    for at in 0..ends.len() {
        words.push_zeros(high(at) - next);
        words.push(1, 1);
        next = high(at) + 1;
    }
    for &number in numbers {
        words.push(u64::from(number) + 1 - (1 << length(number)), length(number));
    }
}

fn decompress(words: &Words, at: u64, bucket: u64, buckets: u64, bits: u32) -> u64 {
    let total = words.get(at, TOTAL_BITS);
    let shape = Shape::new(at, buckets, total);
    // The end of the number before, and its own.
    let from = bucket.saturating_sub(1);
    let sample = words.get(shape.samples + from / SAMPLED * SAMPLE_BITS, SAMPLE_BITS);
    let place = words.select(shape.highs + sample, from % SAMPLED);
    let end = |place: u64, of: u64| {
        (place - shape.highs - of) << shape.low_bits
            | words.get(shape.lows + of * shape.low_bits, shape.low_bits)
    };
    let (start, end) = match bucket {
        0 => (0, end(place, 0)),
        _ => (end(place, from), end(words.select(place + 1, 0), bucket)),
    };
    let numbers = at + u64::from(bits) - total;
    words.get(numbers + start, end - start) + (1 << (end - start)) - 1
}
