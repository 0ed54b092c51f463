//! Writes the live content of a disk, served or not, to a flat image.

use super::{OfflineError, at};
use crate::disk::keys::Source;
use crate::disk::{self, DiskError, DiskErrorKind, Step};
use crate::front::control::{self, Call};
use crate::host::directory::{Draft, Plan};
use crate::host::paths::{self, Kind};
use crate::open_disk::copy::Copied;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names of the raw image that is copied to, and of the same image in another format.
const RAW: &str = "raw";
const OTHER: &str = "other";

/// Files that are made beside an image.
const PLAN: Plan = Plan { ending: "export", files: &[RAW, OTHER], maker: "another `quietus export`" };

/// Formats of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// Byte for byte, with holes where nothing is live.
    #[default]
    Raw,
    /// qcow2, QEMU's format.
    Qcow2,
}

/// Result of an export.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// Path of the image.
    #[serde(serialize_with = "crate::base::path_text::path_text")]
    pub image: PathBuf,
    /// Format of the image.
    pub image_format: ImageFormat,
    /// Figures of the copy.
    #[serde(flatten)]
    pub copied: Copied,
    /// Bytes that the image takes up on the host.
    pub host_bytes: u64,
}

/// The state of a disk to export.
#[derive(Clone, Copy, Debug)]
pub struct ExportOf<'a> {
    /// The disk's directory.
    pub disk: &'a Path,
    /// The epoch, in words; `None` for the current state.
    pub at: Option<&'a str>,
    /// What is forgotten in the epoch is zeros in the copy. Else it refuses that.
    pub zeros: bool,
    /// The credential that opens the keys, if the disk has keys and is not served.
    pub source: Option<&'a Source>,
}

/// Writes the live content of a disk, all of one instant, to the new file `image`. Dead content is not in it. The file appears only when all of it is durable.
pub fn export(
    what: ExportOf<'_>,
    image: &Path,
    format: ImageFormat,
    step: Step<'_>,
) -> Result<Exported, OfflineError> {
    if Kind::of(image).is_ok_and(|it| it == Kind::BlockDevice) {
        let what = "a block device, and `export` makes a file; export to a file, and copy that to the device with `dd`";
        return Err(DiskErrorKind::Invalid(what.into()).at(image).into());
    }
    let draft = paths::check_new(image).and_then(|()| Draft::begin(image, PLAN));
    let mut draft = draft.map_err(DiskError::from)?;
    let raw = draft.make_file(Path::new(RAW), 0).map_err(at(image))?;
    let call = what.at.map_or(Call::Export, |at| Call::ExportPast { at: at.into(), zeros: what.zeros });
    let copied = control::ask_unlocked(what.disk, &call, Some(&raw), what.source, step);
    let copied = copied.map_err(OfflineError::Answered)?;
    let host_bytes = keep(draft, &raw, image, format, step)?;
    Ok(Exported { image: image.into(), image_format: format, copied, host_bytes })
}

/// Syncs the image that is copied to, converts it if need be, and gives it its name. Returns the
/// space that it takes up.
fn keep(
    draft: Draft,
    raw: &File,
    image: &Path,
    format: ImageFormat,
    step: Step<'_>,
) -> Result<u64, OfflineError> {
    let (raw_path, other_path) = (draft.dir().join(RAW), draft.dir().join(OTHER));
    // Only a descriptor that was open during the writes learns of every failure.
    raw.sync_all().map_err(at(&raw_path))?;
    let (name, path) = match format {
        ImageFormat::Raw => (RAW, &raw_path),
        ImageFormat::Qcow2 => {
            disk::convert((&raw_path, "raw"), (&other_path, "qcow2"), step)?;
            (OTHER, &other_path)
        }
    };
    let file = File::open(path).map_err(at(path))?;
    file.sync_all().map_err(at(path))?;
    let host_bytes = file.metadata().map_err(at(path))?.blocks() * 512;
    draft.keep_file(name, image).map_err(DiskError::from)?;
    Ok(host_bytes)
}
