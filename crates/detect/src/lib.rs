//! Observes writes, and infers which content is dead.
//!
//! A file system supplies its [`format::Format`]: where its metadata lies, and the meaning of a
//! change. All file systems share the rules of inference; a file system's [`properties`] choose the
//! rule. Nothing here does input or output: a rule asks for content, and the caller hands it in
//! (`quietus_core::watch`).
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
mod marks;
pub mod mutant;
pub mod ntfs;
pub mod options;
pub mod partition;
mod plan;
pub mod properties;
pub mod rule;
pub mod rule_e;
pub mod rule_j;
mod tail;
mod watch;

pub use disk::Disk;
pub use watch::Watch;
