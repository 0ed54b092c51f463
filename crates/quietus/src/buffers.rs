//! Payload buffers, used again and again: a fresh one would have to be zeroed,
//! and a large one mapped and unmapped, for each request.

use quietus_core::request::Buf;
use std::cell::RefCell;

/// Most bytes that a thread keeps for later.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Most buffers that a thread keeps for later.
const KEPT_MAX: usize = 64;

thread_local!(static KEPT: RefCell<Vec<Buf>> = const { RefCell::new(Vec::new()) });

/// A buffer of `len` bytes whose content is of no use.
#[must_use]
pub fn take(len: usize) -> Buf {
    let kept = KEPT.with_borrow_mut(|kept| {
        let fitting = kept.iter().rposition(|buf| buf.capacity() >= len);
        fitting.map(|index| kept.swap_remove(index))
    });
    let mut buf = kept.unwrap_or_default();
    buf.resize(len, 0);
    buf
}

/// Keeps `buf` for a later [`take`], or frees it.
pub fn give(buf: Buf) {
    if buf.capacity() == 0 {
        return;
    }
    KEPT.with_borrow_mut(|kept| {
        let bytes: usize = kept.iter().map(Buf::capacity).sum();
        if kept.len() < KEPT_MAX && bytes + buf.capacity() <= KEPT_BYTES_MAX {
            kept.push(buf);
        }
    });
}
