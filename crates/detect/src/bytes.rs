//! Structures as they lie on a disk.
//!
//! Each has a type with the fields of its specification, in its byte order, without
//! padding and alignment (`zerocopy`): the compiler checks that, and where a field lies.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The structure that `bytes` begin with; none if it is cut off.
pub(crate) fn head<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> Option<&T> {
    T::ref_from_prefix(bytes).ok().map(|(found, _)| found)
}

/// The structures that `bytes` hold, one behind the other; none of one that is cut off.
pub(crate) fn all<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> &[T] {
    <[T]>::ref_from_prefix(bytes).map_or(&[], |(found, _)| found)
}
