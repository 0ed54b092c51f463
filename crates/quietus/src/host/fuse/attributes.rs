//! The attributes of an entry, as trees have them and as the kernel takes them.

use fuser::{FileAttr, FileType, INodeNo};
use std::time::{Duration, SystemTime};

/// Bytes that a read is to ask for.
const BLOCK_BYTES: u32 = 1 << 17;
/// Bytes of what `st_blocks` counts.
const SECTOR_BYTES: u64 = 512;

/// All of an entry but its name, its content and its extended attributes.
#[derive(Clone, Debug)]
pub struct About {
    /// What it is.
    pub kind: FileType,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes that its content takes where it is stored.
    pub allocated_bytes: u64,
    /// The 12 bits of permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// How many names it has.
    pub links: u32,
    /// When its content changed last.
    pub modified: SystemTime,
    /// When its attributes changed last.
    pub changed: SystemTime,
    /// When it was last read.
    pub accessed: SystemTime,
    /// Major and minor of a device.
    pub device: (u32, u32),
}

impl About {
    /// A folder that only the tree has: to read, of the user who mounted it.
    pub fn folder(modified: SystemTime) -> Self {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self::new(FileType::Directory, 0, 0o555, owner, modified)
    }

    /// An entry with one name, all times of which are `modified`.
    pub fn new(kind: FileType, bytes: u64, mode: u32, owner: (u32, u32), modified: SystemTime) -> Self {
        let (changed, accessed) = (modified, modified);
        let (allocated_bytes, links, device) = (bytes, 1, (0, 0));
        Self { kind, bytes, allocated_bytes, mode, owner, links, modified, changed, accessed, device }
    }

    /// The same, as the kernel takes it.
    pub(super) fn numbered(&self, number: u64) -> FileAttr {
        let (major, minor) = self.device;
        FileAttr {
            ino: INodeNo(number),
            size: self.bytes,
            blocks: self.allocated_bytes.div_ceil(SECTOR_BYTES),
            atime: self.accessed,
            mtime: self.modified,
            ctime: self.changed,
            crtime: self.modified,
            kind: self.kind,
            perm: (self.mode & 0o7777) as u16,
            nlink: self.links,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: device(major, minor),
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }
}

/// The time that many seconds after 1970, or before, and nanoseconds later; 1970 if the host has no such time.
pub fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let (away, epoch) = (Duration::from_secs(seconds.unsigned_abs()), SystemTime::UNIX_EPOCH);
    let time = if seconds < 0 { epoch.checked_sub(away) } else { epoch.checked_add(away) };
    let time = time.and_then(|it| it.checked_add(Duration::from_nanos(nanoseconds.into())));
    time.unwrap_or(epoch)
}

/// A device's numbers as FUSE has them (`new_encode_dev` of Linux).
fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}
