//! Observes writes, and infers which content is dead.
//!
//! A file system supplies its [`formats::format::Format`]: where its metadata lies, and the meaning of a
//! change. All file systems share the rules of inference; a file system's [`properties`](formats::properties) choose the
//! rule. Nothing here does input or output: a rule asks for content, and the caller hands it in
//! (`quietus_core::watch`).
//!
//! | question | where |
//! | --- | --- |
//! | bytes, numbers and bitmaps that a guest has written | `input` |
//! | what the metadata of a file system says, behind one trait; the records of a journal | `formats` |
//! | when a death is certain; what a map or a commit proves below a cache (`cached`), below reserved space (`unwritten`), and of a refused write (`refused`) | `rules::{rule_e,rule_j}` |
//! | which content is sensitive (`chattr +s`) | `rules::marks`, `rules::{rule_e,rule_j}::marked`; on the disk: `formats::ext2::marking` |
//! | what a file system that was made smaller gave up | `rules::tail` |
//! | partitions, and which file system is watched in each | `disk` |
#![forbid(unsafe_code)]

mod disk;
pub mod formats;
mod input;
pub mod mutant;
pub mod rules;

pub use disk::watch::Watch;
pub use disk::{Disk, partition};
