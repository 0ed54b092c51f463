//! Operations on whole disks: export, import, rebase, commit, repair. All but the first need a disk that no server
//! serves.
//!
//! Invariant: each of them can be stopped at any point, by a signal or a crash, and begun again,
//! without a loss that the guest would see.

mod commit;
mod export;
mod import;
mod rebase;
mod repair;
#[cfg(test)]
mod tests;

pub use commit::{Committed, commit, weigh_commit};
pub use export::{ExportOf, Exported, ImageFormat, export};
pub use import::create_from;
pub use rebase::{Rebased, rebase};
pub use repair::{Repaired, repair};

use crate::disk::{DiskDir, DiskError, DiskErrorKind, OverlayToml, Step};
use crate::engine::StartError;
use crate::engine::export::{Export, carry_out, liveness_runs};
use crate::front::control::Refused;
use crate::open_disk::{OpenDisk, backlog_bytes};
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::media::medium::MediumError;
use quietus_core::request::{Liveness, Op, Refusal, Request};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes read or written at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The directory cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The disk cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The disk refused a request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The base cannot be read or written.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the host.
        source: io::Error,
    },
    /// The difference between two bases cannot be found.
    #[error(
        "{0}. Without the old base image, the content that the disk still shows of it cannot be copied; to show \
         the content of the new base instead, use --as-it-is"
    )]
    OldBase(DiskError),
    /// The server of the disk, or the disk itself, answered with an error.
    #[error("{0}")]
    Answered(Refused),
    /// The medium failed.
    #[error("the disk is read-only: {0}")]
    Latched(String),
    /// Destruction waits for the audit log.
    #[error("destruction pauses: {0}")]
    Pauses(String),
    /// The operation was interrupted.
    #[error("interrupted; run the command again to go on")]
    Interrupted,
}

/// The error of the host at `path`.
fn at(path: &Path) -> impl Fn(io::Error) -> OfflineError + '_ {
    move |source| OfflineError::File { path: path.into(), source }
}

fn go_on(step: Step<'_>, done: u64, of: u64) -> Result<(), OfflineError> {
    if step(done, of) { Ok(()) } else { Err(OfflineError::Interrupted) }
}

/// A disk that is not served, open here.
struct Offline(OpenDisk);

impl Offline {
    /// Opens the disk in `dir` to be changed.
    fn start(dir: DiskDir) -> Result<Self, OfflineError> {
        Ok(Self(OpenDisk::start(dir)?))
    }

    fn size(&self) -> u64 {
        self.0.engine.size()
    }

    fn whole(&self) -> Extent<Addr> {
        Extent::new(0, self.size())
    }

    fn ask(&self, op: Op, extent: Extent<Addr>) -> Result<Vec<u8>, OfflineError> {
        Ok(carry_out(&*self.0.engine, Request { op, extent, fua: false })?.into_vec())
    }

    fn read(&self, extent: Extent<Addr>) -> Result<Vec<u8>, OfflineError> {
        self.ask(Op::Read, extent)
    }

    fn write(&self, start: u64, bytes: &[u8]) -> Result<(), OfflineError> {
        self.ask(Op::Write(bytes.to_vec().into()), Extent::new(start, bytes.len() as u64)).map(drop)
    }

    /// Makes `extent` read as zeros from now on.
    fn purge(&self, extent: Extent<Addr>) -> Result<(), OfflineError> {
        self.ask(Op::Purge, extent).map(drop)
    }

    fn flush(&self) -> Result<(), OfflineError> {
        self.ask(Op::Flush, Extent::new(0, 0)).map(drop)
    }

    /// Destroys and compacts everything that is due.
    fn drain(&self, step: Step<'_>) -> Result<(), OfflineError> {
        let total = backlog_bytes(&self.0.engine.status());
        self.0.engine.shred_now();
        let drained = self.0.engine.wait_until_drained(|status| {
            let left = backlog_bytes(status);
            step(total.saturating_sub(left), total.max(left))
        });
        let status = self.0.engine.status();
        match (status.latched, status.owed.pauses) {
            (Some(reason), _) => Err(OfflineError::Latched(reason)),
            (None, _) if drained => Ok(()),
            (None, Some(reason)) => Err(OfflineError::Pauses(reason)),
            (None, None) => Err(OfflineError::Interrupted),
        }
    }

    /// The runs of `extent` of one liveness.
    fn runs(&self, extent: Extent<Addr>) -> impl Iterator<Item = (Extent<Addr>, Liveness)> + '_ {
        liveness_runs(&*self.0.engine, extent)
    }

    /// The runs of blocks that are the disk's own.
    fn held(&self) -> impl Iterator<Item = Extent<Addr>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = Extent::between(at, self.size());
            let run = self.0.engine.ask(|volume| volume.first_allocated(rest))?;
            let from = run.start.0 / BLOCK_BYTES * BLOCK_BYTES;
            at = run.end().next_multiple_of(BLOCK_BYTES).min(self.size());
            Some(Extent::between(from, at))
        })
    }

    /// Runs an operation on the disk and stops it, with everything durable; gives the directory
    /// back.
    fn run<T>(
        self,
        act: impl FnOnce(&Self) -> Result<T, OfflineError>,
    ) -> Result<(DiskDir, T), OfflineError> {
        let done = act(&self);
        self.0.close(done.is_ok(), |_| true);
        let OpenDisk { dir, engine, .. } = self.0;
        drop(engine);
        done.map(|done| (dir, done))
    }
}

/// Refuses a disk that is no overlay.
fn overlay(dir: &DiskDir) -> Result<OverlayToml, OfflineError> {
    let what = "not an overlay; only a disk made with --store overlay has a base image";
    let none = || DiskErrorKind::Invalid(what.into()).at(dir.path());
    Ok(dir.toml().overlay.clone().ok_or_else(none)?)
}
