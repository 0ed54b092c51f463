//! The media of a disk, as the engine reads and writes them.

use super::StartError;
use crate::disk::DiskDir;
use crate::host::media::{DiskMedium, SharedMedium};
use quietus_core::media::medium::Medium;
use quietus_core::media::{MediaTable, MediumId};
use quietus_core::volume::{Config, Volume};
use std::sync::Arc;

/// The media of a disk, and which of them are its own.
pub(super) struct Opened {
    pub(super) own: MediaTable<Arc<DiskMedium>>,
    pub(super) all: MediaTable<Arc<dyn SharedMedium>>,
}

/// A volume that was opened, and its media.
pub(super) struct Started {
    pub(super) media: Opened,
    pub(super) volume: Volume,
    /// The uuid of the disk.
    pub(super) disk: [u8; 16],
}

/// Opens the volume of the disk in `dir`. After an error the same can be tried again.
pub(super) fn start(dir: &DiskDir, config: &Config) -> Result<Started, StartError> {
    let media = open(dir)?;
    let opening = dir.opening(config.clone())?;
    let disk = opening.disk;
    let opened = Volume::open(opening, &media.all.view(|it| &**it as &dyn Medium));
    let volume = opened.map_err(|error| StartError::of(dir, error))?;
    Ok(Started { media, volume, disk })
}

/// Opens the media of the disk in `dir`, and compares them with the last clean stop.
fn open(dir: &DiskDir) -> Result<Opened, StartError> {
    let own = if dir.begins_anew() { dir.begin_anew()? } else { dir.open_media()? };
    if let Some(map) = own.get(MediumId::Map).filter(|_| dir.base().is_some()) {
        dir.check_stamp(own.data(), map)?;
    }
    let mut all = own.view(|medium| Arc::clone(medium) as Arc<dyn SharedMedium>);
    if let Some(base) = dir.base() {
        all = all.with(MediumId::Base, Arc::clone(base) as Arc<dyn SharedMedium>);
    }
    Ok(Opened { own, all })
}
