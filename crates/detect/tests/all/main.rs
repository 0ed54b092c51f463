//! File systems as they are: made by the standard tools, and compared with what these tools say of them.

#![allow(clippy::unwrap_used, clippy::disallowed_types, reason = "tests may panic, and read real files")]

mod disk;
mod ext2;
mod fat;
mod ntfs;
mod tool;
