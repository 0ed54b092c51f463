//! Real media: a regular file, or a block device.
//!
//! Invariants:
//! 1. What lies beyond the medium's size is neither read nor written.
//! 2. A read fills its buffer or fails: a file that was cut short is an error,
//!    never zeros.
//! 3. [`MediumErrorKind::NoSpace`] is answered only where the write itself was
//!    refused. A failed sync may have lost writes that were acknowledged, so it
//!    is [`MediumErrorKind::Io`] whatever the system calls it.

mod holes;
mod probe;
#[cfg(test)]
mod tests;

pub use holes::Holes;

use quietus_core::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use quietus_core::units::{Extent, Pos};
use rustix::fs::{Advice, FallocateFlags, FileType};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of zeros written at a time where the host cannot make them itself.
const ZEROS_BYTES: usize = 64 * 1024;

static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

/// What a medium is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediumKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
}

impl MediumKind {
    /// What `file` is.
    ///
    /// # Errors
    /// The system's, and `InvalidInput` if it is neither.
    pub fn of(file: &File) -> io::Result<Self> {
        match FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) {
            FileType::RegularFile => Ok(Self::File),
            FileType::BlockDevice => Ok(Self::BlockDevice),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "neither a regular file nor a block device",
            )),
        }
    }
}

/// Whether a medium may be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// Opens `path` as a medium is opened: a block device exclusively, so that
/// one that is mounted, or part of another device, is refused as busy.
///
/// # Errors
/// The system's; `EBUSY` for a block device in use.
pub fn open_file(path: &Path, access: Access) -> io::Result<File> {
    let is_block_device =
        FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode) == FileType::BlockDevice;
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    File::options()
        .read(true)
        .write(access == Access::ReadWrite)
        .custom_flags(if is_block_device { exclusive } else { 0 })
        .open(path)
}

/// Bytes of `file`, be it a regular file or a block device.
///
/// # Errors
/// The system's.
pub fn size_of(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?)
}

/// A regular file or a block device.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    path: PathBuf,
    size: u64,
    kind: MediumKind,
    capabilities: Capabilities,
    nowait_unsupported: AtomicBool,
    dsync_unsupported: AtomicBool,
    zero_range_unsupported: AtomicBool,
}

