//! Which blocks something happened to lately.

use crate::format::Block;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

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
        self.began = now;
        let young = std::mem::take(&mut self.young);
        let old = std::mem::replace(&mut self.old, young);
        if periods == 1 { old } else { old | std::mem::take(&mut self.old) }
    }
}
