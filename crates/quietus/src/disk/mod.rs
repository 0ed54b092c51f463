//! A disk is a directory. Its format: `docs/formats/disk.md`.

mod base;
mod config;
mod create;
mod draft;
mod error;
mod in_use;
mod overlay;
mod qemu_img;
mod sizes;
mod stamp;
#[cfg(test)]
mod tests;

pub use base::Base;
pub use config::{DiskToml, MediumToml, StoreKind, parse_duration_ms, parse_size};
pub use create::CreateOptions;
pub(crate) use draft::{claim, rename_new};
pub use error::{DiskError, DiskErrorKind};
pub use overlay::{Committing, OverlayToml};
pub(crate) use qemu_img::convert;
pub use sizes::Size;

use crate::media::FileMedium;
use ed25519_dalek::SigningKey;
use quietus_core::blocks::BlockSet;
use quietus_core::store::{self, overlay::Setup};
use quietus_core::units::Millis;
use quietus_core::volume::{Checkpoint, Config, Opening};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an open disk may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Anything. Nobody else has the disk meanwhile.
    ReadWrite,
    /// Reading. No file is opened for writing, and others may read the disk too.
    ReadOnly,
}

impl Access {
    fn flock(self) -> FlockOperation {
        match self {
            Self::ReadWrite => FlockOperation::NonBlockingLockExclusive,
            Self::ReadOnly => FlockOperation::NonBlockingLockShared,
        }
    }
}

/// Told how far something long has come, of how many bytes; says whether to go on.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// An open disk: nobody else can change it while this lives.
#[derive(Debug)]
pub struct DiskDir {
    path: PathBuf,
    access: Access,
    toml: DiskToml,
    base: Option<Arc<Base>>,
    /// The blocks that count as those where the base holds data, if others do.
    base_data: Option<Arc<BlockSet>>,
    _lock: File,
    _medium_lock: Option<File>,
}

impl DiskDir {
    /// Opens the disk in directory `path` and takes its locks: on the
    /// directory and on the medium, which another directory may name too. The
    /// base of an overlay is checked, about which `step` is told if it has to be
    /// read.
    ///
    /// # Errors
    /// [`DiskError`]; of kind [`DiskErrorKind::Locked`] if it is in use.
    pub fn open_with(path: &Path, access: Access, step: Step<'_>) -> Result<Self, DiskError> {
        let mut dir = Self::locked(path, access)?;
        dir.base = overlay::open_base(path, &mut dir.toml, access, step)?;
        Ok(dir)
    }

    /// As [`DiskDir::open_with`], for reading and writing, in silence.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Self::open_with(path, Access::ReadWrite, &mut |_, _| true)
    }

    /// As [`DiskDir::open`], whatever has become of the base.
    ///
    /// # Errors
    /// [`DiskError`].
    pub(crate) fn open_without_base(path: &Path) -> Result<Self, DiskError> {
        Self::locked(path, Access::ReadWrite)
    }

    fn locked(path: &Path, access: Access) -> Result<Self, DiskError> {
        let toml = DiskToml::read(path)?;
        let lock_path = path.join("lock");
        let mut lock = open_lock(path, &lock_path, access)
            .map_err(|error| DiskErrorKind::Io("opening the lock").of(&lock_path, error))?;
        in_use::patiently(|| take_lock(&lock, access, path))?;
        if access == Access::ReadWrite {
            write_pid(&mut lock)
                .map_err(|error| DiskErrorKind::Io("writing the lock").of(&lock_path, error))?;
        }
        let medium = toml.medium_path(path);
        let medium_lock = lock_medium(&medium, access)?;
        Ok(Self {
            path: path.into(),
            access,
            toml,
            base: None,
            base_data: None,
            _lock: lock,
            _medium_lock: medium_lock,
        })
    }

    /// How the disk in directory `path`, which may be open, is configured to
    /// behave by now.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn behaviour(path: &Path) -> Result<Config, DiskError> {
        DiskToml::read(path)?.config(path)
    }

    /// Whether it was opened for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    #[must_use]
    pub fn toml(&self) -> &DiskToml {
        &self.toml
    }

    /// Its name: the directory's.
    #[must_use]
    pub fn name(&self) -> String {
        let full = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        full.file_name().map_or_else(|| "disk".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Where its medium is.
    #[must_use]
    pub fn medium_path(&self) -> PathBuf {
        self.toml.medium_path(&self.path)
    }

    /// Its medium.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_medium(&self) -> Result<FileMedium, DiskError> {
        let path = self.medium_path();
        match self.toml.store {
            StoreKind::InPlace => open_file(&path, "the medium", self.access),
            StoreKind::Overlay => {
                opened(&path, "the medium", FileMedium::open_growing(&path, self.is_read_only()))
            }
        }
    }

    /// Where an overlay keeps which block.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_map(&self) -> Result<Option<FileMedium>, DiskError> {
        match self.toml.store {
            StoreKind::InPlace => Ok(None),
            StoreKind::Overlay => open_file(&self.path.join("map"), "the map", self.access).map(Some),
        }
    }

    /// What lies below an overlay.
    #[must_use]
    pub fn base(&self) -> Option<&Arc<Base>> {
        self.base.as_ref()
    }

    /// Its journal.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_journal(&self) -> Result<FileMedium, DiskError> {
        open_file(&self.path.join("journal"), "the journal", self.access)
    }

    /// How the disk is configured to behave.
    ///
    /// # Errors
    /// Its policy is none.
    pub fn config(&self) -> Result<Config, DiskError> {
        self.toml.config(&self.path)
    }

    /// What the core needs to open it.
    ///
    /// # Errors
    /// No entropy is to be had.
    pub fn opening(&self, config: Config) -> Result<Opening, DiskError> {
        let disk = *self.toml.uuid.as_bytes();
        let view = std::fs::read(self.path.join("view")).unwrap_or_default();
        Ok(Opening {
            config,
            disk,
            size: self.toml.size_bytes,
            entropy: entropy()?,
            now: Millis(0),
            checkpoint: Checkpoint::from_bytes(&view, disk),
            store: self.setup().map_or(store::Kind::InPlace, store::Kind::Overlay),
        })
    }

    fn setup(&self) -> Option<Setup> {
        let base_data = Arc::clone(self.base_data.as_ref().or(self.base.as_ref().map(|base| base.data()))?);
        Some(Setup { mode: self.toml.behaviour.mode?, base_data })
    }

    /// Keeps a clean stop's checkpoint.
    ///
    /// # Errors
    /// It cannot be written; nothing is lost by that but time.
    pub fn save_view(&self, bytes: &[u8]) -> io::Result<()> {
        replace(&self.path, "view", bytes)
    }

    /// The key that signs its proofs.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn key(&self) -> Result<SigningKey, DiskError> {
        let path = self.path.join("key");
        let bytes =
            std::fs::read(&path).map_err(|error| DiskErrorKind::missing_or_io(&error).of(&path, error))?;
        let bytes: [u8; 32] =
            bytes.try_into().map_err(|_| DiskErrorKind::Damaged("it is not 32 bytes long").at(&path))?;
        Ok(SigningKey::from_bytes(&bytes))
    }
}

