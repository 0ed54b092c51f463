//! The base of an overlay: opened with the disk, and exchanged.

use super::base::Base;
use super::config::DiskToml;
use super::config::names::BASE_RAW;
use super::config::overlay::OverlayToml;
use super::{DiskDir, DiskError, DiskErrorKind, Step, qemu_img};
use crate::host::directory::{Access, Directory, DirectoryErrorKind};
use crate::host::paths;
use quietus_core::base::blocks::BlockSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of another one.
const BASE_RAW_2: &str = "base.2.raw";

/// Opens the base of the disk in `dir` and checks that it has not changed. A new time of change is
/// noted if that is allowed, so that the content need not be read again.
pub(super) fn open_base(
    directory: &Directory,
    toml: &mut DiskToml,
    step: Step<'_>,
) -> Result<Option<Arc<Base>>, DiskError> {
    let dir = directory.path();
    let Some(known) = &toml.overlay else { return Ok(None) };
    if known.committing.is_some() {
        return Err(DiskErrorKind::Committing.at(dir));
    }
    let base = Base::open(&known.base_path(dir))?;
    if let Some(base_mtime_ns) = base.check(known, step)?
        && directory.access() == Access::ReadWrite
    {
        let known = OverlayToml { base_mtime_ns, ..known.clone() };
        let fresh = DiskToml { overlay: Some(known), ..toml.clone() }.summed();
        match fresh.write(dir) {
            Ok(()) => *toml = fresh,
            Err(error) => {
                tracing::warn!(%error, "cannot note the base's time of change; the next start reads the base again")
            }
        }
    }
    Ok(Some(base))
}

impl DiskDir {
    /// `image` as a base for this disk: what `disk.toml` would say of it, and it.
    pub(crate) fn settle_base(
        &self,
        image: &Path,
        step: Step<'_>,
    ) -> Result<(OverlayToml, Arc<Base>), DiskError> {
        let is_taken = self.toml.overlay.as_ref().is_some_and(|it| it.base == Path::new(BASE_RAW));
        let fresh = settle_base(self.path(), image, if is_taken { BASE_RAW_2 } else { BASE_RAW }, step)?;
        let base = Base::open(&fresh.base_path(self.path()))?;
        Ok((fresh, base))
    }

    /// Replaces the description of the base in `disk.toml`.
    ///
    /// # Errors
    /// [`DiskError`]; the old description stays then.
    pub(crate) fn set_overlay(&mut self, overlay: OverlayToml) -> Result<(), DiskError> {
        let toml = DiskToml { overlay: Some(overlay), ..self.toml.clone() }.summed();
        toml.write(self.path())?;
        self.toml = toml;
        Ok(())
    }

    /// Uses `base`, as if it held data in the blocks `data`.
    pub(crate) fn set_base(&mut self, base: Arc<Base>, data: Arc<BlockSet>) {
        (self.base, self.base_data) = (Some(base), Some(data));
    }
}

/// The image as the base of a disk in `dir`: as it is, or, if it is not raw, its
/// content in the file `name` there.
pub(super) fn settle_base(
    dir: &Path,
    image: &Path,
    name: &str,
    step: Step<'_>,
) -> Result<OverlayToml, DiskError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => DirectoryErrorKind::Missing("the base image").of(image, error),
        _ => DirectoryErrorKind::Io("open the base image").of(image, error),
    };
    paths::check_base(image)?;
    let image = image.canonicalize().map_err(failed)?;
    match paths::format_of(&image).map_err(failed)? {
        None => Base::open(&image)?.describe(image, step),
        Some(format) => {
            let raw = dir.join(name);
            qemu_img::convert((&image, format), (&raw, "raw"), step)?;
            File::open(&raw).and_then(|raw| raw.sync_all()).map_err(failed)?;
            Base::open(&raw)?.describe(name.into(), step)
        }
    }
}
