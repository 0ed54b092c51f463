//! Sets of numbers, which are mostly runs.

use roaring::RoaringBitmap;
use std::ops::{RangeBounds, RangeInclusive};

/// The numbers in all of `ranges`.
pub(crate) fn set_of<R: RangeBounds<u32>>(ranges: impl IntoIterator<Item = R>) -> RoaringBitmap {
    let mut set = RoaringBitmap::new();
    for range in ranges {
        set.insert_range(range);
    }
    set
}

/// The runs of `set`, ascending.
pub(crate) fn runs(set: &RoaringBitmap) -> impl Iterator<Item = RangeInclusive<u32>> {
    let mut members = set.iter();
    std::iter::from_fn(move || members.next_range())
}
