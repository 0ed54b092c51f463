//! The part of `disk.toml` for a disk that keeps versions: the table `versions`, and when its epochs close.

use super::names::KEYS_FILE;
use crate::base::duration::parse_duration_ms;
use crate::disk::DiskErrorKind;
use quietus_core::base::units::BLOCK_BYTES;
use quietus_core::store::versions::Layout;
use quietus_seal::Seal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of the heads of the index: two pages.
pub(in crate::disk) const INDEX_HEAD_BYTES: u64 = 8192;
/// Bytes of the head of the stub medium.
const STUBS_HEAD_BYTES: u64 = 4096;
/// Bytes of a half of the log of stubs: at least 16 sectors, at most a GiB, which a start may have to read.
const HALF_BYTES_MIN: u64 = 8192;
const HALF_BYTES_MAX: u64 = 1 << 30;
/// Versions that a half of the log has room for, whatever their stubs take: 960 MiB of content.
const HALF_VERSIONS: u64 = 240 << 10;
/// Shortest epoch in milliseconds: people name an epoch by its second.
const EPOCH_MS_MIN: u64 = 1000;

/// How a disk keeps its versions, from its creation on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionsToml {
    /// How blocks are sealed.
    #[serde(with = "as_text")]
    #[schemars(with = "String")]
    pub seal: Seal,
    /// Path of the stub medium, relative to the directory or absolute.
    pub stubs: PathBuf,
    /// Path of the medium of the root, relative to the directory or absolute.
    pub root: PathBuf,
    /// Bytes of each half of the log of stubs.
    pub half_bytes: u64,
}

/// When an epoch closes. Empty epochs are not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EpochEnd {
    /// So many milliseconds after it began.
    After(u64),
    /// At each flush of the guest.
    Flush,
    /// On command.
    Manual,
}

impl VersionsToml {
    /// Versions sealed in this way, with the stubs in `stubs`, and the keys above them in `root`.
    pub(in crate::disk) fn new(seal: Seal, stubs: PathBuf, root: PathBuf) -> Self {
        let Layout { half_bytes, .. } = Layout::with_room_for(HALF_VERSIONS, seal.stub_bytes());
        Self { seal, stubs, root, half_bytes }
    }

    /// The fields that the checksum covers.
    pub(in crate::disk) fn facts(&self) -> impl Serialize + '_ {
        (self.seal.name(), &self.stubs, &self.root, self.half_bytes)
    }

    pub(in crate::disk) fn check(&self) -> Result<(), DiskErrorKind> {
        let is_right = self.half_bytes.is_multiple_of(BLOCK_BYTES)
            && (HALF_BYTES_MIN..=HALF_BYTES_MAX).contains(&self.half_bytes);
        if is_right {
            return Ok(());
        }
        Err(DiskErrorKind::Invalid(format!(
            "field `half_bytes` is {}, not a multiple of 4096 from {HALF_BYTES_MIN} to {HALF_BYTES_MAX}",
            self.half_bytes
        )))
    }

    /// Bytes of the stub medium before the homes of stubs.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        STUBS_HEAD_BYTES + 2 * self.half_bytes
    }

    /// Where things lie on the stub medium.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout { stub_bytes: self.seal.stub_bytes(), half_bytes: self.half_bytes }
    }

    /// Path of the key file of the disk in `dir`, if its seal has keys.
    #[must_use]
    pub fn keys_path(&self, dir: &Path) -> Option<PathBuf> {
        self.seal.has_keys().then(|| dir.join(KEYS_FILE))
    }
}

impl Default for EpochEnd {
    /// An hour: what is written and deleted within it can be destroyed at once, and a block that is rewritten all
    /// the time takes a slot an hour. With a second it would be 3,600, and nothing deleted would be dead before
    /// its epochs are forgotten.
    fn default() -> Self {
        Self::After(3_600_000)
    }
}

impl FromStr for EpochEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flush" => Ok(Self::Flush),
            "manual" => Ok(Self::Manual),
            _ => match parse_duration_ms(text) {
                Ok(ms) if ms >= EPOCH_MS_MIN => Ok(Self::After(ms)),
                _ => Err(format!(
                    "invalid epoch {text:?}; use flush, manual, or a duration from 1s on, such as 1h"
                )),
            },
        }
    }
}

impl fmt::Display for EpochEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush => f.write_str("flush"),
            Self::Manual => f.write_str("manual"),
            Self::After(ms) => {
                let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
                let (unit, scale) =
                    units.into_iter().find(|(_, scale)| ms.is_multiple_of(*scale)).unwrap_or(("ms", 1));
                write!(f, "{}{unit}", ms / scale)
            }
        }
    }
}

impl TryFrom<String> for EpochEnd {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EpochEnd> for String {
    fn from(end: EpochEnd) -> Self {
        end.to_string()
    }
}

/// A seal by its name.
mod as_text {
    use quietus_seal::Seal;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::disk) fn serialize<S: Serializer>(seal: &Seal, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(seal.name())
    }

    pub(in crate::disk) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Seal, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_of_epochs_is_written_as_it_is_read() {
        for text in ["flush", "manual", "1s", "1500ms", "90s", "5m", "1h", "7d"] {
            assert_eq!(text.parse::<EpochEnd>().map(|end| end.to_string()), Ok(text.into()));
        }
        assert_eq!(EpochEnd::default().to_string(), "1h");
    }

    #[test]
    fn an_epoch_that_would_close_at_once_is_refused_with_what_is_possible() {
        for text in ["", "0s", "999ms", "1", "never", "-1s"] {
            let error = text.parse::<EpochEnd>().expect_err(text);
            assert!(error.contains(&format!("{text:?}")) && error.contains("1s"), "{error}");
        }
    }
}
