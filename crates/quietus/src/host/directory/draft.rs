//! A directory while it is being made.
//!
//! Invariants:
//! 1. A draft gets its name only once all of it is durable. Until then it is in a hidden directory
//!    beside, locked by its maker.
//! 2. A draft that is dropped leaves nothing behind. A draft that a crash left is
//!    cleared by the next of its name, of the files that its plan names and of nothing else.

use super::files::{parent_of, rename_new, sync_dir};
use super::lock::claim;
use super::{DirectoryError, DirectoryErrorKind};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The files of a draft, and its maker.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The ending of the hidden directory's name.
    pub ending: &'static str,
    /// The names of all files that may be in it.
    pub files: &'static [&'static str],
    /// The maker, as a second maker is told of it.
    pub maker: &'static str,
}

/// A directory that does not have its name yet.
#[derive(Debug)]
pub struct Draft {
    dir: PathBuf,
    plan: Plan,
    /// The files elsewhere that were made for the draft.
    outside: Vec<PathBuf>,
    is_kept: bool,
    _lock: File,
}

impl Draft {
    /// Begins the draft of `path`, which has been found [fit](crate::host::paths) for a new directory or file.
    ///
    /// # Errors
    /// Another process makes it, or the host refuses.
    pub fn begin(path: &Path, plan: Plan) -> Result<Self, DirectoryError> {
        let name = path.file_name().ok_or_else(|| DirectoryErrorKind::Exists.at(path))?;
        let dir = parent_of(path).join(format!(".{}.{}", name.to_string_lossy(), plan.ending));
        let lock = claim(&dir, path, plan.maker)?;
        let draft = Self { dir, plan, outside: Vec::new(), is_kept: false, _lock: lock };
        draft.clear().map_err(|error| {
            DirectoryErrorKind::Io("clear what an interrupted command left").of(&draft.dir, error)
        })?;
        Ok(draft)
    }

    /// Directory for the files meanwhile.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the file `path`, of `bytes` zeros: in the directory, or elsewhere. A file elsewhere
    /// is removed too if the draft is dropped.
    ///
    /// # Errors
    /// The file exists, or the host refuses.
    pub fn make_file(&mut self, path: &Path, bytes: u64) -> io::Result<File> {
        let path = self.dir.join(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        if !path.starts_with(&self.dir) {
            self.outside.push(path.clone());
        }
        file.set_len(bytes)?;
        file.sync_all()?;
        sync_dir(parent_of(&path))?;
        Ok(file)
    }

    /// Gives the directory its name.
    ///
    /// # Errors
    /// The name is taken by now, or the host refuses.
    pub fn keep(mut self, path: &Path) -> Result<(), DirectoryError> {
        rename_new(&self.dir, path)?;
        self.is_kept = true;
        Ok(())
    }

    /// Gives the name to one file of the directory, and drops the rest.
    ///
    /// # Errors
    /// The name is taken by now, or the host refuses.
    pub fn keep_file(self, file: &str, path: &Path) -> Result<(), DirectoryError> {
        rename_new(&self.dir.join(file), path)
    }

    fn clear(&self) -> io::Result<()> {
        for file in self.plan.files {
            match std::fs::remove_file(self.dir.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match std::fs::read_dir(&self.dir)?.next() {
            Some(Ok(other)) => {
                let name = other.file_name().to_string_lossy().into_owned();
                Err(io::Error::other(format!("it also holds {name:?}; remove the directory by hand")))
            }
            Some(Err(error)) => Err(error),
            None => Ok(()),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // The error that matters is the one that led here.
        let _ = self.clear().and_then(|()| std::fs::remove_dir(&self.dir));
        for path in &self.outside {
            let _ = std::fs::remove_file(path);
        }
    }
}