fn entropy() -> Result<[u8; 32], DiskError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        DiskErrorKind::Io("drawing random bytes").of(Path::new(""), io::Error::other(error))
    })?;
    Ok(bytes)
}

fn open_file(path: &Path, what: &'static str, access: Access) -> Result<FileMedium, DiskError> {
    opened(path, what, FileMedium::open(path, access == Access::ReadOnly))
}

fn opened(path: &Path, what: &'static str, medium: io::Result<FileMedium>) -> Result<FileMedium, DiskError> {
    medium.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DiskErrorKind::Missing(what).of(path, error),
        _ => DiskErrorKind::Io("opening").of(path, error),
    })
}

/// Refuses a medium that somebody uses; else keeps others from it. Whoever only reads
/// minds only those who may write.
fn lock_medium(path: &Path, access: Access) -> Result<Option<File>, DiskError> {
    in_use::patiently(|| try_lock_medium(path, access))
}

fn try_lock_medium(path: &Path, access: Access) -> Result<Option<File>, DiskError> {
    let missing = |error| DiskErrorKind::missing_or_io(&error).of(path, error);
    let is_device = std::fs::metadata(path).map_err(missing)?.file_type().is_block_device();
    let used = |by| DiskErrorKind::Locked(by).at(path);
    if let Some(by) = in_use::by_kernel(Path::new("/sys"), Path::new("/proc"), path).map_err(missing)? {
        return Err(used(by));
    }
    if is_device {
        // It is locked as it is opened, exclusively.
        return Ok(None);
    }
    let file = File::open(path).map_err(missing)?;
    let by = match access {
        Access::ReadWrite => in_use::by_process(Path::new("/proc"), &file),
        Access::ReadOnly => in_use::by_writer(Path::new("/proc"), &file),
    };
    match by.map_err(missing)? {
        Some(by) => Err(used(by)),
        None if rustix::fs::flock(&file, access.flock()).is_ok() => Ok(Some(file)),
        None => Err(used("another program".into())),
    }
}

/// The file to lock. Where none can be made, nobody can have opened the disk to write to
/// it, and the directory itself is locked.
fn open_lock(path: &Path, lock: &Path, access: Access) -> io::Result<File> {
    let made = || OpenOptions::new().create(true).truncate(false).read(true).write(true).open(lock);
    match access {
        Access::ReadWrite => made(),
        Access::ReadOnly => match File::open(lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made().or_else(|_| File::open(path)),
            opened => opened,
        },
    }
}

fn take_lock(lock: &File, access: Access, path: &Path) -> Result<(), DiskError> {
    if rustix::fs::flock(lock, access.flock()).is_ok() {
        return Ok(());
    }
    // The number in the file is of the last one who could write to it.
    let holder = in_use::by_process(Path::new("/proc"), lock).ok().flatten();
    Err(DiskErrorKind::Locked(holder.unwrap_or_else(|| "another program".into())).at(path))
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())
}

/// Makes the file `name` with these bytes, durable.
fn write_new(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Puts these bytes in the place of file `name`, whole or not at all.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!(".{name}.new");
    let _ = std::fs::remove_file(dir.join(&new));
    write_new(dir, &new, bytes)?;
    std::fs::rename(dir.join(&new), dir.join(name))?;
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// These bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that `text` tells in hexadecimal, if it does.
#[must_use]
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if !text.is_ascii() || text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}
