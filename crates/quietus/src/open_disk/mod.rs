//! A disk that is open in this process: its directory, and the engine that runs it.

mod clock;
pub mod copy;
mod gate;

pub use clock::{Clock, Reading, Untrusted};
pub use gate::{Closed, Gate};

use crate::disk::epochs::{Names, Told};
use crate::disk::keys::Source;
use crate::disk::{Access, DiskDir, Step};
use crate::engine::{Engine, StartError};
use quietus_core::volume::{Config, OpenError, Status};
use quietus_core::watch::Watcher;
use quietus_detect::rules::options::Sensitive;
use std::path::Path;
use std::sync::Arc;

/// An open disk, and the engine that runs it.
pub struct OpenDisk {
    /// The directory.
    pub dir: DiskDir,
    /// The engine that runs the disk.
    pub engine: Arc<Engine>,
    /// The names and holds of epochs, of a disk that keeps versions.
    pub names: Names,
    /// The host's clock, which says when epochs close and expire.
    pub clock: Clock,
    /// Whether clients reach the disk.
    pub served: bool,
    /// Whether they may use its current state.
    pub gate: Gate,
    /// Which content is sensitive to the watcher.
    pub sensitive: Sensitive,
}

impl OpenDisk {
    /// Opens the disk at `path` for one command. With `look_only` nothing is written, unless a crash
    /// left something to be put right.
    pub fn open(path: &Path, look_only: bool, step: Step<'_>) -> Result<Self, StartError> {
        Self::open_unlocked(path, look_only, None, step)
    }

    /// As [`OpenDisk::open`], with the keys that the credential of `source` opens, if the disk has some.
    pub fn open_unlocked(
        path: &Path,
        look_only: bool,
        source: Option<&Source>,
        step: Step<'_>,
    ) -> Result<Self, StartError> {
        let mut open = |access| {
            let mut dir = DiskDir::open_with(path, access, step)?;
            dir.check_lasts()?;
            source.map_or(Ok(()), |source| dir.unlock(source)).map_err(StartError::Keys)?;
            let config = dir.config()?;
            Self::start_with(dir, config, None, false, step)
        };
        let access = if look_only { Access::ReadOnly } else { Access::ReadWrite };
        match open(access) {
            Err(StartError::Open(OpenError::NeedsRecovery)) => open(Access::ReadWrite),
            opened => opened,
        }
    }

    /// Runs the disk in `dir` for one command.
    pub fn start(dir: DiskDir) -> Result<Self, StartError> {
        let config = dir.config()?;
        Self::start_with(dir, config, None, false, &mut |_, _| true)
    }

    /// Runs the disk in `dir`, observed by `watcher`; clients reach it if `served`. A medium that is busy is waited for, while
    /// `step` says so.
    pub fn start_with(
        dir: DiskDir,
        config: Config,
        watcher: Option<Box<dyn Watcher>>,
        served: bool,
        step: Step<'_>,
    ) -> Result<Self, StartError> {
        let names = Names::read(dir.directory()).map_err(StartError::Names)?;
        let engine = Engine::start(&dir.name(), &dir, config, watcher, step)?;
        let names = match names {
            Some(names) => names,
            None if engine.open_epoch().is_some() => Self::names_of(&engine, &dir)?,
            None => Names::default(),
        };
        let (clock, gate) = (Clock::default(), Gate::default());
        let (engine, sensitive) = (Arc::new(engine), Sensitive::All);
        Ok(Self { dir, engine, names, clock, served, gate, sensitive })
    }

    /// The names and holds of a disk that has lost their file.
    fn names_of(engine: &Engine, dir: &DiskDir) -> Result<Names, StartError> {
        let last = engine.open_epoch().map_or(0, |open| open.0.saturating_sub(1));
        let rebuilt = Names::rebuilt(
            dir.directory(),
            Told::by(|see| engine.read_record(see)),
            (last, dir.is_read_only()),
        );
        rebuilt.map_err(|error| {
            engine.stop(false, |_| false);
            StartError::Names(error)
        })
    }

    /// Whether the disk keeps its past as epochs.
    #[must_use]
    pub fn keeps_epochs(&self) -> bool {
        self.dir.toml().versions.is_some()
    }

    /// Sees to it that the file of the names and holds is there: what it had is known here.
    pub(crate) fn look_at_names(&self) {
        if self.keeps_epochs()
            && !self.dir.is_read_only()
            && let Err(error) = self.names.look(self.dir.directory())
        {
            tracing::warn!(%error, "the names and holds of epochs are in memory only");
        }
    }

    /// Stops the disk. With `drain`, queued content is destroyed first, while `step` says so.
    pub fn close(&self, drain: bool, step: impl FnMut(&Status) -> bool) {
        let stopped = self.engine.stop(drain, step);
        let Some(checkpoint) = stopped.filter(|_| !self.dir.is_read_only()) else { return };
        if let Err(error) = self.dir.save_view(&checkpoint) {
            tracing::warn!(%error, "cannot write the checkpoint; the next start takes longer");
        }
        if let Err(error) = self.dir.stamp() {
            tracing::warn!(%error, "cannot write the stamp; the next start cannot check whether the map was changed in between");
        }
    }
}

/// Bytes still to be destroyed or given back.
#[must_use]
pub(crate) fn backlog_bytes(status: &Status) -> u64 {
    status.owed.queued_bytes + status.owed.conservative_bytes + status.store.backlog_bytes()
}
