//! Puts what happens to a disk into its audit log.
//!
//! Deaths and receipts are collected, for a second or until there are enough for a line,
//! and written by a thread of its own. The volume is told how far its receipts are
//! durable, and keeps them in the journal until then; so all that can be lost here, by a
//! crash, are deaths of the last second, whose obligations the journal has.

use super::entry::{Death, Entry, Met};
use super::{Engine, Shared, StartError};
use crate::audit_log::{
    AuditLog, CheckError, Checked, Collector, Files, Head, HostDirectory, Limits, RUNS_MAX,
};
use crate::disk::DiskDir;
use crate::hex::{hex, unhex};
use quietus_core::ledger::Cause;
use quietus_core::units::{Addr, Extent};
use quietus_core::volume::{Event, LogHead, Receipt};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time for which events are collected before they are written, and time that the host gets to find
/// room before the next try.
const COLLECT: Duration = Duration::from_secs(1);
/// Most deaths that wait to be written; more are only counted. Receipts need no limit here: the
/// journal has room for a limited number.
const DEATHS_WAITING_MAX: usize = 1 << 16;
/// Most other entries that wait.
const ENTRIES_WAITING_MAX: usize = 1 << 12;

/// Writes the audit log of a disk; see the module.
pub struct Recorder {
    dir: HostDirectory,
    /// The end of the log as the journal named it at the start.
    known: Head,
    /// The log; none of a disk that is read-only.
    log: Option<Mutex<AuditLog<HostDirectory>>>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// State of a disk's audit log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RecordStatus {
    /// Lines in the audit log.
    pub lines: u64,
    /// Receipts that the log does not have yet.
    pub receipts_waiting: usize,
    /// Why the log cannot be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[derive(Debug, Default)]
struct Queue {
    died: Collector<Death>,
    receipts: Collector<Met>,
    /// Number of the first receipt that is neither here nor in the log.
    through: u64,
    entries: Vec<Entry>,
    /// Number of extents of the deaths that wait.
    deaths: usize,
    /// Deaths that were dropped, and their bytes.
    dropped: (u64, u64),
    /// Time since which something waits.
    since: Option<Instant>,
    /// Number of calls of `flush`, and of those that were answered.
    flushes: (u64, u64),
    trouble: Option<String>,
    closed: bool,
}

/// Facts that the log held when it was opened.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Receipts before this number are in the log.
    pub(super) receipts: u64,
    /// The last line reports a clean stop.
    pub(super) is_stopped: bool,
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
    ///
    /// # Errors
    /// [`CheckError`].
    pub fn check_record(&self) -> Result<Checked, CheckError> {
        let known = self.shared.lock().volume.log_head();
        self.shared.recorder.check(&known)
    }
}

impl Shared {
    /// Tells the volume, before all else, which receipts its audit log has, and the log what the
    /// volume owes.
    pub(super) fn begin_record(&self, found: &Found, owed: Vec<(Cause, Extent<Addr>)>) {
        let Some(head) = self.recorder.head() else { return };
        self.recorder.note(Entry::Opened);
        if !found.is_stopped {
            self.recorder.owed(owed.into_iter());
        }
        self.tell(Event::Recorded { receipts: found.receipts, head: log_head(&head) });
    }
}

impl Recorder {
    /// Opens the log of the disk in `dir`, whose journal says that it ends with `known`.
    pub(super) fn open(dir: &DiskDir, known: &LogHead, read_only: bool) -> Result<(Self, Found), StartError> {
        let host = HostDirectory(dir.path().into());
        let mut found = Found::default();
        let mut see = |text: &[u8]| {
            let entry = serde_json::from_slice(text).ok();
            found.is_stopped = entry == Some(Entry::Stopped);
            if let Some(Entry::Receipt { through, .. }) = entry {
                found.receipts = through;
            }
        };
        let limits = Limits::of_bytes(dir.toml().behaviour.audit_bytes_max);
        let mut open = || AuditLog::open(host.clone(), limits, &head(known), now_ms, &mut see);
        let log = if read_only { None } else { Some(open().map_err(StartError::Audit)?) };
        let queue = Mutex::new(Queue { through: found.receipts, ..Queue::default() });
        Ok((
            Self { dir: host, known: head(known), log: log.map(Mutex::new), queue, changed: Condvar::new() },
            found,
        ))
    }

