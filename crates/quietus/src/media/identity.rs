//! Checks that a file still is the one that was opened: it has a name, which no other file has
//! taken, and as many bytes as it had.
//!
//! Bytes that somebody writes into the file go unnoticed, and so does a file that is cut off and
//! made as long again between two looks.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
    #[error(
        "truncated from {had} to {has} bytes while in use; the content beyond is lost: restore it from a backup"
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
    let before = len();
    let here = file.metadata()?;
    let bytes = len().min(before);
    let change = if here.nlink() == 0 {
        Some(Change::Deleted)
    } else if here.len() < bytes {
        Some(Change::CutOff { had: bytes, has: here.len() })
    } else {
        // The path of a file that was moved, perhaps with its directory, cannot be looked up.
        let named = std::fs::metadata(path).ok();
        let is_other = |named: std::fs::Metadata| (named.dev(), named.ino()) != (here.dev(), here.ino());
        named.is_some_and(is_other).then_some(Change::Replaced)
    };
    change.map_or(Ok(()), |change| Err(io::Error::other(change)))
}
