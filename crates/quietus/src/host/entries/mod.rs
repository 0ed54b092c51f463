//! Entries of folders of this host: made, and given what they had elsewhere.
//!
//! Nothing here leads out of the folder that a caller has opened: each folder is opened from there, part by part, and no symbolic link is
//! followed.

pub(crate) mod attributes;
mod partial;

pub(crate) use partial::{Partial, clear, is_partial};

use quietus_vault::tree::Kind;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;

/// Deepest folder: deeper ones have no path that a host takes.
pub(crate) const DEPTH_MAX: usize = 2048;

/// Opens the folder at `path` below `root`, and follows no link.
pub(crate) fn open_below(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut here = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
    }
    Ok(here)
}

/// Makes a folder, or takes one that is there and is no link; whether it is new.
pub(crate) fn make_folder(here: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
    match rustix::fs::mkdirat(here, name, Mode::RWXU) {
        Err(Errno::EXIST) => {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
            clear(rustix::fs::openat(here, name, flags, Mode::empty())?);
            Ok(false)
        }
        made => made.map(|()| true),
    }
}

/// Makes an entry that is neither a file nor a folder.
pub(crate) fn make_special(here: BorrowedFd<'_>, name: &CStr, kind: &Kind) -> Result<(), Errno> {
    let make = |of, major, minor| {
        rustix::fs::mknodat(here, name, of, Mode::RUSR | Mode::WUSR, rustix::fs::makedev(major, minor))
    };
    match kind {
        Kind::Link(target) => rustix::fs::symlinkat(target.as_slice(), here, name),
        Kind::BlockDevice(major, minor) => make(FileType::BlockDevice, *major, *minor),
        Kind::CharacterDevice(major, minor) => make(FileType::CharacterDevice, *major, *minor),
        Kind::Pipe => make(FileType::Fifo, 0, 0),
        Kind::Socket => make(FileType::Socket, 0, 0),
        Kind::File(_) | Kind::Folder(_) => unreachable!("files and folders are made elsewhere"),
    }
}
