//! Memory for secrets: not swapped out and in no core dump, as far as the host allows.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use std::borrow::Borrow;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has tried to lock memory.
static TRIED: AtomicBool = AtomicBool::new(false);
/// Whether the host has refused that at least once.
static UNLOCKED: AtomicBool = AtomicBool::new(false);

/// A value in pages of its own, locked in memory. Secrets that it keeps elsewhere, in a list for example, are not.
pub struct Locked<T> {
    at: NonNull<T>,
    bytes: usize,
}

// SAFETY: the value has one owner, as in a box.
unsafe impl<T: Send> Send for Locked<T> {}
// SAFETY: as in a box, a shared reference gives nothing but a shared reference to the value.
unsafe impl<T: Sync> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Moves the value into locked memory. A host that allows no locking is warned of once.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(value: T) -> io::Result<Self> {
        let page = rustix::param::page_size();
        assert!(align_of::<T>() <= page, "a page is aligned enough");
        let bytes = size_of::<T>().max(1).next_multiple_of(page);
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the system chooses, overlaps no other.
        let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, kind) }?;
        // SAFETY: the mapping has these bytes, and neither call changes them.
        let protected = unsafe {
            rustix::mm::mlock(at, bytes).and(rustix::mm::madvise(at, bytes, Advice::LinuxDontDump))
        };
        TRIED.store(true, Ordering::Relaxed);
        if let Err(errno) = protected {
            warn_of_swap(errno.into());
        }
        let at = NonNull::new(at.cast::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping is writable, large and aligned enough, and no other code has its address.
        unsafe { at.write(value) };
        Ok(Self { at, bytes })
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // SAFETY: the value was written by `new` and is dropped once, here; the mapping is this value's own.
        unsafe {
            self.at.drop_in_place();
            // Nothing can be done about memory that stays mapped, and its secrets are wiped.
            let _ = rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes);
        }
    }
}

impl<T> Borrow<T> for Locked<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value was written by `new`, and lives as long as `self`.
        unsafe { self.at.as_ref() }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and `self` is borrowed for this alone.
        unsafe { self.at.as_mut() }
    }
}

/// Keeps secrets that lie elsewhere from being swapped out, too: `bytes` bytes from an address on. After a refusal of the host nothing more is tried.
fn keep(at: *const (), bytes: usize) {
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Ordering::Relaxed) {
        return;
    }
    TRIED.store(true, Ordering::Relaxed);
    // SAFETY: the call changes no byte, and fails for memory that is not mapped.
    if let Err(errno) = unsafe { rustix::mm::mlock(at.cast_mut().cast(), bytes) } {
        REFUSED.store(true, Ordering::Relaxed);
        warn_of_swap(errno.into());
    }
}

/// Has the keys of stubs and of sessions kept in memory, as far as the host allows.
pub fn keep_secrets() {
    quietus_core::base::memory::keep_secrets(keep);
}

/// Whether all secrets of this process so far are locked in memory; `None` if it has not tried to lock any.
#[must_use]
pub fn is_locked() -> Option<bool> {
    let tried = TRIED.load(Ordering::Relaxed);
    tried.then(|| !UNLOCKED.load(Ordering::Relaxed))
}

fn warn_of_swap(error: io::Error) {
    UNLOCKED.store(true, Ordering::Relaxed);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(%error, "cannot lock keys in memory, so they may be swapped out; raise the limit \
            (`ulimit -l`, LimitMEMLOCK= of systemd), or encrypt the swap space");
    });
}

/// Keeps the whole process out of core dumps, and its memory from other processes of the same user.
pub fn forbid_core_dumps() {
    let limit = Rlimit { current: Some(0), ..rustix::process::getrlimit(Resource::Core) };
    let forbidden = rustix::process::setrlimit(Resource::Core, limit)
        .and(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable));
    if let Err(error) = forbidden {
        tracing::warn!(%error, "cannot forbid core dumps, which would hold keys and content; use `ulimit -c 0`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Counted<'a>(&'a AtomicUsize, [u8; 5000]);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The flags of the mapping that holds `value`, as /proc/self/smaps has them.
    fn flags<T>(value: &T) -> String {
        let at = std::ptr::from_ref(value) as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("proc");
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let hex = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(from, to)| (hex(from), hex(to))) {
                inside = (from..to).contains(&at);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return flags.into();
            }
        }
        panic!("no mapping at {at:x}");
    }

    #[test]
    fn a_locked_value_is_neither_swapped_nor_dumped_and_is_dropped_once() {
        let drops = AtomicUsize::new(0);
        let mut locked = Locked::new(Counted(&drops, [7; 5000])).expect("memory");
        locked.1[4999] = 8;
        assert_eq!((locked.1[0], locked.1[4999]), (7, 8));
        let flags = flags(&*locked);
        assert!(flags.split_whitespace().any(|flag| flag == "lo"), "{flags}");
        assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
        drop(locked);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }
}
