//! The audit log of a vault: what was put, forgotten, held, sanitized. Never a name: a line could not be destroyed.

use quietus_vault::ForgetId;
use quietus_vault::catalog::{Owed, Receipt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause of dead content, in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwedLine {
    /// The snapshot of this number was forgotten.
    Snapshot(u64),
    /// Paths were taken out of the snapshot of this number.
    PathsOfSnapshot(u64),
    /// The put of this number ended without a snapshot, or left files out.
    Put(u64),
}

impl From<Owed> for OwedLine {
    fn from(owed: Owed) -> Self {
        match owed {
            Owed::Snapshot(snapshot) => Self::Snapshot(snapshot.0),
            Owed::Paths(snapshot) => Self::PathsOfSnapshot(snapshot.0),
            Owed::Put(put) => Self::Put(put.0),
        }
    }
}

/// A forget whose content is not destroyed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OwedForget {
    /// The number of the forget.
    pub forget: u64,
    /// The cause of the dead content.
    pub of: OwedLine,
}

impl From<(ForgetId, Owed)> for OwedForget {
    fn from((forget, owed): (ForgetId, Owed)) -> Self {
        Self { forget: forget.0, of: owed.into() }
    }
}

/// A receipt, in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptLine {
    /// The number of the forget.
    pub forget: u64,
    /// The cause of the dead content.
    pub of: OwedLine,
    /// The sanitization that destroyed that.
    pub run: u64,
    /// Passes over each byte.
    pub passes: u16,
}

impl From<Receipt> for ReceiptLine {
    fn from(receipt: Receipt) -> Self {
        let Receipt { forget, owed, run, passes } = receipt;
        Self { forget: forget.0, of: owed.into(), run: run.0, passes }
    }
}

/// A line of the audit log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(in super::super) enum Entry {
    /// A snapshot was committed.
    Put { snapshot: u64, files: u64, bytes: u64, left_out: u64 },
    /// Snapshots or paths were forgotten.
    Forgets { forget: u64, of: OwedLine, who: String },
    /// Forgotten content is destroyed.
    Receipt(ReceiptLine),
    /// Snapshots are held.
    Held { name: String, snapshots: Vec<u64>, who: String, why: String },
    /// A hold was released.
    Released { name: String, snapshots: Vec<u64>, who: String },
    /// A sanitization has ended; the SHA-256 of its signed receipt.
    Sanitized { run: u64, digest: String },
    /// A proof was signed; its SHA-256.
    Proved { digest: String },
    /// The catalog was rebuilt: snapshots that the old one did not know, and how many containers are damaged.
    Repaired { found: Vec<u64>, damaged: u64 },
}

/// The fields of a line that a start needs.
#[derive(Deserialize)]
pub(in super::super) struct Seen {
    pub(in super::super) n: u64,
    pub(in super::super) event: String,
}

/// The user who runs the command, as the host knows them.
pub(in super::super) fn who() -> String {
    format!("uid {}", rustix::process::getuid().as_raw())
}
