//! A disk is a directory. Its format: `docs/formats/disk.md`.
//!
//! | question | where |
//! | --- | --- |
//! | the media of each store: files, locks, checks, what counts as their size | `media` |
//! | credentials, the key file, how blocks are sealed | `keys` |
//! | names and holds of epochs, also when their file is lost | `epochs` |
//! | the image below an overlay | `base` |
//! | a disk that is empty with each server | `anew` |
//! | how often the root of a sealed disk is written | `pace` |

mod anew;
mod base;
mod beginning;
mod config;
mod create;
pub mod epochs;
mod error;
pub mod keys;
pub(crate) mod media;
mod overlay;
pub mod pace;
mod qemu_img;
mod sealed;
mod series;
mod sizes;
mod stamp;
#[cfg(test)]
mod tests;
mod versions;
mod wear;

pub use crate::host::directory::Access;
pub use base::Base;
pub use config::overlay::{Committing, OverlayToml};
pub use config::sealed::SealedToml;
pub use config::versions::{EpochEnd, VersionsToml};
pub use config::{CreateOptions, DiskToml, MediumToml, StoreKind, VersionsOptions, parse_size};
pub use error::{DiskError, DiskErrorKind};
pub(crate) use qemu_img::convert;
pub use sizes::Size;
pub use wear::Worn;

use crate::base::locked::keep_secrets;
use crate::base::signed::SigningKey;
use crate::disk::keys::content::ContentKeys;
use crate::disk::keys::sealing::Unsealed;
use crate::host::directory::{Directory, DirectoryErrorKind, opened};
use crate::host::guarantees::{DiskGuarantees, Part, session};
use crate::host::media::FileMedium;
use keys::{KeyFileOf, Keys, KeysError, Source};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::memory;
use quietus_core::base::units::Millis;
use quietus_core::media::MediumId;
use quietus_core::store::{self, overlay::Setup, versions::Sessions};
use quietus_core::volume::{Checkpoint, Config, Opening};
use quietus_seal::DiskId;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Callback of a long operation: told how far it has come, of how many bytes; says whether to go
/// on.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// An open disk: no other process can change it while this lives.
#[derive(Debug)]
pub struct DiskDir {
    directory: Directory,
    toml: DiskToml,
    base: Option<Arc<Base>>,
    /// Blocks in which the base counts as holding data, if not those in which it does.
    base_data: Option<Arc<BlockSet>>,
    /// The keys of a disk whose content is ciphertext, and the sessions up to this opening.
    content_keys: Option<ContentKeys>,
    sessions: Sessions,
    /// The file that the keys were opened from: without it the disk is lost.
    keys: Option<Arc<FileMedium>>,
    _media_locks: Vec<Option<File>>,
}

impl DiskDir {
    /// Opens the disk in directory `path` and takes its locks: on the
    /// directory and on the medium, which another directory may name too. The
    /// base of an overlay is checked; `step` follows that if the base has to be read.
    ///
    /// # Errors
    /// [`DiskError`]; of kind [`DirectoryErrorKind::Locked`] if the disk is in use.
    pub fn open_with(path: &Path, access: Access, step: Step<'_>) -> Result<Self, DiskError> {
        let mut dir = Self::locked(path, access)?;
        dir.base = overlay::open_base(&dir.directory, &mut dir.toml, step)?;
        Ok(dir)
    }

