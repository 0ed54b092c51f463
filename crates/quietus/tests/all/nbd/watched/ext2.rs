//! An ext2 in an image, and the bytes of its superblock by which it tells of mounts.

/// Where the superblock lies.
pub const SUPERBLOCK: usize = 1024;
/// The state of the file system there: 0 while it is mounted.
pub const STATE: usize = 0x3a;
/// How often it has been mounted, in the same place: two bytes, of which these tests use the lower one.
pub const MOUNTS: usize = 0x34;

/// Runs a tool of e2fsprogs.
pub fn tool(program: &str, args: &[&str]) -> String {
    crate::program::tool(program, args).unwrap_or_else(|| panic!("{program} is missing"))
}
