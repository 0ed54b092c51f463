//! One bit for each ordinal that was ever given.

use super::LiveSet;
use crate::{Ordinal, Reference};

/// Words of a part: 16,384 ordinals.
const PART_WORDS: usize = 256;

/// A bit for each ordinal below the first one that a sanitization does not judge.
#[derive(Debug)]
pub struct Ordinals {
    words: Vec<u64>,
    end: Ordinal,
}

impl Ordinals {
    /// A set of the chunks with ordinals below `end`, without a mark.
    pub fn new(end: Ordinal) -> Ordinals {
        Ordinals { words: vec![0; (end.0 as usize).div_ceil(64)], end }
    }

    fn is_live(&self, ordinal: Ordinal) -> bool {
        ordinal >= self.end || self.words[(ordinal.0 / 64) as usize] >> (ordinal.0 % 64) & 1 == 1
    }
}

impl LiveSet for Ordinals {
    fn mark(&mut self, chunks: &[Reference]) {
        for Reference { ordinal, .. } in chunks.iter().filter(|chunk| chunk.ordinal < self.end) {
            self.words[(ordinal.0 / 64) as usize] |= 1 << (ordinal.0 % 64);
        }
    }

    fn look_up(&self, chunks: &[Reference], out: &mut Vec<bool>) {
        out.extend(chunks.iter().map(|chunk| self.is_live(chunk.ordinal)));
    }

    fn parts(&self) -> usize {
        self.words.len().div_ceil(PART_WORDS)
    }

    fn part(&self, chunk: &Reference) -> Option<usize> {
        (chunk.ordinal < self.end).then_some(chunk.ordinal.0 as usize / (64 * PART_WORDS))
    }

    fn marked(&self, part: usize) -> u64 {
        let words = self.words.iter().skip(part * PART_WORDS).take(PART_WORDS);
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}
