//! A batch of chunks whose places are looked for at the same time, so that their misses of the cache overlap.
//!
//! A processor has some twenty misses under way at once, if as many reads are among the few hundred instructions that it looks
//! ahead. So each step is done for the whole batch, and words are fetched by loops that do nothing else.

use super::Perfect;
use super::order::Hash;
use super::part::Probe;

/// Chunks whose places are looked for at the same time, at most: their data fits into the smallest cache.
pub(super) const BATCH: usize = 256;

/// The places of some chunks in one level.
pub(super) struct Batch {
    probes: Vec<Probe>,
    seeds: Vec<u64>,
    places: Vec<u64>,
    count: usize,
}

impl Batch {
    /// Memory for batches of at most `count` chunks, and [`BATCH`].
    pub(super) fn new(count: usize) -> Batch {
        let count = count.min(BATCH);
        Batch {
            probes: vec![Probe::default(); count],
            seeds: vec![0; count],
            places: vec![0; count],
            count: 0,
        }
    }

    /// Looks in one level of their parts, and fetches the words that have their marks.
    #[inline]
    pub(super) fn find(&mut self, set: &Perfect, level: usize, hashes: &[Hash]) {
        self.count = hashes.len();
        let (probes, seeds, places) =
            (&mut self.probes[..self.count], &mut self.seeds[..self.count], &mut self.places[..self.count]);
        for (probe, (part, key)) in probes.iter_mut().zip(hashes) {
            *probe = set.directories[*part as usize].probe(&set.curve, *key, level);
        }
        fetch(&set.words, probes.iter().map(Probe::seed_word));
        for ((seed, place), probe) in seeds.iter_mut().zip(&mut *places).zip(&*probes) {
            *seed = probe.seed(&set.words);
            *place = probe.place(*seed);
        }
        fetch(&set.words, places.iter().map(|&place| (place / 64) as usize));
    }

    /// For each hash, in their order, the place of its mark, in bits, and whether that is in this level: if not, the
    /// place is another hash's.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, bool)> {
        self.places.iter().zip(&self.seeds).map(|(&place, &seed)| (place, seed != 0)).take(self.count)
    }
}

/// Brings words into the processor's cache.
#[inline]
fn fetch(words: &[u64], which: impl Iterator<Item = usize>) {
    std::hint::black_box(which.fold(0, |all, word| all ^ words[word]));
}
