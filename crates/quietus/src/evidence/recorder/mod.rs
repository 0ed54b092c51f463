//! Puts what happens to a subject (a disk, or anything else that dies piece by piece) into its
//! audit log.
//!
//! Deaths and receipts are collected, for a second or until there are enough for a line,
//! and written by a thread of its own. The subject is told how far its receipts are
//! durable, and keeps them until then; so all that can be lost here, by a
//! crash, are deaths of the last second, whose obligations the subject has.

mod entry;

pub use entry::{Entry, HoldLine};

use crate::base::lock::lock;
use crate::base::rfc3339::now_ms;
use crate::evidence::audit_log::{
    AuditLog, CheckError, Checked, Collector, Files, Head, HostDirectory, Limits, RUNS_MAX,
};
use crate::host::directory::{Access, Directory};
use entry::Seen;
use serde::Serialize;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which events are collected before they are written, and time that the host gets to find
/// room before the next try.
const COLLECT: Duration = Duration::from_secs(1);
/// Most deaths that wait to be written; more are only counted. Receipts need no limit here: the
/// subject has room for a limited number.
const DEATHS_WAITING_MAX: usize = 1 << 16;
/// Most other entries that wait.
const ENTRIES_WAITING_MAX: usize = 1 << 12;

/// Writes the audit log in a directory; see the module. `D` says how bytes died, `M` how they were
/// destroyed.
pub struct Recorder<D, M> {
    dir: HostDirectory,
    /// The end of the log as the subject named it at the start.
    known: Head,
    /// The log; `None` for a subject that is only read.
    log: Option<Mutex<AuditLog<HostDirectory>>>,
    queue: Mutex<Queue<D, M>>,
    changed: Condvar,
}

/// News of the audit log for its subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// All receipts before this number are durable in the log, which has this end.
    Recorded(u64, Head),
    /// The log cannot be written: why.
    Stuck(String),
}

#[derive(Debug)]
struct Queue<D, M> {
    died: Collector<D>,
    receipts: Collector<M>,
    /// Number of the first receipt that is neither here nor in the log.
    through: u64,
    entries: Vec<Entry<D, M>>,
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

/// Facts from the line that the subject knew as the last one, and all that follow.
#[derive(Debug, Default)]
pub struct Found {
    /// Receipts before this number are in the log.
    pub receipts: u64,
    /// The last line reports a clean stop.
    pub is_stopped: bool,
}

impl<D: PartialEq + Serialize, M: PartialEq + Serialize> Recorder<D, M> {
    /// Opens the log in `dir`, to be written or, with [`Access::ReadOnly`], only checked. The subject
    /// says that the log ends with `known`.
    pub fn open(dir: &Directory, access: Access, limits: Limits, known: Head) -> io::Result<(Self, Found)> {
        let dir = HostDirectory(dir.path().into());
        let mut found = Found::default();
        let mut see = |text: &[u8]| {
            let seen = serde_json::from_slice(text).unwrap_or(Seen::Other);
            found.is_stopped = seen == Seen::Stopped;
            if let Seen::Receipt { through } = seen {
                found.receipts = through;
            }
        };
        let log = match access {
            Access::ReadOnly => None,
            Access::ReadWrite => Some(AuditLog::open(dir.clone(), limits, &known, now_ms, &mut see)?),
        };
        let queue = Mutex::new(Queue::new(found.receipts));
        Ok((Self { dir, known, log: log.map(Mutex::new), queue, changed: Condvar::new() }, found))
    }

    /// Puts `entry` on record, soon.
    pub fn note(&self, entry: Entry<D, M>) {
        let mut queue = lock(&self.queue);
        if self.log.is_none() || queue.entries.len() >= ENTRIES_WAITING_MAX {
            return;
        }
        queue.close_batches();
        queue.entries.push(entry);
        self.collect(queue);
    }

    /// Puts on record that `len` bytes from `start` on have died, and how.
    pub fn died(&self, how: D, start: u64, len: u64) {
        let mut queue = lock(&self.queue);
        if self.log.is_none() {
            return;
        }
        if queue.deaths + queue.died.count() >= DEATHS_WAITING_MAX {
            queue.dropped.0 += 1;
            queue.dropped.1 += len;
            return;
        }
        queue.died.push(now_ms(), how, start, len);
        self.collect(queue);
    }

    /// Puts the receipt with this number on record: `len` bytes from `start` on were destroyed, and how.
    pub fn receipt(&self, number: u64, how: M, start: u64, len: u64) {
        let mut queue = lock(&self.queue);
        if self.log.is_none() {
            return;
        }
        queue.receipts.push(now_ms(), how, start, len);
        queue.through = number + 1;
        self.collect(queue);
    }

