//! A file's attributes: read from the host, and given back to it.

use quietus_vault::tree::{Metadata, Origin};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest list of names, and longest value, that Linux knows.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// The 12 bits of permissions.
const MODE_BITS: u32 = 0o7777;
/// The bits setuid and setgid.
const SET_ID_BITS: u32 = 0o6000;
const SECOND_NS: i64 = 1_000_000_000;

/// The attributes of the file at `path`; `about` has the rest of them. A symbolic link is not followed.
pub(crate) fn read(path: &Path, about: &fs::Metadata) -> Result<Metadata, Errno> {
    Ok(Metadata {
        mode: about.mode() & MODE_BITS,
        user: about.uid(),
        group: about.gid(),
        modified_ns: time_ns(about.mtime(), about.mtime_nsec()),
        attributes: attributes(path)?,
        hard_link: None,
        origin: about.is_file().then(|| origin(about)),
    })
}

/// The fields by which a later put recognizes a file.
pub(crate) fn origin(about: &fs::Metadata) -> Origin {
    Origin { inode: about.ino(), changed_ns: time_ns(about.ctime(), about.ctime_nsec()) }
}

/// A time of the host, in nanoseconds since 1970.
pub(crate) fn time_ns(seconds: i64, part_ns: i64) -> i64 {
    seconds.saturating_mul(SECOND_NS).saturating_add(part_ns)
}

/// A name and a value.
type Attribute = (Vec<u8>, Vec<u8>);

/// Extended attributes, by name.
fn attributes(path: &Path) -> Result<Vec<Attribute>, Errno> {
    // Most files have no attributes, and then no memory is needed.
    match rustix::fs::llistxattr_query(path) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) | Ok(0) => return Ok(Vec::new()),
        length => length?,
    };
    let mut list = vec![0; XATTR_BYTES_MAX];
    let length = match rustix::fs::llistxattr(path, &mut list[..]) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        length => length?,
    };
    let mut found = Vec::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; XATTR_BYTES_MAX];
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            Ok(length) => found.push((name.to_vec(), value[..length].to_vec())),
            // The attribute was removed meanwhile, or only the kernel may read it.
            Err(Errno::NODATA | Errno::PERM | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    Ok(found)
}

/// Where an entry was restored: a folder and its name there.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) parent: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    /// Whether the entry is a symbolic link, which has no permissions.
    pub(crate) is_link: bool,
}

/// The attributes that an entry did not get.
#[derive(Default, Debug)]
pub(crate) struct Refused {
    /// The attribute that the host refused, and why.
    pub(crate) what: Vec<String>,
    /// Whether something is missing that only root sets: the owner, or an attribute of the system.
    pub(crate) needs_root: bool,
}

impl Refused {
    fn note(&mut self, what: &str, done: Result<(), Errno>) {
        if let Err(error) = done {
            self.what.push(format!("{what}: {error}"));
        }
    }
}

/// Gives the entry what it had.
pub(crate) fn write(place: Place<'_>, metadata: &Metadata) -> Refused {
    let mut refused = Refused::default();
    let Place { parent, name, is_link } = place;
    let mut mode = metadata.mode & MODE_BITS;
    match own(place, metadata) {
        Ok(true) => {}
        Ok(false) => {
            refused.needs_root = true;
            // A program that acts for its owner is not to act for another one.
            mode &= !SET_ID_BITS;
        }
        Err(error) => refused.note(&format!("owner {}:{}", metadata.user, metadata.group), Err(error)),
    }
    // A name that became a link meanwhile leads nowhere: what was opened is what is changed.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(parent, name, flags, Mode::empty());
    for (attribute, value) in &metadata.attributes {
        let set = match (&opened, is_link) {
            (_, true) => {
                let there = through_proc(parent).join(OsStr::from_bytes(name.to_bytes()));
                rustix::fs::lsetxattr(&there, attribute.as_slice(), value, XattrFlags::empty())
            }
            (Ok(here), false) => {
                let there = through_proc(here.as_fd());
                rustix::fs::setxattr(&there, attribute.as_slice(), value, XattrFlags::empty())
            }
            (Err(error), false) => Err(*error),
        };
        match set {
            Err(Errno::PERM | Errno::ACCESS) if is_of_system(attribute) && !is_root() => {
                refused.needs_root = true;
            }
            set => refused.note(&String::from_utf8_lossy(attribute), set),
        }
    }
    // A change of the owner takes the set-user bits away, so that this comes after it.
    if !is_link {
        let set =
            opened.and_then(|here| rustix::fs::chmod(through_proc(here.as_fd()), Mode::from_raw_mode(mode)));
        refused.note(&format!("mode {mode:04o}"), set);
    }
    let modified = Timespec {
        tv_sec: metadata.modified_ns.div_euclid(SECOND_NS),
        tv_nsec: metadata.modified_ns.rem_euclid(SECOND_NS),
    };
    let times = Timestamps { last_access: modified, last_modification: modified };
    let timed = rustix::fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW);
    refused.note("time of modification", timed);
    refused
}

/// Gives the entry its owner and group, or at least a group that this user is in; whether it has both.
fn own(Place { parent, name, .. }: Place<'_>, metadata: &Metadata) -> Result<bool, Errno> {
    let (user, group) = (Uid::from_raw(metadata.user), Gid::from_raw(metadata.group));
    let give = |user| rustix::fs::chownat(parent, name, user, Some(group), AtFlags::SYMLINK_NOFOLLOW);
    match give(Some(user)) {
        Err(Errno::PERM) if !is_root() => {
            let _ = give(None);
            Ok(false)
        }
        given => given.map(|()| true),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether only root sets an attribute of that name.
fn is_of_system(attribute: &[u8]) -> bool {
    attribute.starts_with(b"security.") || attribute.starts_with(b"trusted.")
}

/// A path of what was opened, for calls that take no descriptor of that kind.
fn through_proc(opened: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}
