//! Memory with secrets: the program around the core may keep it from being swapped out.

use std::hint::black_box;
use std::sync::OnceLock;

/// Keeps so many bytes from an address on from being swapped out.
pub type Keep = fn(*const (), usize);

/// Bytes of the stack that a computation with a secret may have used, and more.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 10 } else { 4 << 10 };

static KEEP: OnceLock<Keep> = OnceLock::new();

/// Has `how` called for all memory that gets secrets from now on.
pub fn keep_secrets(how: Keep) {
    // The one that came first keeps them already.
    let _ = KEEP.set(how);
}

/// Keeps the memory of `value` from being swapped out, if the program does that; not what it refers to.
pub fn keep<T: ?Sized>(value: &T) {
    if let Some(keep) = KEEP.get() {
        keep(std::ptr::from_ref(value).cast(), size_of_val(value));
    }
}

/// Overwrites what calls from the same place have left on the stack.
#[inline(never)]
pub fn wipe_stack() {
    black_box(&mut [0_u8; STACK_BYTES]);
}

/// Overwrites secret bytes with zeros.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // Without this the compiler would leave zeros away that are never read.
    black_box(bytes);
}
