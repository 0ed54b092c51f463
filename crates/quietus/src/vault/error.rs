//! Why something cannot be done with a vault.

use crate::front::control::Refused;
use crate::host::directory::DirectoryError;
use crate::host::fuse::MountError;
use quietus_core::media::medium::MediumError;
use quietus_vault::VaultError;
use std::io;
use std::path::{Path, PathBuf};

/// Why something cannot be done with a vault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The vault.
    #[error(transparent)]
    Vault(VaultError),
    /// The medium, read for a proof, or overwritten for a new vault.
    #[error("vault pool: {0}")]
    Medium(#[from] MediumError),
    /// The disk to put.
    #[error("{0}")]
    Disk(Refused),
    /// A file of the host.
    #[error("{}: cannot {act}: {error}", path.display())]
    Io {
        /// The act that failed.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
    /// The folder that a vault was to be mounted at, or FUSE.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The audit log.
    #[error("audit log: cannot write audit.jsonl: {0}; free space on the host, or make the file writable")]
    Record(io::Error),
    /// The command line is wrong, whatever the host is like.
    #[error("{0}")]
    Usage(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The caller does not want the rest.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The error of the host that kept `act` from `path`.
    pub fn io(act: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io { act, path: path.into(), error: error.into() }
    }

    /// Whether this user may not write, or the medium is read-only.
    pub(super) fn is_of_rights(&self) -> bool {
        let error = match self {
            Self::Io { error, .. } => Some(error),
            Self::Directory(error) => error.source.as_ref(),
            _ => None,
        };
        let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
        error.is_some_and(|error| kinds.contains(&error.kind()))
    }
}

impl From<VaultError> for Error {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Interrupted => Self::Interrupted,
            error => Self::Vault(error),
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Interrupted => Self::Interrupted,
            refused => Self::Disk(refused),
        }
    }
}
