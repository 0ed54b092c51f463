//! Disks that keep versions.

mod chains;
mod clock;
mod epochs;
mod files;
mod forget_files;
pub(crate) mod judge;
mod keys;
mod lives;
mod memory;
mod mounting;
mod proof;
mod restored;
pub(crate) mod served;
mod sets;
mod vanished;
mod verify;
