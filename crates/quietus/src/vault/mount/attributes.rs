//! The attributes of an entry as the host shows them.

use fuser::{FileAttr, FileType, INodeNo};
use quietus_vault::tree::{Kind, Node};
use std::time::{Duration, SystemTime};

/// Bytes that a read is to ask for.
const BLOCK_BYTES: u32 = 1 << 17;

/// The file type of an entry.
pub(super) fn kind(node: &Node) -> FileType {
    match &node.kind {
        Kind::File(_) => FileType::RegularFile,
        Kind::Folder(_) => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
        Kind::BlockDevice(..) => FileType::BlockDevice,
        Kind::CharacterDevice(..) => FileType::CharDevice,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

/// All of an entry but its content. How many names a file has is not known: two, if it has several.
pub(super) fn attributes(number: u64, node: &Node) -> FileAttr {
    let about = &node.metadata;
    let modified = time(about.modified_ns);
    let size = match &node.kind {
        Kind::File(recipe) => recipe.bytes(),
        Kind::Link(target) => target.len() as u64,
        _ => 0,
    };
    let rdev = match node.kind {
        Kind::BlockDevice(major, minor) | Kind::CharacterDevice(major, minor) => device(major, minor),
        _ => 0,
    };
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind: kind(node),
        perm: (about.mode & 0o7777) as u16,
        nlink: 1 + u32::from(about.hard_link.is_some()),
        uid: about.user,
        gid: about.group,
        rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn time(nanoseconds: i64) -> SystemTime {
    let away = Duration::from_nanos(nanoseconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if nanoseconds < 0 { epoch.checked_sub(away) } else { epoch.checked_add(away) };
    time.unwrap_or(epoch)
}

/// A device's numbers as FUSE has them (`new_encode_dev` of Linux).
fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}
