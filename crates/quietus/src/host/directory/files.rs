//! Files that are whole and durable, or not there at all.

use super::{DirectoryError, DirectoryErrorKind};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Makes the file `name` with these bytes, durable.
pub(crate) fn write_new(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the file `name` of `bytes` zeros, durable; returns its path.
pub(crate) fn make_file(dir: &Path, name: &str, bytes: u64) -> io::Result<PathBuf> {
    let path = dir.join(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.set_len(bytes)?;
    file.sync_all()?;
    Ok(path)
}

/// Puts these bytes in the place of the file `name`, whole or not at all.
pub(crate) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!(".{name}.new");
    let _ = std::fs::remove_file(dir.join(&new));
    write_new(dir, &new, bytes)?;
    std::fs::rename(dir.join(&new), dir.join(name))?;
    sync_dir(dir)
}

/// Removes the file `name`, durably; it may be missing.
pub(crate) fn remove(dir: &Path, name: &str) -> io::Result<()> {
    match std::fs::remove_file(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_dir(dir)),
    }
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The directory that `path` lies in.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Renames durably, and replaces nothing.
///
/// # Errors
/// [`DirectoryErrorKind::Exists`] if the name is taken by now, or the host refuses.
pub(super) fn rename_new(from: &Path, to: &Path) -> Result<(), DirectoryError> {
    let renamed = match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_ok() => Err(Errno::EXIST),
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::rename(from, to),
        renamed => renamed,
    };
    match renamed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(DirectoryErrorKind::Exists.at(to)),
        Err(errno) => return Err(DirectoryErrorKind::Io("give it its name").of(to, errno.into())),
    }
    sync_dir(parent_of(to)).map_err(|error| DirectoryErrorKind::Io("make its name durable").of(to, error))
}

/// What came of opening the file at `path`, which messages call `what`.
pub(crate) fn opened<T>(path: &Path, what: &'static str, result: io::Result<T>) -> Result<T, DirectoryError> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DirectoryErrorKind::Missing(what).of(path, error),
        _ => DirectoryErrorKind::Io("open").of(path, error),
    })
}
