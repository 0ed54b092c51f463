//! How much is inferred, and how sure it must be.

use serde::{Deserialize, Serialize};

/// Which deaths count ("Life or Death at Block-Level", section 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// A block is dead when its last content is.
    Block,
    /// And when some content is that it held for a file that is gone.
    #[default]
    Generation,
    /// Every content is dead once another one is written over it.
    Content,
}

/// How to infer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which deaths count.
    pub grade: Grade,
    /// Take an allocation map alone as proof, as the paper does.
    pub eager: bool,
    /// A map proves nothing against a block that was written less than this
    /// before it arrived, in milliseconds: something between may reorder. Less than
    /// twice this may count too.
    pub reorder_window_ms: u64,
    /// After this much time in which the guest was active, in milliseconds,
    /// whatever it had yet to write has been written.
    pub settle_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { grade: Grade::Generation, eager: false, reorder_window_ms: 1000, settle_ms: 60_000 }
    }
}
