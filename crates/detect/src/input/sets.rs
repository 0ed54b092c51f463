//! Sets of numbers, which are mostly runs.

use roaring::RoaringBitmap;
use std::ops::{Range, RangeBounds, RangeInclusive};

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

/// The runs of `set`, ascending, as half-open ranges.
pub(crate) fn ranges(set: &RoaringBitmap) -> Vec<Range<u32>> {
    runs(set).map(|run| *run.start()..*run.end() + 1).collect()
}

/// Adds `next` to `ranges`, merged with the last one where the two are contiguous.
pub(crate) fn join(ranges: &mut Vec<Range<u32>>, next: Range<u32>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}
