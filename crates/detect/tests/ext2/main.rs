//! ext2 and ext4 as they are: real file systems, compared with what the standard tools say
//! of them.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod device;
mod files;
mod image;
mod layouts;
mod marks;
mod watching;
