//! A disk is a directory. Its format: `docs/formats/disk.md`.

mod config;
mod draft;
mod error;
mod in_use;
#[cfg(test)]
mod tests;

pub use config::{DiskToml, MediumToml, parse_duration_ms, parse_size};
pub use error::{DiskError, DiskErrorKind};

use crate::media::FileMedium;
use draft::Draft;
use ed25519_dalek::SigningKey;
use quietus_core::journal::Shape;
use quietus_core::units::{Extent, Millis};
use quietus_core::volume::{Checkpoint, Config, Opening, Volume};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An open disk: nobody else has it while this lives.
#[derive(Debug)]
pub struct DiskDir {
    path: PathBuf,
    toml: DiskToml,
    _lock: File,
    _medium_lock: Option<File>,
}

/// What to make.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Bytes; taken from the medium where it has a size.
    pub size: Option<u64>,
    /// A block device, or a file to be made, in place of `data`.
    pub medium: Option<PathBuf>,
    /// `medium` exists, and what it holds is the disk's content.
    pub adopt: bool,
    /// The passes.
    pub policy: String,
    /// See [`Config::idle_after_ms`].
    pub idle_after_ms: u64,
    /// See [`Config::deadline_ms`].
    pub deadline_ms: u64,
    /// See [`Config::detect_zeroes`].
    pub detect_zeroes: bool,
}

impl DiskDir {
    /// Makes the directory `path` with a new disk in it. Nothing is left
    /// behind if that fails.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn create(path: &Path, options: &CreateOptions) -> Result<DiskToml, DiskError> {
        let mut draft = Draft::begin(path)?;
        let toml = build(&mut draft, options)?;
        draft.keep(path)?;
        Ok(toml)
    }

    /// Opens the disk in directory `path` and takes its locks: on the
    /// directory and on the medium, which another directory may name too.
    ///
    /// # Errors
    /// [`DiskError`]; of kind [`DiskErrorKind::Locked`] if it is in use.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let toml = DiskToml::read(path)?;
        let lock_path = path.join("lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&lock_path)
            .map_err(|error| DiskErrorKind::Io("opening the lock").of(&lock_path, error))?;
        take_lock(&mut lock, path)?;
        write_pid(&mut lock).map_err(|error| DiskErrorKind::Io("writing the lock").of(&lock_path, error))?;
        let medium = toml.medium_path(path);
        let medium_lock = lock_medium(&medium)?;
        Ok(Self { path: path.into(), toml, _lock: lock, _medium_lock: medium_lock })
    }

    /// How the disk in directory `path`, which may be open, is configured to
    /// behave by now.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn behaviour(path: &Path) -> Result<Config, DiskError> {
        DiskToml::read(path)?.config(path)
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
        open_file(&self.medium_path(), "the medium")
    }

    /// Its journal.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_journal(&self) -> Result<FileMedium, DiskError> {
        open_file(&self.path.join("journal"), "the journal")
    }

    /// The record of deaths and receipts.
    #[must_use]
    pub fn audit_path(&self) -> PathBuf {
        self.path.join("audit.jsonl")
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
            overlay: None,
        })
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

fn open_file(path: &Path, what: &'static str) -> Result<FileMedium, DiskError> {
    FileMedium::open(path, false).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DiskErrorKind::Missing(what).of(path, error),
        _ => DiskErrorKind::Io("opening").of(path, error),
    })
}

/// Makes all of a disk in an empty directory.
fn build(draft: &mut Draft, options: &CreateOptions) -> Result<DiskToml, DiskError> {
    let toml = DiskToml::new(options)?;
    let foreign = options.medium.as_deref().filter(|path| path.exists());
    match foreign {
        Some(path) => drop(lock_medium(path)?),
        None => draft.make_medium(&toml)?,
    }
    let dir = draft.dir();
    let io = |act| move |error| DiskErrorKind::Io(act).of(dir, error);
    let shape = Shape::default();
    let journal_path = dir.join("journal");
    let journal = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&journal_path);
    journal.and_then(|file| file.set_len(shape.bytes())).map_err(io("making the journal"))?;
    let whole = Extent::new(0, toml.size_bytes);
    // What lies on a device that is not adopted is dead already. Of what is
    // adopted, the first start finds out which parts hold data.
    let held = options.adopt.then_some(whole);
    let dead = (foreign.is_some() && !options.adopt).then_some(whole);
    let disk = *toml.uuid.as_bytes();
    let formatted = Volume::format(&open_file(&journal_path, "the journal")?, shape, disk, held, dead);
    let view = formatted
        .map_err(|error| DiskErrorKind::Io("making the journal").of(dir, io::Error::other(error)))?;
    write_new(dir, "key", &entropy()?).map_err(io("making the key"))?;
    let key = SigningKey::from_bytes(
        &std::fs::read(dir.join("key")).map_err(io("making the key"))?.try_into().unwrap_or_default(),
    );
    write_new(dir, "key.pub", hex(key.verifying_key().as_bytes()).as_bytes())
        .map_err(io("making the key"))?;
    if !options.adopt {
        replace(dir, "view", &view.to_bytes(disk)).map_err(io("writing view"))?;
    }
    write_new(dir, "disk.toml", toml.to_text().as_bytes()).map_err(io("writing disk.toml"))?;
    sync_dir(dir).map_err(io("syncing the directory"))?;
    Ok(toml)
}

/// Refuses a medium that somebody uses; else keeps others from it.
fn lock_medium(path: &Path) -> Result<Option<File>, DiskError> {
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
    match in_use::by_process(Path::new("/proc"), &file).map_err(missing)? {
        Some(by) => Err(used(by)),
        None if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() => Ok(Some(file)),
        None => Err(used("another program".into())),
    }
}

fn take_lock(lock: &mut File, path: &Path) -> Result<(), DiskError> {
    if rustix::fs::flock(&*lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(());
    }
    let mut pid = String::new();
    let _ = lock.read_to_string(&mut pid);
    let pid = pid.trim();
    let holder = if pid.is_empty() { "another program".into() } else { format!("process {pid}") };
    Err(DiskErrorKind::Locked(holder).at(path))
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
