//! ext2 and ext4 as they are: real file systems, compared with what the standard tools say
//! of them.

mod device;
mod files;
pub mod image;
mod layouts;
mod marks;
mod shrink;
mod unwritten;
mod watching;
