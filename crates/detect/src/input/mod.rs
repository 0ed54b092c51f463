//! Bytes that a guest has written, read without trust: numbers, bitmaps; and sets of numbers.

pub(crate) mod bits;
pub(crate) mod bytes;
pub(crate) mod sets;
