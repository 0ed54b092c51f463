//! Disks that keep versions.

mod chains;
mod clock;
pub(crate) mod judge;
mod proof;
mod restored;
mod served;
mod verify;
