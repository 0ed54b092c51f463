//! The calls, and the answer to the largest.

use super::epochs::{Epochs, EpochsKept};
use super::lives::LivesAt;
use super::verdict::Verdict;
use super::waiting::Waiting;
use crate::disk::Size;
use crate::engine::RecordStatus;
use crate::host::attached::Finding;
use crate::host::guarantees::DiskGuarantees;
use crate::proof::sensitivity::Sensitivity;
use quietus_core::volume::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls of the control socket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "call", deny_unknown_fields)]
pub enum Call {
    /// The status of the disk.
    Status,
    /// How worn the flash chip is.
    Wear,
    /// The obligations.
    Deaths,
    /// Destroy everything queued now; answered when that is done.
    Shred,
    /// Count what a purge of these ranges would end; nothing changes.
    WeighPurge {
        /// First byte and length of each range.
        ranges: Vec<(u64, u64)>,
    },
    /// Declare these ranges dead; or, with `conservative`, what lies below their content.
    Purge {
        /// First byte and length of each range.
        ranges: Vec<(u64, u64)>,
        /// Keep the present content.
        conservative: bool,
    },
    /// Make the medium of an overlay as small as it can be; answered when that is
    /// done.
    Compact,
    /// Copy what is live at one instant to the empty file that comes with the call.
    Export,
    /// Close the open epoch of a disk that keeps versions; and give it a name.
    Epoch {
        /// The name.
        name: Option<String>,
        /// Whether the operator confirms the host's clock.
        #[serde(default)]
        confirm_clock: bool,
    },
    /// The kept epochs, from this number on.
    Versions {
        /// The number of the first one.
        from: u64,
        /// Whether to count what forgetting each alone would destroy.
        #[serde(default)]
        unique: bool,
    },
    /// Forget epochs; answered when the intent is durable, or, with `wait`, when all that died is destroyed.
    Forget {
        /// The epochs.
        epochs: Epochs,
        /// Whether to wait for the end.
        wait: bool,
    },
    /// Forget blocks in all epochs up to the last one that has closed, or in some; answered as `Forget` is.
    ForgetBlocks {
        /// First byte and length of each range, in whole blocks.
        ranges: Vec<(u64, u64)>,
        /// The epochs; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epochs: Option<Epochs>,
        /// Purge them from the current state first.
        current: bool,
        /// Whether to wait for the end.
        wait: bool,
    },
    /// Forget what some epochs show of some blocks, and others of others, as one: all of it, or nothing. Answered as `Forget` is.
    ForgetParts {
        /// First byte and length of each part, in whole blocks, and its first and last epoch. In this order.
        parts: Vec<(u64, u64, u64, u64)>,
        /// Whether to wait for the end.
        wait: bool,
    },
    /// Count what a forget of parts would destroy; nothing changes. Answered as `WeighBlocks` is.
    WeighParts {
        /// As for `ForgetParts`.
        parts: Vec<(u64, u64, u64, u64)>,
    },
    /// Count what a forget of blocks would destroy; nothing changes.
    WeighBlocks {
        /// First byte and length of each range, in whole blocks.
        ranges: Vec<(u64, u64)>,
        /// The epochs; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epochs: Option<Epochs>,
    },
    /// Count what a forget of epochs would destroy; nothing changes.
    Weigh {
        /// The epochs.
        epochs: Epochs,
    },
    /// Refuse to forget epochs until the hold is released.
    Hold {
        /// The name of the hold.
        name: String,
        /// The epochs.
        epochs: Epochs,
        /// The person or office that asks for the hold.
        who: String,
        /// Why.
        why: String,
    },
    /// Release a hold.
    Release {
        /// The name of the hold.
        name: String,
    },
    /// Copy the disk as it was at an epoch to the empty file that comes with the call.
    ExportPast {
        /// The epoch, in words.
        at: String,
        /// What is forgotten there is zeros in the copy. Else it refuses the call.
        #[serde(default)]
        zeros: bool,
    },
    /// The ranges in which an epoch differs from another one, or from the current state.
    Diff {
        /// The epoch, in words.
        from: String,
        /// The other epoch; `None` for the current state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// Where on the disk to begin.
        #[serde(default)]
        start: u64,
        /// First byte and length of each range to compare, in order; without any all of the disk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ranges: Vec<(u64, u64)>,
    },
    /// The epochs that change the blocks of each range, after one.
    Lives {
        /// The epoch after which changes count, in words.
        from: String,
        /// First byte and length of each range.
        ranges: Vec<(u64, u64)>,
        /// Where to go on, as the answer before says; `None` to begin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<LivesAt>,
    },
    /// Read ranges of an epoch, or of the current state, into the file that comes with the call: one behind the other, from its start on.
    Read {
        /// The epoch, in words; `None` for the current state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
        /// First byte and length of each range; without any the answer is the size.
        ranges: Vec<(u64, u64)>,
    },
    /// Write the state of an epoch over the current one.
    Restore {
        /// The epoch, in words.
        at: String,
    },
    /// Check every file.
    Verify {
        /// Whether to read all content of a sealed disk, or that of every version of a disk that keeps them.
        #[serde(default)]
        read_data: bool,
    },
    /// Read the medium, and sign what is found.
    Prove,
}

impl Call {
    /// Whether the call may change the disk.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::Shred
            | Self::Compact
            | Self::Purge { .. }
            | Self::Epoch { .. }
            | Self::Restore { .. }
            | Self::Forget { .. }
            | Self::ForgetBlocks { .. }
            | Self::ForgetParts { .. }
            | Self::Hold { .. }
            | Self::Release { .. } => true,
            Self::Status
            | Self::Wear
            | Self::Deaths
            | Self::WeighParts { .. }
            | Self::WeighPurge { .. }
            | Self::Export
            | Self::Versions { .. }
            | Self::Weigh { .. }
            | Self::WeighBlocks { .. }
            | Self::ExportPast { .. }
            | Self::Diff { .. }
            | Self::Lives { .. }
            | Self::Read { .. }
            | Self::Verify { .. }
            | Self::Prove => false,
        }
    }
}

/// The answer to [`Call::Status`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusAnswer {
    /// Name of the disk.
    pub name: String,
    /// Identity of the disk.
    pub disk: String,
    /// Path of the medium.
    pub medium: String,
    /// Whether a server runs the disk.
    pub served: bool,
    /// Whether the disk is only read.
    pub read_only: bool,
    /// Time without a request after which queued content is destroyed, ms.
    pub idle_after_ms: u64,
    /// Time after which queued content is destroyed at the latest, ms.
    pub deadline_ms: u64,
    /// How long the root of a sealed disk lasts at that pace, ms; absent if writes do not wear it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_life_ms: Option<u64>,
    /// Whether everything that is known to be deleted is gone.
    pub verdict: Verdict,
    /// Content that was deleted and is not destroyed yet.
    pub waiting: Vec<Waiting>,
    /// The status of the volume.
    #[serde(flatten)]
    pub status: Status,
    /// The epochs of a disk that keeps versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<EpochsKept>,
    /// How guests are attached, if deaths are inferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Finding>,
    /// Which content is sensitive, on a disk that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<Sensitivity>,
    /// State of the audit log.
    pub record: RecordStatus,
    /// Sizes of an overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// Guarantees of the medium and the journal.
    pub guarantees: DiskGuarantees,
}

/// Sizes of an overlay, now and before.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Space {
    /// Path of the base.
    pub base: String,
    /// The present size.
    #[serde(flatten)]
    pub now: Size,
    /// Earlier sizes, the oldest first.
    pub before: Vec<Size>,
}
