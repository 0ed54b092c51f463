//! What a path that a command is given must be. Each is looked at before anything is made.
//!
//! Invariants:
//! 1. Nothing is opened before its kind is known: a pipe without a writer does not block a command, and a device that
//!    never ends fills no memory.
//! 2. A refusal names the option, what the path is, and the remedy.

/// The error for a path that is not what it has to be, in words as for `format!`.
macro_rules! unfit {
    ($path:expr, $($what:tt)+) => {
        DirectoryErrorKind::Unfit(format!($($what)+)).at($path)
    };
}

mod format;
mod homes;
#[cfg(test)]
mod tests;

pub(crate) use format::format_of;
pub(crate) use homes::{Found, Subject, absent};

use crate::host::directory::{DirectoryError, DirectoryErrorKind, parent_of, sync_dir};
use crate::host::guarantees;
use quietus_core::store::{sealed, versions};
use rustix::fs::OFlags;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Longest text that a command reads as a whole: a receipt, a key, a certificate.
const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Longest path of a socket: `sun_path` without its end (unix(7)).
const SOCKET_BYTES_MAX: usize = 107;
/// Smallest disk, bytes: a sector.
const DISK_BYTES_MIN: u64 = 512;

/// The kind of thing at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Nothing,
    /// A symbolic link to nothing.
    DanglingLink,
    /// A regular file.
    File,
    Directory,
    BlockDevice,
    CharacterDevice,
    Pipe,
    Socket,
}

impl Kind {
    /// The kind of what lies at `path`, behind links.
    ///
    /// # Errors
    /// Errors of the host other than that there is nothing.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = match std::fs::metadata(path) {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_link = path.symlink_metadata().is_ok();
                return Ok(if is_link { Self::DanglingLink } else { Self::Nothing });
            }
            // A part of the path is a file.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Self::Nothing),
            Err(error) => return Err(error),
        };
        Ok(match () {
            () if found.is_file() => Self::File,
            () if found.is_dir() => Self::Directory,
            () if found.is_block_device() => Self::BlockDevice,
            () if found.is_char_device() => Self::CharacterDevice,
            () if found.is_fifo() => Self::Pipe,
            () => Self::Socket,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing that exists",
            Self::DanglingLink => "a symbolic link to nothing",
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::BlockDevice => "a block device",
            Self::CharacterDevice => "a character device",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
        })
    }
}

fn kind(path: &Path) -> Result<Kind, DirectoryError> {
    Kind::of(path).map_err(|error| DirectoryErrorKind::Io("look at it").of(path, error))
}

/// Checks the place of a file or directory to make: its parent has to exist, and to keep files.
///
/// # Errors
/// The parent is of another kind.
pub(crate) fn check_parent(path: &Path) -> Result<(), DirectoryError> {
    let parent = parent_of(path);
    match kind(parent)? {
        Kind::Directory if is_device_directory(parent) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Err(unfit!(
                path,
                "there is no device {name}, and {} takes no files; check the name",
                parent.display()
            ))
        }
        Kind::Directory => Ok(()),
        Kind::Nothing | Kind::DanglingLink => {
            Err(unfit!(path, "the directory {} does not exist; make it first", parent.display()))
        }
        other => Err(unfit!(path, "{} is {other}, and not a directory; check the path", parent.display())),
    }
}

/// Checks the name of a directory to make.
///
/// # Errors
/// The name is taken, or its parent is no place for it.
pub(crate) fn check_new(path: &Path) -> Result<(), DirectoryError> {
    match path.symlink_metadata() {
        Ok(_) => Err(DirectoryErrorKind::Exists.at(path)),
        Err(_) => check_parent(path),
    }
}

/// Whether `path` is `/dev`, or a directory there on the same file system.
fn is_device_directory(path: &Path) -> bool {
    let here = path.canonicalize().ok().filter(|it| it.starts_with("/dev"));
    let device = |path: &Path| std::fs::metadata(path).map(|it| it.dev()).ok();
    here.is_some_and(|here| device(&here) == device(Path::new("/dev")))
}

/// Checks an image that `option` names to become the medium of a disk whose directory is to lie in `home`.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_adopted(option: &str, path: &Path, home: &Path) -> Result<(), DirectoryError> {
    check_raw_image(option, path)?;
    check_lasting(option, path, path, home)
}

