//! An ideal cipher: a sector can be read only with the cell that it was encrypted under, in its own place. All that was ever encrypted is on
//! record, so that a judge who has the cells knows what they open.

use crate::machine::content::indices;
use crate::machine::medium::record::hash;
use crate::machine::remanence::{SECTOR_BYTES, Trace, traces};
use crate::machine::rng::mix;
use quietus_core::base::cell::Cell;
use quietus_core::base::units::{BLOCK_BYTES, Block, Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::cipher::Cipher;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES as u64;

/// The bytes of a cell.
pub type CellBytes = [u8; 32];

/// The cipher, and its record.
#[derive(Debug, Default)]
pub struct IdealCipher(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    made: Vec<Encrypted>,
    /// The record of each ciphertext, by its sector of the disk and a hash.
    by_ciphertext: BTreeMap<(u64, u64), usize>,
}

/// A sector that was encrypted.
#[derive(Clone, Debug)]
pub struct Encrypted {
    /// The sector's number on the disk.
    pub sector: u64,
    pub cell: CellBytes,
    /// The hash of the ciphertext.
    pub hash: u64,
    /// The content that can be recognised in it.
    pub traces: Vec<Trace>,
    content: Vec<u8>,
}

impl IdealCipher {
    /// Number of sectors that were encrypted.
    pub fn count(&self) -> usize {
        self.record().made.len()
    }

    /// The blocks of which something was encrypted.
    pub fn blocks(&self) -> BTreeSet<u64> {
        self.record().made.iter().map(|it| it.sector / BLOCK_SECTORS).collect()
    }

    /// All cells that anything was encrypted under.
    pub fn cells(&self) -> BTreeSet<CellBytes> {
        self.record().made.iter().map(|it| it.cell).collect()
    }

    /// What was encrypted under these cells, each with its number.
    pub fn under(&self, cells: &BTreeSet<CellBytes>) -> Vec<(usize, Encrypted)> {
        let record = self.record();
        let made = record.made.iter().enumerate();
        made.filter(|(_, it)| !it.traces.is_empty() && cells.contains(&it.cell))
            .map(|(n, it)| (n, it.clone()))
            .collect()
    }

    /// The content of some whole sectors of the disk, whose ciphertext is `bytes`, whatever its cell: zeros where that was never made.
    pub fn content(&self, start: Pos, bytes: &[u8]) -> Vec<u8> {
        let (record, mut content) = (self.record(), vec![0; bytes.len()]);
        let first = start.0 / SECTOR_BYTES as u64;
        for (n, ciphertext) in (first..).zip(bytes.chunks(SECTOR_BYTES)) {
            if let Some(made) = record.by_ciphertext.get(&(n, hash(ciphertext))) {
                let at = Extent::<Pos>::new(n * SECTOR_BYTES as u64, SECTOR_BYTES as u64);
                content[indices(at, start.0)].copy_from_slice(&record.made[*made].content);
            }
        }
        content
    }

    /// The cell of a sector of the disk, whose ciphertext is `bytes`; `None` if that was never made.
    pub fn cell_of(&self, sector: u64, bytes: &[u8]) -> Option<CellBytes> {
        let record = self.record();
        let made = record.by_ciphertext.get(&(sector, hash(bytes)))?;
        Some(record.made[*made].cell)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cipher for IdealCipher {
    fn encrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        assert!(content.len().is_multiple_of(SECTOR_BYTES), "whole sectors are encrypted");
        let mut record = self.record();
        for (n, bytes) in (from as u64..).zip(content.chunks_exact_mut(SECTOR_BYTES)) {
            assert!(n < BLOCK_SECTORS, "a block has eight sectors");
            let sector = block.0 * BLOCK_SECTORS + n;
            let plain = bytes.to_vec();
            apply(cell, sector, bytes);
            let (number, hash) = (record.made.len(), hash(bytes));
            let known = record.by_ciphertext.entry((sector, hash)).or_insert(number);
            if *known == number {
                let traces = traces(&plain);
                record.made.push(Encrypted { sector, cell: *cell.bytes(), hash, traces, content: plain });
            }
        }
    }

    fn decrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        for (n, bytes) in (from as u64..).zip(content.chunks_mut(SECTOR_BYTES)) {
            if !is_zeros(bytes) {
                apply(cell, block.0 * BLOCK_SECTORS + n, bytes);
            }
        }
    }
}

/// Turns the content of a sector into ciphertext, or back.
fn apply(cell: &Cell, sector: u64, bytes: &mut [u8]) {
    let key = cell.bytes().chunks_exact(8).fold(mix(sector), |key, word| mix(key ^ number(word)));
    for (n, word) in bytes.chunks_exact_mut(8).enumerate() {
        let stream = mix(key.wrapping_add(n as u64)).to_le_bytes();
        word.iter_mut().zip(stream).for_each(|(byte, more)| *byte ^= more);
    }
}

fn number(word: &[u8]) -> u64 {
    u64::from_le_bytes(word.try_into().expect("a word has eight bytes"))
}

#[cfg(test)]
mod tests;