    /// As [`DiskDir::open_with`], for reading and writing, in silence.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Self::open_with(path, Access::ReadWrite, &mut |_, _| true)
    }

    /// As [`DiskDir::open`], whatever has become of the base.
    pub(crate) fn open_without_base(path: &Path) -> Result<Self, DiskError> {
        Self::locked(path, Access::ReadWrite)
    }

    fn locked(path: &Path, access: Access) -> Result<Self, DiskError> {
        // A directory that holds no disk gets no lock.
        DiskToml::read(path)?;
        let directory = Directory::open(path, access)?;
        // The holder of the lock until now may have changed the description.
        let toml = DiskToml::read(path)?;
        let locked = toml.store.media().iter().filter(|row| row.is_locked(&toml));
        let locks = locked.map(|row| row.lock(&row.path(&toml, path), access));
        let locks = locks.collect::<Result<_, _>>()?;
        let content_keys = toml.sealed.as_ref().and_then(sealed::opened);
        let (base, base_data, sessions, keys) = (None, None, Sessions::default(), None);
        Ok(Self { directory, toml, base, base_data, content_keys, sessions, keys, _media_locks: locks })
    }

    /// The present configuration of the disk in directory `path`, which may be open.
    pub fn behaviour(path: &Path) -> Result<Config, DiskError> {
        DiskToml::read(path)?.config(path)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    fn access(&self) -> Access {
        self.directory.access()
    }

    /// Whether the disk was opened for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.access() == Access::ReadOnly
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The description of the disk.
    #[must_use]
    pub fn toml(&self) -> &DiskToml {
        &self.toml
    }

    /// Name of the disk: the directory's.
    #[must_use]
    pub fn name(&self) -> String {
        self.directory.name().unwrap_or_else(|| "disk".into())
    }

    /// Path of the medium.
    #[must_use]
    pub fn medium_path(&self) -> PathBuf {
        self.toml.medium_path(self.path())
    }

    /// The key file, if the disk has keys.
    #[must_use]
    pub fn key_file(&self) -> Option<KeyFileOf> {
        let (versions, sealed) = (self.toml.versions.as_ref(), self.toml.sealed.as_ref());
        let path = match versions {
            Some(versions) => versions.keys_path(self.path()),
            None => sealed.and_then(|it| it.keys_path(self.path())),
        };
        Some(KeyFileOf {
            path: path?,
            index: versions.and_then(|_| self.medium_of(MediumId::Map)),
            disk: DiskId(*self.toml.uuid.as_bytes()),
            name: self.name(),
            is_read_only: self.is_read_only(),
        })
    }

    /// The base of an overlay.
    #[must_use]
    pub fn base(&self) -> Option<&Arc<Base>> {
        self.base.as_ref()
    }

    /// The configuration of the disk.
    ///
    /// # Errors
    /// The policy in `disk.toml` is invalid.
    pub fn config(&self) -> Result<Config, DiskError> {
        self.toml.config(self.path())
    }

    /// Everything that the core needs to open the disk.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn opening(&self, config: Config) -> Result<Opening, DiskError> {
        let disk = *self.toml.uuid.as_bytes();
        let view = std::fs::read(self.directory.file("view")).unwrap_or_default();
        let entropy = entropy()?;
        // A root that is no file has no cache that could be lost.
        let parts =
            self.toml.parts(self.path()).filter(|(part, _, path)| *part != Part::Root || path.exists());
        let files: Vec<_> = parts.map(|(_, _, path)| path).collect();
        // An unknown session is unlike any other.
        let unknown = |_| u64::from_le_bytes(*entropy.first_chunk().expect("there are 32 bytes"));
        Ok(Opening {
            config,
            disk,
            size: self.toml.size_bytes,
            session: session(files.iter().map(PathBuf::as_path)).unwrap_or_else(unknown),
            entropy,
            now: Millis(0),
            checkpoint: Checkpoint::from_bytes(&view, disk),
            store: self.store(),
        })
    }

    /// Opens the keys of a disk whose content is sealed, with the credential of `source`. Without them, content can
    /// be neither read nor written; dead content can be destroyed.
    pub fn unlock(&mut self, source: &Source) -> Result<(), KeysError> {
        let is_sealed = self.toml.sealed.is_some();
        let seal = self.toml.versions.as_ref().map(|it| it.seal);
        let Some(file) = self.key_file() else {
            // A sealed disk without a credential got its keys when it was opened.
            if seal.is_some() {
                self.content_keys = Some(ContentKeys::Sealer(Arc::new(Unsealed)));
            }
            return Ok(());
        };
        keep_secrets();
        let keys = if is_sealed { Keys::open(&file, source)? } else { Keys::unlock(&file, source)? };
        self.sessions = keys.sessions();
        self.keys = Some(Arc::new(opened(&file.path, "the key file", FileMedium::open(&file.path, true))?));
        self.content_keys = Some(match seal {
            Some(seal) => {
                let sealer = Arc::new(keys.into_sealer(seal)?);
                memory::keep(&*sealer);
                ContentKeys::Sealer(sealer)
            }
            None => sealed::content_keys(keys.into_cipher()),
        });
        Ok(())
    }

    /// The keys of the disk's content, if that is ciphertext and the keys were [opened](Self::unlock).
    #[must_use]
    pub fn content_keys(&self) -> Option<ContentKeys> {
        self.content_keys.clone()
    }

    /// The file of the keys, if they were opened.
    pub(crate) fn keys(&self) -> Option<Arc<FileMedium>> {
        self.keys.clone()
    }

    fn store(&self) -> store::Kind {
        let versions = self.toml.versions.as_ref();
        let versions =
            versions.map(|it| store::versions::Setup { layout: it.layout(), sessions: self.sessions });
        let overlay = || self.setup().map(store::Kind::Overlay);
        if self.toml.store == StoreKind::Sealed {
            return store::Kind::Sealed;
        }
        versions.map(store::Kind::Versions).or_else(overlay).unwrap_or(store::Kind::InPlace)
    }

    fn setup(&self) -> Option<Setup> {
        let base_data = Arc::clone(self.base_data.as_ref().or(self.base.as_ref().map(|base| base.data()))?);
        Some(Setup { mode: self.toml.behaviour.mode?, base_data })
    }

    /// Keeps a clean stop's checkpoint.
    ///
    /// # Errors
    /// The file cannot be written, which costs nothing but time.
    pub fn save_view(&self, bytes: &[u8]) -> io::Result<()> {
        self.directory.replace("view", bytes)
    }

    /// The key that signs the disk's proofs.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn key(&self) -> Result<SigningKey, DiskError> {
        Ok(self.directory.key()?)
    }

    /// The guarantees of this host for the disk.
    #[must_use]
    pub fn guarantees(&self) -> DiskGuarantees {
        self.toml.guarantees(self.path())
    }
}

fn entropy() -> Result<[u8; 32], DiskError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        DirectoryErrorKind::Io("draw random bytes").of(Path::new("getrandom"), io::Error::other(error))
    })?;
    Ok(bytes)
}
