//! Errors of a disk.

use crate::host::directory::{DirectoryError, DirectoryErrorKind, ErrorAt};
use std::path::Path;

/// Something is wrong with a disk.
pub type DiskError = ErrorAt<DiskErrorKind>;

/// The kinds of [`DiskError`]; stable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiskErrorKind {
    /// Something is wrong with the directory.
    #[error(transparent)]
    Directory(#[from] DirectoryErrorKind),
    /// The disk is of a version that this program does not know.
    #[error("version {0} is unknown to this program, which reads version 1; use a newer program")]
    Version(i64),
    /// A field of `disk.toml` is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The options for a new disk do not go together.
    #[error("{0}")]
    Usage(String),
    /// The base of an overlay is missing.
    #[error("the base image is missing; put it back, or name it with `quietus rebase DISK --base IMAGE`")]
    BaseMissing,
    /// The base of an overlay has changed.
    #[error(
        "the base image has changed since the disk was made ({0}); restore it, or name an unchanged copy \
         with `quietus rebase DISK --base IMAGE`"
    )]
    BaseChanged(String),
    /// A file has changed since the disk was stopped.
    #[error("{0}")]
    Changed(String),
    /// The overlay was being written to its base.
    #[error("a commit to the base image was interrupted; finish it with `quietus commit`")]
    Committing,
    /// The root was in the memory of a server that has stopped.
    #[error(
        "all content is gone: the root was in the memory of a server, and no server runs; `quietus serve` begins with an \
         empty disk"
    )]
    Ended,
}

impl DiskErrorKind {
    /// The error of this kind at `path`.
    #[must_use]
    pub fn at(self, path: &Path) -> DiskError {
        ErrorAt { kind: self, path: path.into(), source: None }
    }
}

impl From<DirectoryError> for DiskError {
    fn from(error: DirectoryError) -> Self {
        Self { kind: error.kind.into(), path: error.path, source: error.source }
    }
}
