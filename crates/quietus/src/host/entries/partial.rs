//! Entries that have a name of their own until they are whole.
//!
//! Invariants:
//! 1. A file has its final name only once all of it is there, its attributes too.
//! 2. A program that writes a file holds a lock on it. A file without a lock was left by a program that was killed, and is removed by the next
//!    restore into that folder.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;

/// Names of partial entries: this, and 16 hexadecimal digits.
const PREFIX: &str = ".quietus-get-";
const DIGITS: usize = 16;
/// Names that are tried: each is random, so that it is hardly ever taken.
const TRIES: usize = 8;

/// An entry that does not have its name yet. Dropped, it is gone.
pub(crate) struct Partial<'d> {
    dir: BorrowedFd<'d>,
    name: CString,
    is_kept: bool,
}

impl<'d> Partial<'d> {
    /// Makes an entry in the folder `dir` with `make`, which is given the name.
    pub(crate) fn make<T>(
        dir: BorrowedFd<'d>,
        mut make: impl FnMut(&CStr) -> Result<T, Errno>,
    ) -> Result<(Self, T), Errno> {
        for _ in 0..TRIES {
            let name = draw_name()?;
            match make(&name) {
                Err(Errno::EXIST | Errno::AGAIN) => {}
                made => return made.map(|made| (Self { dir, name, is_kept: false }, made)),
            }
        }
        Err(Errno::EXIST)
    }

    /// Makes an empty file in the folder `dir`.
    pub(crate) fn file(dir: BorrowedFd<'d>) -> Result<(Self, File), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::make(dir, |name| {
            let file = File::from(rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // A program that clears the folder has the file, and removes it.
                Err(Errno::WOULDBLOCK) => return Err(Errno::AGAIN),
                // On a host without locks no program clears the folder.
                _ if rustix::fs::fstat(&file)?.st_nlink == 0 => return Err(Errno::AGAIN),
                _ => {}
            }
            Ok(file)
        })
    }

    /// The name meanwhile.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Gives the entry its name. An entry of that name is replaced only if `replaces` is set.
    ///
    /// # Errors
    /// Errors of the host; the entry is gone then.
    pub(crate) fn keep(mut self, name: &[u8], replaces: bool) -> Result<(), Errno> {
        let (dir, from) = (self.dir, self.name.as_c_str());
        let renamed = match replaces {
            true => rustix::fs::renameat(dir, from, dir, name),
            false => match rustix::fs::renameat_with(dir, from, dir, name, RenameFlags::NOREPLACE) {
                // A file system that cannot tell; it may have the name all the same.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Err(Errno::NOENT) => rustix::fs::renameat(dir, from, dir, name),
                        there => there.and(Err(Errno::EXIST)),
                    }
                }
                renamed => renamed,
            },
        };
        self.is_kept = renamed.is_ok();
        renamed
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

fn draw_name() -> Result<CString, Errno> {
    let mut bytes = [0; DIGITS / 2];
    getrandom::fill(&mut bytes).map_err(|_| Errno::IO)?;
    CString::new(format!("{PREFIX}{}", crate::base::hex::hex(&bytes))).map_err(|_| Errno::INVAL)
}

/// Removes the files from the folder that killed programs have left there, as far as that can be done.
pub(crate) fn clear(dir: impl AsFd) {
    let dir = dir.as_fd();
    for entry in Dir::read_from(dir).into_iter().flatten().flatten() {
        if is_partial(entry.file_name().to_bytes()) && is_left(dir, entry.file_name()) {
            let _ = rustix::fs::unlinkat(dir, entry.file_name(), AtFlags::empty());
        }
    }
}

pub(crate) fn is_partial(name: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|it| it.len() == DIGITS && it.iter().all(u8::is_ascii_hexdigit))
}

/// Whether no program writes this file.
fn is_left(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_left = || {
        let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        let is_file = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok::<_, Errno>(is_file)
    };
    is_left().unwrap_or(false)
}
