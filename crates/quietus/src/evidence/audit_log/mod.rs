//! A log whose lines are a chain: no line can be changed, moved or taken out unseen.
//!
//! A directory, a clock and the end of the log, as the journal keeps it, go in; lines of JSON
//! come out. The module does not know the events that the lines report. Format:
//! `docs/formats/audit.md`.
//!
//! Invariants:
//! 1. [`AuditLog::append`] makes all its lines durable, or adds nothing.
//! 2. A line is never written behind a part of another one.
//! 3. A file is made durable before an older one is removed, and says which line is the
//!    first that is kept.
//! 4. The chain goes on from the end that the caller keeps, whatever became of the files; the chain
//!    itself reports missing lines.

mod batch;
mod chain;
mod check;
mod directory;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Collector, RUNS_MAX, Run};
pub use chain::{CURRENT, Head, LINE_BYTES_MAX, Line, names};
pub use check::{CheckError, Checked, Files};
pub use directory::{Directory, HostDirectory, LogFile};

use chain::{Lines, Link, begin_near, first_link, kept_from, older, older_name, whole_bytes};
use serde::Serialize;
use std::io;

/// Limits of a log's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes after which a file is set aside, and a new one begun.
    pub file_bytes_max: u64,
    /// Number of files that are kept, the one that is written to included; at least 2.
    pub files_max: usize,
}

impl Limits {
    const FILES: u64 = 16;

    /// Keeps at most about `bytes` in all.
    #[must_use]
    pub fn of_bytes(bytes: u64) -> Self {
        let file_bytes_max = (bytes / Self::FILES).max(LINE_BYTES_MAX as u64);
        Self { file_bytes_max, files_max: Self::FILES as usize }
    }
}

/// Events that the log itself reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum Own {
    /// The chain goes on in a new file.
    Continued {
        /// The first line that is kept, in any file.
        kept_from: u64,
    },
    /// The rest of a line, which a crash had left, was cut off.
    Repaired { bytes: u64 },
    /// Lines are missing, and the chain goes on without them.
    Lost { reason: &'static str, known: Head },
}

