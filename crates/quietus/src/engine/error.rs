//! Why a disk cannot be run.

use crate::disk::epochs::NamesError;
use crate::disk::keys::KeysError;
use crate::disk::{DiskDir, DiskError, DiskErrorKind};
use crate::host::directory::DirectoryErrorKind;
use quietus_core::media::medium::{MediumError, MediumErrorKind};
use quietus_core::store::StoreError;
use quietus_core::store::versions::VersionsError;
use quietus_core::volume::OpenError;
use std::io;

/// Why a disk cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The files in the directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The audit log cannot be opened.
    #[error("cannot open the audit log: {0}; make audit.jsonl readable and writable")]
    Audit(io::Error),
    /// The names of epochs cannot be read.
    #[error(transparent)]
    Names(NamesError),
    /// The keys cannot be opened.
    #[error(transparent)]
    Keys(KeysError),
    /// A medium was busy all the time that a start waits.
    #[error(
        "{error}; it stayed busy for {seconds} s. End what else uses this medium, or wait until it takes commands again (a TPM that is \
         locked ends that by itself), then run the command again"
    )]
    Busy {
        /// The answer of the medium, the last time.
        error: MediumError,
        /// How long the start waited, in seconds.
        seconds: u64,
    },
    /// No thread can be started.
    #[error("cannot start a thread: {0}; raise the limit on processes")]
    Thread(io::Error),
}

impl StartError {
    /// Whether the user stopped the start.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Disk(error) => error.kind == DirectoryErrorKind::Interrupted.into(),
            Self::Keys(error) => matches!(error, KeysError::Interrupted),
            Self::Open(_) | Self::Audit(_) | Self::Names(_) | Self::Busy { .. } | Self::Thread(_) => false,
        }
    }

    /// The answer of a medium that was busy, if the start failed for that alone: it can be tried again.
    pub(super) fn busy(&self) -> Option<&MediumError> {
        match self {
            Self::Open(error) => error.medium(),
            Self::Disk(error) => error.source.as_ref()?.get_ref()?.downcast_ref(),
            _ => None,
        }
        .filter(|error: &&MediumError| error.kind == MediumErrorKind::Busy)
    }

    /// The error for `error`, which came of opening the files in `dir`.
    pub(super) fn of(dir: &DiskDir, error: OpenError) -> Self {
        let named = match &error {
            OpenError::Store(StoreError::Map(error)) => dir.map_error(error),
            OpenError::Store(StoreError::Versions(error @ VersionsError::Short { on, .. })) => {
                dir.medium_of(*on).map(|path| DiskErrorKind::Changed(error.to_string()).at(&path))
            }
            _ => None,
        };
        named.map_or(Self::Open(error), Self::Disk)
    }
}
