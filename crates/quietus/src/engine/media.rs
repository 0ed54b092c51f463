//! The media of a disk, as the engine reads and writes them.

use super::StartError;
use crate::disk::{Base, DiskDir};
use crate::media::FileMedium;
use quietus_core::media::{MediaTable, MediumId};
use quietus_core::medium::{Medium, MediumError};
use quietus_core::units::Pos;
use std::sync::Arc;

/// A medium that threads share.
pub(super) trait SharedMedium: Medium + Send + Sync {
    /// Reads, if no wait for the device is needed; else nothing.
    fn read_cached(&self, pos: Pos, into: &mut [u8]) -> Option<Result<(), MediumError>>;

    /// Checks that the file is the one that was opened; the error names the change.
    fn check_whole(&self) -> Result<(), MediumError>;
}

impl SharedMedium for FileMedium {
    fn read_cached(&self, pos: Pos, into: &mut [u8]) -> Option<Result<(), MediumError>> {
        self.read_cached(pos, into)
    }

    fn check_whole(&self) -> Result<(), MediumError> {
        self.check_whole()
    }
}

impl SharedMedium for Base {
    fn read_cached(&self, pos: Pos, into: &mut [u8]) -> Option<Result<(), MediumError>> {
        self.read_cached(pos, into)
    }

    /// A changed base is found when it is opened, and by its stamp.
    fn check_whole(&self) -> Result<(), MediumError> {
        Ok(())
    }
}

/// The media of the disk in `dir`, whose content is on `data`.
pub(super) fn open(
    dir: &DiskDir,
    data: &Arc<FileMedium>,
) -> Result<MediaTable<Arc<dyn SharedMedium>>, StartError> {
    let mut media: MediaTable<Arc<dyn SharedMedium>> =
        MediaTable::new(Arc::clone(data) as Arc<dyn SharedMedium>, Arc::new(dir.open_journal()?));
    if let Some(map) = dir.open_map()? {
        dir.check_stamp(data, &map)?;
        media = media.with(MediumId::Map, Arc::new(map));
    }
    if let Some(base) = dir.base() {
        media = media.with(MediumId::Base, Arc::clone(base) as Arc<dyn SharedMedium>);
    }
    Ok(media)
}
