//! Which file system a file lies on, and how it is mounted.

use super::FileFacts;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::io;
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mount {
    pub(super) id: u64,
    pub(super) point: PathBuf,
    pub(super) file_system: String,
    pub(super) source: String,
    pub(super) options: Vec<String>,
}

/// Fills in the facts of the mount of `path`.
///
/// # Errors
/// Errors of the system. The magic number then tells the file system's name.
pub(super) fn describe(proc: &Path, path: &Path, file: &mut FileFacts) -> io::Result<()> {
    let magic = rustix::fs::statfs(path)?.f_type;
    file.file_system = by_magic(magic as u32).into();
    let mount = mount_of(proc, path)?;
    file.file_system = mount.file_system;
    file.mount_point = Some(mount.point);
    file.source = Some(mount.source);
    file.options = mount.options;
    Ok(())
}

fn mount_of(proc: &Path, path: &Path) -> io::Result<Mount> {
    let id = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?.stx_mnt_id;
    let none = || io::Error::new(io::ErrorKind::NotFound, "the mount is not in mountinfo");
    mounts(proc)?.into_iter().find(|mount| mount.id == id).ok_or_else(none)
}

/// All mounts that this process sees.
///
/// # Errors
/// Errors of the system.
pub(super) fn mounts(proc: &Path) -> io::Result<Vec<Mount>> {
    let text = std::fs::read_to_string(proc.join("self/mountinfo"))?;
    Ok(text.lines().filter_map(Mount::from_line).collect())
}

impl Mount {
    /// Parses a line such as `36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root
    /// rw,data=ordered`.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let [id, _parent, _device, _root, point, mount_options, ..] = mount[..] else { return None };
        let file_system: Vec<&str> = file_system.split(' ').collect();
        let [name, source, super_options] = file_system[..] else { return None };
        Some(Self {
            id: id.parse().ok()?,
            point: unescape(point).into(),
            file_system: name.into(),
            source: unescape(source),
            options: options(mount_options, super_options),
        })
    }
}

fn options(of_mount: &str, of_file_system: &str) -> Vec<String> {
    let mut options: Vec<String> =
        of_mount.split(',').chain(of_file_system.split(',')).map(Into::into).collect();
    options.sort();
    options.dedup();
    options
}

/// Spaces and their like are written as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend(&part.as_bytes()[3..]);
            }
            None => {
                out.push(b'\\');
                out.extend(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Names of magic numbers (statfs(2)), for when the mount is not visible.
fn by_magic(magic: u32) -> &'static str {
    match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xca45_1a4e => "bcachefs",
        0x3434 => "nilfs2",
        0xf2f5_2010 => "f2fs",
        0x794c_7630 => "overlay",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x6969 => "nfs",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        0xff53_4d42 | 0xfe53_4d42 => "cifs",
        0x00c3_6400 => "ceph",
        0x4d44 => "vfat",
        0x2011_bab0 => "exfat",
        0x7366_746e => "ntfs3",
        0x2405_1905 => "ubifs",
        0x72b6 => "jffs2",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_with_its_escapes_and_optional_fields() {
        let line =
            r"36 35 98:0 /a /mnt/my\040disk rw,noatime master:1 shared:2 - ext3 /dev/root rw,data=journal";
        let mount = Mount::from_line(line).expect("a mount");
        assert_eq!((mount.id, mount.file_system.as_str(), mount.source.as_str()), (36, "ext3", "/dev/root"));
        assert_eq!(mount.point, Path::new("/mnt/my disk"));
        assert_eq!(mount.options, ["data=journal", "noatime", "rw"]);
    }

    #[test]
    fn a_line_that_is_cut_short_is_no_mount() {
        for line in [
            "",
            "36 35",
            "36 35 98:0 / /mnt rw",
            "36 35 98:0 / /mnt rw - ext3 /dev/root",
            "x y z / /mnt rw - a b c",
        ] {
            assert_eq!(Mount::from_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_backslash_that_escapes_nothing_stays() {
        assert_eq!(unescape(r"a\b\04\011c\"), "a\\b\\04\tc\\");
    }
}
