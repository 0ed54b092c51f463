//! Who watches what is written and says what died.
//!
//! A file system supplies its [`format::Format`]: where its metadata lies and
//! what a change of it says. The rules of inference are shared, and chosen by
//! the file system's [`properties`]. Nothing here does input or output: what is
//! to be read is asked for and handed in (`quietus_core::watch`).
#![forbid(unsafe_code)]

mod bits;
mod bytes;
mod difference;
mod disk;
pub mod exfat;
pub mod ext2;
pub mod fat;
pub mod format;
mod jbd2;
pub mod mutant;
pub mod ntfs;
pub mod options;
pub mod partition;
mod plan;
pub mod properties;
pub mod rule;
pub mod rule_e;
pub mod rule_j;
mod watch;

pub use disk::Disk;
pub use watch::Watch;