    /// Notes all that is owed at the start: how it died, the first byte and the length.
    pub fn owed(&self, all: impl Iterator<Item = (D, u64, u64)>) {
        let (now, mut owed) = (now_ms(), Collector::default());
        for (how, start, len) in all {
            owed.push(now, how, start, len);
            if owed.count() == RUNS_MAX {
                owed.take().into_iter().for_each(|batch| self.note(Entry::Owed(batch)));
            }
        }
        owed.take().into_iter().for_each(|batch| self.note(Entry::Owed(batch)));
    }

    /// Waits until everything noted so far is durable, and returns the log's end.
    ///
    /// # Errors
    /// The reason why the log cannot be written, and the remedy.
    pub fn flush(&self) -> Result<Head, String> {
        let Some(log) = &self.log else { return Ok(self.known.clone()) };
        let mut queue = lock(&self.queue);
        queue.flushes.0 += 1;
        let own = queue.flushes.0;
        self.changed.notify_all();
        while queue.flushes.1 < own && !queue.closed {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        match queue.trouble.clone() {
            Some(trouble) => Err(trouble),
            None => Ok(lock(log).head().clone()),
        }
    }

    /// Writes what is noted until the recorder is closed, and tells the subject. A thread of its own
    /// calls this.
    pub fn write(&self, tell: impl Fn(Progress)) {
        let Some(log) = &self.log else { return };
        let _closes = Closes(self);
        while let Some((entries, flushes)) = self.wait() {
            let mut log = lock(log);
            let (before, written) = (log.head().lines, log.append(&entries));
            let end = log.head().clone();
            drop(log);
            let trouble = written.err().map(|error| in_words(&error));
            match &trouble {
                Some(reason) => tell(Progress::Stuck(reason.clone())),
                None if end.lines > before => {
                    tell(Progress::Recorded(through(&entries).unwrap_or(0), end));
                }
                None => {}
            }
            self.written(entries, flushes, trouble);
        }
    }

    /// Has a new entry written before long.
    fn collect(&self, mut queue: MutexGuard<'_, Queue<D, M>>) {
        if queue.since.is_none() {
            queue.since = Some(Instant::now());
            self.changed.notify_all();
        }
        if queue.died.count().max(queue.receipts.count()) >= RUNS_MAX {
            queue.close_batches();
            self.changed.notify_all();
        }
    }

    /// Waits until something is to be written, and returns it with the number of calls of `flush`
    /// so far; `None` once the recorder is closed.
    fn wait(&self) -> Option<(Vec<Entry<D, M>>, u64)> {
        let mut queue = lock(&self.queue);
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
    fn written(&self, mut entries: Vec<Entry<D, M>>, flushes: u64, trouble: Option<String>) {
        let mut queue = lock(&self.queue);
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

impl<D, M> Recorder<D, M> {
    /// The end of the log, as far as it is durable; `None` for a subject that is only read.
    pub fn head(&self) -> Option<Head> {
        let log = lock(self.log.as_ref()?);
        Some(log.head().clone())
    }

    /// Why the log cannot be written, if it cannot.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.queue).trouble.clone()
    }

    /// Checks all lines, up to the end that is known: the log's own, or `known`. `see` is shown each line.
    pub fn read(&self, known: Head, see: &mut dyn FnMut(&[u8])) -> Result<Checked, CheckError> {
        // Nothing is added between the two.
        let log = self.log.as_ref().map(lock);
        let (files, head) = (Files::open(&self.dir)?, log.as_ref().map_or(known, |it| it.head().clone()));
        drop(log);
        files.read(&head, see)
    }

    /// Closes the recorder: nothing more is written.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
    }
}

/// Closes the recorder when its thread ends, even by a panic: no thread waits for it then.
struct Closes<'a, D, M>(&'a Recorder<D, M>);

impl<D, M> Drop for Closes<'_, D, M> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<D: PartialEq, M: PartialEq> Queue<D, M> {
    /// Nothing waits; the receipts before number `through` are in the log.
    fn new(through: u64) -> Self {
        let (died, receipts) = (Collector::default(), Collector::default());
        Self {
            died,
            receipts,
            through,
            entries: Vec::new(),
            deaths: 0,
            dropped: (0, 0),
            since: None,
            flushes: (0, 0),
            trouble: None,
            closed: false,
        }
    }

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

    /// Time until something is to be written; `None` if that is now.
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
fn deaths<D, M>(entry: &Entry<D, M>) -> usize {
    match entry {
        Entry::Died(batch) => batch.runs.iter().map(|run| run.len() / 2 - 1).sum(),
        _ => 0,
    }
}

/// Up to where `entries` have receipts.
fn through<D, M>(entries: &[Entry<D, M>]) -> Option<u64> {
    let all = entries.iter().filter_map(|entry| match entry {
        Entry::Receipt { through, .. } => Some(*through),
        _ => None,
    });
    all.max()
}

fn in_words(error: &io::Error) -> String {
    format!(
        "audit log: cannot write audit.jsonl: {error}; free space on the host, or make the file writable: \
         the receipts are kept until then"
    )
}
