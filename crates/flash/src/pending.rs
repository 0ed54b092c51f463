//! What is not on the chip yet.

use crate::record::Mark;
use crate::units::{UNIT_BYTES, Unit};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Extent, Pos};
use std::collections::BTreeMap;

const BYTES: u64 = UNIT_BYTES as u64;

/// The extent of `count` units from `first` on.
pub(crate) fn extent(first: Unit, count: u32) -> Extent<Pos> {
    Extent::new(u64::from(first.0) * BYTES, u64::from(count) * BYTES)
}

/// The units of an extent of whole ones.
pub(crate) fn units(extent: Extent<Pos>) -> impl Iterator<Item = Unit> {
    ((extent.start.0 / BYTES) as u32..(extent.end() / BYTES) as u32).map(Unit)
}

/// Writes and marks that the next runs take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// The content of units.
    writes: BTreeMap<Unit, Vec<u8>>,
    /// The content of units that are kept apart.
    apart: BTreeMap<Unit, Vec<u8>>,
    trimmed: BlockSet<Pos>,
    lost: BlockSet<Pos>,
}

impl Pending {
    pub(crate) fn has_apart(&self) -> bool {
        !self.apart.is_empty()
    }

    /// Number of units to write, without those that are kept apart.
    pub(crate) fn count_writes(&self) -> usize {
        self.writes.len()
    }

    /// What waits to be written to `unit`.
    pub(crate) fn read(&self, unit: Unit) -> Option<&[u8]> {
        self.writes.get(&unit).or_else(|| self.apart.get(&unit)).map(Vec::as_slice)
    }

    pub(crate) fn write(&mut self, unit: Unit, bytes: Vec<u8>, is_apart: bool) {
        let writes = if is_apart { &mut self.apart } else { &mut self.writes };
        writes.insert(unit, bytes);
    }

    /// Keeps these units apart from now on.
    pub(crate) fn set_apart(&mut self, set: &BlockSet<Pos>) {
        self.apart.extend(self.writes.extract_if(.., |unit, _| set.contains(u64::from(unit.0))));
    }

    pub(crate) fn has_marks(&self) -> bool {
        !self.trimmed.is_empty() || !self.lost.is_empty()
    }

    /// Marks whole units as trimmed, and drops what was to be written to them.
    pub(crate) fn trim(&mut self, extent: Extent<Pos>) {
        let first = Unit((extent.start.0 / BYTES) as u32);
        let end = Unit((extent.end() / BYTES) as u32);
        for writes in [&mut self.writes, &mut self.apart] {
            writes.extract_if(first..end, |_, _| true).for_each(drop);
        }
        self.mark(extent, false);
    }

    /// Marks whole units as trimmed or lost, without an effect on writes.
    pub(crate) fn mark(&mut self, extent: Extent<Pos>, is_lost: bool) {
        let (into, from) = match is_lost {
            true => (&mut self.lost, &mut self.trimmed),
            false => (&mut self.trimmed, &mut self.lost),
        };
        from.remove(extent);
        into.insert(extent);
    }

    /// Number of marks, at most `max`.
    pub(crate) fn count_marks(&self, max: usize) -> usize {
        self.trimmed.runs().chain(self.lost.runs()).take(max).count()
    }

    /// Takes at most `max` marks.
    pub(crate) fn take_marks(&mut self, max: usize) -> Vec<Mark> {
        let mark = |extent: Extent<Pos>, is_lost| Mark {
            first: Unit((extent.start.0 / BYTES) as u32),
            count: (extent.len / BYTES) as u32,
            is_lost,
        };
        let trimmed = self.trimmed.runs().map(|extent| mark(extent, false));
        let lost = self.lost.runs().map(|extent| mark(extent, true));
        let marks: Vec<Mark> = trimmed.chain(lost).take(max).collect();
        for mark in &marks {
            let set = if mark.is_lost { &mut self.lost } else { &mut self.trimmed };
            set.remove(extent(mark.first, mark.count));
        }
        marks
    }

    /// Takes the content of the units that are kept apart.
    pub(crate) fn take_apart(&mut self) -> Vec<(Unit, Vec<u8>)> {
        std::mem::take(&mut self.apart).into_iter().collect()
    }

    /// Takes the content of at most `max` other units.
    pub(crate) fn take_writes(&mut self, max: usize) -> Vec<(Unit, Vec<u8>)> {
        std::iter::from_fn(|| self.writes.pop_first()).take(max).collect()
    }
}
