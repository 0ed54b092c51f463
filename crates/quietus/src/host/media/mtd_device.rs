//! The kernel's MTD devices (`include/uapi/mtd/mtd-abi.h`): what NOR and NAND flash have in common.

use rustix::fs::FlockOperation;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

const MEMGETINFO: Opcode = opcode::read::<Info>(b'M', 1);
const MEMERASE64: Opcode = opcode::write::<Erase>(b'M', 20);
pub(super) const MTD_RAM: u8 = 1;
pub(super) const MTD_NORFLASH: u8 = 3;
pub(super) const MTD_NANDFLASH: u8 = 4;
pub(super) const MTD_MLCNANDFLASH: u8 = 8;
pub(super) const MTD_WRITEABLE: u32 = 0x400;

/// `struct mtd_info_user`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Info {
    pub(super) kind: u8,
    pub(super) flags: u32,
    pub(super) size: u32,
    pub(super) erasesize: u32,
    pub(super) writesize: u32,
    pub(super) oobsize: u32,
    pub(super) padding: u64,
}

const _: () = assert!(size_of::<Info>() == 32);

/// `struct erase_info_user64`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Erase {
    start: u64,
    length: u64,
}

const _: () = assert!(size_of::<Erase>() == 16);

/// Opens the device at `path`, for one process at a time.
///
/// # Errors
/// There is no such device, it cannot be opened, is in use, or no MTD device.
pub(super) fn open(path: &Path, read_only: bool) -> io::Result<(File, Info)> {
    let file = OpenOptions::new().read(true).write(!read_only).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::other("the host has no such device; name one that exists (`quietus doctor` shows it)")
        }
        io::ErrorKind::PermissionDenied if !read_only => io::Error::other(
            "the device cannot be written to, at all or by this user; run as root, and do not name a read-only node, such as /dev/mtd3ro",
        ),
        _ => error,
    })?;
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    let how = if read_only { FlockOperation::NonBlockingLockShared } else { exclusive };
    rustix::fs::flock(&file, how)
        .map_err(|_| io::Error::other("another process uses the device; stop it first"))?;
    // SAFETY: MEMGETINFO fills a `struct mtd_info_user`, which `Info` is.
    let info = unsafe { ioctl(&file, Getter::<MEMGETINFO, Info>::new()) };
    let info = info.map_err(|_| io::Error::other("not an MTD device; name one such as /dev/mtd3"))?;
    Ok((file, info))
}

/// Erases the `length` bytes at `start`, which are whole blocks.
pub(super) fn erase(file: &File, start: u64, length: u64) -> io::Result<()> {
    // SAFETY: MEMERASE64 reads a `struct erase_info_user64`, which `Erase` is.
    Ok(unsafe { ioctl(file, Setter::<MEMERASE64, Erase>::new(Erase { start, length })) }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_have_the_numbers_of_the_kernel() {
        assert_eq!((MEMGETINFO as u64, MEMERASE64 as u64), (0x8020_4d01, 0x4010_4d14));
    }
}
