//! The paper's section 4.4: a bit for each place of each container, which is found by reading the container's
//! directory.

use quietus_vault::{Fingerprint, Reference};

use crate::keys::{CHUNKS_A_CONTAINER, Keys, mix};
use crate::set::Set;

/// Directories that are kept in memory.
const CACHED: usize = 64;
/// Backups that share their content, and the share of chunks that each replaces: a deduplication factor of 7.38.
const GENERATIONS: u64 = 8;
const REPLACED: f64 = 0.012;

pub struct BitVector<'a> {
    /// Stands for the index of fingerprints and the directories, which lie on a disk.
    keys: &'a Keys,
    words: Vec<u64>,
    /// Containers with their directories, that which was used last behind the others.
    cache: Vec<(u64, Vec<Fingerprint>)>,
    pub directories_read: u64,
}

impl<'a> BitVector<'a> {
    pub fn new(keys: &'a Keys) -> BitVector<'a> {
        let words = vec![0; (keys.count() as usize).div_ceil(64)];
        BitVector { keys, words, cache: Vec::new(), directories_read: 0 }
    }

    /// The directory that has the chunk, from the cache if it is there, and its container.
    fn directory(&mut self, chunk: &Reference) -> (u64, &[Fingerprint]) {
        let number = self.keys.find(&chunk.fingerprint).expect("the index has all chunks");
        let container = self.keys.arrived(number) / CHUNKS_A_CONTAINER;
        match self.cache.iter().rposition(|(cached, _)| *cached == container) {
            Some(at) => self.cache[at..].rotate_left(1),
            None => {
                self.directories_read += 1;
                self.cache.drain(..(self.cache.len() + 1).saturating_sub(CACHED));
                self.cache.push((container, read(self.keys, container)));
            }
        }
        let (container, directory) = self.cache.last().expect("the one that was just used");
        (*container, directory)
    }

    fn place(keys: &Keys, chunk: &Reference) -> u64 {
        keys.arrived(keys.find(&chunk.fingerprint).expect("the index has all chunks"))
    }
}

fn read(keys: &Keys, container: u64) -> Vec<Fingerprint> {
    let first = container * CHUNKS_A_CONTAINER;
    let end = (first + CHUNKS_A_CONTAINER).min(keys.count());
    (first..end).map(|arrived| keys.fingerprint(keys.at(arrived))).collect()
}

impl Set for BitVector<'_> {
    fn mark(&mut self, chunks: &[Reference]) {
        for chunk in chunks {
            let (container, directory) = self.directory(chunk);
            let offset =
                directory.iter().position(|at| *at == chunk.fingerprint).expect("the container has it");
            let place = container * CHUNKS_A_CONTAINER + offset as u64;
            self.words[(place / 64) as usize] |= 1 << (place % 64);
        }
    }

    fn is_live(&self, chunk: &Reference) -> bool {
        let place = BitVector::place(self.keys, chunk);
        self.words[(place / 64) as usize] >> (place % 64) & 1 == 1
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// What all backups refer to, in the order of their files, by the chunks' places in the order of arrival.
pub fn backups(chunks: u64) -> impl Iterator<Item = u64> {
    let first = (chunks as f64 / (1.0 + REPLACED * (GENERATIONS - 1) as f64)) as u64;
    let mut current: Vec<u64> = (0..first).collect();
    let mut next = first;
    (0..GENERATIONS).flat_map(move |generation| {
        for (at, chunk) in current.iter_mut().enumerate().filter(|_| generation > 0) {
            let drawn = mix(generation << 48 ^ at as u64) as f64 / 2f64.powi(64);
            if drawn < REPLACED && next < chunks {
                (*chunk, next) = (next, next + 1);
            }
        }
        current.clone()
    })
}
