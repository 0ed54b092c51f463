//! The guarantees of the host's storage, found out and not guessed.
//!
//! [`mod@gather`] asks the host and knows nothing of destruction. [`judge()`] draws the conclusions and
//! asks nothing. Invariants:
//! 1. A fact that could not be found out is a [`Finding`], and never counts as good.
//! 2. [`Level::Clear`] is reached by evidence only: a file system that
//!    overwrites in place, above devices that all do.

mod device;
mod extents;
mod facts;
mod file_system;
pub mod gather;
mod judge;
mod root;
mod session;
#[cfg(test)]
mod tests;
mod whole;
mod words;

pub use device::DeviceNumber;
pub use facts::{DeviceFacts, DeviceKind, Facts, FileFacts, Layer, Transport};
pub use gather::{Roots, gather};
pub use judge::judge;
pub(crate) use root::inspect_root;
pub use root::{RootMedia, TpmFound, root_media};
pub use session::session;
pub use whole::{DiskGuarantees, Holds, Part, PartFound, inspect_disk};
pub use words::Code;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Most mounts that are examined for a root.
const MOUNTS_MAX: usize = 64;

/// How far overwriting reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Overwriting reaches the bytes, as far as the host can tell.
    Clear,
    /// Overwriting may not reach all copies.
    NotAssured,
    /// Overwriting does not reach all copies: something below writes elsewhere, and keeps the old.
    NotReached,
}

/// Effect of a [`Finding`] on the guarantee.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// No effect; worth knowing.
    Note,
    /// The guarantee is in doubt.
    Doubt,
    /// The guarantee is gone.
    Defeat,
}

/// A finding, in plain words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Kind of the finding; stable.
    pub code: Code,
    /// Effect on the guarantee.
    pub severity: Severity,
    /// The file or device that the finding is about.
    pub at: String,
    /// The finding: a noun and its details.
    pub what: String,
    /// Reason why the finding matters: a sentence, without its full stop.
    pub why: Cow<'static, str>,
    /// Remedy, in the imperative; empty if nothing need be done.
    pub instead: Cow<'static, str>,
}

/// The effect of overwriting a file or a block device on this host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Guarantees {
    /// Level of the worst finding.
    pub level: Level,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// Facts that the findings rest on.
    pub facts: Facts,
}

/// Finds out what this host guarantees for the file or block device at `path`.
///
/// # Errors
/// Errors of the system, if there is nothing at `path`, or nothing that can be examined. A lesser
/// gap is a finding.
pub fn inspect(path: &Path) -> io::Result<Guarantees> {
    gather(&Roots::default(), path).map(judge)
}

/// The kind of memory that holds what is at `path`, such as `tmpfs`; `None` if it outlives the machine's stop, as far as that can be
/// found out.
pub(crate) fn volatile(path: &Path) -> Option<String> {
    judge::volatile(&gather(&Roots::default(), path).ok()?)
}

/// The mount points where a file would be overwritten, as far as this host can tell: there the root of a disk can lie. No other machine
/// is asked, so that a server which does not answer holds nothing up.
#[must_use]
pub fn overwriting_mounts(roots: &Roots) -> Vec<PathBuf> {
    let mut sources = HashSet::new();
    let mounts = file_system::mounts(&roots.proc).unwrap_or_default().into_iter();
    let writable = mounts.filter(|it| it.options.iter().all(|option| option != "ro"));
    let local = writable.filter(|it| judge::overwrites_here(&it.file_system));
    let once = local.filter(|it| sources.insert(it.source.clone())).take(MOUNTS_MAX);
    let is_clear =
        |point: &PathBuf| gather(roots, point).is_ok_and(|facts| judge(facts).level == Level::Clear);
    once.map(|it| it.point).filter(is_clear).collect()
}

/// As [`inspect`], also of a root that is neither file nor device; a path that cannot be examined is a finding.
fn inspect_or_doubt(path: &Path) -> Guarantees {
    root::inspect_chip(path).or_else(|| root::inspect_root(path)).unwrap_or_else(|| {
        inspect(path).unwrap_or_else(|error| {
            let unknown = vec![format!("cannot inspect it: {error}")];
            judge(Facts { path: path.into(), unknown, ..Facts::default() })
        })
    })
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clear => "overwriting reaches the bytes, as far as this host can tell",
            Self::NotAssured => "overwriting may not reach every copy of the bytes",
            Self::NotReached => "overwriting does NOT reach every copy of the bytes",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}). {}", self.what, self.at, self.why)?;
        if !self.instead.is_empty() {
            write!(f, "; {}", self.instead)?;
        }
        f.write_str(".")
    }
}

/// The text of a failed inquiry: subject, place and error.
fn at(what: &str, path: &Path, error: impl fmt::Display) -> String {
    format!("cannot determine {what} of {}: {error}", path.display())
}

/// The last part of a path, for people.
fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// A path as it was asked for, and as it really is.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}
