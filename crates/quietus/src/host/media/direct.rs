//! Passes that go around the host's cache: through it each costs a copy, drives
//! what readers want out of it, and keeps other writers of the file waiting.
//! See `docs/decisions/0005-passes-around-the-cache.md`.
//!
//! Invariants:
//! 1. Only whole windows of [`WINDOW_BYTES`] are written, and no other thread writes
//!    to them meanwhile. The host caches in folios that are no larger and lie
//!    within one window each. A folio that is half in a pass and half in use
//!    could be made dirty during the pass; Linux cannot drop it then, and
//!    counts the pass as a write that was lost.
//! 2. Through `io_uring`: the lock on the file that keeps other writers waiting
//!    is given back as soon as a pass was handed over. With a plain write it is
//!    kept until the medium has it all.
//! 3. A buffer is not let go before the host is done with it.

use super::uncached::reopened;
use crate::base::lock::lock;
use io_uring::{IoUring, opcode, types};
use quietus_core::base::units::Pos;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The largest folio of a host with pages of 4 KiB: what one entry of its
/// page middle directory maps.
const WINDOW_BYTES: usize = 2 << 20;
/// Bytes in one piece of a pass while other requests use the medium, and the length of the pause
/// after it, in times of what the piece took.
const GENTLE_BYTES: usize = 64 << 10;
const GENTLE_PAUSE: u32 = 9;
/// The size of a page for which [`WINDOW_BYTES`] is right.
const PAGE_BYTES: usize = 4096;
/// `statfs` of the file systems whose cache is known to follow a direct write:
/// ext2, 3 and 4, and XFS.
const COHERENT: [u64; 2] = [0xef53, 0x5846_5342];

/// A second descriptor of a medium, around the host's cache.
pub(super) struct Direct {
    file: File,
    /// Rings, one for each pass under way at once, kept for the next.
    rings: Mutex<Vec<IoUring>>,
    /// The host has refused once.
    is_refused: AtomicBool,
    /// Other requests use the medium.
    is_gentle: AtomicBool,
}

impl Direct {
    /// Opens the same medium as `file`; nothing where the host is not known to support that.
    pub(super) fn open(file: &File, is_device: bool) -> Option<Self> {
        let kind = rustix::fs::fstatfs(file).map(|found| found.f_type as u64);
        let is_supported = is_device || kind.is_ok_and(|kind| COHERENT.contains(&kind));
        if rustix::param::page_size() != PAGE_BYTES || !is_supported {
            return None;
        }
        let file = reopened(file, OpenOptions::new().write(true), OFlags::DIRECT).ok()?;
        let rings = Mutex::new(vec![IoUring::new(1).ok()?]);
        Some(Self { file, rings, is_refused: AtomicBool::new(false), is_gentle: AtomicBool::new(false) })
    }

    /// Writes `from` at `pos`, and returns how many bytes, from its start: 0 where another way
    /// is needed.
    ///
    /// # Errors
    /// Errors of the medium.
    pub(super) fn write(&self, pos: Pos, from: &[u8]) -> io::Result<usize> {
        if !is_whole(pos, from) || self.is_refused.load(Ordering::Relaxed) {
            return Ok(0);
        }
        match self.write_pieces(pos, from) {
            Err(error) if is_refusal(&error) => {
                self.is_refused.store(true, Ordering::Relaxed);
                Ok(0)
            }
            written => written,
        }
    }

    /// Sets whether others have the medium for most of the time.
    pub(super) fn be_gentle(&self, gentle: bool) {
        self.is_gentle.store(gentle, Ordering::Relaxed);
    }

    /// Writes all at once, or, gently, in small pieces with pauses: other requests then wait for one piece
    /// at most.
    fn write_pieces(&self, pos: Pos, from: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < from.len() {
            if !self.is_gentle.load(Ordering::Relaxed) {
                return Ok(done + self.hand_over(Pos(pos.0 + done as u64), &from[done..])?);
            }
            let began = Instant::now();
            let piece = &from[done..from.len().min(done + GENTLE_BYTES)];
            match self.hand_over(Pos(pos.0 + done as u64), piece)? {
                0 => return Ok(done),
                written => done += written,
            }
            std::thread::sleep(began.elapsed() * GENTLE_PAUSE);
        }
        Ok(done)
    }

    fn hand_over(&self, pos: Pos, from: &[u8]) -> io::Result<usize> {
        let kept = lock(&self.rings).pop();
        let mut ring = kept.map_or_else(|| IoUring::new(1), Ok)?;
        // A ring that failed is not kept: its unfinished writes would follow later.
        let result = submit(&mut ring, &self.file, pos, from)?;
        lock(&self.rings).push(ring);
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
    }
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direct").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Whether the write is of whole windows, from memory that the host can use as it is.
fn is_whole(pos: Pos, from: &[u8]) -> bool {
    let windows = pos.0.is_multiple_of(WINDOW_BYTES as u64) && from.len().is_multiple_of(WINDOW_BYTES);
    windows && !from.is_empty() && (from.as_ptr() as usize).is_multiple_of(PAGE_BYTES)
}

/// Whether the host says that it does not support this, or not here.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM, Errno::AGAIN, Errno::NOMEM];
    refusals.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Writes, and waits for the end: bytes written, or an error's number below zero.
fn submit(ring: &mut IoUring, file: &File, pos: Pos, from: &[u8]) -> io::Result<i32> {
    let file = types::Fd(file.as_raw_fd());
    let write = opcode::Write::new(file, from.as_ptr(), from.len() as u32).offset(pos.0).build();
    // SAFETY: `from` and the file outlive the write (invariant 3): this returns
    // when its end was told, or when the host has not taken it from a ring that
    // is then given up.
    unsafe { ring.submission().push(&write) }.map_err(io::Error::other)?;
    loop {
        let waited = ring.submit_and_wait(1);
        if let Some(done) = ring.completion().next() {
            return Ok(done.result());
        }
        let is_taken = ring.submission().is_empty();
        match waited {
            Err(error) if !is_taken && error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
