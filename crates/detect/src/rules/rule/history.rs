//! The clock, and sets of recent blocks.

use crate::formats::format::Block;
use crate::mutant::{self, Mutant};
use quietus_core::base::units::Millis;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// Longest time between two changes in which the guest counts as active.
const ACTIVE_GAP_MS: u64 = 1000;
/// The time, and how long the guest was active.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) now: Millis,
    /// Time of the last change of the disk.
    changed: Millis,
    pub(crate) active_ms: u64,
}

impl Clock {
    pub(crate) fn new(now: Millis) -> Self {
        Self { now, changed: now, active_ms: 0 }
    }

    pub(crate) fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// Notes a change of the disk.
    pub(crate) fn change(&mut self, now: Millis) {
        self.tick(now);
        let most = if mutant::is(Mutant::TimeAloneProves) { u64::MAX } else { ACTIVE_GAP_MS };
        self.active_ms += self.now.since(self.changed).min(most);
        self.changed = self.now;
    }
}

/// Blocks, each kept for at least one period, and for at most two.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentBlocks {
    /// Blocks inserted in the present period.
    current: RoaringBitmap,
    /// Blocks inserted in the period before.
    previous: RoaringBitmap,
    began: u64,
}

impl RecentBlocks {
    pub(crate) fn new(now: u64) -> Self {
        Self { began: now, ..Self::default() }
    }

    /// The set after a clean stop: all of `blocks`, for at least one more period.
    pub(crate) fn kept(blocks: &RoaringBitmap) -> Self {
        Self { current: blocks.clone(), ..Self::default() }
    }

    pub(crate) fn insert(&mut self, blocks: RangeInclusive<Block>) {
        self.current.insert_range(blocks);
    }

    pub(crate) fn extend(&mut self, blocks: &RoaringBitmap) {
        self.current |= blocks;
    }

    pub(crate) fn remove(&mut self, blocks: RangeInclusive<Block>) {
        self.current.remove_range(blocks.clone());
        self.previous.remove_range(blocks);
    }

    /// Removes the blocks in `others`.
    pub(crate) fn subtract(&mut self, others: &RoaringBitmap) {
        self.current -= others;
        self.previous -= others;
    }

    /// The members among `blocks`.
    pub(crate) fn within(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        (blocks & &self.current) | (blocks & &self.previous)
    }

    /// Adds the members among `blocks` to `found`.
    pub(crate) fn add_within(&self, blocks: RangeInclusive<Block>, found: &mut RoaringBitmap) {
        add_within(&self.current, blocks.clone(), found);
        add_within(&self.previous, blocks, found);
    }

    /// Counts all members as inserted `now`.
    pub(crate) fn renew(&mut self, now: u64) {
        self.current |= std::mem::take(&mut self.previous);
        self.began = now;
    }

    pub(crate) fn len(&self) -> u64 {
        self.current.union_len(&self.previous)
    }

    pub(crate) fn clear(&mut self) {
        (self.current, self.previous) = Default::default();
    }

    pub(crate) fn all(&self) -> RoaringBitmap {
        &self.current | &self.previous
    }

    /// Advances the time, and returns the blocks that expire.
    pub(crate) fn expire(&mut self, now: u64, period: u64) -> RoaringBitmap {
        let periods = (now.saturating_sub(self.began)).checked_div(period).unwrap_or(2);
        if periods == 0 {
            return RoaringBitmap::new();
        }
        self.began += periods * period;
        let current = std::mem::take(&mut self.current);
        let old = std::mem::replace(&mut self.previous, current);
        if periods == 1 { old } else { old | std::mem::take(&mut self.previous) }
    }
}

/// Adds the blocks of `set` within `blocks` to `found`. Most sets are mostly empty.
pub(crate) fn add_within(set: &RoaringBitmap, blocks: RangeInclusive<Block>, found: &mut RoaringBitmap) {
    if !set.is_empty() {
        found.extend(set.range(blocks));
    }
}
