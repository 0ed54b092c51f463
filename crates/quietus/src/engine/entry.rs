//! Events in the lines of a disk's audit log. Format: `docs/formats/audit.md`.

use crate::audit_log::Batch;
use quietus_core::ledger::Cause;
use quietus_core::volume::Done;
use serde::{Deserialize, Serialize};

/// Something worth keeping on record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Entry {
    /// The disk was opened.
    Opened,
    /// Bytes that were owed when the disk was opened, after it had not been stopped: a
    /// crash may have lost the lines that say when they died.
    Owed(Batch<Death>),
    /// Bytes died.
    Died(Batch<Death>),
    /// Dead content is gone, and the last sync of the medium came after that.
    Receipt {
        /// The extents, and how each was destroyed.
        #[serde(flatten)]
        batch: Batch<Met>,
        /// The number of the first receipt that is not in the log yet.
        through: u64,
    },
    /// The medium failed.
    Latched {
        /// Reason of the failure.
        reason: String,
    },
    /// Deaths that no line names, because the log could not be written for long. Their
    /// receipts are not among what was dropped.
    Dropped {
        /// Number of deaths.
        deaths: u64,
        /// Bytes that died.
        bytes: u64,
    },
    /// A proof was made.
    Proved {
        /// SHA-256 of the receipt's body.
        digest: String,
    },
    /// The disk was stopped.
    Stopped,
}

/// How bytes died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Death {
    /// Source of the death.
    pub cause: Cause,
}

/// How an obligation was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Met {
    /// How the bytes were destroyed.
    pub act: Done,
    /// Source of the death.
    pub cause: Cause,
    /// Passes over each byte.
    pub passes: u16,
}
