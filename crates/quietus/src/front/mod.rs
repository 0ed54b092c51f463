//! Front ends: the protocols by which clients reach disks.

pub mod nbd;
