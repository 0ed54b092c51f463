//! The media of a disk.

use super::StartError;
use crate::disk::{Base, DiskDir};
use crate::media::FileMedium;
use quietus_core::medium::Medium;
use quietus_core::volume::Media;
use std::sync::Arc;

/// The media that only an overlay has.
pub(super) struct OverlayMedia {
    pub(super) map: FileMedium,
    pub(super) base: Arc<Base>,
}

impl OverlayMedia {
    /// Those of the disk in `dir`, if it is one.
    pub(super) fn open(dir: &DiskDir) -> Result<Option<Self>, StartError> {
        let (Some(map), Some(base)) = (dir.open_map()?, dir.base()) else { return Ok(None) };
        Ok(Some(Self { map, base: Arc::clone(base) }))
    }
}

/// As the volume knows them.
pub(super) fn media<'a>(
    data: &'a FileMedium,
    journal: &'a FileMedium,
    overlay: Option<&'a OverlayMedia>,
) -> Media<'a> {
    Media {
        map: overlay.map(|it| &it.map as &dyn Medium),
        base: overlay.map(|it| &*it.base as &dyn Medium),
        ..Media::fixed(data, journal)
    }
}
