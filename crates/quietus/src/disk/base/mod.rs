//! The base image below overlays.
//!
//! Invariants:
//! 1. The base is never written to, and is locked (`flock`, shared) while it is open: no
//!    disk has it as its medium meanwhile.
//! 2. One file, one lock and one set of blocks serve all overlays of this
//!    process that have the same base.
//! 3. A base whose length or time of change differs is used only once its content is found to be
//!    the same.

use super::config::overlay::OverlayToml;
use super::{DiskError, DiskErrorKind, Step};
use crate::base::hex::hex;
use crate::host::directory::{DirectoryError, DirectoryErrorKind, in_use, patiently};
use crate::host::media::{FileMedium, SharedMedium};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use rustix::fs::FlockOperation;
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Bytes that are hashed, or left out as nothing but zeros, as a whole.
const PIECE_BYTES: u64 = 64 << 10;
/// Bytes read at once.
const READ_BYTES: u64 = 1 << 20;

/// Device and inode.
type FileId = (u64, u64);

/// The bases that are open in this process.
static OPEN: LazyLock<Mutex<HashMap<FileId, Weak<Base>>>> = LazyLock::new(Mutex::default);

/// An open base image. As a medium it has no end: what lies beyond its bytes
/// reads as zeros.
#[derive(Debug)]
pub struct Base {
    medium: FileMedium,
    path: PathBuf,
    /// Length and time of change when it was opened.
    stamp: Stamp,
    data: Arc<BlockSet>,
    hash: Mutex<Option<String>>,
}

/// Properties of a file that change when its content does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    bytes: u64,
    mtime_ns: i64,
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        let mtime_ns = file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec());
        Self { bytes: file.len(), mtime_ns }
    }
}

impl Base {
    /// The image at `path`, shared with every disk of this process that has it open.
    ///
    /// # Errors
    /// [`DiskError`]: the image is missing, is no regular file, or another process may write to it.
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, DiskError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => DiskErrorKind::BaseMissing.at(path),
            _ => DirectoryErrorKind::Io("open the base image").of(path, error).into(),
        };
        let found = std::fs::metadata(path).map_err(failed)?;
        if !found.is_file() {
            let what =
                "the base image is not a regular file; copy it to one, so that a change can be noticed";
            return Err(DiskErrorKind::Invalid(what.into()).at(path));
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(base) = open.get(&(found.dev(), found.ino())).and_then(Weak::upgrade) {
            return Ok(base);
        }
        let medium = FileMedium::open(path, true).map_err(failed)?;
        patiently(|| lock_shared(&medium, path))?;
        let found = medium.file().metadata().map_err(failed)?;
        let mut data = BlockSet::default();
        for run in medium.data_within(Extent::new(0, medium.size())) {
            data.insert(Extent::new(run.start.0, run.len));
        }
        let base = Arc::new(Self {
            medium,
            path: path.into(),
            stamp: Stamp::of(&found),
            data: Arc::new(data),
            hash: Mutex::default(),
        });
        open.retain(|_, base| base.strong_count() > 0);
        open.insert((found.dev(), found.ino()), Arc::downgrade(&base));
        Ok(base)
    }

    /// Path of the image.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The blocks in which the base holds data.
    #[must_use]
    pub fn data(&self) -> &Arc<BlockSet> {
        &self.data
    }

    /// The table `overlay` of `disk.toml` for this base, whose path there is `base`.
    ///
    /// # Errors
    /// [`DiskError`]: the base cannot be read, or changes meanwhile.
    pub(super) fn describe(&self, base: PathBuf, step: Step<'_>) -> Result<OverlayToml, DiskError> {
        Ok(describe(self.stamp, base, self.hash(step)?))
    }

    /// As [`Base::describe`], for a base that was written to since it was opened.
    ///
    /// # Errors
    /// The base cannot be read.
    pub(crate) fn describe_anew(&self, base: PathBuf, step: Step<'_>) -> Result<OverlayToml, DiskError> {
        let failed = |error| DirectoryErrorKind::Io("read the base image").of(&self.path, error);
        let stamp = Stamp::of(&self.medium.file().metadata().map_err(failed)?);
        let medium = FileMedium::open(&self.path, true).map_err(failed)?;
        Ok(describe(stamp, base, digest(&medium, &self.path, step)?))
    }

    /// Locks every other process out of the base, before it is written to.
    ///
    /// # Errors
    /// [`DirectoryErrorKind::Locked`]: another overlay has it open.
    pub(crate) fn lock_alone(self: &Arc<Self>) -> Result<(), DiskError> {
        let used = |by: &str| Err(DirectoryErrorKind::Locked(by.into()).at(&self.path).into());
        if Arc::strong_count(self) > 1 {
            return used("another overlay of this process");
        }
        match rustix::fs::flock(self.medium.file(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(_) => used("another overlay"),
        }
    }

    /// Checks that the base is the one in `known`. If only its time of change differs, returns the
    /// new one.
    ///
    /// # Errors
    /// [`DiskErrorKind::BaseChanged`], or the base cannot be read.
    pub(crate) fn check(&self, known: &OverlayToml, step: Step<'_>) -> Result<Option<i64>, DiskError> {
        let changed = |how: String| DiskErrorKind::BaseChanged(how).at(&self.path);
        self.check_unchanged()?;
        if self.stamp.bytes != known.base_bytes {
            return Err(changed(format!("{} bytes, before {}", self.stamp.bytes, known.base_bytes)));
        }
        if self.stamp.mtime_ns == known.base_mtime_ns {
            return Ok(None);
        }
        if self.hash(step)? != known.base_hash {
            return Err(changed("other content".into()));
        }
        Ok(Some(self.stamp.mtime_ns))
    }

    /// The hash of the content: of its length, and of each piece of 64 KiB that is not all zeros,
    /// with its number before it. So a copy with other holes has the same hash.
    ///
    /// # Errors
    /// [`DiskError`]: the base cannot be read, or changes meanwhile.
    pub(super) fn hash(&self, step: Step<'_>) -> Result<String, DiskError> {
        let mut known = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = &*known {
            return Ok(hash.clone());
        }
        let hash = digest(&self.medium, &self.path, step)?;
        self.check_unchanged()?;
        Ok(known.insert(hash).clone())
    }

    fn check_unchanged(&self) -> Result<(), DiskError> {
        let failed = |error| DirectoryErrorKind::Io("read the base image").of(&self.path, error);
        let now = self.medium.file().metadata().map_err(failed)?;
        if Stamp::of(&now) == self.stamp {
            return Ok(());
        }
        Err(DiskErrorKind::BaseChanged("while it was open".into()).at(&self.path))
    }

    /// The parts of `into`, which is to be read at `pos`, within the file and
    /// beyond its end.
    fn inside<'a>(&self, pos: Pos, into: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8]) {
        let len = self.medium.size().saturating_sub(pos.0).min(into.len() as u64);
        into.split_at_mut(len as usize)
    }

    fn refused<T>(&self) -> Result<T, MediumError> {
        let message = format!("cannot change {}: it is a base image", self.path.display());
        Err(MediumError { kind: MediumErrorKind::Io, message })
    }
}

