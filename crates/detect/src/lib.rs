//! Who watches what is written and says what died.
//!
//! A detector does no input or output. What each file system looks like to one
//! comes with the detectors themselves; today there is the one that knows
//! nothing, under which only explicit frees count.
#![forbid(unsafe_code)]

use quietus_core::units::{Addr, Extent};

/// Watches what is written over what.
pub trait Detector: Send {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What it needs of the channel, and can infer.
    fn properties(&self) -> Properties;

    /// `new` is about to be written at `extent`, over `old`. Returns the
    /// deaths that follow from it, if any.
    fn observe(&mut self, extent: Extent<Addr>, old: &[u8], new: &[u8]) -> Vec<Inferred>;
}

/// What a detector needs and can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// It reads an order into the arrival of writes: one connection only.
    pub needs_one_channel: bool,
    /// It needs to see what is written at all.
    pub observes_writes: bool,
}

/// A death that was inferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inferred {
    /// What is dead.
    pub extent: Extent<Addr>,
    /// Its content is certainly dead; else only what lies below it may be.
    pub certain: bool,
}

/// Knows no file system: nothing is inferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NullDetector;

impl Detector for NullDetector {
    fn name(&self) -> &'static str {
        "off"
    }

    fn properties(&self) -> Properties {
        Properties { needs_one_channel: false, observes_writes: false }
    }

    fn observe(&mut self, _: Extent<Addr>, _: &[u8], _: &[u8]) -> Vec<Inferred> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_nothing_infers_nothing_and_allows_many_channels() {
        let mut null = NullDetector;
        assert_eq!(null.observe(Extent::new(0, 1), &[1], &[0]), []);
        assert!(!null.properties().needs_one_channel);
    }
}
