//! The record of deaths and receipts: `audit.jsonl`, a line each, chained.
//!
//! Each line names the SHA-256 of the one before, so that none can be changed
//! or taken out unseen. Format: `docs/formats/audit.md`.

use crate::disk::DiskDir;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use quietus_core::ledger::Cause;
use quietus_core::units::{Addr, Extent};
use quietus_core::volume::{Done, Receipt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Lines that may wait to be written; more are counted, not kept.
const LINES_WAITING_MAX: usize = 1 << 16;
/// Extents that one line names, as many as an act has at most; more are counted.
const EXTENTS_MAX: usize = 4096;
/// A file longer than this is set aside as `audit.jsonl.1` and a new one begun.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Something worth keeping a record of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Entry {
    /// The disk was opened.
    Opened,
    /// Bytes died.
    Died {
        /// Who said so.
        cause: Cause,
        /// The first byte.
        start: u64,
        /// How many.
        len: u64,
    },
    /// Dead content is gone.
    Receipt {
        /// How.
        act: Done,
        /// Passes over each byte.
        passes: usize,
        /// All bytes.
        bytes: u64,
        /// Where: first byte and length, at most 4096 of them.
        extents: Vec<(u64, u64)>,
        /// Further extents, not named.
        more: usize,
    },
    /// The medium failed.
    Latched {
        /// How.
        reason: String,
    },
    /// Lines were dropped because the record could not be written fast enough.
    Dropped {
        /// How many.
        lines: u64,
    },
    /// A proof was made.
    Proved {
        /// SHA-256 of the receipt's body.
        digest: String,
    },
    /// The disk was stopped.
    Stopped,
}

/// One line of the record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub n: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
    /// SHA-256 of the line before, in hexadecimal.
    pub prev: String,
}

/// Writes the record, on a thread of its own.
pub struct Journalist {
    lines: Option<Sender<Message>>,
    dropped: AtomicU64,
}

enum Message {
    Entry(Entry),
    Flush(Sender<Head>),
}

/// The end of the record.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Head {
    /// Lines written.
    pub lines: u64,
    /// SHA-256 of the last one, in hexadecimal.
    pub hash: String,
}

impl Journalist {
    pub(super) fn start(dir: &DiskDir, read_only: bool) -> Result<Self, super::StartError> {
        if read_only {
            return Ok(Self { lines: None, dropped: AtomicU64::new(0) });
        }
        let mut record = Record::open(&dir.audit_path()).map_err(super::StartError::Audit)?;
        let (lines, queue) = unbounded();
        let writer = std::thread::Builder::new().name("audit".into());
        writer.spawn(move || record.write_all(&queue)).map_err(super::StartError::Thread)?;
        let journalist = Self { lines: Some(lines), dropped: AtomicU64::new(0) };
        journalist.note(Entry::Opened);
        Ok(journalist)
    }

    /// Puts `entry` on record, without waiting.
    pub fn note(&self, entry: Entry) {
        let Some(lines) = &self.lines else { return };
        // A bounded channel would take all of its room from the start.
        if lines.len() >= LINES_WAITING_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.dropped.load(Ordering::Relaxed) > 0 {
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            let _ = lines.send(Message::Entry(Entry::Dropped { lines: dropped }));
        }
        let _ = lines.send(Message::Entry(entry));
    }

    pub(super) fn died(&self, cause: Cause, extent: Extent<Addr>) {
        self.note(Entry::Died { cause, start: extent.start.0, len: extent.len });
    }

    pub(super) fn latched(&self, reason: String) {
        tracing::error!(reason, "the medium failed; the disk is read-only from now on");
        self.note(Entry::Latched { reason });
    }

    pub(super) fn receipt(&self, receipt: Receipt) {
        let bytes = receipt.extents.iter().map(|extent| extent.len).sum();
        let extents = receipt.extents.iter().take(EXTENTS_MAX).map(|it| (it.start.0, it.len));
        self.note(Entry::Receipt {
            act: receipt.act,
            passes: receipt.passes,
            bytes,
            extents: extents.collect(),
            more: receipt.extents.len().saturating_sub(EXTENTS_MAX),
        });
    }

    /// Waits until everything noted so far is durable.
    pub fn flush(&self) -> Head {
        let (done, wait) = bounded(1);
        let sent = self.lines.as_ref().is_some_and(|lines| lines.send(Message::Flush(done)).is_ok());
        if sent { wait.recv().unwrap_or_default() } else { Head::default() }
    }
}

/// The file.
struct Record {
    path: PathBuf,
    file: File,
    bytes: u64,
    head: Head,
}

impl Record {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let (head, whole) = last_line(&file)?;
        // A crash may have cut the last line short.
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { path: path.into(), file, bytes: whole, head })
    }

    fn write_all(&mut self, queue: &Receiver<Message>) {
        let mut text = String::new();
        while let Ok(first) = queue.recv() {
            for message in std::iter::once(first).chain(queue.try_iter().take(4096)) {
                match message {
                    Message::Entry(entry) => self.put(entry, &mut text),
                    Message::Flush(done) => {
                        self.write(&mut text);
                        if let Err(error) = self.file.sync_data() {
                            tracing::error!(%error, "audit.jsonl cannot be made durable");
                        }
                        let _ = done.send(self.head.clone());
                    }
                }
            }
            self.write(&mut text);
        }
    }

    fn put(&mut self, entry: Entry, text: &mut String) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let prev = std::mem::take(&mut self.head.hash);
        let line = Line { n: self.head.lines, time_ms: time.as_millis() as u64, entry, prev };
        let line = serde_json::to_string(&line).expect("a line is plain data");
        self.head = Head { lines: self.head.lines + 1, hash: hash(&line) };
        text.push_str(&line);
        text.push('\n');
    }

    fn write(&mut self, text: &mut String) {
        let written = self.make_room().and_then(|()| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::error!(%error, "audit.jsonl cannot be written");
        }
        self.bytes += text.len() as u64;
        text.clear();
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.bytes < FILE_BYTES_MAX {
            return Ok(());
        }
        std::fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
        self.file = OpenOptions::new().create(true).read(true).append(true).open(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

/// The end of the record in `file`, and how many bytes of whole lines it has.
fn last_line(file: &File) -> io::Result<(Head, u64)> {
    let mut reader = BufReader::new(file);
    let (mut head, mut whole, mut line) = (Head::default(), 0, String::new());
    while reader.read_line(&mut line)? > 0 {
        let Some(text) = line.strip_suffix('\n') else { break };
        let parsed: Result<Line, _> = serde_json::from_str(text);
        head = Head { lines: parsed.map_or(head.lines + 1, |it| it.n + 1), hash: hash(text) };
        whole += line.len() as u64;
        line.clear();
    }
    Ok((head, whole))
}

/// Checks the chain of the record at `path`.
///
/// # Errors
/// It cannot be read, or says what is wrong with which line.
pub fn check(path: &Path) -> io::Result<Head> {
    let mut head: Option<Head> = None;
    for text in BufReader::new(File::open(path)?).lines() {
        let text = text?;
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let line: Line = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let expected = head.as_ref().is_none_or(|head| (head.lines, &head.hash) == (line.n, &line.prev));
        if !expected {
            return Err(wrong(format!("line {} does not follow the one before it", line.n)));
        }
        head = Some(Head { lines: line.n + 1, hash: hash(&text) });
    }
    Ok(head.unwrap_or_default())
}

fn hash(line: &str) -> String {
    Sha256::digest(line.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
