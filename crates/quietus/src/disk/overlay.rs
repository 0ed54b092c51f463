//! What `disk.toml` says of the base of an overlay.

use super::base::Base;
use super::{DiskError, DiskErrorKind, DiskToml, Step, replace};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// The overlay is being written to its base: that may have any content of
    /// the two, and only the same command may go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub committing: bool,
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
/// time of change is noted, so that the content need not be read again.
///
/// # Errors
/// [`DiskError`].
pub(super) fn open_base(
    dir: &Path,
    toml: &mut DiskToml,
    step: Step<'_>,
) -> Result<Option<Arc<Base>>, DiskError> {
    let Some(known) = &toml.overlay else { return Ok(None) };
    if known.committing {
        let what = "it was being written to its base: go on with `quietus commit`";
        return Err(DiskErrorKind::Invalid(what.into()).at(dir));
    }
    let base = Base::open(&known.base_path(dir))?;
    if let Some(base_mtime_ns) = base.check(known, step)? {
        let known = OverlayToml { base_mtime_ns, ..known.clone() };
        let fresh = DiskToml { overlay: Some(known), ..toml.clone() }.summed();
        match fresh.write(dir) {
            Ok(()) => *toml = fresh,
            Err(error) => tracing::warn!(%error, "the base will be read again at the next start"),
        }
    }
    Ok(Some(base))
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
