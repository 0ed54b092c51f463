//! The paper's sections 4.2 and 4.3: fingerprints themselves, of all that is live or of some containers at a time.

use quietus_vault::{Fingerprint, Reference};

use crate::keys::{Keys, sorted, word};
use crate::set::Set;

/// Bytes that are kept of a fingerprint: the paper's 160 bits.
const BYTES: usize = 20;
/// Places for each fingerprint, in tenths: with fewer of them, looking one up takes long.
const TENTHS: u64 = 12;

type Entry = [u8; BYTES];

/// A table of fingerprints, each at the first free place behind the one that its prefix gives.
struct Table {
    /// An entry of zeros is free.
    entries: Vec<Entry>,
}

impl Table {
    fn new(fingerprints: u64) -> Table {
        // Behind the last place are some more: the table does not go round.
        Table { entries: vec![[0; BYTES]; (fingerprints * TENTHS / 10 + 1024) as usize] }
    }

    /// Where the fingerprint is, or should be.
    fn place(&self, fingerprint: &Fingerprint, of: u64) -> usize {
        let entry = &fingerprint.0[..BYTES];
        let first = ((u128::from(word(fingerprint, 0)) * u128::from(of * TENTHS / 10)) >> 64) as usize;
        let ends = |at: &Entry| at == entry || *at == [0; BYTES];
        first + self.entries[first..].iter().position(ends).expect("less than the announced fingerprints")
    }

    fn put(&mut self, fingerprint: &Fingerprint, of: u64) {
        let place = self.place(fingerprint, of);
        self.entries[place].copy_from_slice(&fingerprint.0[..BYTES]);
    }

    fn has(&self, fingerprint: &Fingerprint, of: u64) -> bool {
        self.entries[self.place(fingerprint, of)] != [0; BYTES]
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * BYTES
    }
}

/// All live fingerprints.
pub struct FullIndex {
    table: Table,
    count: u64,
    sorted: Vec<Fingerprint>,
}

impl FullIndex {
    pub fn new(keys: &Keys) -> FullIndex {
        FullIndex { table: Table::new(keys.count()), count: keys.count(), sorted: Vec::new() }
    }
}

impl Set for FullIndex {
    fn mark(&mut self, chunks: &[Reference]) {
        for fingerprint in sorted(chunks, &mut self.sorted) {
            self.table.put(fingerprint, self.count);
        }
    }

    fn is_live(&self, chunk: &Reference) -> bool {
        self.table.has(&chunk.fingerprint, self.count)
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// The fingerprints of some containers, and a mark for each; all references are enumerated once for each such unit.
pub struct Partitioned {
    table: Table,
    count: u64,
    marks: Vec<u64>,
    sorted: Vec<Fingerprint>,
}

impl Partitioned {
    /// The first of so many units.
    pub fn new(keys: &Keys, turns: u64) -> Partitioned {
        let count = keys.count().div_ceil(turns);
        let mut table = Table::new(count);
        (0..count).for_each(|arrived| table.put(&keys.fingerprint(keys.at(arrived)), count));
        let marks = vec![0; table.entries.len().div_ceil(64)];
        Partitioned { table, count, marks, sorted: Vec::new() }
    }
}

impl Set for Partitioned {
    fn mark(&mut self, chunks: &[Reference]) {
        for fingerprint in sorted(chunks, &mut self.sorted) {
            let place = self.table.place(fingerprint, self.count);
            let is_here = self.table.entries[place] != [0; BYTES];
            self.marks[place / 64] |= u64::from(is_here) << (place % 64);
        }
    }

    /// What is in another unit counts as live.
    fn is_live(&self, chunk: &Reference) -> bool {
        let place = self.table.place(&chunk.fingerprint, self.count);
        self.table.entries[place] == [0; BYTES] || self.marks[place / 64] >> (place % 64) & 1 == 1
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.marks.capacity() * 8
    }
}
