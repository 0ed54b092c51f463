//! The ciphers that seals are built from, each with the vectors of its specification.

pub(crate) mod ctr;
pub(crate) mod mac;
pub(crate) mod random;
pub(crate) mod siv;
pub(crate) mod wrap;
pub(crate) mod xts;
