//! Which blocks are zeros, and which are not.

use quietus_core::base::units::BLOCK_BYTES;
use quietus_core::base::zeros::is_zeros;
use std::ops::Range;

/// The runs of blocks of `bytes` that are not all zeros, as offsets.
pub(crate) fn filled(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    runs_where(bytes, |block| !is_zeros(&bytes[block]))
}

/// The runs of blocks in which `is_wanted`, as offsets.
pub(crate) fn runs_where(
    bytes: &[u8],
    is_wanted: impl Fn(Range<usize>) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let (len, size) = (bytes.len(), BLOCK_BYTES as usize);
    let mut next = 0;
    std::iter::from_fn(move || {
        let block = |at: usize| at..len.min(at + size);
        while next < len && !is_wanted(block(next)) {
            next += size;
        }
        let start = next;
        while next < len && is_wanted(block(next)) {
            next += size;
        }
        (start < len).then(|| start..next.min(len))
    })
}
