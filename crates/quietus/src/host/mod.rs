//! What the host's storage can and cannot guarantee, found out and not guessed.
//!
//! [`gather`] asks the host: it knows nothing of destruction. [`judge()`] draws
//! the conclusions: it asks nothing. Invariants:
//! 1. What could not be found out is a [`Finding`], and never counts as good.
//! 2. [`Level::Clear`] is reached by evidence only: a file system that
//!    overwrites in place, above devices that all do.

mod device;
mod extents;
mod facts;
mod file_system;
pub mod gather;
mod judge;
mod session;
#[cfg(test)]
mod tests;
mod whole;
mod words;

pub use device::DeviceNumber;
pub use facts::{DeviceFacts, DeviceKind, Facts, FileFacts, Layer, Transport};
pub use gather::{Roots, gather};
pub use judge::judge;
pub use session::session;
pub use whole::{DiskGuarantees, Part, inspect_disk};
pub use words::Code;

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// How far overwriting reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// To the bytes, as far as the host can tell.
    Clear,
    /// Perhaps not to all copies.
    NotAssured,
    /// Not to all copies: something below writes elsewhere, and keeps the old.
    NotReached,
}

/// How much a [`Finding`] takes away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing; worth knowing.
    Note,
    /// The assurance.
    Doubt,
    /// The effect.
    Defeat,
}

/// One thing that was found out, in plain words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// What it is; stable.
    pub code: Code,
    /// How much it takes away.
    pub severity: Severity,
    /// The file or device.
    pub at: String,
    /// What was found: a noun and its details.
    pub what: String,
    /// Why it matters: a sentence, without its full stop.
    pub why: Cow<'static, str>,
    /// What to do instead, in the imperative; empty if nothing need be done.
    pub instead: Cow<'static, str>,
}

/// What overwriting a file or a block device achieves on this host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Guarantees {
    /// The worst of the findings.
    pub level: Level,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What they rest on.
    pub facts: Facts,
}

impl Guarantees {
    /// Of several files that make up one disk, the weakest.
    #[must_use]
    pub fn level_of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Level {
        all.into_iter().map(|one| one.level).max().unwrap_or(Level::NotAssured)
    }
}

/// Finds out what this host guarantees for the file or block device at `path`.
///
/// # Errors
/// The system's, if there is nothing at `path`, or nothing that can be looked
/// at. Less than that is a finding.
pub fn inspect(path: &Path) -> io::Result<Guarantees> {
    gather(&Roots::default(), path).map(judge)
}

/// The same; what cannot be looked at at all is a finding.
fn inspect_or_doubt(path: &Path) -> Guarantees {
    inspect(path).unwrap_or_else(|error| {
        let unknown = vec![format!("cannot inspect it: {error}")];
        judge(Facts { path: path.into(), unknown, ..Facts::default() })
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

impl fmt::Display for Guarantees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n- {finding}"))
    }
}

/// Where something was looked for, and what went wrong.
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
