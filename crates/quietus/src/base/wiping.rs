//! An allocator that wipes memory when it is given back, so that neither keys nor content of a guest, nor what was destroyed on its medium,
//! stay in the memory of a server.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

/// Largest block that is wiped, bytes. Larger ones the system's allocator gets from the kernel, and gives back there as a whole; and those that
/// were never used as a whole would take memory by that.
const WIPED_BYTES_MAX: usize = 32 << 20;

/// Wipes what is given back to the allocator inside. A block that is resized always moves, as the trait has it: one that the allocator
/// inside moved would leave its old bytes behind.
#[derive(Debug, Default)]
pub struct Wiping<A>(pub A);

// SAFETY: every block comes from the allocator inside, and goes back there with the layout that it has.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Wiping<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the allocator inside wants.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the block has the bytes of its layout, and no other code uses it any more.
        unsafe {
            if layout.size() <= WIPED_BYTES_MAX {
                at.write_bytes(0, layout.size());
            }
            // The compiler would leave out zeros that are not read before the end of the block.
            self.0.dealloc(black_box(at), layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;
    use std::cell::RefCell;

    /// Keeps a copy of each block as it was when it was given back.
    #[derive(Default)]
    struct Seen(RefCell<Vec<Vec<u8>>>);

    // SAFETY: the system's allocator does all of it.
    unsafe impl GlobalAlloc for Seen {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: the block has its bytes until it is given back.
            unsafe {
                self.0.borrow_mut().push(std::slice::from_raw_parts(at, layout.size()).to_vec());
                System.dealloc(at, layout);
            }
        }
    }

    #[test]
    fn what_is_given_back_or_moves_holds_zeros_and_what_moved_is_as_it_was() {
        let (wiping, layout) = (Wiping::<Seen>::default(), Layout::array::<u8>(64).expect("a layout"));
        // SAFETY: each block has the layout that is named, and is given back once.
        unsafe {
            let at = wiping.alloc(layout);
            at.write_bytes(7, 64);
            let moved = wiping.realloc(at, layout, 100);
            assert_eq!(std::slice::from_raw_parts(moved, 64), [7; 64]);
            wiping.dealloc(moved, Layout::array::<u8>(100).expect("a layout"));
        }
        assert_eq!(*wiping.0.0.borrow(), [vec![0; 64], vec![0; 100]]);
    }
}
