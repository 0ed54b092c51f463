//! Mutexes whose content is sound although a thread that held them panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, whatever has happened to those that held it before.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
