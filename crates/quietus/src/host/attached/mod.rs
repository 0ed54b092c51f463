//! Whether a host's page cache, or another cache, is between a guest's file system and a disk:
//! there a map may be held back for long, and detection must wait for that.
//!
//! An unknown client counts as a cache, and so does a file that cannot be read: every mistake only
//! makes deaths known later.

mod kernel;
mod peer;
#[cfg(test)]
mod tests;

pub use peer::Peer;

use crate::base::lock::lock;
use crate::host::directory::{remove, replace};
use crate::host::guarantees::Roots;
use quietus_core::watch::Attached;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Most bytes that are read of a file of the system's, such as those below `/proc` and `/sys`.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Name of the file in a disk's directory that exists while a cache may hold writes back.
const NOTE: &str = "cached";

/// The content of a file of the system's, if it is text and not too long.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let read = File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    ((read as u64) < FILE_BYTES_MAX).then_some(text)
}

/// How guests are attached, as the owner says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Mode {
    /// Examine each client; an unknown client counts as cached.
    #[default]
    Auto,
    /// No cache between guest and disk.
    Direct,
    /// A cache between guest and disk.
    Cached,
}

/// Finding about a client, from its process or from the owner.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A cache may be between guest and disk.
    pub cached: bool,
    /// Reason, in words.
    pub why: String,
}

impl Finding {
    fn direct(why: impl Into<String>) -> Self {
        Self { cached: false, why: why.into() }
    }

    fn cached(why: impl Into<String>) -> Self {
        Self { cached: true, why: why.into() }
    }
}

/// How the guests of one disk are attached, as far as that is known.
#[derive(Debug)]
pub struct Attachment {
    mode: Mode,
    hold_ms: u64,
    /// The disk's directory.
    dir: PathBuf,
    roots: Roots,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    now: Finding,
}

#[derive(Debug)]
struct Client {
    peer: Peer,
    finding: Finding,
}

impl Attachment {
    /// The attachment of the disk in `dir`. A cache holds writes back for `hold_ms` of activity at
    /// most.
    #[must_use]
    pub fn new(mode: Mode, hold_ms: u64, dir: &Path, roots: Roots) -> Self {
        let now = match mode {
            Mode::Direct => Finding::direct("--attached direct"),
            Mode::Cached => Finding::cached("--attached cached"),
            // A note that cannot be looked for counts as one.
            Mode::Auto if dir.join(NOTE).try_exists().unwrap_or(true) => {
                Finding::cached("the last client had a cache, which may still hold writes back")
            }
            Mode::Auto => Finding::direct("no client was connected yet"),
        };
        let inner = Inner { clients: BTreeMap::new(), next_client: 0, now };
        Self { mode, hold_ms, dir: dir.into(), roots, inner: Mutex::new(inner) }
    }

    /// The present finding, and its reason.
    #[must_use]
    pub fn finding(&self) -> Finding {
        lock(&self.inner).now.clone()
    }

    /// The attachment as the rules of inference are told.
    #[must_use]
    pub fn attached(&self) -> Attached {
        let is_cached = lock(&self.inner).now.cached;
        if is_cached { Attached::Cached { hold_ms: self.hold_ms } } else { Attached::Direct }
    }

    /// Notes a cache in the disk's directory: a cache outlives the server, and comes again after a
    /// restart with its held writes.
    pub fn note(&self, cached: bool) {
        let noted = if cached { replace(&self.dir, NOTE, &[]) } else { remove(&self.dir, NOTE) };
        if let Err(error) = noted {
            tracing::warn!(%error, "cannot write the file {NOTE}; after a restart serve with --attached cached");
        }
    }

    /// Adds a client, and returns its number.
    pub fn connected(&self, process: Option<u32>) -> u64 {
        let peer = Peer::new(&self.roots, process);
        let finding = peer.look(&self.roots);
        let mut inner = lock(&self.inner);
        let id = inner.next_client;
        inner.next_client += 1;
        inner.clients.insert(id, Client { peer, finding });
        inner.decide(self.mode);
        id
    }

    /// Removes the client of that number.
    pub fn disconnected(&self, id: u64) {
        let mut inner = lock(&self.inner);
        inner.clients.remove(&id);
        inner.decide(self.mode);
    }

    /// Whether the client of that number is connected, and another look may find something else.
    #[must_use]
    pub fn may_change(&self, id: u64) -> bool {
        self.mode == Mode::Auto && lock(&self.inner).clients.get(&id).is_some_and(|it| it.peer.may_change())
    }

    /// Examines again the clients whose attachment may have changed.
    pub fn look_again(&self) {
        if self.mode != Mode::Auto {
            return;
        }
        let mut inner = lock(&self.inner);
        for client in inner.clients.values_mut().filter(|it| it.peer.may_change()) {
            client.finding = client.peer.look(&self.roots);
        }
        inner.decide(self.mode);
    }
}

impl Inner {
    /// The finding for the disk: one client with a cache decides. When no client is left, the cache
    /// of the last one may come again.
    fn decide(&mut self, mode: Mode) {
        if mode != Mode::Auto {
            return;
        }
        let findings = || self.clients.values().map(|it| &it.finding);
        if let Some(finding) = findings().find(|it| it.cached).or_else(|| findings().next()) {
            self.now = finding.clone();
        }
    }
}
