//! Real media: a regular file, or a block device.
//!
//! Invariants:
//! 1. Nothing beyond the medium's size is read or written. A growing medium has the size of what
//!    was written to it: a write beyond its end makes it longer, once it is done, and only
//!    [`Medium::shrink`] makes it shorter.
//! 2. A read fills its buffer or fails: a file that was cut short is an error,
//!    never zeros.
//! 3. [`MediumErrorKind::NoSpace`] is told only where the write itself was
//!    refused. A sync that fails may have lost writes that were acknowledged:
//!    [`MediumErrorKind::Io`], whatever the host calls it.
//! 4. A host that cannot tell where a file has data is taken to say:
//!    everywhere.
//! 5. A sync makes a changed length durable too.
//! 6. A file that was deleted or cut off behind our back is noticed before anything is made
//!    durable, freed or written at its end, and nothing is from then on. A write at the end would
//!    make the file as long as it was, and the lost middle would read as zeros.
//! 7. A file whose name another one has taken holds what it held, and is noticed when a caller
//!    looks ([`SharedMedium::check_whole`]).

mod allocated;
mod direct;
mod disk_medium;
pub mod flash;
mod identity;
mod mtd_device;
mod probe;
pub mod root;
mod shadow;
mod uncached;

pub use disk_medium::DiskMedium;
pub use shadow::Shadow;
pub use uncached::Way;

use crate::base::lock::lock;
use direct::Direct;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use uncached::Uncached;

/// Bytes of zeros written at once where the host cannot make zeros itself.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Longest piece that goes into the host's cache at once. A host file system keeps
/// other writers out for that long; and Linux makes folios as long as the piece,
/// over all of which each later write of a few sectors walks (with 1 MiB, random
/// writes of 4 KiB were half as fast).
const PIECE_BYTES_MAX: usize = 128 << 10;
/// Longest file that a host can have.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// A medium that threads share.
pub trait SharedMedium: Medium + Send + Sync {
    /// Reads, if no wait for the device is needed; else nothing.
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>>;

    /// Checks that the medium still is the file that was opened, and as long.
    ///
    /// # Errors
    /// The change that was found; every later sync and durable write fails too.
    fn check_whole(&self) -> Result<(), MediumError>;
}

/// A regular file or a block device as a medium.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    path: PathBuf,
    size: AtomicU64,
    /// Writes beyond the end make the file longer.
    grows: bool,
    /// The file was made shorter since the last sync.
    has_shrunk: AtomicBool,
    is_device: bool,
    capabilities: Capabilities,
    /// Descriptor for passes, opened for the first of them.
    direct: OnceLock<Option<Direct>>,
    /// Descriptor for reads from the medium itself, opened for the first of them.
    uncached: OnceLock<Uncached>,
    /// The host cannot say whether a read would block.
    always_blocks: AtomicBool,
    /// Why written bytes may be lost. The host reports that once only, to whichever sync comes
    /// first: one goes on at a time, so that no sync is taken for a success meanwhile, and all fail
    /// from then on.
    lost: Mutex<Option<MediumError>>,
}

impl FileMedium {
    /// Opens what is at `path`. A block device is claimed for this process.
    ///
    /// # Errors
    /// The file cannot be opened, or is neither a regular file nor a block device.
    pub fn open(path: &Path, read_only: bool) -> io::Result<Self> {
        // Opening a pipe would wait for its other end.
        let kind = std::fs::metadata(path)?.file_type();
        let is_device = kind.is_block_device();
        if !is_device && !kind.is_file() {
            return Err(io::Error::other("not a regular file or block device"));
        }
        let exclusive =
            if is_device && !read_only { rustix::fs::OFlags::EXCL } else { rustix::fs::OFlags::empty() };
        let mut options = OpenOptions::new();
        options.read(true).write(!read_only).custom_flags(exclusive.bits().cast_signed());
        let mut file = options.open(path)?;
        let size = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        let punch = !is_device && !read_only && probe::can_punch(&file, path, size);
        Ok(Self {
            file,
            path: path.into(),
            size: AtomicU64::new(size),
            grows: false,
            has_shrunk: AtomicBool::new(false),
            is_device,
            capabilities: Capabilities { punch, erases: false },
            direct: OnceLock::new(),
            uncached: OnceLock::new(),
            always_blocks: AtomicBool::new(false),
            lost: Mutex::new(None),
        })
    }

