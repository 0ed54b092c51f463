//! A map from disjoint extents to values; neighbours that agree are one.

use crate::base::units::{Address, Extent};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The value of an extent in an [`ExtentMap`].
pub trait Value: Clone {
    /// The value of the two extents as one, if they may become one.
    fn merged(&self, next: &Self) -> Option<Self>;
}

impl Value for () {
    fn merged(&self, (): &Self) -> Option<Self> {
        Some(())
    }
}

/// Disjoint extents, each with a value. Memory grows with their number, not
/// with their length.
#[derive(Clone, Debug)]
pub struct ExtentMap<A, V> {
    /// Start → (end, value). Invariant: not empty, ascending, disjoint.
    map: BTreeMap<u64, (u64, V)>,
    bytes: u64,
    space: PhantomData<A>,
}

impl<A, V> Default for ExtentMap<A, V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), bytes: 0, space: PhantomData }
    }
}

impl<A: Address, V: Value> ExtentMap<A, V> {
    /// The number of extents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The number of bytes that the extents cover.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All extents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Extent<A>, &V)> {
        self.iter_from(0)
    }

    /// The extents that end after `from`, ascending and whole.
    pub fn iter_from(&self, from: u64) -> impl Iterator<Item = (Extent<A>, &V)> {
        let first = self.map.range(..=from).next_back().filter(|(_, (end, _))| *end > from);
        let first = first.map_or(from, |(start, _)| *start);
        self.map.range(first..).map(|(start, (end, value))| {
            crate::base::steps::step();
            (Extent::between(*start, *end), value)
        })
    }

    /// The entries within `extent`, ascending, cut to it.
    pub fn within(&self, extent: Extent<A>) -> impl Iterator<Item = (Extent<A>, &V)> {
        self.iter_from(extent.start.get())
            .take_while(move |(found, _)| found.start.get() < extent.end())
            .filter_map(move |(found, value)| Some((found.overlap(extent)?, value)))
    }

    /// Whether the map has an entry for a byte of `extent`.
    #[must_use]
    pub fn overlaps(&self, extent: Extent<A>) -> bool {
        self.within(extent).next().is_some()
    }

    /// The parts of `extent` that the map has no entry for, ascending.
    #[must_use]
    pub fn gaps(&self, extent: Extent<A>) -> Vec<Extent<A>> {
        extent.without(self.within(extent).map(|(held, _)| held))
    }

    /// Removes everything within `extent`.
    pub fn remove(&mut self, extent: Extent<A>) {
        if extent.is_empty() {
            return;
        }
        let (from, to) = (extent.start.get(), extent.end());
        self.split(from);
        self.split(to);
        let gone: Vec<u64> = self.map.range(from..to).map(|(start, _)| *start).collect();
        for start in gone {
            crate::base::steps::step();
            if let Some((end, _)) = self.map.remove(&start) {
                assert!(end <= to, "no extent goes on behind a boundary");
                assert!(self.bytes >= end - start, "the bytes of a map are those of its extents");
                self.bytes -= end - start;
            }
        }
        assert!(self.map.is_empty() == (self.bytes == 0), "a map has bytes while it has extents");
    }

    /// Sets `extent` to `value`, and replaces its entries.
    pub fn insert(&mut self, extent: Extent<A>, value: V) {
        if extent.is_empty() {
            return;
        }
        self.remove(extent);
        self.bytes += extent.len;
        self.map.insert(extent.start.get(), (extent.end(), value));
        self.join(extent.end());
        self.join(extent.start.get());
    }

    /// Makes `at` a boundary, if it lies inside an extent.
    fn split(&mut self, at: u64) {
        if let Some((_, (end, value))) = self.map.range_mut(..at).next_back()
            && *end > at
        {
            let tail = (*end, value.clone());
            *end = at;
            self.map.insert(at, tail);
        }
    }

    /// Merges the two extents that meet at `at`, if they agree.
    fn join(&mut self, at: u64) {
        let Some((right_end, right)) = self.map.get(&at) else { return };
        let Some((left_start, (left_end, left))) = self.map.range(..at).next_back() else { return };
        if *left_end != at {
            return;
        }
        if let Some(value) = left.merged(right) {
            let (start, end) = (*left_start, *right_end);
            assert!(start < at && at < end, "no extent is empty");
            self.map.remove(&at);
            self.map.insert(start, (end, value));
        }
    }
}

#[cfg(test)]
mod tests;
