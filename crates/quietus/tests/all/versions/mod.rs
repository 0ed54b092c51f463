//! Disks that keep versions.

mod chains;
mod clock;
mod judge;
mod proof;
mod restored;
mod served;
mod verify;
