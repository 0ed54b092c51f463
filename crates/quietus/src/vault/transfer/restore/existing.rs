//! The action where an entry exists already.

use quietus_vault::tree::{Kind, Node};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

const SECOND_NS: i64 = 1_000_000_000;
/// Coarsest step in which file systems keep times, in seconds.
const COARSEST_SECONDS: i64 = 2;

/// What to do with an existing file that differs from the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Overwrite {
    /// Leave the file, and name it in the report.
    #[default]
    Never,
    /// Replace the file.
    IfChanged,
    /// Replace every file, even one that does not seem to differ.
    Always,
}

/// The action for an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// Nothing: the entry is there.
    Keep,
    /// Set its attributes: its content is there.
    SetAttributes,
    /// Make it.
    Make,
    /// Make it in the place of what is there.
    Replace,
}

/// The action for the entry in the folder `here`, or why it cannot be restored.
pub(super) fn decide(here: BorrowedFd<'_>, node: &Node, how: Overwrite) -> Result<Act, String> {
    let there = match rustix::fs::statat(here, node.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Act::Make),
        there => there.map_err(|error| error.to_string())?,
    };
    if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
        return Err("a folder of that name is there; move it away".into());
    }
    match (how, is_same(here, node, &there)) {
        (Overwrite::Always, _) | (Overwrite::IfChanged, false) => Ok(Act::Replace),
        (Overwrite::IfChanged, true) => Ok(Act::SetAttributes),
        (Overwrite::Never, true) => Ok(Act::Keep),
        (Overwrite::Never, false) => Err(differs()),
    }
}

pub(super) fn differs() -> String {
    "something else of that name is there; replace it with --overwrite if-changed, or move it away".into()
}

/// Whether what is there seems to be what the snapshot has: of files, by length and time.
fn is_same(here: BorrowedFd<'_>, node: &Node, there: &Stat) -> bool {
    let of = FileType::from_raw_mode(there.st_mode);
    let is_device = |wanted, major, minor| of == wanted && there.st_rdev == rustix::fs::makedev(major, minor);
    match &node.kind {
        Kind::File(recipe) => {
            let is_as_long = u64::try_from(there.st_size) == Ok(recipe.bytes());
            of == FileType::RegularFile && is_as_long && is_same_time(node.metadata.modified_ns, there)
        }
        Kind::Folder(_) => of == FileType::Directory,
        Kind::Link(target) => {
            let found = rustix::fs::readlinkat(here, node.name.as_slice(), Vec::new());
            of == FileType::Symlink && found.is_ok_and(|found| found.as_bytes() == target.as_slice())
        }
        Kind::BlockDevice(major, minor) => is_device(FileType::BlockDevice, *major, *minor),
        Kind::CharacterDevice(major, minor) => is_device(FileType::CharacterDevice, *major, *minor),
        Kind::Pipe => of == FileType::Fifo,
        Kind::Socket => of == FileType::Socket,
    }
}

/// Whether a file system that was given the time has this one: it may keep whole seconds only, or every other one.
fn is_same_time(wanted_ns: i64, there: &Stat) -> bool {
    let (seconds, part) = (wanted_ns.div_euclid(SECOND_NS), wanted_ns.rem_euclid(SECOND_NS));
    let (found, found_part) = (there.st_mtime, there.st_mtime_nsec as i64);
    let coarsest = seconds - seconds.rem_euclid(COARSEST_SECONDS);
    (found, found_part) == (seconds, part) || (found_part == 0 && (found == seconds || found == coarsest))
}

/// Whether two names are of one file.
pub(super) fn is_one_file(one: (BorrowedFd<'_>, &[u8]), other: (BorrowedFd<'_>, &[u8])) -> bool {
    let stat = |(dir, name)| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    let which = |stat: Stat| (stat.st_dev, stat.st_ino);
    stat(one).map(which).ok().zip(stat(other).map(which).ok()).is_some_and(|(one, other)| one == other)
}
