//! What the metadata of a file system says, behind one trait ([`format`](mod@format)), and what the records of a journal say ([`jbd2`]). A new file system is a
//! folder here, and a line where a partition is looked at.

pub(crate) mod difference;
pub mod exfat;
pub mod ext2;
pub mod fat;
pub mod features;
pub mod format;
pub mod jbd2;
pub mod ntfs;
pub mod properties;
#[cfg(test)]
pub(crate) mod testing;
