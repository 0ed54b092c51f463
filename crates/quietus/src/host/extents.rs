//! How a file is laid out: shared extents, attributes, and whether its file
//! system can share at all.

use super::FileFacts;
use rustix::fs::IFlags;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Extents asked for at a time.
const EXTENTS: usize = 128;
/// Most extents that are examined; of a longer file it is not known whether it shares some.
const EXTENTS_MAX: usize = 1 << 20;

const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;
const XFS_REFLINK: u32 = 1 << 20;

/// `struct fiemap_extent` (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    fe_logical: u64,
    fe_physical: u64,
    fe_length: u64,
    fe_reserved64: [u64; 2],
    fe_flags: u32,
    fe_reserved: [u32; 3],
}

/// `struct fiemap` without its extents, whose size is in the request's number.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapHead {
    fm_start: u64,
    fm_length: u64,
    fm_flags: u32,
    fm_mapped_extents: u32,
    fm_extent_count: u32,
    fm_reserved: u32,
}

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; EXTENTS],
}

/// `struct xfs_fsop_geom` (xfs/xfs_fs.h), version 5.
#[repr(C)]
struct XfsGeometry {
    before: [u32; 8],
    blocks: [u64; 4],
    uuid: [u8; 16],
    sunit: u32,
    swidth: u32,
    version: i32,
    flags: u32,
    after: [u64; 20],
}

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<FiemapHead>(b'f', 11);
const XFS_IOC_FSGEOMETRY: Opcode = opcode::read::<XfsGeometry>(b'X', 126);

/// Fills in the facts of the file itself.
///
/// # Errors
/// Errors of the system, if the file cannot be opened or asked.
pub(super) fn describe(path: &Path, file: &mut FileFacts) -> io::Result<()> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let open = File::options().read(true).custom_flags(nonblock).open(path)?;
    if let Ok(flags) = rustix::fs::ioctl_getflags(&open) {
        file.no_copy_on_write = Some(flags.contains(IFlags::NOCOW));
        file.data_journal = Some(flags.contains(IFlags::JOURNALING));
    }
    if file.file_system == "xfs" {
        file.reflink = xfs_reflink(&open).ok();
    }
    file.shared_extents = shares(&open)?;
    Ok(())
}

/// Whether some extent is shared; `None` where the file system cannot say.
fn shares(file: &File) -> io::Result<Option<bool>> {
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut start = 0;
    for _ in 0..EXTENTS_MAX / EXTENTS {
        let extents = match extents_from(file, start) {
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => return Ok(None),
            extents => extents?,
        };
        if extents.iter().any(|extent| extent.fe_flags & FIEMAP_EXTENT_SHARED != 0) {
            return Ok(Some(true));
        }
        match extents.last() {
            None => return Ok(Some(false)),
            Some(last) if last.fe_flags & FIEMAP_EXTENT_LAST != 0 => return Ok(Some(false)),
            Some(last) => start = last.fe_logical.saturating_add(last.fe_length),
        }
    }
    Ok(None)
}

fn extents_from(file: &File, start: u64) -> Result<Vec<FiemapExtent>, Errno> {
    let head = FiemapHead {
        fm_start: start,
        fm_length: u64::MAX - start,
        fm_extent_count: EXTENTS as u32,
        ..FiemapHead::default()
    };
    let mut fiemap = Box::new(Fiemap { head, extents: [FiemapExtent::default(); EXTENTS] });
    // SAFETY: FS_IOC_FIEMAP takes a `struct fiemap` and fills at most
    // `fm_extent_count` of the extents that follow it, which are there.
    unsafe {
        let request = Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut fiemap);
        rustix::ioctl::ioctl(file, request)?;
    }
    let found = (fiemap.head.fm_mapped_extents as usize).min(EXTENTS);
    Ok(fiemap.extents[..found].to_vec())
}

fn xfs_reflink(file: &File) -> Result<bool, Errno> {
    let mut geometry = XfsGeometry {
        before: [0; 8],
        blocks: [0; 4],
        uuid: [0; 16],
        sunit: 0,
        swidth: 0,
        version: 0,
        flags: 0,
        after: [0; 20],
    };
    // SAFETY: XFS_IOC_FSGEOMETRY fills a `struct xfs_fsop_geom`, whose size is
    // in its number; the file lies on xfs, so that no other driver reads it.
    unsafe {
        let request = Updater::<XFS_IOC_FSGEOMETRY, XfsGeometry>::new(&mut geometry);
        rustix::ioctl::ioctl(file, request)?;
    }
    Ok(geometry.flags & XFS_REFLINK != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        assert_eq!(FS_IOC_FIEMAP as u64, 0xc020_660b);
        assert_eq!(XFS_IOC_FSGEOMETRY as u64, 0x8100_587e);
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(std::mem::offset_of!(XfsGeometry, flags), 92);
    }
}
