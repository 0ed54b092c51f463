//! A flat image of what is live on a disk, served or not.

use super::{Copied, OfflineError, at};
use crate::control::{self, Call, Meanwhile};
use crate::disk::{self, DiskErrorKind, Step};
use clap::ValueEnum;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Formats of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// Byte for byte, with holes where nothing is live.
    #[default]
    Raw,
    /// QEMU's.
    Qcow2,
}

/// What was exported.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Exported {
    /// Where to.
    pub image: PathBuf,
    /// As what.
    pub format: ImageFormat,
    /// What of the disk.
    #[serde(flatten)]
    pub copied: Copied,
    /// The space that the image takes up.
    pub host_bytes: u64,
}

/// Writes what the disk at `path` holds at one instant to the new file `image`.
/// What is dead is not in it. There is no such file before all of it is durable.
///
/// # Errors
/// [`OfflineError`].
pub fn export(
    path: &Path,
    image: &Path,
    format: ImageFormat,
    step: Step<'_>,
) -> Result<Exported, OfflineError> {
    if image.symlink_metadata().is_ok() {
        return Err(DiskErrorKind::Exists.at(image).into());
    }
    let draft = Draft::beside(image)?;
    let mut tell = |Meanwhile::Progress(done, of): Meanwhile| step(done, of);
    let answer =
        control::ask(path, &Call::Export, Some(&draft.file), &mut tell).map_err(OfflineError::Answered)?;
    let copied = serde_json::from_value(answer).map_err(|it| OfflineError::Answered(it.to_string()))?;
    let host_bytes = draft.keep(image, format, step)?;
    Ok(Exported { image: image.into(), format, copied, host_bytes })
}

/// An image being made, in a directory beside it that is locked meanwhile. Both go
/// when this does; what a kill left is cleared by the next of its name.
struct Draft {
    dir: PathBuf,
    raw: PathBuf,
    other: PathBuf,
    file: File,
    _lock: File,
}

impl Draft {
    fn beside(image: &Path) -> Result<Self, OfflineError> {
        let name = image.file_name().ok_or_else(|| DiskErrorKind::Exists.at(image))?.to_string_lossy();
        let dir = image.with_file_name(format!(".{name}.export"));
        let lock = disk::claim(&dir, image, "another `quietus export`")?;
        let (raw, other) = (dir.join("raw"), dir.join("other"));
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&raw).map_err(at(&raw))?;
        Ok(Self { dir, raw, other, file, _lock: lock })
    }

    /// Gives the image its name; the space that it takes up.
    fn keep(&self, image: &Path, format: ImageFormat, step: Step<'_>) -> Result<u64, OfflineError> {
        // Only who had it open while it was written learns of every failure.
        self.file.sync_all().map_err(at(&self.raw))?;
        let made = match format {
            ImageFormat::Raw => &self.raw,
            ImageFormat::Qcow2 => {
                disk::convert((&self.raw, "raw"), (&self.other, "qcow2"), step)?;
                &self.other
            }
        };
        let file = File::open(made).map_err(at(made))?;
        file.sync_all().map_err(at(made))?;
        let host_bytes = file.metadata().map_err(at(made))?.blocks() * 512;
        disk::rename_new(made, image)?;
        Ok(host_bytes)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // What was kept has another name by now.
        let _ = std::fs::remove_file(&self.raw);
        let _ = std::fs::remove_file(&self.other);
        let _ = std::fs::remove_dir(&self.dir);
    }
}
