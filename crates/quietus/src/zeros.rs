//! Which bytes are zeros, and which blocks are not.

use quietus_core::units::BLOCK_BYTES;
use std::ops::Range;

/// Whether `bytes` are nothing but zeros; as fast as they can be read.
#[must_use]
pub fn is_zeros(bytes: &[u8]) -> bool {
    // Without a branch for each byte, and with one every now and then.
    bytes.chunks(256).all(|chunk| chunk.iter().fold(0, |any, byte| any | byte) == 0)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_told_from_all_else_wherever_it_is() {
        for len in [0, 1, 255, 256, 257, 4096] {
            let mut bytes = vec![0; len];
            assert!(is_zeros(&bytes));
            for at in 0..len {
                bytes[at] = 1;
                assert!(!is_zeros(&bytes), "{at} of {len}");
                bytes[at] = 0;
            }
        }
    }
}
