//! What `disk.toml` says of an overlay: its base, and how the base is known again.

use super::DiskErrorKind;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
        Err(DiskErrorKind::Invalid(format!(
            "field `base_hash` is {:?}, not `blake3:` and 64 hexadecimal digits",
            self.base_hash
        )))
    }

    /// Where the base of the disk in `dir` is.
    #[must_use]
    pub fn base_path(&self, dir: &Path) -> PathBuf {
        dir.join(&self.base)
    }
}
