//! The time, and which blocks something happened to lately.

use crate::format::Block;
use crate::mutant::{self, Mutant};
use quietus_core::units::Millis;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// Longest time between two changes in which the guest counts as active.
const ACTIVE_GAP_MS: u64 = 1000;
/// The time, and how much of it the guest was active.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Millis,
    /// The last change of the disk.
    changed: Millis,
    pub(super) active_ms: u64,
}

impl Clock {
    pub(super) fn new(now: Millis) -> Self {
        Self { now, changed: now, active_ms: 0 }
    }

    pub(super) fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// The disk changes.
    pub(super) fn change(&mut self, now: Millis) {
        self.tick(now);
        let most = if mutant::is(Mutant::TimeAloneProves) { u64::MAX } else { ACTIVE_GAP_MS };
        self.active_ms += self.now.since(self.changed).min(most);
        self.changed = self.now;
    }
}

/// Blocks, each kept for at least one period, and for at most two.
#[derive(Clone, Debug, Default)]
pub(super) struct Lately {
    /// Since the present period began.
    young: RoaringBitmap,
    /// In the one before.
    old: RoaringBitmap,
    began: u64,
}

impl Lately {
    pub(super) fn new(now: u64) -> Self {
        Self { began: now, ..Self::default() }
    }

    pub(super) fn insert(&mut self, blocks: RangeInclusive<Block>) {
        self.young.insert_range(blocks);
    }

    pub(super) fn extend(&mut self, blocks: &RoaringBitmap) {
        self.young |= blocks;
    }

    pub(super) fn remove(&mut self, blocks: RangeInclusive<Block>) {
        self.young.remove_range(blocks.clone());
        self.old.remove_range(blocks);
    }

    /// Takes the blocks out that `others` has.
    pub(super) fn subtract(&mut self, others: &RoaringBitmap) {
        self.young -= others;
        self.old -= others;
    }

    /// Those of `blocks` that are kept.
    pub(super) fn within(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        (blocks & &self.young) | (blocks & &self.old)
    }

    /// Adds to `found` those of `blocks` that are kept.
    pub(super) fn add_within(&self, blocks: RangeInclusive<Block>, found: &mut RoaringBitmap) {
        found.extend(self.young.range(blocks.clone()));
        found.extend(self.old.range(blocks));
    }

    pub(super) fn len(&self) -> u64 {
        self.young.union_len(&self.old)
    }

    pub(super) fn clear(&mut self) {
        (self.young, self.old) = Default::default();
    }

    /// All of them.
    pub(super) fn all(&self) -> RoaringBitmap {
        &self.young | &self.old
    }

    /// Lets time pass: those whose time is over.
    pub(super) fn expire(&mut self, now: u64, period: u64) -> RoaringBitmap {
        let periods = (now.saturating_sub(self.began)).checked_div(period).unwrap_or(2);
        if periods == 0 {
            return RoaringBitmap::new();
        }
        self.began += periods * period;
        let young = std::mem::take(&mut self.young);
        let old = std::mem::replace(&mut self.old, young);
        if periods == 1 { old } else { old | std::mem::take(&mut self.old) }
    }
}
