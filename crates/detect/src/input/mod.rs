//! Bytes that a guest has written, read without trust: numbers, bitmaps.

pub(crate) mod bits;
pub(crate) mod bytes;
