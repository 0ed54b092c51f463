//! Structures and numbers in bytes that may be cut off.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The structure at byte `at` of `bytes`; `None` if `bytes` end before its end.
pub(super) fn at<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8], at: usize) -> Option<&T> {
    T::ref_from_prefix(bytes.get(at..)?).ok().map(|(found, _)| found)
}

/// The `len` bytes from byte `at` on.
pub(super) fn slice(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}
