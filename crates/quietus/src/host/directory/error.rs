//! Errors of a directory.

use std::fmt::{Debug, Display};
use std::io;
use std::path::{Path, PathBuf};

/// An error of kind `K` at a path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}{}", path.display(), source.as_ref().map(|source| format!(": {source}")).unwrap_or_default())]
pub struct ErrorAt<K: Debug + Display> {
    /// Kind of the error.
    pub kind: K,
    /// Path of the file or directory.
    pub path: PathBuf,
    /// Error of the host.
    #[source]
    pub source: Option<io::Error>,
}

/// Something is wrong with a directory.
pub type DirectoryError = ErrorAt<DirectoryErrorKind>;

/// The kinds of [`DirectoryError`]; stable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DirectoryErrorKind {
    /// The name is taken.
    #[error("already exists; choose another name, or remove it")]
    Exists,
    /// The directory, or a file in it, is not there.
    #[error("{0} is missing; check the name, or restore the file from a backup")]
    Missing(&'static str),
    /// A file does not hold what was written.
    #[error("damaged ({0}); restore the file from a backup")]
    Damaged(&'static str),
    /// Another process uses the directory, or a file.
    #[error("in use by {0}; stop that first")]
    Locked(String),
    /// The path is not what the command needs ([`crate::host::paths`]).
    #[error("{0}")]
    Unfit(String),
    /// The command was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The host refused.
    #[error("cannot {0}")]
    Io(&'static str),
}

impl DirectoryErrorKind {
    /// The error of this kind at `path`.
    #[must_use]
    pub fn at(self, path: &Path) -> DirectoryError {
        ErrorAt { kind: self, path: path.into(), source: None }
    }

    /// The error of this kind at `path`, because of `source`.
    #[must_use]
    pub fn of(self, path: &Path, source: io::Error) -> DirectoryError {
        ErrorAt { kind: self, path: path.into(), source: Some(source) }
    }

    /// The kind for a file that cannot be read because of `error`.
    pub(crate) fn unreadable(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing("the file"),
            _ => Self::Io("read the file"),
        }
    }
}