    /// Puts `entry` on record, soon.
    pub fn note(&self, entry: Entry) {
        let mut queue = self.queue();
        if self.log.is_none() || queue.entries.len() >= ENTRIES_WAITING_MAX {
            return;
        }
        queue.close_batches();
        queue.entries.push(entry);
        self.collect(queue);
    }

    pub(super) fn died(&self, cause: Cause, extent: Extent<Addr>) {
        let mut queue = self.queue();
        if self.log.is_none() {
            return;
        }
        if queue.deaths + queue.died.len() >= DEATHS_WAITING_MAX {
            queue.dropped.0 += 1;
            queue.dropped.1 += extent.len;
            return;
        }
        queue.died.push(now_ms(), Death { cause }, extent.start.0, extent.len);
        self.collect(queue);
    }

    pub(super) fn receipt(&self, number: u64, receipt: Receipt) {
        let mut queue = self.queue();
        if self.log.is_none() {
            return;
        }
        let Receipt { act, cause, passes, extent } = receipt;
        queue.receipts.push(now_ms(), Met { act, cause, passes }, extent.start.0, extent.len);
        queue.through = number + 1;
        self.collect(queue);
    }

    /// Notes all obligations at the start.
    pub(super) fn owed(&self, all: impl Iterator<Item = (Cause, Extent<Addr>)>) {
        let (now, mut owed) = (now_ms(), Collector::default());
        for (cause, extent) in all {
            owed.push(now, Death { cause }, extent.start.0, extent.len);
            if owed.len() == RUNS_MAX {
                owed.take().into_iter().for_each(|batch| self.note(Entry::Owed(batch)));
            }
        }
        owed.take().into_iter().for_each(|batch| self.note(Entry::Owed(batch)));
    }

    pub(super) fn latched(&self, reason: String) {
        tracing::error!(reason, "the medium failed; the disk is read-only from now on");
        self.note(Entry::Latched { reason });
    }

    /// Waits until everything noted so far is durable, and returns the log's end.
    ///
    /// # Errors
    /// The reason why the log cannot be written, and the remedy.
    pub fn flush(&self) -> Result<Head, String> {
        let Some(log) = &self.log else { return Ok(self.known.clone()) };
        let mut queue = self.queue();
        queue.flushes.0 += 1;
        let own = queue.flushes.0;
        self.changed.notify_all();
        while queue.flushes.1 < own && !queue.closed {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        match queue.trouble.clone() {
            Some(trouble) => Err(trouble),
            None => Ok(log.lock().unwrap_or_else(PoisonError::into_inner).head().clone()),
        }
    }

    /// The end of the log, as far as it is durable; none of a disk that is read-only.
    pub(super) fn head(&self) -> Option<Head> {
        let log = self.log.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(log.head().clone())
    }

    /// Why the log cannot be written, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.queue().trouble.clone()
    }

    /// Checks all lines, up to the end that is known: the log's own, or `known`.
    pub(super) fn check(&self, known: &LogHead) -> Result<Checked, CheckError> {
        let (files, head) = match &self.log {
            None => (Files::open(&self.dir)?, head(known)),
            Some(log) => {
                let log = log.lock().unwrap_or_else(PoisonError::into_inner);
                (log.files()?, log.head().clone())
            }
        };
        files.check(&head)
    }

    /// Closes the recorder: nothing more is written.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }

