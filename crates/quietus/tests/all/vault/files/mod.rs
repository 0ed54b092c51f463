//! Trees of files and archives: what is put, and what a restore gives back.

pub(super) mod choosing;
pub(super) mod mounting;
pub(super) mod repeating;
pub(crate) mod restoring;
pub(super) mod tar;
pub(super) mod unchanged;
