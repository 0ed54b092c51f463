//! Structures as they lie on a disk.
//!
//! Each structure has a type with the fields of its specification, in its byte order, without
//! padding or alignment (`zerocopy`): the compiler checks the size, and the place of each field.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The structure at the start of `bytes`; `None` if `bytes` are too short.
pub(crate) fn head<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> Option<&T> {
    T::ref_from_prefix(bytes).ok().map(|(found, _)| found)
}

/// The structures in `bytes`, one after another, without a last one that is cut off.
pub(crate) fn all<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> &[T] {
    <[T]>::ref_from_prefix(bytes).map_or(&[], |(found, _)| found)
}
