//! Real media: a regular file, or a block device.

use quietus_core::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use quietus_core::units::{Extent, Pos};
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of zeros written at once where the host cannot make zeros itself.
const ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// A pass is written in pieces of this size: a host file system keeps other
/// writers of the file out for the length of one write.
const WRITE_BYTES_MAX: usize = 128 << 10;

/// A regular file or a block device as a medium.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    path: PathBuf,
    size: u64,
    is_device: bool,
    capabilities: Capabilities,
    /// The host cannot say whether a read would block.
    always_blocks: AtomicBool,
}

impl FileMedium {
    /// Opens what is at `path`. A block device is claimed for this process.
    ///
    /// # Errors
    /// It cannot be opened, or is neither a regular file nor a block device.
    pub fn open(path: &Path, read_only: bool) -> io::Result<Self> {
        let is_device = std::fs::metadata(path)?.file_type().is_block_device();
        let exclusive = if is_device && !read_only { rustix::fs::OFlags::EXCL } else { rustix::fs::OFlags::empty() };
        let mut options = OpenOptions::new();
        options.read(true).write(!read_only).custom_flags(exclusive.bits() as i32);
        let mut file = options.open(path)?;
        if !is_device && !file.metadata()?.is_file() {
            return Err(io::Error::other("it is neither a regular file nor a block device"));
        }
        let size = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        let punch = !is_device && !read_only && can_punch(&file, size);
        let capabilities = Capabilities { punch };
        let always_blocks = AtomicBool::new(false);
        Ok(Self { file, path: path.into(), size, is_device, capabilities, always_blocks })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is a block device.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Reads if that does not have to wait for the device; else nothing.
    pub fn read_cached(&self, pos: Pos, into: &mut [u8]) -> Option<Result<(), MediumError>> {
        if self.always_blocks.load(Ordering::Relaxed) {
            return None;
        }
        let len = into.len();
        let mut slices = [IoSliceMut::new(into)];
        match rustix::io::preadv2(&self.file, &mut slices, pos.0, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == len => Some(Ok(())),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.always_blocks.store(true, Ordering::Relaxed);
                None
            }
            _ => None,
        }
    }

    /// The parts that have no space and so read as zeros, in order. None on a
    /// block device, where nothing can be known.
    pub fn holes(&self) -> impl Iterator<Item = Extent<Pos>> + '_ {
        let mut at = if self.is_device { self.size } else { 0 };
        std::iter::from_fn(move || {
            let hole = self.seek(SeekFrom::Hole(at)).filter(|hole| *hole < self.size)?;
            let end = self.seek(SeekFrom::Data(hole)).unwrap_or(self.size).clamp(hole, self.size);
            at = end;
            (hole < end).then(|| Extent::between(hole, end))
        })
    }

    /// The parts of `extent` that have space, in order.
    pub fn data_within(&self, extent: Extent<Pos>) -> impl Iterator<Item = Extent<Pos>> + '_ {
        let mut at = extent.start.0;
        std::iter::from_fn(move || {
            if self.is_device {
                let rest = Extent::between(at, extent.end());
                at = extent.end();
                return (!rest.is_empty()).then_some(rest);
            }
            let data = self.seek(SeekFrom::Data(at)).filter(|data| *data < extent.end())?;
            at = self.seek(SeekFrom::Hole(data)).unwrap_or(self.size).clamp(data, extent.end());
            (data < at).then(|| Extent::between(data, at))
        })
    }

    fn seek(&self, from: SeekFrom) -> Option<u64> {
        let (SeekFrom::Hole(at) | SeekFrom::Data(at)) = from else { return None };
        (at < self.size).then(|| rustix::fs::seek(&self.file, from).ok())?
    }

    fn failed(&self, act: &str, pos: u64, len: u64, error: &io::Error) -> MediumError {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let kind = if full { MediumErrorKind::NoSpace } else { MediumErrorKind::Io };
        let message = format!("{act} {len} bytes at {pos} of {}: {error}", self.path.display());
        MediumError { kind, message }
    }

    fn write_durable(&self, pos: u64, from: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < from.len() {
            let slices = [IoSlice::new(&from[done..])];
            match rustix::io::pwritev2(&self.file, &slices, pos + done as u64, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.file.write_all_at(&from[done..], pos + done as u64)?;
                    return self.file.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_zeros(&self, extent: Extent<Pos>) -> io::Result<()> {
        let mut pieces = extent.pieces(ZEROS.len() as u64);
        pieces.try_for_each(|piece| self.file.write_all_at(&ZEROS[..piece.len as usize], piece.start.0))
    }
}

impl Medium for FileMedium {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let len = into.len() as u64;
        let read = self.file.read_exact_at(into, pos.0);
        read.map_err(|error| self.failed("reading", pos.0, len, &error))
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        let written = if durable {
            self.write_durable(pos.0, from)
        } else {
            let mut pieces = from.chunks(WRITE_BYTES_MAX).enumerate();
            pieces.try_for_each(|(n, piece)| self.file.write_all_at(piece, pos.0 + (n * WRITE_BYTES_MAX) as u64))
        };
        written.map_err(|error| self.failed("writing", pos.0, from.len() as u64, &error))
    }

    fn sync(&self) -> Result<(), MediumError> {
        self.file.sync_data().map_err(|error| self.failed("syncing", 0, self.size, &error))
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = rustix::fs::fallocate(&self.file, flags, extent.start.0, extent.len);
        punched.map_err(|error| self.failed("punching", extent.start.0, extent.len, &error.into()))
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        let zeroed = match rustix::fs::fallocate(&self.file, flags, extent.start.0, extent.len) {
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS | Errno::INVAL) => self.write_zeros(extent),
            other => other.map_err(io::Error::from),
        };
        zeroed.map_err(|error| self.failed("zeroing", extent.start.0, extent.len, &error))
    }

    fn prefetch(&self, extent: Extent<Pos>) {
        let len = std::num::NonZeroU64::new(extent.len);
        // Advice: nothing depends on it.
        let _ = rustix::fs::fadvise(&self.file, extent.start.0, len, Advice::WillNeed);
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

/// Found out by doing it, beyond the end, where nothing is.
fn can_punch(file: &File, size: u64) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, flags, size.next_multiple_of(4096), 4096).is_ok()
}

#[cfg(test)]
mod tests;
