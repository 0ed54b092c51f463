//! The audit log of a disk: what goes into it, and what the volume is told of it.

use super::{Engine, Shared, StartError};
use crate::disk::DiskDir;
use crate::evidence::audit_log::{CheckError, Checked, Head, Limits};
use crate::evidence::recorder::{self, Found, Progress};
use crate::host::directory::Access;
use quietus_core::base::units::{Addr, Extent, Scope};
use quietus_core::owed::ledger::Cause;
use quietus_core::volume::{Done, Event, LATCH_REMEDY, LogHead, Receipt};
use quietus_core::watch::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Writes the audit log of a disk.
pub type Recorder = recorder::Recorder<Death, Completion>;
/// An event in the audit log of a disk.
pub type Entry = recorder::Entry<Death, Completion>;

/// How bytes died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Death {
    /// Source of the death.
    pub cause: Cause,
    /// Class of what died: `plain` content is freed, and not destroyed. All other content counts as sensitive.
    #[serde(default = "sensitive", skip_serializing_if = "is_sensitive")]
    pub class: Class,
}

impl Death {
    /// The death of sensitive content.
    #[must_use]
    pub fn sensitive(cause: Cause) -> Self {
        Self { cause, class: Class::Sensitive }
    }
}

fn sensitive() -> Class {
    Class::Sensitive
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_sensitive(class: &Class) -> bool {
    *class != Class::Plain
}

/// How an obligation was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Completion {
    /// How the bytes were destroyed.
    pub act: Done,
    /// Source of the death.
    pub cause: Cause,
    /// Passes over each byte.
    pub passes: u16,
    /// The epochs that were forgotten, or in which blocks were; the extents then only count the bytes that died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Scope>,
}

/// State of a disk's audit log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecordStatus {
    /// Lines in the audit log.
    pub lines: u64,
    /// Receipts that the log does not have yet.
    pub receipts_waiting: usize,
    /// Why the log cannot be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Opens the log of the disk in `dir`, whose journal says that it ends with `known`.
pub(super) fn open(dir: &DiskDir, known: &LogHead, read_only: bool) -> Result<(Recorder, Found), StartError> {
    let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
    let limits = Limits::of_bytes(dir.toml().behaviour.audit_bytes_max);
    Recorder::open(dir.directory(), access, limits, Head::new(known.lines, known.hash))
        .map_err(StartError::Audit)
}

impl Engine {
    /// The writer of the audit log.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// State of the audit log.
    #[must_use]
    pub fn record_status(&self) -> RecordStatus {
        let inner = self.shared.lock();
        let (known, receipts_waiting) = (inner.volume.log_head(), inner.volume.receipts_waiting());
        drop(inner);
        RecordStatus { lines: known.lines, receipts_waiting, trouble: self.shared.recorder.trouble() }
    }

    /// Checks the audit log from the first line that is kept to the last.
    pub fn check_record(&self) -> Result<Checked, CheckError> {
        self.read_record(&mut |_| {})
    }

    /// Like [`check_record`](Self::check_record); `see` is shown each line.
    pub fn read_record(&self, see: &mut dyn FnMut(&[u8])) -> Result<Checked, CheckError> {
        let known = self.shared.lock().volume.log_head();
        self.shared.recorder.read(Head::new(known.lines, known.hash), see)
    }
}

impl Shared {
    /// Tells the volume, before all else, which receipts its audit log has, and the log what the
    /// volume owes.
    pub(super) fn begin_record(&self, found: &Found, owed: Vec<(Cause, Extent<Addr>)>) {
        let Some(head) = self.recorder.head() else { return };
        self.recorder.note(Entry::Opened);
        if !found.is_stopped {
            let owed = owed.into_iter();
            let deaths = owed.map(|(cause, extent)| (Death::sensitive(cause), extent.start.0, extent.len));
            self.recorder.owed(deaths);
        }
        self.tell(Event::Recorded { receipts: found.receipts, head: log_head(&head) });
    }

    /// Tells the volume how far its audit log has come.
    pub(super) fn tell_record(&self, progress: Progress) {
        self.tell(match progress {
            Progress::Recorded(receipts, head) => Event::Recorded { receipts, head: log_head(&head) },
            Progress::Stuck(reason) => Event::RecordStuck(reason),
        });
    }

    pub(super) fn record_receipt(&self, number: u64, receipt: Receipt) {
        let Receipt { act, cause, passes, extent, forgot: epochs } = receipt;
        let completion = Completion { act, cause, passes, epochs };
        self.recorder.receipt(number, completion, extent.start.0, extent.len);
    }

    pub(super) fn record_latch(&self, reason: String) {
        tracing::error!(reason, "the medium failed; the disk is read-only from now on: {LATCH_REMEDY}");
        self.recorder.note(Entry::Latched { reason });
    }
}

/// The head as the journal keeps it.
fn log_head(head: &Head) -> LogHead {
    LogHead { lines: head.lines, hash: head.hash_bytes() }
}
