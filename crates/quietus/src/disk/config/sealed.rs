//! The table `sealed` of `disk.toml`: where the root of a sealed disk lies, and whether a credential opens the disk.

use super::names::KEYS_FILE;
use super::{DiskToml, MediumToml, invalid};
use crate::disk::DiskErrorKind;
use crate::host::media::root::RootKind;
use quietus_core::base::units::BLOCK_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How a disk seals its content, from its creation on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SealedToml {
    /// Where the root lies: a path, relative to the directory or absolute, or another medium, as `--root` names it.
    pub root: PathBuf,
    /// Whether a credential opens the disk. Without one the root is the only secret.
    pub credential: bool,
}

impl SealedToml {
    /// The fields that the checksum covers.
    pub(in crate::disk) fn facts(&self) -> impl Serialize + '_ {
        (&self.root, self.credential)
    }

    /// The kind of medium on which the root lies.
    ///
    /// # Errors
    /// What is wrong with its name, and what is right.
    pub fn root_kind(&self) -> Result<RootKind, String> {
        RootKind::of(&self.root)
    }

    /// Whether the root lies on the flash chip of the content.
    pub(super) fn is_root_on_chip(&self) -> bool {
        self.root_kind() == Ok(RootKind::Chip)
    }

    /// Whether the root is in the memory of the server, so that all content ends with it.
    #[must_use]
    pub fn begins_anew(&self) -> bool {
        self.root_kind().is_ok_and(|root| root.begins_anew())
    }

    /// Path of the key file of the disk in `dir`, if a credential opens the disk.
    #[must_use]
    pub fn keys_path(&self, dir: &Path) -> Option<PathBuf> {
        self.credential.then(|| dir.join(KEYS_FILE))
    }
}

impl DiskToml {
    /// Whether the fields of a sealed disk make sense.
    pub(super) fn check_sealed(&self) -> Result<(), DiskErrorKind> {
        self.sealed.as_ref().map_or(Ok(()), |it| it.root_kind().map(drop).map_err(invalid))?;
        if self.medium.adopted {
            return Err(invalid("field `medium.adopted` of a sealed disk is true; it must be false"));
        }
        let is_own = self.medium == MediumToml::own() || self.flash.is_some();
        if !self.medium.path.is_absolute() && !is_own {
            return Err(invalid("field `medium.path` of a sealed disk must be `data` or an absolute path"));
        }
        Ok(())
    }

    /// Bytes of the medium of a sealed disk: whole blocks, as the last one lies there as a whole.
    pub(in crate::disk) fn sealed_medium_bytes(&self) -> u64 {
        self.size_bytes.next_multiple_of(BLOCK_BYTES)
    }
}
