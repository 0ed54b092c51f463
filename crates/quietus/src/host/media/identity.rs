//! Checks that a file still is the one that was opened: it has a name, which no other file has
//! taken, and as many bytes as it had.
//!
//! Bytes that another program writes into the file go unnoticed, and so does a file that is cut off and
//! made as long again between two looks.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

/// The facts that every sync asks the host for. No times: since Linux 6.13 a question for them makes
/// the next write take a new, finer time, which must reach the inode, and that costs a write and
/// a flush a fifth of their rate.
const ASKED: StatxFlags =
    StatxFlags::TYPE.union(StatxFlags::INO).union(StatxFlags::NLINK).union(StatxFlags::SIZE);

/// A change of a file behind our back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Change {
    #[error("deleted while in use, and lost when this server ends; save the content with `quietus export`")]
    Deleted,
    #[error(
        "replaced by another file while in use; put the old one back, which is still open here, or save the \
         content with `quietus export`"
    )]
    Replaced,
    #[error("moved away while in use: the next start will not find it; put it back under this name")]
    Moved,
    #[error(
        "truncated from {had} to {has} bytes while in use; the bytes beyond are lost; save what can be read with `quietus export`, or restore \
         the file from a backup"
    )]
    CutOff {
        /// Bytes that the file should have.
        had: u64,
        /// Bytes that the file has.
        has: u64,
    },
}

/// Checks `file`, opened at `path`, which should have as many bytes as `len` says before or after
/// the look.
///
/// # Errors
/// The [`Change`], or an error of the host.
pub(super) fn check(file: &File, path: &Path, len: impl Fn() -> u64) -> io::Result<()> {
    let here = check_here(file, len)?;
    match statx(CWD, path, AtFlags::empty(), ASKED) {
        Ok(named) if which(&named) != which(&here) => Err(io::Error::other(Change::Replaced)),
        Err(Errno::NOENT) if has_directory(path) => Err(io::Error::other(Change::Moved)),
        _ => Ok(()),
    }
}

/// Whether there is a directory where the file was: if not, both were moved together, which does no harm.
fn has_directory(path: &Path) -> bool {
    path.parent().is_some_and(|dir| statx(CWD, dir, AtFlags::empty(), ASKED).is_ok())
}

/// As [`check`], but for a file of the same name that took the place of this one. What the host
/// says of `file`.
///
/// # Errors
/// The [`Change`], or an error of the host.
pub(super) fn check_here(file: &File, len: impl Fn() -> u64) -> io::Result<Statx> {
    // Another thread may be changing the length: the shorter one has been true.
    let before = len();
    let here = statx(file, c"", AtFlags::EMPTY_PATH, ASKED)?;
    let bytes = len().min(before);
    if here.stx_nlink == 0 {
        Err(io::Error::other(Change::Deleted))
    } else if here.stx_size < bytes {
        Err(io::Error::other(Change::CutOff { had: bytes, has: here.stx_size }))
    } else {
        Ok(here)
    }
}

/// The file system, and the file in it.
fn which(of: &Statx) -> (u32, u32, u64) {
    (of.stx_dev_major, of.stx_dev_minor, of.stx_ino)
}
