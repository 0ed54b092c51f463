//! The simulated machine below a disk: media that lose, tear and remember writes, a cache above them, and the random source that every history
//! follows from.

pub(crate) mod cache;
pub(crate) mod content;
pub(crate) mod history;
pub(crate) mod media;
pub(crate) mod medium;
pub(crate) mod remanence;
pub(crate) mod rng;
