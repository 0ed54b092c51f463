//! Archives as `tar` has them: put into a vault, and written from one.

mod acl;
mod file;
mod header;
mod pax;
mod put;
mod read;
mod sparse;
#[cfg(test)]
mod tests;
mod write;

pub use file::write_tar_file;
pub use put::put_tar;
