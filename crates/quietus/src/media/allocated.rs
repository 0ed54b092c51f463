//! Where a file has space, as its file system says: also space in which nothing was written yet, by the map of extents (`FIEMAP`,
//! Documentation/filesystems/fiemap.rst of Linux).

use quietus_core::units::{Extent, Pos};
use rustix::ioctl::{Opcode, Updater, ioctl};
use std::fs::File;
use std::io;

/// `FS_IOC_FIEMAP`.
const FIEMAP: Opcode = 0xc020_660b;
/// `FIEMAP_FLAG_SYNC`: what is not written yet gets its place first.
const SYNC: u32 = 1;
/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 1;
/// Extents that are asked for at once.
const EXTENTS: usize = 64;
/// `statfs` of a file system in memory. It has no map, and what was never written there has no old content either.
const TMPFS: u64 = 0x0102_1994;

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_words: [u32; 3],
}

const _: () = assert!(size_of::<Fiemap>() == 32 + EXTENTS * 56);

/// The parts of `extent` that have space, in order.
///
/// # Errors
/// The file system has no map of extents.
pub(super) fn allocated(file: &File, extent: Extent<Pos>) -> io::Result<Vec<Extent<Pos>>> {
    let (mut found, mut at) = (Vec::new(), extent.start.0);
    while at < extent.end() {
        let map = map(file, at, extent.end() - at)?;
        let some = &map.extents[..EXTENTS.min(map.mapped as usize)];
        let Some(last) = some.last() else { break };
        let within = some.iter().filter_map(|it| Extent::new(it.logical, it.length).overlap(extent));
        found.extend(within.filter(|it: &Extent<Pos>| !it.is_empty()));
        let end = last.logical.saturating_add(last.length);
        if last.flags & LAST != 0 || end <= at {
            break;
        }
        at = end;
    }
    Ok(found)
}

fn map(file: &File, start: u64, length: u64) -> io::Result<Fiemap> {
    let extents = [FiemapExtent::default(); EXTENTS];
    let mut map =
        Fiemap { start, length, flags: SYNC, mapped: 0, count: EXTENTS as u32, reserved: 0, extents };
    // SAFETY: the kernel writes a `struct fiemap` and at most `count` extents behind it: what `Fiemap` is, which the assertion above
    // compares, and which outlives the call.
    unsafe { ioctl(file, Updater::<FIEMAP, Fiemap>::new(&mut map)) }?;
    Ok(map)
}

/// Whether the file lies in memory.
pub(super) fn is_in_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == TMPFS)
}
