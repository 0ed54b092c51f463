//! The media of a disk, as the engine reads and writes them.

use super::StartError;
use crate::disk::{Base, DiskDir};
use crate::host::media::FileMedium;
use quietus_core::base::units::Pos;
use quietus_core::media::medium::{Medium, MediumError};
use quietus_core::media::{MediaTable, MediumId};
use std::io::IoSliceMut;
use std::sync::Arc;

/// A medium that threads share.
pub(super) trait SharedMedium: Medium + Send + Sync {
    /// Reads, if no wait for the device is needed; else nothing.
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>>;

    /// Checks that the file is the one that was opened; the error names the change.
    fn check_whole(&self) -> Result<(), MediumError>;
}

impl SharedMedium for FileMedium {
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        self.read_cached(pos, into)
    }

    fn check_whole(&self) -> Result<(), MediumError> {
        self.check_whole()
    }
}

impl SharedMedium for Base {
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        self.read_cached(pos, into)
    }

    /// A changed base is found when it is opened, and by its stamp.
    fn check_whole(&self) -> Result<(), MediumError> {
        Ok(())
    }
}

/// The media of a disk, and which of them are its own.
pub(super) struct Opened {
    pub(super) own: MediaTable<Arc<FileMedium>>,
    pub(super) all: MediaTable<Arc<dyn SharedMedium>>,
}

/// Opens the media of the disk in `dir`, and compares them with the last clean stop.
pub(super) fn open(dir: &DiskDir) -> Result<Opened, StartError> {
    let own = dir.open_media()?;
    if let Some(map) = own.get(MediumId::Map).filter(|_| dir.base().is_some()) {
        dir.check_stamp(own.data(), map)?;
    }
    let mut all = own.view(|medium| Arc::clone(medium) as Arc<dyn SharedMedium>);
    if let Some(base) = dir.base() {
        all = all.with(MediumId::Base, Arc::clone(base) as Arc<dyn SharedMedium>);
    }
    Ok(Opened { own, all })
}