    /// Opens the regular file at `path`, to grow with what is written to it.
    ///
    /// # Errors
    /// As for [`FileMedium::open`].
    pub fn open_growing(path: &Path, read_only: bool) -> io::Result<Self> {
        let medium = Self::open(path, read_only)?;
        if medium.is_device {
            return Err(io::Error::other("a block device cannot grow"));
        }
        Ok(Self { grows: !read_only, ..medium })
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Whether the medium is a block device.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// As [`Medium::read`], from the medium itself, as far as the host allows. Returns the way.
    ///
    /// # Errors
    /// As for [`Medium::read`].
    pub fn read_uncached(&self, pos: Pos, into: &mut [u8]) -> Result<Way, MediumError> {
        let len = into.len() as u64;
        self.check("reading", pos, len)?;
        let read = self.uncached().and_then(|it| it.read(pos, into));
        read.map_err(|error| self.failed("reading", pos.0, len, &error))
    }

    fn uncached(&self) -> io::Result<&Uncached> {
        if let Some(uncached) = self.uncached.get() {
            return Ok(uncached);
        }
        let opened = Uncached::open(&self.file)?;
        Ok(self.uncached.get_or_init(|| opened))
    }

    /// The parts without space, which read as zeros, in order. Empty on a block device, where
    /// nothing can be known.
    pub fn holes(&self) -> impl Iterator<Item = Extent<Pos>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.hole_from(at);
            at = self.data_from(start);
            (start < at).then(|| Extent::between(start, at))
        })
    }

    /// The parts of `extent` that have space, in order.
    pub fn data_within(&self, extent: Extent<Pos>) -> impl Iterator<Item = Extent<Pos>> + '_ {
        let mut at = extent.start.0;
        std::iter::from_fn(move || {
            let start = self.data_from(at).min(extent.end());
            at = self.hole_from(start).min(extent.end());
            (start < at).then(|| Extent::between(start, at))
        })
    }

    /// Checks that the medium still has a name, and is as long: half the cost of [`SharedMedium::check_whole`].
    fn look_here(&self) -> Result<(), MediumError> {
        self.look(|| identity::check_here(&self.file, || self.len()).map(drop))
    }

    /// Checks that a write of `len` bytes at `pos` makes no file that was cut off as long again.
    fn check_end(&self, pos: Pos, len: u64) -> Result<(), MediumError> {
        if pos.0 + len < self.len() { Ok(()) } else { self.note_change(self.look_here()) }
    }

    fn look(&self, look: impl Fn() -> io::Result<()>) -> Result<(), MediumError> {
        if self.is_device {
            return Ok(());
        }
        look().map_err(|error| MediumError {
            kind: MediumErrorKind::Io,
            message: format!("{}: {error}", self.path.display()),
        })
    }

    fn note_change(&self, looked: Result<(), MediumError>) -> Result<(), MediumError> {
        if let Err(error) = &looked {
            let mut lost = lock(&self.lost);
            lost.get_or_insert_with(|| error.clone());
        }
        looked
    }

    fn len(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Where the next data begins, from `at` on; the end if no data follows.
    fn data_from(&self, at: u64) -> u64 {
        self.seek(SeekFrom::Data(at)).unwrap_or(at).clamp(at, self.len().max(at))
    }

    /// Where the next hole begins, from `at` on; the end if no hole follows.
    fn hole_from(&self, at: u64) -> u64 {
        let size = self.len();
        self.seek(SeekFrom::Hole(at)).unwrap_or(size).clamp(at, size.max(at))
    }

    /// The position; `None` if the host cannot tell.
    fn seek(&self, from: SeekFrom) -> Option<u64> {
        if self.is_device {
            return None;
        }
        match rustix::fs::seek(&self.file, from) {
            Ok(at) => Some(at),
            // Nothing of the kind follows.
            Err(Errno::NXIO) => Some(self.len()),
            Err(_) => None,
        }
    }

    fn check(&self, act: &str, pos: Pos, len: u64) -> Result<(), MediumError> {
        self.check_within(act, pos, len, self.len())
    }

    /// Checks that a write lies where the medium is, or can grow to.
    fn check_write(&self, act: &str, pos: Pos, len: u64) -> Result<(), MediumError> {
        let limit = if self.grows { FILE_BYTES_MAX } else { self.len() };
        self.check_within(act, pos, len, limit)
    }

    fn check_within(&self, act: &str, pos: Pos, len: u64, limit: u64) -> Result<(), MediumError> {
        if Extent::<Pos>::within(pos.0, len, limit).is_some() {
            return Ok(());
        }
        let what = if self.grows {
            "more than a file can hold".into()
        } else {
            format!("the medium has {limit} bytes")
        };
        Err(self.failed(act, pos.0, len, &io::Error::other(what)))
    }

    /// Notes that bytes up to `end` have been written.
    fn grow(&self, end: u64) {
        if self.grows {
            self.size.fetch_max(end, Ordering::AcqRel);
        }
    }

    fn sync_file(&self) -> io::Result<()> {
        // `sync_data` does not owe the new length of a file that was cut.
        if self.has_shrunk.swap(false, Ordering::AcqRel) {
            self.file.sync_all()
        } else {
            self.file.sync_data()
        }
    }

    fn failed(&self, act: &str, pos: u64, len: u64, error: &io::Error) -> MediumError {
        let kind = if is_no_space(error) { MediumErrorKind::NoSpace } else { MediumErrorKind::Io };
        let message = format!("{act} {len} bytes at {pos} of {}: {error}", self.path.display());
        MediumError { kind, message }
    }

    /// A durable write that ends for want of space was refused itself, or its
    /// sync tells that an earlier one was lost. In the latter case the bytes
    /// have their space by now, and are taken when they are written again.
    fn write_durable(&self, pos: u64, from: &[u8]) -> io::Result<()> {
        let written = self.write_and_sync(pos, from);
        match written {
            Err(error) if is_no_space(&error) => match self.file.write_all_at(from, pos) {
                Err(again) if is_no_space(&again) => Err(again),
                _ => Err(lost(&error)),
            },
            written => written,
        }
    }

    /// Makes something durable while no other thread does, unless an earlier one
    /// failed.
    fn alone(&self, act: impl FnOnce() -> Result<(), MediumError>) -> Result<(), MediumError> {
        let mut lost = lock(&self.lost);
        if let Some(error) = &*lost {
            return Err(error.clone());
        }
        let done = self.look_here().and_then(|()| act());
        if let Err(error) = &done
            && error.kind == MediumErrorKind::Io
        {
            *lost = Some(error.clone());
        }
        done
    }

    /// Writes through the host's cache.
    fn write_pieces(&self, pos: u64, from: &[u8]) -> io::Result<()> {
        let mut pieces = from.chunks(PIECE_BYTES_MAX).zip((pos..).step_by(PIECE_BYTES_MAX));
        pieces.try_for_each(|(piece, at)| self.file.write_all_at(piece, at))
    }

    fn write_and_sync(&self, pos: u64, from: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < from.len() {
            let (at, rest) = (pos + done as u64, &from[done..]);
            match rustix::io::pwritev2(&self.file, &[IoSlice::new(rest)], at, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.file.write_all_at(rest, at)?;
                    return self.file.sync_data().map_err(|error| lost(&error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sets whether passes leave most of the time to others.
    pub fn be_gentle(&self, gentle: bool) {
        if let Some(Some(direct)) = self.direct.get() {
            direct.be_gentle(gentle);
        }
    }

    /// Writes as much of `from` as can go around the cache, and returns how much.
    fn write_direct(&self, pos: Pos, from: &[u8]) -> io::Result<usize> {
        let direct = self.direct.get_or_init(|| Direct::open(&self.file, self.is_device));
        direct.as_ref().map_or(Ok(0), |direct| direct.write(pos, from))
    }

    fn allocate(&self, flags: FallocateFlags, extent: Extent<Pos>) -> Result<(), Errno> {
        if extent.is_empty() {
            return Ok(());
        }
        let flags = flags | FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, extent.start.0, extent.len))
    }

    fn write_zeros(&self, extent: Extent<Pos>) -> io::Result<()> {
        let mut pieces = extent.pieces(ZEROS.len() as u64);
        pieces.try_for_each(|piece| self.file.write_all_at(&ZEROS[..piece.len as usize], piece.start.0))
    }
}

impl Medium for FileMedium {
    fn size(&self) -> u64 {
        self.len()
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let len = into.len() as u64;
        self.check("reading", pos, len)?;
        self.file.read_exact_at(into, pos.0).map_err(|error| {
            // A file that was cut off has an error of its own.
            let cut = self.check_whole().err().filter(|_| error.kind() == io::ErrorKind::UnexpectedEof);
            cut.unwrap_or_else(|| self.failed("reading", pos.0, len, &error))
        })
    }

    fn read_vectored(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Result<(), MediumError> {
        let len: usize = into.iter().map(|part| part.len()).sum();
        self.check("reading", pos, len as u64)?;
        if matches!(rustix::io::preadv(&self.file, into, pos.0), Ok(read) if read == len) {
            return Ok(());
        }
        // The host may read less than it was asked for. What fails is told by reading it alone.
        let mut at = pos.0;
        into.iter_mut().try_for_each(|part| {
            let pos = Pos(at);
            at += part.len() as u64;
            self.read(pos, part)
        })
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        self.check_write("writing", pos, from.len() as u64)?;
        let failed = |error| self.failed("writing", pos.0, from.len() as u64, &error);
        if durable {
            self.alone(|| self.write_durable(pos.0, from).map_err(failed))?;
        } else {
            self.check_end(pos, from.len() as u64)?;
            self.write_pieces(pos.0, from).map_err(failed)?;
        }
        self.grow(pos.0 + from.len() as u64);
        Ok(())
    }

    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        self.check_write("overwriting", pos, from.len() as u64)?;
        self.check_end(pos, from.len() as u64)?;
        let written = self
            .write_direct(pos, from)
            .and_then(|done| self.write_pieces(pos.0 + done as u64, &from[done..]));
        written.map_err(|error| self.failed("overwriting", pos.0, from.len() as u64, &error))?;
        self.grow(pos.0 + from.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        let failed = |error| self.failed("syncing", 0, self.len(), &lost(&error));
        self.alone(|| self.sync_file().map_err(failed))
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        // A growing medium has no space beyond its end.
        let whole = Extent::new(0, self.len());
        let extent = if self.grows { extent.overlap(whole).unwrap_or_default() } else { extent };
        self.check("punching", extent.start, extent.len)?;
        self.check_whole()?;
        let punched = self.allocate(FallocateFlags::PUNCH_HOLE, extent);
        punched.map_err(|error| self.failed("punching", extent.start.0, extent.len, &error.into()))
    }

    /// Destroys nothing: what lay there may stay on the device below. Only a
    /// write overwrites.
    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.check("zeroing", extent.start, extent.len)?;
        self.check_whole()?;
        let zeroed = match self.allocate(FallocateFlags::ZERO_RANGE, extent) {
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS | Errno::INVAL) => self.write_zeros(extent),
            other => other.map_err(io::Error::from),
        };
        zeroed.map_err(|error| self.failed("zeroing", extent.start.0, extent.len, &error))
    }

    /// Where the host cannot give space in advance, it may refuse the write later.
    fn reserve(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        if self.is_device {
            let is_there = extent.end() <= self.len();
            let full = || self.failed("allocating", extent.start.0, extent.len, &Errno::NOSPC.into());
            return if is_there { Ok(()) } else { Err(full()) };
        }
        self.check_write("allocating", extent.start, extent.len)?;
        self.check_whole()?;
        match self.allocate(FallocateFlags::empty(), extent) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(self.failed("allocating", extent.start.0, extent.len, &error.into())),
        }
    }

    fn shrink(&self, bytes: u64) -> Result<(), MediumError> {
        let size = self.len();
        if bytes >= size {
            return Ok(());
        }
        let failed = |error| self.failed("truncating", bytes, size - bytes, &error);
        if !self.grows {
            return Err(failed(io::Error::other("the size is fixed")));
        }
        self.check_whole()?;
        // A reader that finds the file shorter must find the size changed already.
        self.size.store(bytes, Ordering::Release);
        self.file.set_len(bytes).map_err(|error| {
            self.grow(size);
            failed(error)
        })?;
        self.has_shrunk.store(true, Ordering::Release);
        Ok(())
    }

    fn allocated(&self, extent: Extent<Pos>) -> Vec<Extent<Pos>> {
        match allocated::allocated(&self.file, extent) {
            Ok(found) if !self.is_device => found,
            _ if allocated::is_in_memory(&self.file) => self.data_within(extent).collect(),
            _ => vec![extent],
        }
    }

    fn next_data(&self, pos: Pos) -> Pos {
        Pos(self.data_from(pos.0))
    }

    fn prefetch(&self, extent: Extent<Pos>) {
        // No length would mean: to the end of the file.
        if let Some(len) = std::num::NonZeroU64::new(extent.len) {
            // Advice: nothing depends on it.
            let _ = rustix::fs::fadvise(&self.file, extent.start.0, Some(len), Advice::WillNeed);
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

impl SharedMedium for FileMedium {
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        if self.always_blocks.load(Ordering::Relaxed) {
            return None;
        }
        let len: usize = into.iter().map(|part| part.len()).sum();
        match rustix::io::preadv2(&self.file, into, pos.0, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == len => Some(Ok(())),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.always_blocks.store(true, Ordering::Relaxed);
                None
            }
            _ => None,
        }
    }

    fn check_whole(&self) -> Result<(), MediumError> {
        self.note_change(self.look(|| identity::check(&self.file, &self.path, || self.len())))
    }
}

pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The meaning of a failed sync: never only a lack of space.
fn lost(error: &io::Error) -> io::Error {
    io::Error::other(format!("earlier writes may be lost: {error}"))
}

#[cfg(test)]
mod tests;