    /// Writes what is noted until the recorder is closed, and tells the volume.
    pub(super) fn write(&self, shared: &Shared) {
        let Some(log) = &self.log else { return };
        let _closes = Closes(self);
        while let Some((entries, flushes)) = self.wait() {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let (before, written) = (log.head().lines, log.append(&entries));
            let end = log_head(log.head());
            drop(log);
            let trouble = written.err().map(|error| in_words(&error));
            match &trouble {
                Some(reason) => shared.tell(Event::RecordStuck(reason.clone())),
                None if end.lines > before => {
                    let receipts = through(&entries).unwrap_or(0);
                    shared.tell(Event::Recorded { receipts, head: end });
                }
                None => {}
            }
            self.written(entries, flushes, trouble);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a new entry written in time.
    fn collect(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.since.is_none() {
            queue.since = Some(Instant::now());
            self.changed.notify_all();
        }
        if queue.died.len().max(queue.receipts.len()) >= RUNS_MAX {
            queue.close_batches();
            self.changed.notify_all();
        }
    }

    /// Waits until something is to be written, and returns it with the number of calls of `flush`
    /// so far; none when the recorder is closed.
    fn wait(&self) -> Option<(Vec<Entry>, u64)> {
        let mut queue = self.queue();
        while !queue.closed {
            let Some(wait) = queue.due_in() else {
                queue.close_batches();
                queue.since = None;
                queue.deaths = 0;
                return Some((std::mem::take(&mut queue.entries), queue.flushes.0));
            };
            queue = self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Accounts for `entries`, which were written unless there was `trouble`.
    fn written(&self, mut entries: Vec<Entry>, flushes: u64, trouble: Option<String>) {
        let mut queue = self.queue();
        if let Some(reason) = &trouble {
            if queue.trouble.is_none() {
                tracing::error!("{reason}");
            }
            queue.deaths += entries.iter().map(deaths).sum::<usize>();
            entries.append(&mut queue.entries);
            queue.entries = entries;
            queue.since = Some(Instant::now());
        }
        queue.flushes.1 = flushes;
        queue.trouble = trouble;
        self.changed.notify_all();
    }
}

/// Closes the recorder when its thread ends, even by a panic: nobody waits for it then.
struct Closes<'a>(&'a Recorder);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Queue {
    /// Turns collected events into entries: deaths before the receipts for them.
    fn close_batches(&mut self) {
        if let Some(batch) = self.died.take() {
            let entry = Entry::Died(batch);
            self.deaths += deaths(&entry);
            self.entries.push(entry);
        }
        if let Some(batch) = self.receipts.take() {
            self.entries.push(Entry::Receipt { batch, through: self.through });
        }
        if self.dropped.0 > 0 && self.deaths < DEATHS_WAITING_MAX {
            let (deaths, bytes) = std::mem::take(&mut self.dropped);
            self.entries.push(Entry::Dropped { deaths, bytes });
        }
    }

    /// Time until something is to be written; none if that is now.
    fn due_in(&self) -> Option<Duration> {
        let is_enough = !self.entries.is_empty() && self.trouble.is_none();
        if self.flushes.0 > self.flushes.1 || is_enough {
            return None;
        }
        let Some(since) = self.since else { return Some(COLLECT) };
        COLLECT.checked_sub(since.elapsed()).filter(|wait| !wait.is_zero())
    }
}

/// The extents of deaths in `entry`.
fn deaths(entry: &Entry) -> usize {
    match entry {
        Entry::Died(batch) => batch.runs.iter().map(|run| run.len() / 2 - 1).sum(),
        _ => 0,
    }
}

/// Up to where `entries` have receipts.
fn through(entries: &[Entry]) -> Option<u64> {
    let all = entries.iter().filter_map(|entry| match entry {
        Entry::Receipt { through, .. } => Some(*through),
        _ => None,
    });
    all.max()
}

fn in_words(error: &io::Error) -> String {
    format!(
        "audit log: cannot write audit.jsonl: {error}; free space on the host, or make the file writable: \
         the journal keeps the receipts until then"
    )
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// The head as the log writes it.
fn head(known: &LogHead) -> Head {
    let hash = if known.lines == 0 { String::new() } else { hex(&known.hash) };
    Head { lines: known.lines, hash }
}

/// The head as the journal keeps it.
pub(super) fn log_head(head: &Head) -> LogHead {
    LogHead { lines: head.lines, hash: unhex(&head.hash).unwrap_or_default() }
}
