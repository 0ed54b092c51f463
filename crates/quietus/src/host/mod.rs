//! What the host gives: files, directories and devices, what a path there is, what its storage guarantees, and which program is
//! attached to a disk there.

pub mod attached;
pub mod directory;
mod fiemap;
pub mod guarantees;
pub mod media;
pub(crate) mod paths;
