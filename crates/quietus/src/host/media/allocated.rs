//! Where a file has space, as its file system says: also space in which nothing was written yet.

use crate::host::fiemap::{Extents, Unwritten};
use quietus_core::base::units::{Extent, Pos};
use std::fs::File;
use std::io;

/// `statfs` of a file system in memory. It has no map, and what was never written there has no old content either.
const TMPFS: u64 = 0x0102_1994;

/// The parts of `extent` that have space, in order.
///
/// # Errors
/// The file system has no map of extents.
pub(super) fn allocated(file: &File, extent: Extent<Pos>) -> io::Result<Vec<Extent<Pos>>> {
    let mut found = Vec::new();
    for mapped in Extents::new(file, extent, Unwritten::Placed) {
        found.extend(mapped?.extent.overlap(extent).filter(|part| !part.is_empty()));
    }
    Ok(found)
}

/// Whether the file lies in memory.
pub(super) fn is_in_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == TMPFS)
}
