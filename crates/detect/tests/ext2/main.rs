//! ext2 as it is: real file systems, compared with what the standard tools say
//! of them.

mod files;
mod image;
mod layouts;
