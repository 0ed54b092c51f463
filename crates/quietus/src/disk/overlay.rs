//! What `disk.toml` says of the base of an overlay.

use super::base::Base;
use super::{Access, DiskDir, DiskError, DiskErrorKind, DiskToml, Step, qemu_img, replace};
use quietus_core::blocks::BlockSet;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The base of a disk whose base was not raw; and another one.
pub(super) const BASE_RAW: &str = "base.raw";
const BASE_RAW_2: &str = "base.2.raw";

/// The base of an overlay, and how it is known again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverlayToml {
    /// Absolute, or relative to the directory.
    pub base: PathBuf,
    /// Its length.
    pub base_bytes: u64,
    /// When it was changed last: nanoseconds since 1970.
    pub base_mtime_ns: i64,
    /// Its content: `blake3:` and a hash in hexadecimal.
    pub base_hash: String,
    /// The overlay is being written to its base, and only the same command may
    /// go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committing: Option<Committing>,
}

/// How far writing an overlay to its base has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Committing {
    /// The base may have any content of the two.
    Writing,
    /// The base has it all, and the overlay gives it up.
    Emptying,
}

impl OverlayToml {
    /// What the checksum covers.
    pub(super) fn facts(&self) -> impl Serialize + '_ {
        (&self.base, self.base_bytes, self.base_mtime_ns, &self.base_hash, self.committing)
    }

    pub(super) fn check(&self) -> Result<(), DiskErrorKind> {
        let digits = self.base_hash.strip_prefix("blake3:").unwrap_or_default();
        if digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(());
        }
        Err(DiskErrorKind::Invalid(format!("{:?} is no hash of a base", self.base_hash)))
    }

    /// Where the base of the disk in `dir` is.
    #[must_use]
    pub fn base_path(&self, dir: &Path) -> PathBuf {
        dir.join(&self.base)
    }
}

/// Opens the base of the disk in `dir` and checks that it is what it was. A new
/// time of change is noted if that may be, so that the content need not be read again.
///
/// # Errors
/// [`DiskError`].
pub(super) fn open_base(
    dir: &Path,
    toml: &mut DiskToml,
    access: Access,
    step: Step<'_>,
) -> Result<Option<Arc<Base>>, DiskError> {
    let Some(known) = &toml.overlay else { return Ok(None) };
    if known.committing.is_some() {
        return Err(DiskErrorKind::Committing.at(dir));
    }
    let base = Base::open(&known.base_path(dir))?;
    if let Some(base_mtime_ns) = base.check(known, step)?
        && access == Access::ReadWrite
    {
        let known = OverlayToml { base_mtime_ns, ..known.clone() };
        let fresh = DiskToml { overlay: Some(known), ..toml.clone() }.summed();
        match fresh.write(dir) {
            Ok(()) => *toml = fresh,
            Err(error) => tracing::warn!(%error, "the base will be read again at the next start"),
        }
    }
    Ok(Some(base))
}

impl DiskDir {
    /// `image` as a base for this disk: what `disk.toml` would say of it, and it.
    ///
    /// # Errors
    /// [`DiskError`].
    pub(crate) fn settle_base(
        &self,
        image: &Path,
        step: Step<'_>,
    ) -> Result<(OverlayToml, Arc<Base>), DiskError> {
        let is_taken = self.toml.overlay.as_ref().is_some_and(|it| it.base == Path::new(BASE_RAW));
        let fresh = settle_base(&self.path, image, if is_taken { BASE_RAW_2 } else { BASE_RAW }, step)?;
        let base = Base::open(&fresh.base_path(&self.path))?;
        Ok((fresh, base))
    }

    /// What `disk.toml` says of the base from now on.
    ///
    /// # Errors
    /// [`DiskError`]; it says what it said before then.
    pub(crate) fn set_overlay(&mut self, overlay: OverlayToml) -> Result<(), DiskError> {
        let toml = DiskToml { overlay: Some(overlay), ..self.toml.clone() }.summed();
        toml.write(&self.path)?;
        self.toml = toml;
        Ok(())
    }

    /// Runs above `base`, as if that held data in the blocks `data`.
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
        io::ErrorKind::NotFound => DiskErrorKind::Missing("the base image").of(image, error),
        _ => DiskErrorKind::Io("opening the base image").of(image, error),
    };
    let image = image.canonicalize().map_err(failed)?;
    match qemu_img::format_of(&image).map_err(failed)? {
        None => Base::open(&image)?.describe(image, step),
        Some(format) => {
            let raw = dir.join(name);
            qemu_img::convert((&image, format), (&raw, "raw"), step)?;
            File::open(&raw).and_then(|raw| raw.sync_all()).map_err(failed)?;
            Base::open(&raw)?.describe(name.into(), step)
        }
    }
}

impl DiskToml {
    /// Puts this in the place of the one in `dir`. What a person wrote beside it
    /// stays.
    ///
    /// # Errors
    /// [`DiskError`]; the old one is whole then.
    pub(super) fn write(&self, dir: &Path) -> Result<(), DiskError> {
        let path = dir.join("disk.toml");
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let new = patched(&old, &self.to_text());
        let is_right = Self::from_text(&new).is_ok_and(|read| read == *self);
        let text = if is_right { new } else { self.to_text() };
        replace(dir, "disk.toml", text.as_bytes())
            .map_err(|error| DiskErrorKind::Io("writing it").of(&path, error))
    }
}

/// The text `old`, in which every line `key = …` is as in `new`.
fn patched(old: &str, new: &str) -> String {
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_string());
    let line_of = |wanted: String| new.lines().find(|line| key(line).as_ref() == Some(&wanted));
    let lines = old.lines().map(|line| key(line).and_then(line_of).unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}
