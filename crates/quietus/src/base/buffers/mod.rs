//! Payload buffers, used again and again: a fresh one would have to be zeroed,
//! and a large one mapped and unmapped, for each request.
//!
//! 1. Kept memory is limited, in each place and in the whole process.
//! 2. No caller is given a buffer much larger than asked for.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes that one [`Kept`] keeps.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Most buffers that one [`Kept`] keeps.
const KEPT_MAX: usize = 64;
/// Most bytes that the process keeps, whatever [`keep_at_most`] was told.
const KEPT_BYTES_ALL_MAX: usize = 16 << 20;

/// Most bytes that the process keeps.
static LIMIT: AtomicUsize = AtomicUsize::new(KEPT_BYTES_ALL_MAX);

/// Bytes that the process keeps.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local!(static KEPT: RefCell<Kept> = const { RefCell::new(Kept::new()) });

/// Lets the process keep no more than so many bytes: they are not in use, and come on top of those that are.
pub fn keep_at_most(bytes: usize) {
    LIMIT.store(bytes.min(KEPT_BYTES_ALL_MAX), Ordering::Relaxed);
}

/// A buffer of `len` bytes whose content is of no use.
#[must_use]
pub fn take(len: usize) -> Vec<u8> {
    let mut buf = KEPT.with_borrow_mut(|kept| kept.take(len)).unwrap_or_default();
    buf.resize(len, 0);
    buf
}

/// Keeps `buf` for a later [`take`] of this thread, or frees it.
pub fn give(buf: Vec<u8>) {
    KEPT.with_borrow_mut(|kept| kept.give(buf));
}

/// Buffers that are kept for later, the oldest first.
#[derive(Debug)]
pub struct Kept {
    /// Bytes that all of them keep.
    all: &'static AtomicUsize,
    bufs: Vec<Vec<u8>>,
    bytes: usize,
}

impl Kept {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self::counted_in(&KEPT_BYTES)
    }

    const fn counted_in(all: &'static AtomicUsize) -> Self {
        Self { all, bufs: Vec::new(), bytes: 0 }
    }

    /// Keeps `buf`, if need be in the place of older ones, or frees it.
    pub fn give(&mut self, buf: Vec<u8>) {
        let bytes = buf.capacity();
        if bytes == 0 || bytes > KEPT_BYTES_MAX {
            return;
        }
        while self.bufs.len() >= KEPT_MAX || self.bytes + bytes > KEPT_BYTES_MAX {
            self.remove(0);
        }
        if self.all.fetch_add(bytes, Ordering::Relaxed) + bytes > LIMIT.load(Ordering::Relaxed) {
            self.all.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        self.bytes += bytes;
        self.bufs.push(buf);
    }

    /// Gives all buffers to the present thread's [`take`].
    pub fn hand_over(&mut self) {
        while !self.bufs.is_empty() {
            give(self.remove(0));
        }
    }

    /// The latest buffer that holds `len` bytes, and not many more.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |buf: &Vec<u8>| buf.capacity() >= len && buf.capacity() <= len + len / 4 + 4096;
        let index = self.bufs.iter().rposition(fits)?;
        Some(self.remove(index))
    }

    fn remove(&mut self, index: usize) -> Vec<u8> {
        let buf = self.bufs.remove(index);
        self.bytes -= buf.capacity();
        self.all.fetch_sub(buf.capacity(), Ordering::Relaxed);
        buf
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::new()
    }
}
