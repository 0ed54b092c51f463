//! Disks with a file system on them, and what is served of their past.

pub(crate) mod ext2;
pub(super) mod past;
pub(super) mod sensitive;
pub(super) mod since;
