//! A flat image of what is live on a disk.

use super::{Offline, OfflineError, PIECE_BYTES, at, filled, go_on};
use crate::control::{self, Meanwhile};
use crate::disk::{self, DiskErrorKind, Step};
use clap::ValueEnum;
use quietus_core::request::Liveness;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
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
    /// Of the disk.
    pub size_bytes: u64,
    /// Blocks that are not all zeros.
    pub live_bytes: u64,
    /// The space that the image takes up.
    pub host_bytes: u64,
}

/// Writes what the disk at `path` holds to the new file `image`. What is dead is
/// not in it. There is no such file before all of it is durable.
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
    let open = control::open(path, true, &mut |Meanwhile::Progress(done, of)| step(done, of))?;
    let draft = Draft::beside(image)?;
    let (dir, live_bytes) = Offline(open).run(|offline| {
        offline.0.engine.wait_until_known(|_| true);
        write_live(offline, &draft.raw, step)
    })?;
    let size_bytes = dir.toml().size_bytes;
    let host_bytes = draft.keep(image, format, step)?;
    Ok(Exported { image: image.into(), format, size_bytes, live_bytes, host_bytes })
}

/// Writes all that is live and not zeros; how much.
fn write_live(offline: &Offline, raw: &Path, step: Step<'_>) -> Result<u64, OfflineError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(raw).map_err(at(raw))?;
    file.set_len(offline.size()).map_err(at(raw))?;
    let live = || {
        let runs = offline.runs(offline.whole());
        runs.filter(|(_, it)| matches!(it, Liveness::Live | Liveness::Suspicious)).map(|(run, _)| run)
    };
    let total: u64 = live().map(|run| run.len).sum();
    let (mut done, mut written) = (0, 0);
    for piece in live().flat_map(|run| run.pieces(PIECE_BYTES)) {
        let bytes = offline.read(piece)?;
        for run in filled(&bytes) {
            written += run.len() as u64;
            file.write_all_at(&bytes[run.clone()], piece.start.0 + run.start as u64).map_err(at(raw))?;
        }
        done += piece.len;
        go_on(step, done, total)?;
    }
    file.sync_all().map_err(at(raw))?;
    Ok(written)
}

/// Files beside an image while it is being made. They go when this does.
struct Draft {
    raw: PathBuf,
    other: PathBuf,
}

impl Draft {
    fn beside(image: &Path) -> Result<Self, OfflineError> {
        let name = image.file_name().ok_or_else(|| DiskErrorKind::Exists.at(image))?.to_string_lossy();
        let beside = |kind: &str| image.with_file_name(format!(".{name}.{}.{kind}", std::process::id()));
        Ok(Self { raw: beside("raw"), other: beside("new") })
    }

    /// Gives the image its name; the space that it takes up.
    fn keep(&self, image: &Path, format: ImageFormat, step: Step<'_>) -> Result<u64, OfflineError> {
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
    }
}
