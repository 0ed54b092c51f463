//! What can be wrong with a disk's directory.

use std::io;
use std::path::{Path, PathBuf};

/// Something is wrong with a disk's directory.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}{}", path.display(), source.as_ref().map(|source| format!(": {source}")).unwrap_or_default())]
pub struct DiskError {
    /// What it is.
    pub kind: DiskErrorKind,
    /// Where.
    pub path: PathBuf,
    /// What the host said.
    #[source]
    pub source: Option<io::Error>,
}

/// The kinds of [`DiskError`]; stable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiskErrorKind {
    /// Something of that name is there already.
    #[error("it exists already: choose another name, or remove it")]
    Exists,
    /// The directory, or a file in it, is not there.
    #[error("{0} is missing: name a directory that `quietus create` made, or restore the file")]
    Missing(&'static str),
    /// It is of a version that this program does not know.
    #[error("it is of version {0}, and this program knows version 1: use a newer one")]
    Version(i64),
    /// A file in it is not what was written.
    #[error("it is damaged ({0}): restore it from a copy")]
    Damaged(&'static str),
    /// `disk.toml` says something that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The base of an overlay is not there.
    #[error(
        "the base image is missing: put it back, or say where it is now with `quietus rebase DISK --base IMAGE`"
    )]
    BaseMissing,
    /// The base of an overlay is not what it was.
    #[error(
        "the base image has changed since the disk was made ({0}): restore it, or name a copy of what it was \
         with `quietus rebase DISK --base IMAGE`"
    )]
    BaseChanged(String),
    /// A file is not what it was when the disk was stopped.
    #[error("{0}")]
    Changed(String),
    /// It was being written to its base.
    #[error("it was being written to its base: go on with `quietus commit`")]
    Committing,
    /// Somebody uses it.
    #[error("it is in use by {0}: stop that first")]
    Locked(String),
    /// Somebody stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The host refused.
    #[error("{0} failed")]
    Io(&'static str),
}

impl DiskErrorKind {
    /// This, at `path`.
    #[must_use]
    pub fn at(self, path: &Path) -> DiskError {
        DiskError { kind: self, path: path.into(), source: None }
    }

    /// This, at `path`, because of `source`.
    #[must_use]
    pub fn of(self, path: &Path, source: io::Error) -> DiskError {
        DiskError { kind: self, path: path.into(), source: Some(source) }
    }

    pub(super) fn missing_or_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing("it"),
            _ => Self::Io("reading it"),
        }
    }
}
