//! Events in the lines of an audit log. Format: `docs/formats/audit.md`.

use crate::evidence::audit_log::Batch;
use quietus_core::base::units::Scope;
use serde::{Deserialize, Serialize};

/// Something worth keeping on record. `D` says how bytes died, `M` how they were destroyed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Entry<D, M> {
    /// The subject was opened.
    Opened,
    /// Bytes that were owed when the subject was opened, after it had not been stopped: a
    /// crash may have lost the lines that say when they died.
    Owed(Batch<D>),
    /// Bytes died.
    Died(Batch<D>),
    /// Dead content is gone, and the last sync of the medium came after that.
    Receipt {
        /// The extents, and how each was destroyed.
        #[serde(flatten)]
        batch: Batch<M>,
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
    /// Epochs are not shown any more, or some of their blocks, and what only they showed is destroyed. The intent is durable, and a
    /// receipt follows.
    Forgets {
        /// What is forgotten.
        #[serde(flatten)]
        scope: Scope,
        /// Whether a rule of retention does it; else a person.
        by_rule: bool,
    },
    /// An epoch got a name.
    Named {
        /// The name.
        name: String,
        /// The epoch.
        epoch: u64,
    },
    /// Epochs are held: they cannot be forgotten.
    Held(HoldLine),
    /// A hold was released.
    Released(HoldLine),
    /// A proof was made.
    Proved {
        /// SHA-256 of the receipt's body.
        digest: String,
    },
    /// The subject was stopped.
    Stopped,
}

/// A hold in a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HoldLine {
    /// The name of the hold.
    pub name: String,
    /// The first epoch.
    pub from: u64,
    /// The last one.
    pub to: u64,
    /// The person or office that asked for the hold.
    pub who: String,
    /// Why.
    pub why: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// The fields of present lines that a start needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(super) enum Seen {
    /// See [`Entry::Receipt`].
    Receipt {
        /// The number of the first receipt that was not in the log yet.
        through: u64,
    },
    /// See [`Entry::Stopped`].
    Stopped,
    /// Any other event.
    #[serde(other)]
    Other,
}
