//! How a file is laid out: shared extents, attributes, and whether its file
//! system can share at all.

use super::FileFacts;
use crate::host::fiemap::{Extents, Mapped, Unwritten};
use quietus_core::base::units::Extent;
use rustix::fs::IFlags;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most extents that are examined; of a longer file it is not known whether it shares some.
const EXTENTS_MAX: usize = 1 << 20;

const XFS_REFLINK: u32 = 1 << 20;

/// `struct xfs_fsop_geom` (xfs/xfs_fs.h), version 5.
#[repr(C)]
#[derive(Default)]
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
    let all = Extents::new(file, Extent::new(0, u64::MAX), Unwritten::LeftOut);
    for mapped in all.take(EXTENTS_MAX + 1).enumerate() {
        match mapped {
            (_, Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS)) | (EXTENTS_MAX, _) => return Ok(None),
            (_, Ok(Mapped { is_shared: true, .. })) => return Ok(Some(true)),
            (_, Ok(_)) => {}
            (_, Err(error)) => return Err(error.into()),
        }
    }
    Ok(Some(false))
}

fn xfs_reflink(file: &File) -> Result<bool, Errno> {
    let mut geometry = XfsGeometry::default();
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
    fn the_request_has_the_number_of_the_kernel() {
        assert_eq!(XFS_IOC_FSGEOMETRY as u64, 0x8100_587e);
        assert_eq!(std::mem::offset_of!(XfsGeometry, flags), 92);
    }
}
