//! File systems as the standard tools make and check them, and the same with changed bytes.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod exfat;
mod fat;
mod finding;
mod hostile;
mod image;
mod ntfs;
mod owners;
mod tool;
mod tree;