fn describe(stamp: Stamp, base: PathBuf, base_hash: String) -> OverlayToml {
    let Stamp { bytes: base_bytes, mtime_ns: base_mtime_ns } = stamp;
    OverlayToml { base, base_bytes, base_mtime_ns, base_hash, committing: None }
}

/// Locks out every process that would write to the base.
fn lock_shared(medium: &FileMedium, path: &Path) -> Result<(), DirectoryError> {
    let failed = |error| DirectoryErrorKind::Io("find the processes that use the base image").of(path, error);
    let by_kernel = in_use::by_kernel(Path::new("/sys"), Path::new("/proc"), path).map_err(failed)?;
    let by_writer = in_use::by_writer(Path::new("/proc"), medium.file()).map_err(failed)?;
    if let Some(by) = by_kernel.or(by_writer) {
        return Err(DirectoryErrorKind::Locked(by).at(path));
    }
    let locked = rustix::fs::flock(medium.file(), FlockOperation::NonBlockingLockShared);
    locked.map_err(|_| DirectoryErrorKind::Locked("another program".into()).at(path))
}

fn digest(medium: &FileMedium, path: &Path, step: Step<'_>) -> Result<String, DiskError> {
    let size = medium.size();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&size.to_le_bytes());
    let mut buf = vec![0; READ_BYTES as usize];
    let mut at = 0;
    for data in medium.data_within(Extent::new(0, size)) {
        let from = (data.start.0 / PIECE_BYTES * PIECE_BYTES).max(at);
        let to = data.end().next_multiple_of(PIECE_BYTES).min(size);
        at = to.max(from);
        for part in Extent::<Pos>::between(from, at).pieces(READ_BYTES) {
            let buf = &mut buf[..part.len as usize];
            let read = medium.read(part.start, buf);
            read.map_err(|error| {
                DirectoryErrorKind::Io("read the base image").of(path, io::Error::other(error))
            })?;
            add_pieces(&mut hasher, part.start, buf);
            if !step(part.end(), size) {
                return Err(DirectoryErrorKind::Interrupted.at(path).into());
            }
        }
    }
    Ok(format!("blake3:{}", hex(hasher.finalize().as_bytes())))
}

fn add_pieces(hasher: &mut blake3::Hasher, start: Pos, bytes: &[u8]) {
    let numbers = start.0 / PIECE_BYTES..;
    for (number, piece) in numbers.zip(bytes.chunks(PIECE_BYTES as usize)) {
        if !is_zeros(piece) {
            hasher.update(&number.to_le_bytes());
            hasher.update(piece);
        }
    }
}

impl Medium for Base {
    fn size(&self) -> u64 {
        self.medium.size()
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let (inside, beyond) = self.inside(pos, into);
        beyond.fill(0);
        if inside.is_empty() { Ok(()) } else { self.medium.read(pos, inside) }
    }

    fn write(&self, _: Pos, _: &[u8], _: bool) -> Result<(), MediumError> {
        self.refused()
    }

    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }

    fn punch(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        self.refused()
    }

    fn zero(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        self.refused()
    }

    fn prefetch(&self, extent: Extent<Pos>) {
        self.medium.prefetch(extent);
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: false, erases: false }
    }
}

impl SharedMedium for Base {
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        let mut next = pos.0;
        for part in into {
            let (at, len) = (Pos(next), part.len() as u64);
            next += len;
            let (inside, beyond) = self.inside(at, part);
            beyond.fill(0);
            if !inside.is_empty() {
                let read = self.medium.read_cached(at, &mut [IoSliceMut::new(inside)])?;
                if read.is_err() {
                    return Some(read);
                }
            }
        }
        Some(Ok(()))
    }

    /// A changed base is found when it is opened, and by its stamp.
    fn check_whole(&self) -> Result<(), MediumError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