/// Checks the medium that `option` names for a new disk or vault whose directory is to lie in `home`. Returns what is there:
/// nothing, where a file is to be made, or a block device, whose content dies.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_new_medium(option: &str, path: &Path, home: &Path) -> Result<Kind, DirectoryError> {
    let found = kind(path)?;
    let there = match found {
        Kind::Nothing => {
            check_parent(path)?;
            parent_of(path)
        }
        Kind::BlockDevice if has_root(path) => {
            return Err(unfit!(
                path,
                "{option} names the device of a disk's root, and that disk is lost without it; name another device, or overwrite \
                 the first 12 KiB of this one if that disk is not used any more"
            ));
        }
        Kind::BlockDevice => path,
        Kind::File => {
            let adopt = if option == "--medium" { ", or keep its content with --adopt" } else { "" };
            return Err(unfit!(
                path,
                "{option} names a file that already exists; name one to make, or remove it{adopt}"
            ));
        }
        Kind::Directory => {
            return Err(unfit!(
                path,
                "{option} names a directory; name a file to make in it, or a block device"
            ));
        }
        other => {
            return Err(unfit!(path, "{option} names {other}; name a file to make, or a block device"));
        }
    };
    check_lasting(option, path, there, home)?;
    Ok(found)
}

/// Whether the root of a disk lies at `path`.
fn has_root(path: &Path) -> bool {
    let mut magic = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && [sealed::ROOT_MAGIC, versions::ROOT_MAGIC].contains(&magic)
}

/// Refuses a part of a disk that is gone sooner than the disk's directory, which is to lie in `home`.
fn check_lasting(option: &str, path: &Path, there: &Path, home: &Path) -> Result<(), DirectoryError> {
    match guarantees::volatile(there).filter(|_| guarantees::volatile(home).is_none()) {
        None => Ok(()),
        Some(memory) => Err(unfit!(
            path,
            "{option} names a place in memory ({memory}), gone when the machine stops, and the disk would be lost \
                 with it; name one on a disk"
        )),
    }
}

/// Checks an image that `option` names to be used byte for byte: a regular file or a block device, and raw.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_raw_image(option: &str, path: &Path) -> Result<(), DirectoryError> {
    match kind(path)? {
        Kind::File | Kind::BlockDevice => {}
        Kind::Nothing | Kind::DanglingLink => return Err(DirectoryErrorKind::Missing("the image").at(path)),
        other => {
            return Err(unfit!(path, "{option} names {other}; name a raw image or a block device"));
        }
    }
    let unreadable = |error| DirectoryErrorKind::unreadable(&error).of(path, error);
    if let Some(format) = format_of(path).map_err(unreadable)? {
        return Err(unfit!(
            path,
            "{option} takes raw images only, and this image is {format}; convert the image (`qemu-img convert -O raw`), or \
                 lay a disk over it (`quietus create --store overlay --base`)"
        ));
    }
    let bytes = File::open(path).and_then(|mut file| io::Seek::seek(&mut file, io::SeekFrom::End(0)));
    match bytes.map_err(unreadable)? {
        bytes if bytes < DISK_BYTES_MIN => Err(unfit!(
            path,
            "{option} names an image of {bytes} bytes; the smallest disk has {DISK_BYTES_MIN}"
        )),
        _ => Ok(()),
    }
}

/// Checks the image below an overlay, of any format.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_base(path: &Path) -> Result<(), DirectoryError> {
    match kind(path)? {
        Kind::File => Ok(()),
        Kind::Nothing | Kind::DanglingLink => Err(DirectoryErrorKind::Missing("the base image").at(path)),
        other => Err(unfit!(
            path,
            "--base names {other}; copy the image to a regular file, so that a change of it can be noticed"
        )),
    }
}

/// Opens a file to read it from its beginning to its end: a regular file, or a pipe with a writer.
///
/// # Errors
/// The path is of another kind; the host's.
pub(crate) fn open_to_read(what: &str, path: &Path) -> Result<File, DirectoryError> {
    match kind(path)? {
        Kind::File | Kind::Pipe | Kind::CharacterDevice => {}
        Kind::Nothing | Kind::DanglingLink => {
            return Err(unfit!(path, "{what} does not exist; check the path"));
        }
        other => return Err(unfit!(path, "{what} is {other}; name a file")),
    }
    let failed = |error| DirectoryErrorKind::Io("open it").of(path, error);
    // Opening a pipe without a writer would wait; instead the pipe ends at once.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblock).open(path).map_err(failed)?;
    rustix::io::ioctl_fionbio(&file, false).map_err(|errno| failed(errno.into()))?;
    Ok(file)
}