/// A line of the log itself or of its user.
#[derive(Serialize)]
#[serde(untagged)]
enum Event<'a, E> {
    Own(&'a Own),
    User(&'a E),
}

/// The writing end of a log.
pub struct AuditLog<D: Directory> {
    dir: D,
    limits: Limits,
    clock: fn() -> u64,
    head: Head,
    kept_from: u64,
    current: Option<Current<D::File>>,
    /// Events to report with the next line.
    notes: Vec<Own>,
}

/// The file that is written to.
struct Current<F> {
    file: F,
    /// Length of its durable part, in whole lines.
    bytes: u64,
}

impl<D: Directory> AuditLog<D> {
    /// Opens the log in `dir`, of which `known` was durable once. `clock` returns the milliseconds
    /// since 1970. `seen` is shown the line that `known` names, and all that follow. Nothing is
    /// written yet.
    ///
    /// # Errors
    /// Errors of the host. Faults of the files are no errors: the next lines report them.
    pub fn open(
        dir: D,
        limits: Limits,
        known: &Head,
        clock: fn() -> u64,
        seen: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Self> {
        let mut log =
            Self { dir, limits, clock, head: known.clone(), kept_from: 0, current: None, notes: Vec::new() };
        if log.dir.names()?.iter().any(|name| name == CURRENT) && !log.repair()? {
            log.lose("audit.jsonl does not end with a line")?;
        }
        let names = names(&log.dir)?;
        log.kept_from = kept_from(names.iter().rev().map(|name| first_link(&log.dir.read(name)?)))?;
        match log.follow(&names, known, seen)? {
            Followed::Whole(head) => log.head = head,
            Followed::Broken(head) => {
                log.head = head;
                log.lose("a line does not follow the one before it")?;
            }
            Followed::Nowhere => {
                log.lose("the last line that was known to be durable is missing, or changed")?
            }
        }
        if let Some(current) = &mut log.current {
            // Lines that a killed process left in the page cache count from now on.
            current.file.sync()?;
            log.dir.sync()?;
        }
        Ok(log)
    }

    /// The end of the log, which is durable.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Adds a line for each of `events`, and makes them durable.
    ///
    /// # Errors
    /// Errors of the host: no line was added then, and all may be tried again.
    pub fn append<E: Serialize>(&mut self, events: &[E]) -> io::Result<()> {
        self.look_after_current()?;
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin_file()?,
        };
        let is_new = current.bytes == 0;
        let (text, head) = self.lines(is_new, events);
        let written = current.file.append(&text).and_then(|()| current.file.sync());
        let written = written.and_then(|()| if is_new { self.dir.sync() } else { Ok(()) });
        match &written {
            Ok(()) => {
                current.bytes += text.len() as u64;
                self.head = head;
                self.notes.clear();
            }
            // If the cut fails too, the next call makes it.
            Err(_) => drop(current.file.cut(current.bytes)),
        }
        self.current = Some(current);
        if is_new && written.is_ok() {
            self.remove_oldest();
        }
        written
    }

    /// The lines that report `events`, and the end of the log with them.
    fn lines<E: Serialize>(&self, is_new: bool, events: &[E]) -> (Vec<u8>, Head) {
        let (mut text, mut head) = (Vec::new(), self.head.clone());
        let continued = Own::Continued { kept_from: self.kept_from };
        let own = (is_new && head.lines > 0).then_some(&continued).into_iter().chain(&self.notes);
        for event in own.map(Event::Own).chain(events.iter().map(Event::User)) {
            put_line(&mut text, &mut head, (self.clock)(), event);
        }
        (text, head)
    }

    /// Checks that the file is as it was left, and begins a new one if it is too long.
    fn look_after_current(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if !self.dir.is_at(&current.file, CURRENT)? {
            return self.lose("audit.jsonl was removed, or another file put in its place");
        }
        let bytes = current.file.bytes()?;
        if bytes < current.bytes {
            return self.lose("audit.jsonl was cut short");
        }
        if bytes > current.bytes {
            // The rest may be a part of what could not be written.
            current.file.cut(current.bytes)?;
        }
        if current.bytes >= self.limits.file_bytes_max {
            self.set_aside()?;
        }
        Ok(())
    }

    /// Begins a new file, without a line. A file in its place is set aside.
    fn begin_file(&mut self) -> io::Result<Current<D::File>> {
        self.set_aside()?;
        let older = older(&self.dir)?;
        let excess = older.len().saturating_sub(self.limits.files_max - 1);
        if excess > 0 {
            let kept = older.get(excess).copied().unwrap_or(self.head.lines);
            self.kept_from = self.kept_from.max(kept);
        }
        let file = self.dir.write(CURRENT)?;
        Ok(Current { file, bytes: 0 })
    }

    /// Lets the chain go on from the present head, without lines that are missing.
    fn lose(&mut self, reason: &'static str) -> io::Result<()> {
        if !self.notes.iter().any(|note| matches!(note, Own::Lost { .. })) {
            self.notes.push(Own::Lost { reason, known: self.head.clone() });
        }
        self.set_aside()
    }

    /// Renames the file at the current name; it stays under the new one.
    fn set_aside(&mut self) -> io::Result<()> {
        self.current = None;
        let names = self.dir.names()?;
        if !names.iter().any(|name| name == CURRENT) {
            return Ok(());
        }
        let first = first_link(&self.dir.read(CURRENT)?)?.map(|link| older_name(link.n));
        let others = (0..).map(|n| format!("audit-aside-{n}.jsonl"));
        let mut free = first.into_iter().chain(others).filter(|name| !names.contains(name));
        let name = free.next().expect("there is no end of names");
        self.dir.rename(CURRENT, &name)?;
        self.dir.sync()
    }

    /// Removes the oldest files, as far as the newest says that they are not kept.
    fn remove_oldest(&mut self) {
        let Ok(older) = older(&self.dir) else { return };
        for first in older.into_iter().filter(|first| *first < self.kept_from) {
            if let Err(error) = self.dir.remove(&older_name(first)) {
                tracing::warn!(%error, "audit log: {} cannot be removed", older_name(first));
            }
        }
    }
}

/// Result of following the lines of a log from the known one.
enum Followed {
    /// The lines are a chain to the end.
    Whole(Head),
    /// The lines are a chain to here, and then comes another one.
    Broken(Head),
    /// The known line is missing.
    Nowhere,
}

/// Reading the files at the start.
impl<D: Directory> AuditLog<D> {
    /// Opens the current file, without a torn end; says whether that end can be a line.
    fn repair(&mut self) -> io::Result<bool> {
        let file = self.dir.write(CURRENT)?;
        let Some(whole) = whole_bytes(&file)? else { return Ok(false) };
        let bytes = file.bytes()?;
        if whole < bytes {
            // The next line cuts the torn end off.
            self.notes.push(Own::Repaired { bytes: bytes - whole });
        }
        self.current = Some(Current { file, bytes: whole });
        Ok(true)
    }

    /// Follows the chain in the files `names`, the oldest first, from `known` on.
    fn follow(&self, names: &[String], known: &Head, seen: &mut dyn FnMut(&[u8])) -> io::Result<Followed> {
        let files: Vec<D::File> = names.iter().map(|name| self.dir.read(name)).collect::<io::Result<_>>()?;
        let wanted = known.lines.saturating_sub(1);
        let mut from = 0;
        for (index, file) in files.iter().enumerate() {
            if first_link(file)?.is_some_and(|link| link.n <= wanted) {
                from = index;
            }
        }
        let mut head = (known.lines == 0).then(Head::default);
        for (index, file) in files.iter().enumerate().skip(from) {
            let at = if index == from { begin_near(file, wanted)? } else { 0 };
            let mut lines = Lines::new(file, at);
            while let Some(text) = lines.next()? {
                let link = Link::parse(&text);
                head = match (link, head) {
                    (Some(link), Some(head)) if link.follows(&head) => Some(Head::after(link.n, &text)),
                    (_, Some(head)) => return Ok(Followed::Broken(head)),
                    (Some(link), None) if link.n == wanted => {
                        let found = Head::after(link.n, &text);
                        if found != *known {
                            return Ok(Followed::Nowhere);
                        }
                        Some(found)
                    }
                    (_, None) => None,
                };
                if head.is_some() {
                    seen(&text);
                }
            }
        }
        Ok(head.map_or(Followed::Nowhere, Followed::Whole))
    }
}

fn put_line<E: Serialize>(text: &mut Vec<u8>, head: &mut Head, time_ms: u64, event: E) {
    let line = Line { n: head.lines, time_ms, event, prev: std::mem::take(&mut head.hash) };
    let line = serde_json::to_vec(&line).expect("a line is plain data");
    *head = Head::after(head.lines, &line);
    text.extend(line);
    text.push(b'\n');
}
