//! The events of the audit log, as `quietus deaths --json` prints them: one for each range of a line.

use crate::engine::{Completion, Death, Entry};
use crate::evidence::audit_log::{Batch, Head};
use crate::evidence::recorder::HoldLine;
use quietus_core::base::units::{Addr, Extent, Scope};
use quietus_core::owed::ledger::Cause;
use quietus_core::volume::Done;
use quietus_core::watch::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditEntry {
    /// Number of the line.
    pub n: u64,
    /// When.
    #[serde(rename = "time", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time_ms: u64,
    /// The event.
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// What happened ([formats/audit.md](../formats/audit.md)).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum AuditEvent {
    /// The disk was opened.
    Opened,
    /// The disk was stopped.
    Stopped,
    /// Content died.
    Died {
        /// The range that died.
        #[serde(flatten)]
        range: Extent<Addr>,
        /// Source of the death: what declared or inferred it.
        cause: Cause,
        /// Whether the content has to be destroyed.
        class: Class,
    },
    /// Content was still to be destroyed when the disk was opened after a crash.
    Owed {
        /// The range that was dead.
        #[serde(flatten)]
        range: Extent<Addr>,
        /// Source of the death: what declared or inferred it.
        cause: Cause,
        /// Whether the content has to be destroyed.
        class: Class,
    },
    /// Dead content is gone.
    Receipt {
        /// The range where it lay.
        #[serde(flatten)]
        range: Extent<Addr>,
        /// How it was destroyed.
        act: Done,
        /// Source of the death: what declared or inferred it.
        cause: Cause,
        /// Passes over each byte.
        passes: u16,
        /// The epochs that were forgotten, or in which blocks were: the range then only counts the bytes that died.
        #[serde(skip_serializing_if = "Option::is_none")]
        epochs: Option<Scope>,
    },
    /// The medium or the journal failed: nothing was written to the disk after that.
    Latched {
        /// The failure.
        reason: String,
    },
    /// Deaths without an event of their own, because the log could not be written for long.
    Dropped {
        /// How many.
        deaths: u64,
        /// Bytes that died.
        bytes: u64,
    },
    /// Epochs are not shown any more, or some of their blocks.
    Forgets {
        /// The epochs, and the blocks, unless the epochs are forgotten as a whole.
        #[serde(flatten)]
        scope: Scope,
        /// Whether a rule of retention did it, and not a person.
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
    Held(HoldEvent),
    /// A hold was released.
    Released(HoldEvent),
    /// A proof was signed.
    Proved {
        /// SHA-256 of the statement, in hexadecimal.
        digest: String,
    },
    /// The first line of a new file of the log.
    Continued {
        /// The first line that is kept.
        kept_from: u64,
    },
    /// An incomplete line was cut off: a crash had left it.
    Repaired {
        /// Bytes of that line.
        bytes: u64,
    },
    /// Lines are missing here.
    Lost {
        /// Why they are missing.
        reason: String,
        /// The last end of the log that was known.
        known: Head,
    },
    /// A line that this version does not understand.
    Unknown {
        /// The line.
        line: Value,
    },
}

/// A hold, in an event.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HoldEvent {
    /// The name of the hold.
    pub name: String,
    /// The first epoch.
    pub from: u64,
    /// The last epoch.
    pub to: u64,
    /// The person or office that asked for the hold.
    pub who: String,
    /// Why.
    pub why: String,
    /// Since when.
    #[serde(rename = "since", with = "crate::base::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since_ms: u64,
}

impl From<HoldLine> for HoldEvent {
    fn from(HoldLine { name, from, to, who, why, since_ms }: HoldLine) -> Self {
        Self { name, from, to, who, why, since_ms }
    }
}

/// The fields of every line.
#[derive(Deserialize)]
struct Stamp {
    n: u64,
    time_ms: u64,
}

/// The events of the log about itself.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum Own {
    Continued { kept_from: u64 },
    Repaired { bytes: u64 },
    Lost { reason: String, known: Head },
}

impl From<Own> for AuditEvent {
    fn from(own: Own) -> Self {
        match own {
            Own::Continued { kept_from } => Self::Continued { kept_from },
            Own::Repaired { bytes } => Self::Repaired { bytes },
            Own::Lost { reason, known } => Self::Lost { reason, known },
        }
    }
}

/// The events in a line of the audit log; empty if the text is not a line.
#[must_use]
pub fn audit_entries(line: &[u8]) -> Vec<AuditEntry> {
    let Ok(line) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
    let stamp = Stamp::deserialize(&line).unwrap_or(Stamp { n: 0, time_ms: 0 });
    let one = |event| vec![AuditEntry { n: stamp.n, time_ms: stamp.time_ms, event }];
    let Ok(entry) = Entry::deserialize(&line) else {
        let own = Own::deserialize(&line).map(AuditEvent::from);
        return one(own.unwrap_or(AuditEvent::Unknown { line }));
    };
    match entry {
        Entry::Died(batch) => {
            each(&stamp, &batch, |range, &Death { cause, class }| AuditEvent::Died { range, cause, class })
        }
        Entry::Owed(batch) => {
            each(&stamp, &batch, |range, &Death { cause, class }| AuditEvent::Owed { range, cause, class })
        }
        Entry::Receipt { batch, .. } => each(&stamp, &batch, |range, it| {
            let Completion { act, cause, passes, epochs } = *it;
            AuditEvent::Receipt { range, act, cause, passes, epochs }
        }),
        Entry::Opened => one(AuditEvent::Opened),
        Entry::Stopped => one(AuditEvent::Stopped),
        Entry::Latched { reason } => one(AuditEvent::Latched { reason }),
        Entry::Dropped { deaths, bytes } => one(AuditEvent::Dropped { deaths, bytes }),
        Entry::Forgets { scope, by_rule } => one(AuditEvent::Forgets { scope, by_rule }),
        Entry::Named { name, epoch } => one(AuditEvent::Named { name, epoch }),
        Entry::Held(hold) => one(AuditEvent::Held(hold.into())),
        Entry::Released(hold) => one(AuditEvent::Released(hold.into())),
        Entry::Proved { digest } => one(AuditEvent::Proved { digest }),
    }
}

/// An event for each range of a batch.
fn each<K>(
    stamp: &Stamp,
    batch: &Batch<K>,
    event: impl Fn(Extent<Addr>, &K) -> AuditEvent,
) -> Vec<AuditEntry> {
    let all = batch.all();
    all.map(|it| AuditEntry {
        n: stamp.n,
        time_ms: it.time_ms,
        event: event(Extent::new(it.start, it.len), it.kind),
    })
    .collect()
}
