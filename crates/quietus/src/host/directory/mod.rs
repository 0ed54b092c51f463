//! A directory that one program has for itself: its lock, its signing key, its files.
//!
//! The content of the directory is not known here: a disk, or anything else that is kept in one.
//!
//! Invariants:
//! 1. A [`Directory`] holds the lock: exclusive to write, shared to read.
//! 2. A directory, like a file that is replaced, has its name only once all of it is durable.

mod draft;
mod error;
mod files;
pub(crate) mod in_use;
mod key;
mod lock;
#[cfg(test)]
mod tests;

pub use draft::{Draft, Plan};
pub use error::{DirectoryError, DirectoryErrorKind, ErrorAt};
pub(crate) use files::{make_file, opened, parent_of, remove, replace, sync_dir, write_new};
pub use key::make_key;
pub(crate) use key::public_key_of;
pub use lock::Access;
pub(crate) use lock::{lock_storage, patiently};

use crate::base::signed::SigningKey;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// An open directory: no other process can change it while this lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    access: Access,
    _lock: File,
}

impl Directory {
    /// Opens the directory at `path`, and takes its lock.
    ///
    /// # Errors
    /// [`DirectoryError`]; of kind [`DirectoryErrorKind::Locked`] if the directory stays in use.
    pub fn open(path: &Path, access: Access) -> Result<Self, DirectoryError> {
        Ok(Self { path: path.into(), access, _lock: lock::lock(path, access)? })
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the file `name`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The purpose for which the directory was opened.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// The last part of the path, as the file system has it.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let full = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        full.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Puts `bytes` in the place of the file `name`, durably: whole, or not at all.
    ///
    /// # Errors
    /// Errors of the host; the old file is whole then.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        replace(&self.path, name, bytes)
    }

    /// Removes the file `name`, durably; it may be missing.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.path, name)
    }

    /// The key that signs statements about the content.
    ///
    /// # Errors
    /// [`DirectoryError`]: the key is missing, or damaged.
    pub fn key(&self) -> Result<SigningKey, DirectoryError> {
        key::read_key(&self.path)
    }
}
