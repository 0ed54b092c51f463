//! Locks: of a directory, of a file or block device, of a directory that is being made.

use super::{DirectoryError, DirectoryErrorKind, in_use};
use crate::host::media::is_no_space;
use rustix::fs::FlockOperation;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Tries to get something that is in use, and the pause after each.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Purpose for which a directory is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading and writing. No other process has the directory meanwhile.
    ReadWrite,
    /// Reading. No file is opened for writing, and others may read the directory too.
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

/// Asks again, for a moment, for a thing in use: a server that is just ending uses it still, and so
/// does a program that another thread of this process is just starting, which holds every lock of
/// this process until it runs.
///
/// # Errors
/// As `ask` in the end.
pub(crate) fn patiently<T>(mut ask: impl FnMut() -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
    for _ in 1..TRIES {
        match ask() {
            Err(DirectoryError { kind: DirectoryErrorKind::Locked(_), .. }) => sleep(PAUSE),
            answer => return answer,
        }
    }
    ask()
}

/// Takes the lock of the directory at `path`; a holder that may write leaves its process number
/// there.
pub(super) fn lock(path: &Path, access: Access) -> Result<File, DirectoryError> {
    let lock_path = path.join("lock");
    let lock = open_lock(path, &lock_path, access).map_err(|error| unopened(access, &lock_path, error))?;
    patiently(|| take_lock(&lock, access, path))?;
    if access == Access::ReadWrite {
        write_pid(&lock)
            .map_err(|error| DirectoryErrorKind::Io("write to the lock").of(&lock_path, error))?;
    }
    Ok(lock)
}

/// The error for a lock that cannot be opened.
fn unopened(access: Access, lock: &Path, error: io::Error) -> DirectoryError {
    let what = match (access, error.kind()) {
        (Access::ReadWrite, io::ErrorKind::ReadOnlyFilesystem) => {
            "open the lock to write; mount the file system to be written, or only read: `serve --read-only`"
        }
        _ => "open the lock",
    };
    DirectoryErrorKind::Io(what).of(lock, error)
}

/// The file to lock. Where no file can be made, no process can have opened the directory to write to
/// it, and the directory itself is locked.
fn open_lock(path: &Path, lock: &Path, access: Access) -> io::Result<File> {
    let made = || {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600).open(lock)
    };
    match access {
        Access::ReadWrite => made(),
        Access::ReadOnly => match File::open(lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made().or_else(|_| File::open(path)),
            opened => opened,
        },
    }
}

fn take_lock(lock: &File, access: Access, path: &Path) -> Result<(), DirectoryError> {
    if rustix::fs::flock(lock, access.flock()).is_ok() {
        return Ok(());
    }
    // The number in the file is that of the last process that could write to it.
    let holder = in_use::by_process(Path::new("/proc"), lock).ok().flatten();
    Err(DirectoryErrorKind::Locked(holder.unwrap_or_else(|| "another program".into())).at(path))
}

/// The number is for people: a full host is no reason not to open the directory.
fn write_pid(lock: &File) -> io::Result<()> {
    let text = format!("{}\n", std::process::id());
    match lock.write_all_at(text.as_bytes(), 0) {
        Err(error) if is_no_space(&error) => Ok(()),
        written => written.and_then(|()| lock.set_len(text.len() as u64)),
    }
}

/// Refuses a file or block device that is in use; else keeps others from it, as long as the
/// returned file is open. A reader minds only processes that may write.
pub(crate) fn lock_storage(path: &Path, access: Access) -> Result<Option<File>, DirectoryError> {
    patiently(|| try_lock_storage(path, access))
}

fn try_lock_storage(path: &Path, access: Access) -> Result<Option<File>, DirectoryError> {
    let unreadable = |error| DirectoryErrorKind::unreadable(&error).of(path, error);
    let kind = std::fs::metadata(path).map_err(unreadable)?.file_type();
    let is_device = kind.is_block_device();
    if !is_device && !kind.is_file() {
        return Err(
            DirectoryErrorKind::Unfit("not a regular file or block device; check the path".into()).at(path)
        );
    }
    let used = |by| DirectoryErrorKind::Locked(by).at(path);
    if let Some(by) = in_use::by_kernel(Path::new("/sys"), Path::new("/proc"), path).map_err(unreadable)? {
        return Err(used(by));
    }
    if is_device {
        // Opening a device exclusively locks it.
        return Ok(None);
    }
    let file = File::open(path).map_err(unreadable)?;
    let by = match access {
        Access::ReadWrite => in_use::by_process(Path::new("/proc"), &file),
        Access::ReadOnly => in_use::by_writer(Path::new("/proc"), &file),
    };
    match by.map_err(unreadable)? {
        Some(by) => Err(used(by)),
        None if rustix::fs::flock(&file, access.flock()).is_ok() => Ok(Some(file)),
        None => Err(used("another program".into())),
    }
}

/// Makes the directory `dir`, or takes what a crash left of it, and locks it.
///
/// # Errors
/// `maker` has it, to make `path`, or the host refuses.
pub(super) fn claim(dir: &Path, path: &Path, maker: &str) -> Result<File, DirectoryError> {
    patiently(|| {
        lock_new(dir).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => DirectoryErrorKind::Locked(maker.into()).at(path),
            _ => DirectoryErrorKind::Io("make the directory").of(dir, error),
        })
    })
}

fn lock_new(dir: &Path) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let lock = File::open(dir)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let (ours, there) = (lock.metadata()?, dir.symlink_metadata()?);
    // The last holder may have named or removed the directory before the lock was free.
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(lock)
    } else {
        Err(io::ErrorKind::WouldBlock.into())
    }
}
