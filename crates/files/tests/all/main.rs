//! File systems as the standard tools make them and check them, and as nobody should make them.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod exfat;
mod fat;
mod finding;
mod hostile;
mod image;
mod tool;
mod tree;