/// Reads a text as a whole.
///
/// # Errors
/// The path is of another kind; the host's; the text has more than 16 MiB, or is no UTF-8.
pub(crate) fn read_text(what: &str, path: &Path) -> Result<String, DirectoryError> {
    let mut bytes = Vec::new();
    let read = open_to_read(what, path)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| DirectoryErrorKind::Io("read it").of(path, error))?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(unfit!(path, "{what} has more than {TEXT_BYTES_MAX} bytes; name the right file"));
    }
    String::from_utf8(bytes).map_err(|_| unfit!(path, "{what} is not UTF-8 text; name the right file"))
}

/// Checks a file that `option` names to be written as a whole. One that exists is replaced only if its content `is_ours`.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_output(
    option: &str,
    path: &Path,
    is_ours: impl FnOnce(&str) -> bool,
) -> Result<(), DirectoryError> {
    match kind(path)? {
        Kind::Nothing => check_parent(path),
        Kind::CharacterDevice | Kind::Pipe => Ok(()),
        Kind::File if std::fs::metadata(path).is_ok_and(|it| it.len() == 0) => Ok(()),
        Kind::File => match read_text(option, path) {
            Ok(text) if is_ours(&text) => Ok(()),
            _ => {
                Err(unfit!(path, "{option} names a file with other content; name one to make, or remove it"))
            }
        },
        other => Err(unfit!(path, "{option} names {other}; name a file to make")),
    }
}

/// Writes a file as a whole: a new file takes the place of an old one once it is durable. A device or a pipe is written to.
///
/// # Errors
/// The host's.
pub(crate) fn write_output(path: &Path, text: &str) -> Result<(), DirectoryError> {
    let failed = |error| DirectoryErrorKind::Io("write it").of(path, error);
    // `/dev/stdout` may be a file that others write to.
    let is_descriptor = ["/dev", "/proc"].iter().any(|it| path.starts_with(it));
    if is_descriptor || matches!(kind(path)?, Kind::CharacterDevice | Kind::Pipe) {
        // A pipe without a reader is an error, and no reason to wait.
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let mut file = OpenOptions::new().append(true).custom_flags(nonblock).open(path).map_err(failed)?;
        rustix::io::ioctl_fionbio(&file, false).map_err(|errno| failed(errno.into()))?;
        return file.write_all(text.as_bytes()).map_err(failed);
    }
    // The target of a link is replaced, not the link.
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let new = real.with_file_name(format!(".{name}.new"));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &real)?;
        sync_dir(parent_of(&real))
    });
    written.map_err(|error| {
        // The error that matters is the one that led here.
        let _ = std::fs::remove_file(&new);
        failed(error)
    })
}

/// Checks the path of a socket that `option` names, or has by default.
///
/// # Errors
/// The path is too long, or something else lies there.
pub(crate) fn check_socket(option: &str, path: &Path) -> Result<(), DirectoryError> {
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_BYTES_MAX {
        return Err(unfit!(
            path,
            "the path of a socket has {bytes} bytes, and at most {SOCKET_BYTES_MAX} are possible; name a shorter one, \
                 such as {option} unix:/run/vm1.sock"
        ));
    }
    match kind(path)? {
        Kind::Nothing => check_parent(path),
        Kind::Socket => Ok(()),
        other => Err(unfit!(path, "{option} names {other}; name a socket to make")),
    }
}

/// Checks a directory that is searched.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_directory(path: &Path) -> Result<(), DirectoryError> {
    match kind(path)? {
        Kind::Directory => Ok(()),
        Kind::Nothing => Err(unfit!(path, "no such directory; check the path")),
        other => Err(unfit!(path, "{other}, and not a directory; check the path")),
    }
}

/// The place on the host that decides for a disk at `path`: what is there, or the directory in which it would be made.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn place_of<'a>(option: &str, path: &'a Path) -> Result<&'a Path, DirectoryError> {
    match kind(path)? {
        Kind::Directory | Kind::File | Kind::BlockDevice => Ok(path),
        Kind::Nothing => check_parent(path).map(|()| parent_of(path)),
        other => Err(unfit!(path, "{option} names {other}; name a directory, a file or a block device")),
    }
}

/// Checks a folder that `option` names, or that is to be made.
///
/// # Errors
/// The path is of another kind.
pub(crate) fn check_folder(option: &str, path: &Path) -> Result<(), DirectoryError> {
    match kind(path)? {
        Kind::Directory | Kind::Nothing => Ok(()),
        other => Err(unfit!(path, "{option} names {other}; name a folder")),
    }
}
