//! The attributes of a guest's file, as this host shows them.

use crate::files::{FILE_MODE, FOLDER_MODE};
use crate::host::fuse::{About, FileType, time};
use quietus_files::{Attributes, Kind, Time};
use std::time::SystemTime;

/// The file type of a kind.
pub(super) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::Regular => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::Character(..) => FileType::CharDevice,
        Kind::Block(..) => FileType::BlockDevice,
    }
}

/// What a file system says of a file. What the format has not is as of a new file of the user who mounted it.
pub(super) fn about(it: &Attributes) -> About {
    let at = |it: Time| time(it.seconds, it.nanoseconds);
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mode = if it.kind == Kind::Folder { FOLDER_MODE } else { FILE_MODE };
    let modified = it.modified.or(it.born).map_or(SystemTime::UNIX_EPOCH, at);
    let new =
        About::new(kind(it.kind), it.bytes, it.mode.unwrap_or(mode), it.owner.unwrap_or(owner), modified);
    About {
        allocated_bytes: it.allocated_bytes,
        links: it.links.unwrap_or(1),
        changed: it.changed.map_or(modified, at),
        accessed: it.accessed.map_or(modified, at),
        device: match it.kind {
            Kind::Character(major, minor) | Kind::Block(major, minor) => (major, minor),
            _ => (0, 0),
        },
        ..new
    }
}
