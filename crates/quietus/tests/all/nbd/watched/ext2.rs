//! An ext2 in an image, and the bytes of its superblock by which it tells of mounts.

use std::process::Command;

/// Where the superblock lies.
pub const SUPERBLOCK: usize = 1024;
/// The state of the file system there: 0 while it is mounted.
pub const STATE: usize = 0x3a;
/// How often it has been mounted, in the same place: two bytes, of which these tests use the lower one.
pub const MOUNTS: usize = 0x34;

/// Runs a tool of e2fsprogs.
pub fn tool(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").env("MKE2FS_CONFIG", "/dev/null");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
