//! Answers of calls: over the socket, and with `--json`.

use super::waiting::Waiting;
use crate::disk::epochs::HoldOf;
use quietus_core::base::units::{Addr, Extent, SetId};
use quietus_core::owed::ledger::Cause;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Content that is still to be destroyed: the answer to [`Call::Deaths`](super::Call::Deaths).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Owed {
    /// The first thousand ranges.
    pub owed: Vec<OwedRange>,
    /// How many more there are.
    pub more: usize,
}

/// A range of the disk that is to be destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OwedRange {
    /// First byte.
    pub start: u64,
    /// Length, bytes.
    pub len: u64,
    /// The kind of obligation.
    pub due: DueName,
    /// Source of the death: what declared or inferred it.
    pub cause: Cause,
}

/// The kind of obligation for dead content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DueName {
    /// Overwrite it.
    Shred,
    /// Free its space: it is plain.
    Free,
    /// Destroy what lies below the present content.
    Conservative,
    /// Destroy it before the next write there.
    Suspicious,
}

impl DueName {
    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shred => "shred",
            Self::Free => "free",
            Self::Conservative => "conservative",
            Self::Suspicious => "suspicious",
        }
    }
}

/// Content destroyed on command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Shredded {
    /// Whether all that was queued is destroyed; `false` after an interrupt.
    pub done: bool,
    /// Bytes that were destroyed meanwhile.
    pub destroyed_bytes: u64,
    /// Bytes whose older content was destroyed below the present one.
    pub rewritten_bytes: u64,
    /// Bytes of plain content that were freed.
    pub plain_bytes: u64,
    /// Content that still waits.
    pub waiting: Vec<Waiting>,
}

/// Content that a purge would delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PurgeWeighed {
    /// Ranges.
    pub ranges: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Bytes of these that hold live content.
    pub live_bytes: u64,
    /// Size of the disk.
    pub size_bytes: u64,
}

/// Content that a purge has deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Purged {
    /// Ranges.
    pub ranges: usize,
    /// Bytes that were live before.
    pub newly_dead_bytes: u64,
}

/// Space that compaction has given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Compacted {
    /// Whether nothing is left to pack; `false` after an interrupt.
    pub done: bool,
    /// Length of the medium before.
    pub bytes_before: u64,
    /// Length of the medium now.
    pub bytes_after: u64,
}

/// An epoch that has closed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Closed {
    /// Its number.
    pub epoch: u64,
    /// The name that it was given.
    pub name: Option<String>,
}

/// The kept epochs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Versions {
    /// The first thousand from the number on that was asked for.
    pub versions: Vec<VersionLine>,
    /// Whether there are more.
    pub more: bool,
    /// The holds, by name.
    pub holds: BTreeMap<String, HoldOf>,
}

/// A kept epoch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VersionLine {
    /// Its number.
    pub epoch: u64,
    /// When it closed; `null` if that is not known.
    #[serde(rename = "closed", with = "crate::base::rfc3339::or_unknown")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub closed_ms: u64,
    /// Its names, with commas between them.
    pub name: Option<String>,
    /// Bytes in blocks that were written or freed in it.
    pub changed_bytes: u64,
    /// Bytes that forgetting it alone would destroy, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_bytes: Option<u64>,
}

/// A forget of epochs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// The first epoch.
    pub from: u64,
    /// The last epoch.
    pub to: u64,
    /// Whether what only they showed is destroyed.
    pub done: bool,
}

/// Content that a forget of epochs would destroy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Weighed {
    /// The first epoch.
    pub from: u64,
    /// The last epoch.
    pub to: u64,
    /// How many of them are kept.
    pub epochs: u64,
    /// Versions that only they show, in blocks.
    pub dies_blocks: u64,
    /// Bytes of these versions.
    pub dies_bytes: u64,
    /// Bytes that the epoch before also shows, and no later one.
    pub stays_before_bytes: u64,
    /// The kept epoch before.
    pub before: Option<u64>,
    /// The kept epoch after; `null` for the current state.
    pub after: Option<u64>,
    /// Why the forget would be refused: a hold.
    pub held: Option<String>,
}

/// A forget of blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BlocksForgotten {
    /// The ranges.
    pub ranges: Vec<Extent<Addr>>,
    /// The first epoch in which they are forgotten; absent if they are in all up to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The last epoch in which they are forgotten.
    pub to: u64,
    /// Whether what they showed there is destroyed.
    pub done: bool,
}

/// A forget of a set of parts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PartsForgotten {
    /// The number of the set, as receipts have it: 16 hexadecimal digits.
    pub set: SetId,
    /// How many parts it has.
    pub parts: usize,
    /// Whether what died with it is destroyed.
    pub done: bool,
}

/// Holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The holds, by name.
    pub holds: BTreeMap<String, HoldOf>,
}

/// A hold that was released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// Its name.
    pub released: String,
    /// The hold as it was.
    pub hold: HoldOf,
}
