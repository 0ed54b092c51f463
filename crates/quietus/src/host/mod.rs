//! What the host gives: files, directories and devices, what a path there is, what its storage guarantees, and which program is
//! attached to a disk there.
//!
//! | question | where |
//! | --- | --- |
//! | how a file is read around the cache; whether it still is the file that was opened | `media`, and its `identity` |
//! | entries of folders, made with the attributes that they had elsewhere | `entries` |
//! | a tree as a file system of the host, by FUSE | `fuse` |
//! | a directory for one program: lock, signing key, files replaced whole | `directory` |
//! | what a medium guarantees | `guarantees` |
//! | what a path that a command is given must be | `paths` |
//! | whether a client has a cache between its guest and the server | `attached` |

pub mod attached;
pub mod directory;
pub(crate) mod entries;
mod fiemap;
pub(crate) mod fuse;
pub mod guarantees;
pub mod media;
pub(crate) mod paths;