impl FileMedium {
    /// Opens `path`, with the size that it has.
    ///
    /// # Errors
    /// As [`open_file`] and [`FileMedium::new`].
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        let file = open_file(path, access)?;
        let size = size_of(&file)?;
        Self::new(file, path, size)
    }

    /// The first `size` bytes of `file`, which is called `path` in errors.
    /// What it can do is found out by trying, beyond those bytes and beside
    /// the file.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` if `file` is shorter than `size`, and
    /// `InvalidInput` if it is neither a regular file nor a block device.
    pub fn new(file: File, path: &Path, size: u64) -> io::Result<Self> {
        let kind = MediumKind::of(&file)?;
        let present = size_of(&file)?;
        if present < size {
            let message = format!("{present} bytes where {size} are needed");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let punch = kind == MediumKind::File && probe::can_punch(&file, path);
        Ok(Self {
            file,
            path: path.into(),
            size,
            kind,
            capabilities: Capabilities { punch },
            nowait_unsupported: AtomicBool::new(false),
            dsync_unsupported: AtomicBool::new(false),
            zero_range_unsupported: AtomicBool::new(false),
        })
    }

    /// What it is made of.
    #[must_use]
    pub fn kind(&self) -> MediumKind {
        self.kind
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads without waiting for a device: `None` if part of it is not in the
    /// host's cache, and `into` then holds nothing of use. On file systems that
    /// cannot tell, it is a plain [`Medium::read`], which may wait.
    ///
    /// # Errors
    /// As [`Medium::read`].
    pub fn read_cached(&self, pos: Pos, into: &mut [u8]) -> Option<Result<(), MediumError>> {
        if self.nowait_unsupported.load(Ordering::Relaxed) || self.outside(pos, into.len()) {
            return Some(self.read(pos, into));
        }
        let wanted = into.len();
        let buffers = &mut [IoSliceMut::new(into)];
        match rustix::io::preadv2(&self.file, buffers, pos.0, ReadWriteFlags::NOWAIT) {
            Ok(count) => (count == wanted).then_some(Ok(())),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.nowait_unsupported.store(true, Ordering::Relaxed);
                Some(self.read(pos, into))
            }
            // A real error is found again, and told, by the read that waits.
            Err(_) => None,
        }
    }

    /// The ranges at or after `from` that hold no data: they read as zeros. A
    /// block device has none that could be known.
    ///
    /// They tell what a reader can see. Where a host lost power before it had
    /// noted that a block was written, the block is a hole, and its bytes may
    /// still lie on the device below.
    #[must_use]
    pub fn holes(&self, from: Pos) -> Holes<'_> {
        Holes::new(self, from)
    }

    fn outside(&self, pos: Pos, len: usize) -> bool {
        pos.0.checked_add(len as u64).is_none_or(|end| end > self.size)
    }

    fn check(&self, act: &str, pos: Pos, len: usize) -> Result<(), MediumError> {
        if self.outside(pos, len) {
            let reason = format!("beyond its {} bytes", self.size);
            return Err(self.error(act, pos, len as u64, MediumErrorKind::Io, &reason));
        }
        Ok(())
    }

    /// Writes what the host takes of `from` at `at` in one go.
    fn write_some(&self, at: u64, from: &[u8], durable: bool) -> Result<usize, Errno> {
        let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        match rustix::io::pwritev2(&self.file, &[IoSlice::new(from)], at, flags) {
            Err(Errno::INTR) => Ok(0),
            Ok(0) => Err(Errno::IO),
            result => result,
        }
    }

    fn write_all(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), Stop> {
        let mut done = 0;
        while done < from.len() {
            let (at, rest) = (pos.0 + done as u64, &from[done..]);
            done += self.write_some(at, rest, durable).map_err(|errno| Stop { errno, done })?;
        }
        Ok(())
    }

    fn write_durable(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        if self.dsync_unsupported.load(Ordering::Relaxed) {
            self.write(pos, from, false)?;
            return self.sync();
        }
        match self.write_all(pos, from, true) {
            Ok(()) => Ok(()),
            Err(Stop { errno: Errno::OPNOTSUPP | Errno::NOSYS, .. }) => {
                self.dsync_unsupported.store(true, Ordering::Relaxed);
                self.write_durable(pos, from)
            }
            Err(stop) if is_no_space(stop.errno) => Err(self.no_space(pos, from, stop)),
            Err(stop) => Err(self.failed("durable write", pos, from.len() as u64, stop.errno)),
        }
    }

    /// A durable write ended for want of space: either it was refused itself,
    /// or its sync reports that an earlier one was lost. In the latter case
    /// the bytes have their space by now, and the same write is taken.
    fn no_space(&self, pos: Pos, from: &[u8], stop: Stop) -> MediumError {
        let len = from.len() as u64;
        let rest = self.write_all(Pos(pos.0 + stop.done as u64), &from[stop.done..], false);
        match rest {
            Err(again) if is_no_space(again.errno) => {
                self.failed("durable write", pos, len, stop.errno)
            }
            _ => {
                let reason = format!("{}, for a write before it", io::Error::from(stop.errno));
                self.error("durable write", pos, len, MediumErrorKind::Io, &reason)
            }
        }
    }

    /// Lets the host make zeros; `false` if it cannot, of this range or at all.
    fn zero_range(&self, extent: Extent<Pos>) -> Result<bool, Errno> {
        if self.zero_range_unsupported.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, extent) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.zero_range_unsupported.store(true, Ordering::Relaxed);
                Ok(false)
            }
            // A block device makes zeros in whole sectors only.
            Err(Errno::INVAL) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn write_zeros(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        extent
            .pieces(ZEROS_BYTES as u64)
            .try_for_each(|piece| self.write(piece.start, &ZEROS[..piece.len as usize], false))
    }

    fn failed(&self, act: &str, pos: Pos, len: u64, errno: Errno) -> MediumError {
        let kind = if is_no_space(errno) { MediumErrorKind::NoSpace } else { MediumErrorKind::Io };
        self.error(act, pos, len, kind, &io::Error::from(errno).to_string())
    }

    fn error(&self, act: &str, pos: Pos, len: u64, kind: MediumErrorKind, why: &str) -> MediumError {
        let message = format!("{act} of {len} bytes at {} of {}: {why}", pos.0, self.path.display());
        MediumError { kind, message }
    }
}

/// A write ended early.
struct Stop {
    errno: Errno,
    /// Bytes that were written before.
    done: usize,
}

fn is_no_space(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

fn fallocate(file: &File, flags: FallocateFlags, extent: Extent<Pos>) -> Result<(), Errno> {
    if extent.is_empty() {
        return Ok(());
    }
    loop {
        match rustix::fs::fallocate(file, flags, extent.start.0, extent.len) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Medium for FileMedium {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        self.check("read", pos, into.len())?;
        let len = into.len() as u64;
        self.file.read_exact_at(into, pos.0).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                let reason = "the file ends before: it was cut short";
                return self.error("read", pos, len, MediumErrorKind::Io, reason);
            }
            self.failed("read", pos, len, errno_of(&error))
        })
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        self.check("write", pos, from.len())?;
        if durable {
            return self.write_durable(pos, from);
        }
        self.write_all(pos, from, false)
            .map_err(|stop| self.failed("write", pos, from.len() as u64, stop.errno))
    }

    fn sync(&self) -> Result<(), MediumError> {
        rustix::fs::fdatasync(&self.file).map_err(|errno| {
            let reason = io::Error::from(errno).to_string();
            self.error("sync", Pos(0), self.size, MediumErrorKind::Io, &reason)
        })
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.check("punch", extent.start, extent.len as usize)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, extent)
            .map_err(|errno| self.failed("punch", extent.start, extent.len, errno))
    }

    /// No destruction: what lay there may stay on the device. Only a write
    /// overwrites.
    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.check("zeroing", extent.start, extent.len as usize)?;
        match self.zero_range(extent) {
            Ok(true) => Ok(()),
            Ok(false) => self.write_zeros(extent),
            Err(errno) => Err(self.failed("zeroing", extent.start, extent.len, errno)),
        }
    }

    fn prefetch(&self, extent: Extent<Pos>) {
        if let Some(len) = NonZeroU64::new(extent.len) {
            let _ = rustix::fs::fadvise(&self.file, extent.start.0, Some(len), Advice::WillNeed);
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}
