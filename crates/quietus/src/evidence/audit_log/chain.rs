//! The chain of lines, and the search for lines in files.

use super::directory::{Directory, LogFile};
use crate::base::hex::{hex, sha256, unhex};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;

/// The file that is written to.
pub const CURRENT: &str = "audit.jsonl";
/// Longest line; a longer one is damage.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// The end of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// Lines so far.
    pub lines: u64,
    /// SHA-256 of the last line, in hexadecimal; empty if there is no line.
    pub hash: String,
}

/// A line of a log, around what it tells.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line<E> {
    /// Number of the line: one more than that of the line before.
    pub n: u64,
    /// Milliseconds since 1970, when it was written.
    pub time_ms: u64,
    /// Event that the line reports.
    #[serde(flatten)]
    pub event: E,
    /// SHA-256 of the line before, in hexadecimal.
    pub prev: String,
}

/// The fields of a line that link it to its neighbours.
#[derive(Deserialize)]
pub(super) struct Link {
    pub(super) n: u64,
    pub(super) prev: String,
    /// The first line that is kept, in the first line of each file but the first.
    pub(super) kept_from: Option<u64>,
}

impl Link {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// Whether the line comes right after `head`.
    pub(super) fn follows(&self, head: &Head) -> bool {
        (self.n, &self.prev) == (head.lines, &head.hash)
    }
}

impl Head {
    /// The end of a log of that many lines, the last of which has this SHA-256.
    pub fn new(lines: u64, hash: [u8; 32]) -> Self {
        Self { lines, hash: if lines == 0 { String::new() } else { hex(&hash) } }
    }

    /// The SHA-256 of the last line; zeros if there is none.
    pub fn hash_bytes(&self) -> [u8; 32] {
        unhex(&self.hash).unwrap_or_default()
    }

    /// The end of a log whose last line has number `n`.
    pub(super) fn after(n: u64, text: &[u8]) -> Self {
        Self { lines: n.saturating_add(1), hash: sha256(text) }
    }
}

/// The name of an older file, which begins with line `first`.
pub(super) fn older_name(first: u64) -> String {
    format!("audit-{first:012}.jsonl")
}

/// The line with which the older file `name` begins, if it is one.
fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    let is_number = digits.len() >= 12 && digits.bytes().all(|it| it.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The names of all files of the log in `dir`, the oldest first.
pub fn names(dir: &impl Directory) -> io::Result<Vec<String>> {
    let older = older(dir)?.into_iter().map(older_name);
    let current = dir.names()?.into_iter().filter(|name| name == CURRENT);
    Ok(older.chain(current).collect())
}

/// The older files, by their first lines.
pub(super) fn older(dir: &impl Directory) -> io::Result<Vec<u64>> {
    let mut all: Vec<u64> = dir.names()?.iter().filter_map(|name| first_of(name)).collect();
    all.sort_unstable();
    Ok(all)
}

/// Reads lines one after the other.
pub(super) struct Lines<'a, F> {
    file: &'a F,
    /// Where the next line begins.
    pub(super) at: u64,
    /// Bytes that were read; those from `used` on are at `at`.
    ahead: Vec<u8>,
    used: usize,
}

impl<'a, F: LogFile> Lines<'a, F> {
    pub(super) fn new(file: &'a F, at: u64) -> Self {
        Self { file, at, ahead: Vec::new(), used: 0 }
    }

    /// The next whole line without its line feed; `None` at the end, or where a line
    /// has no end.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let rest = &self.ahead[self.used..];
            if let Some(end) = rest[searched..].iter().position(|byte| *byte == b'\n') {
                let line = rest[..searched + end].to_vec();
                self.used += line.len() + 1;
                self.at += line.len() as u64 + 1;
                return Ok(Some(line));
            }
            searched = rest.len();
            if searched > LINE_BYTES_MAX || !self.read_on()? {
                return Ok(None);
            }
        }
    }

    /// Reads a piece more; says whether there is one.
    fn read_on(&mut self) -> io::Result<bool> {
        self.ahead.drain(..std::mem::take(&mut self.used));
        let have = self.ahead.len();
        self.ahead.resize(have + PIECE_BYTES, 0);
        let read = self.file.read_at(self.at + have as u64, &mut self.ahead[have..])?;
        self.ahead.truncate(have + read);
        Ok(read > 0)
    }
}

/// The first line of a file, if it belongs to a chain.
pub(super) fn first_link(file: &impl LogFile) -> io::Result<Option<Link>> {
    Ok(Lines::new(file, 0).next()?.and_then(|text| Link::parse(&text)))
}

/// The first line that is kept, as the newest of some links says that begin files, which come the newest first.
pub(super) fn kept_from<E>(mut links: impl Iterator<Item = Result<Option<Link>, E>>) -> Result<u64, E> {
    let kept = links.find_map(|link| link.map(|link| link?.kept_from).transpose());
    Ok(kept.transpose()?.unwrap_or(0))
}

/// Where a line begins in `file` that has number `n` or a smaller one, and is as near to
/// the end as can be found soon.
pub(super) fn begin_near(file: &impl LogFile, n: u64) -> io::Result<u64> {
    let bytes = file.bytes()?;
    let mut reach = PIECE_BYTES as u64;
    while reach < bytes {
        let mut lines = Lines::new(file, bytes - reach);
        // The first line read is most likely the rest of one.
        lines.next()?;
        let begin = lines.at;
        if lines.next()?.and_then(|text| Link::parse(&text)).is_some_and(|link| link.n <= n) {
            return Ok(begin);
        }
        reach *= 4;
    }
    Ok(0)
}

/// How many bytes of whole lines `file` has; `None` if the rest is not a torn line.
pub(super) fn whole_bytes(file: &impl LogFile) -> io::Result<Option<u64>> {
    let bytes = file.bytes()?;
    let mut tail = vec![0; bytes.min(LINE_BYTES_MAX as u64) as usize];
    let from = bytes - tail.len() as u64;
    let read = file.read_at(from, &mut tail)?;
    match tail[..read].iter().rposition(|byte| *byte == b'\n') {
        Some(end) => Ok(Some(from + end as u64 + 1)),
        None => Ok((from == 0).then_some(0)),
    }
}
