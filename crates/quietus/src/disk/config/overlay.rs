//! The table `overlay` of `disk.toml`: the base, and how it is known again.

use crate::disk::DiskErrorKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The base of an overlay, and how it is known again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverlayToml {
    /// Path of the base, absolute or relative to the directory.
    pub base: PathBuf,
    /// Length of the base.
    pub base_bytes: u64,
    /// Time of the last change of the base: nanoseconds since 1970.
    pub base_mtime_ns: i64,
    /// Hash of the base's content: `blake3:` and hexadecimal digits.
    pub base_hash: String,
    /// The overlay is being written to its base, and only the same command may
    /// go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committing: Option<Committing>,
}

/// How far writing an overlay to its base has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Committing {
    /// The base may have the old or the new content.
    Writing,
    /// The base has all content, and the overlay gives up its own.
    Emptying,
}

impl OverlayToml {
    /// The fields that the checksum covers.
    pub(in crate::disk) fn facts(&self) -> impl Serialize + '_ {
        (&self.base, self.base_bytes, self.base_mtime_ns, &self.base_hash, self.committing)
    }

    pub(in crate::disk) fn check(&self) -> Result<(), DiskErrorKind> {
        let digits = self.base_hash.strip_prefix("blake3:").unwrap_or_default();
        if digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(());
        }
        Err(DiskErrorKind::Invalid(format!(
            "field `base_hash` is {:?}; expected `blake3:` and 64 hexadecimal digits",
            self.base_hash
        )))
    }

    /// Path of the base of the disk in `dir`.
    #[must_use]
    pub fn base_path(&self, dir: &Path) -> PathBuf {
        dir.join(&self.base)
    }
}
