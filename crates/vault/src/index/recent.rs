//! The part of the index that is in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{IndexEntry, Location};
use crate::Fingerprint;

/// Chunks stored or moved since the last merge.
#[derive(Debug)]
pub struct Recent {
    entries: BTreeMap<Fingerprint, Location>,
    entries_max: usize,
}

impl Recent {
    /// An empty index, which is full with `entries_max` entries; each takes some 80 bytes.
    pub fn new(entries_max: usize) -> Recent {
        Recent { entries: BTreeMap::new(), entries_max }
    }

    /// Notes where a chunk is now.
    pub fn insert(&mut self, entry: IndexEntry) {
        self.entries.insert(entry.fingerprint, entry.location);
    }

    /// Where a chunk is, if that was noted here.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<Location> {
        self.entries.get(fingerprint).copied()
    }

    /// Whether it is time to merge.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.entries_max
    }

    /// The entries with which it is full.
    pub fn entries_max(&self) -> usize {
        self.entries_max
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All entries, by fingerprint.
    pub fn entries(&self) -> impl Iterator<Item = IndexEntry> + '_ {
        self.within((Bound::Unbounded, Bound::Unbounded))
    }

    /// The entries of some fingerprints, in order.
    pub fn within(
        &self,
        fingerprints: (Bound<Fingerprint>, Bound<Fingerprint>),
    ) -> impl Iterator<Item = IndexEntry> + '_ {
        self.entries.range(fingerprints).map(|(&fingerprint, &location)| IndexEntry { fingerprint, location })
    }
}
