//! A disk's directory while it is being made.
//!
//! Invariants:
//! 1. It has its name only once all of it is durable. Until then it is a
//!    hidden directory beside, locked by whoever makes it.
//! 2. A draft that is dropped leaves nothing behind; one that a crash left is
//!    cleared by the next of its name, and nothing but what a draft holds is.

use super::config::DiskToml;
use super::{DiskError, DiskErrorKind, in_use, sync_dir};
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a draft may hold.
const FILES: [&str; 10] =
    ["data", "map", "base.raw", "journal", "key", "key.pub", "view", ".view.new", "disk.toml", "lock"];

/// A directory that is not a disk yet.
#[derive(Debug)]
pub(super) struct Draft {
    dir: PathBuf,
    /// A medium elsewhere that was made for it.
    outside: Option<PathBuf>,
    kept: bool,
    _lock: File,
}

impl Draft {
    /// Of what is to be the disk in directory `path`.
    ///
    /// # Errors
    /// There is something at `path`, or somebody makes something there.
    pub(super) fn begin(path: &Path) -> Result<Self, DiskError> {
        if path.symlink_metadata().is_ok() {
            return Err(DiskErrorKind::Exists.at(path));
        }
        let name = path.file_name().ok_or_else(|| DiskErrorKind::Exists.at(path))?;
        let dir = parent_of(path).join(format!(".{}.new", name.to_string_lossy()));
        let lock = claim(&dir, path, "another `quietus create`")?;
        let draft = Self { dir, outside: None, kept: false, _lock: lock };
        draft
            .clear()
            .map_err(|error| DiskErrorKind::Io("clearing what a crash left").of(&draft.dir, error))?;
        Ok(draft)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the file that `toml` names as the medium, of its size.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub(super) fn make_medium(&mut self, toml: &DiskToml) -> Result<(), DiskError> {
        let path = toml.medium_path(&self.dir);
        let failed = |error| DiskErrorKind::Io("making the medium").of(&path, error);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        if !path.starts_with(&self.dir) {
            self.outside = Some(path.clone());
        }
        file.set_len(toml.size_bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        sync_dir(parent_of(&path)).map_err(failed)
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// There is something of that name by now, or the host refuses.
    pub(super) fn keep(mut self, path: &Path) -> Result<(), DiskError> {
        rename_new(&self.dir, path)?;
        self.kept = true;
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        for file in FILES {
            match std::fs::remove_file(self.dir.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match std::fs::read_dir(&self.dir)?.next() {
            Some(_) => Err(io::Error::other("it holds something that no draft holds: remove it by hand")),
            None => Ok(()),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The error that matters is the one that led here.
        let _ = self.clear().and_then(|()| std::fs::remove_dir(&self.dir));
        if let Some(path) = &self.outside {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the directory `dir`, or takes what a crash left of it, and locks it.
///
/// # Errors
/// `who` has it, to make `path`, or the host refuses.
pub(crate) fn claim(dir: &Path, path: &Path, who: &str) -> Result<File, DiskError> {
    in_use::patiently(|| {
        lock(dir).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => DiskErrorKind::Locked(who.into()).at(path),
            _ => DiskErrorKind::Io("making the directory").of(dir, error),
        })
    })
}

fn lock(dir: &Path) -> io::Result<File> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let lock = File::open(dir)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let (ours, there) = (lock.metadata()?, dir.symlink_metadata()?);
    // Whoever had it may have named or removed it before it was ours.
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(lock)
    } else {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Renames, durably, and replaces nothing.
///
/// # Errors
/// There is something at `to` by now, or the host refuses.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<(), DiskError> {
    let renamed = match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_ok() => Err(Errno::EXIST),
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::rename(from, to),
        renamed => renamed,
    };
    match renamed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(DiskErrorKind::Exists.at(to)),
        Err(errno) => return Err(DiskErrorKind::Io("naming it").of(to, errno.into())),
    }
    sync_dir(parent_of(to)).map_err(|error| DiskErrorKind::Io("making its name durable").of(to, error))
}
