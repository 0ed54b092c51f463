//! Which chunks are live: one bit for each number that was ever given to a chunk, when a sanitization begins.
//!
//! The set is exact for the chunks with lower numbers: one of them is live if and only if it was marked. What the set
//! does not cover counts as live, and marking that has no effect. (The paper's section 4 compares other sets.)

#[cfg(test)]
mod tests;

use crate::{Ordinal, Reference};

/// Words of a part: 16,384 ordinals.
const PART_WORDS: usize = 256;

/// A bit for each ordinal below the first one that a sanitization does not judge.
#[derive(Debug)]
pub struct Live {
    words: Vec<u64>,
    end: Ordinal,
}

impl Live {
    /// A set of the chunks with ordinals below `end`, none of them live.
    pub fn new(end: Ordinal) -> Live {
        Live { words: vec![0; (end.0 as usize).div_ceil(64)], end }
    }

    /// Marks chunks as live.
    pub fn mark(&mut self, chunks: &[Reference]) {
        for Reference { ordinal, .. } in chunks.iter().filter(|chunk| chunk.ordinal < self.end) {
            self.words[(ordinal.0 / 64) as usize] |= 1 << (ordinal.0 % 64);
        }
    }

    /// Whether a chunk is live.
    pub fn has(&self, chunk: &Reference) -> bool {
        let Ordinal(ordinal) = chunk.ordinal;
        chunk.ordinal >= self.end || self.words[(ordinal / 64) as usize] >> (ordinal % 64) & 1 == 1
    }

    /// The number of parts in which marks are counted.
    pub fn parts(&self) -> usize {
        self.words.len().div_ceil(PART_WORDS)
    }

    /// The part that a chunk is in; `None` if the set does not cover it.
    pub fn part(&self, chunk: &Reference) -> Option<usize> {
        (chunk.ordinal < self.end).then_some(chunk.ordinal.0 as usize / (64 * PART_WORDS))
    }

    /// How many chunks of a part are marked.
    pub fn marked(&self, part: usize) -> u64 {
        let words = self.words.iter().skip(part * PART_WORDS).take(PART_WORDS);
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}
