//! The calls, and the answer of the largest.

use super::waiting::Waiting;
use crate::attached::Finding;
use crate::disk::Size;
use crate::engine::RecordStatus;
use crate::host::DiskGuarantees;
use quietus_core::volume::Status;
use serde::{Deserialize, Serialize};

/// What may be asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "call", deny_unknown_fields)]
pub enum Call {
    /// What the disk knows of itself.
    Status,
    /// What is owed.
    Deaths,
    /// Destroy everything queued now; answered when that is done.
    Shred,
    /// These bytes (first, length) are dead; or, with `scour`, what lies below
    /// their content is.
    Purge {
        /// Which.
        ranges: Vec<(u64, u64)>,
        /// Keep the content.
        scour: bool,
    },
    /// Make the medium of an overlay as small as it can be; answered when that is
    /// done.
    Compact,
    /// Copy what is live at one instant to the empty file that comes with the call.
    Export,
    /// Check every format.
    Verify,
    /// Read the medium, and sign what is found.
    Prove,
}

/// The answer to [`Call::Status`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StatusAnswer {
    /// The disk's name.
    pub name: String,
    /// Its identity.
    pub disk: String,
    /// Where its content is.
    pub medium: String,
    /// Whether a server runs it.
    pub served: bool,
    /// Whether it is only read.
    pub read_only: bool,
    /// How long no request comes before it destroys.
    pub idle_after_ms: u64,
    /// How long it waits at most.
    pub deadline_ms: u64,
    /// What was deleted and is not destroyed yet.
    pub waiting: Vec<Waiting>,
    /// What it knows.
    #[serde(flatten)]
    pub status: Status,
    /// How guests are attached, if deaths are inferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Finding>,
    /// The audit log.
    pub record: RecordStatus,
    /// Of an overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// What the medium and the journal can and cannot guarantee.
    pub guarantees: DiskGuarantees,
}

/// How large an overlay is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Space {
    /// Its base.
    pub base: String,
    /// Now.
    #[serde(flatten)]
    pub now: Size,
    /// Before, the oldest first.
    pub before: Vec<Size>,
}
