//! Reads that show what is on the medium, and not what is in the host's cache.
//!
//! 1. Where the host says that it can read this file around its cache (`O_DIRECT`), that is done.
//!    The host says so of the file, not of the file system: a file with data in its journal, or
//!    inline, would quietly be read through the cache.
//! 2. Elsewhere the file is synced and the host is asked to drop its pages; if it says
//!    that no page is left, the read that follows fetches them from the medium.
//! 3. If pages stay, as pages of a file in memory do, the reader is told so.

use quietus_core::base::units::{Extent, Pos};
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Bytes of a window. Pages are dropped in whole windows: the host keeps a folio that
/// reaches beyond what it is asked to drop.
const WINDOW_BYTES: u64 = 2 << 20;
/// How often the host is asked to drop pages. Another reader may bring them back.
const TRIES: usize = 3;

/// How some bytes were read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// From the medium, around the host's cache.
    AroundCache,
    /// From the medium: the host's cache had been emptied there.
    AfterEviction,
    /// Perhaps from the host's cache, which could not be emptied there.
    FromCache,
}

impl Way {
    /// The name in a proof.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AroundCache => "around-cache",
            Self::AfterEviction => "after-eviction",
            Self::FromCache => "from-cache",
        }
    }
}

/// Further descriptors of a medium.
#[derive(Debug)]
pub(super) struct Uncached {
    /// Descriptor around the host's cache, if the host supports that.
    direct: Option<Direct>,
    /// Descriptor through the cache, without read-ahead.
    plain: File,
}

#[derive(Debug)]
struct Direct {
    file: File,
    /// Alignment of positions, lengths and memory, bytes.
    align: usize,
}

impl Uncached {
    /// Opens the same medium as `file`.
    pub(super) fn open(file: &File) -> io::Result<Self> {
        let plain = reopened(file, OpenOptions::new().read(true), OFlags::empty())?;
        // Advice: nothing depends on it but time.
        let _ = rustix::fs::fadvise(&plain, 0, None, Advice::Random);
        let direct = alignment(file).and_then(|align| {
            let file = reopened(file, OpenOptions::new().read(true), OFlags::DIRECT).ok()?;
            Some(Direct { file, align })
        });
        Ok(Self { direct, plain })
    }

    /// Fills `into` with the bytes at `pos`, and returns the way.
    ///
    /// # Errors
    /// Errors of the medium, or the medium ends before.
    pub(super) fn read(&self, pos: Pos, into: &mut [u8]) -> io::Result<Way> {
        if let Some(direct) = &self.direct {
            match direct.read(pos, into) {
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
                read => return read.map(|()| Way::AroundCache),
            }
        }
        let is_evicted = self.evict(Extent::new(pos.0, into.len() as u64))?;
        self.plain.read_exact_at(into, pos.0)?;
        Ok(if is_evicted { Way::AfterEviction } else { Way::FromCache })
    }

    /// Drops the host's pages of `extent`; returns whether all are gone.
    fn evict(&self, extent: Extent<Pos>) -> io::Result<bool> {
        let start = extent.start.0 / WINDOW_BYTES * WINDOW_BYTES;
        let len = std::num::NonZeroU64::new(extent.end().next_multiple_of(WINDOW_BYTES) - start);
        for attempt in 0..TRIES {
            if attempt > 0 {
                // Pages that are not on the medium yet stay.
                rustix::fs::fdatasync(&self.plain)?;
            }
            rustix::fs::fadvise(&self.plain, start, len, Advice::DontNeed)?;
            if !is_cached(&self.plain, extent)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Direct {
    fn read(&self, pos: Pos, into: &mut [u8]) -> io::Result<()> {
        let align = self.align as u64;
        let start = pos.0 / align * align;
        let end = (pos.0 + into.len() as u64).next_multiple_of(align);
        let len = (end - start) as usize;
        let mut memory = vec![0; len + self.align];
        let from = memory.as_ptr().align_offset(self.align);
        let window = &mut memory[from..from + len];
        let skipped = (pos.0 - start) as usize;
        // The last block of a file may be shorter.
        let wanted = skipped + into.len();
        let mut done = 0;
        while done < wanted {
            match self.file.read_at(&mut window[done..], start + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        into.copy_from_slice(&window[skipped..wanted]);
        Ok(())
    }
}

/// A further descriptor of the same file.
pub(super) fn reopened(file: &File, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    options.custom_flags(flags.bits().cast_signed()).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Alignment that the host wants for reads around its cache; `None` if it does not support them, or
/// does not say (before Linux 6.1).
fn alignment(file: &File) -> Option<usize> {
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let align = found.stx_dio_mem_align.max(found.stx_dio_offset_align) as usize;
    (told && align.is_power_of_two()).then_some(align)
}

/// Whether the host has pages of `extent` in its cache.
fn is_cached(file: &File, extent: Extent<Pos>) -> io::Result<bool> {
    let page = rustix::param::page_size() as u64;
    let start = extent.start.0 / page * page;
    let len = (extent.end() - start) as usize;
    let mut pages = vec![0_u8; len.div_ceil(page as usize)];
    if pages.is_empty() {
        return Ok(false);
    }
    // SAFETY: a new mapping, which no code reads or writes and which is gone at the end,
    // and a vector with a byte for each of its pages.
    let asked = unsafe {
        let (null, fd, at) = (std::ptr::null_mut(), file.as_raw_fd(), start.cast_signed());
        let map = libc::mmap(null, len, libc::PROT_READ, libc::MAP_SHARED, fd, at);
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let asked = libc::mincore(map, len, pages.as_mut_ptr());
        let error = io::Error::last_os_error();
        libc::munmap(map, len);
        if asked == 0 { Ok(()) } else { Err(error) }
    };
    asked.map(|()| pages.iter().any(|page| page & 1 != 0))
}

#[cfg(test)]
mod tests;
