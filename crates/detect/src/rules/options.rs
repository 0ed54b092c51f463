//! Options of inference: which deaths count, and how much proof each needs.

use quietus_core::watch::Attached;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which deaths count ("Life or Death at Block-Level", section 3).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// A block is dead when its last content is.
    Block,
    /// Also when it once held content of a file that is gone.
    #[default]
    Generation,
    /// Also when any older content was overwritten.
    Content,
}

/// Which deaths count as those of sensitive content.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Sensitive {
    /// All of them.
    #[default]
    All,
    /// Deaths of content of marked files (`chattr +s`), and of content whose owner is not known
    /// (`docs/decisions/0025-marks.md`).
    Marked,
}

/// Options of inference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which deaths count.
    pub grade: Grade,
    /// Take an allocation map alone as proof, as the paper does.
    pub eager: bool,
    /// Reorder window in milliseconds: a map proves nothing against a block written less than this
    /// before the map arrived, since a layer between may reorder requests. A write can count as
    /// recent for up to twice this time.
    pub reorder_window_ms: u64,
    /// Time of guest activity, in milliseconds, after which everything that the guest had yet to
    /// write has been written.
    pub settle_ms: u64,
    /// Which content is sensitive.
    pub sensitive: Sensitive,
}

impl Options {
    /// As [`Options::settle_ms`], until everything has passed what lies between as well.
    pub(crate) fn settle_ms_below(&self, attached: Attached) -> u64 {
        self.settle_ms.saturating_add(attached.hold_ms())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            grade: Grade::Generation,
            eager: false,
            reorder_window_ms: 1000,
            settle_ms: 60_000,
            sensitive: Sensitive::All,
        }
    }
}
