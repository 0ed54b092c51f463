//! Requests of the kernel.

use super::{About, Listed, Request, Shown, Tree};
use crossbeam_channel::Sender;
use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyXattr,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

/// The number in a listing of what was not looked up.
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);
/// Most entries of one answer: more hardly ever fit.
const ENTRIES_MAX: usize = 1024;

/// Passes requests on to the thread that has the tree.
pub(super) struct Requests {
    pub(super) sender: Sender<Request>,
    /// Whether the kernel has to ask for access lists, and to follow them.
    pub(super) is_for_others: bool,
}

impl Requests {
    /// Has something done. The request is dropped, and the answer with it, once the thread has ended.
    fn ask(&self, act: impl FnOnce(&mut dyn Tree) + Send + 'static) {
        let _ = self.sender.send(Box::new(act));
    }
}

impl Filesystem for Requests {
    /// Listings that look up their entries are a matter of speed alone: older kernels do without.
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO);
        if self.is_for_others && config.add_capabilities(InitFlags::FUSE_POSIX_ACL).is_err() {
            return Err(io::Error::other("the kernel does not follow access lists over FUSE"));
        }
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask(move |tree| match tree.look_up(parent.0, &name) {
            Ok(it) => reply.entry(&it.valid, &it.about.numbered(it.number), Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    fn forget(&self, _: &fuser::Request, number: INodeNo, times: u64) {
        self.ask(move |tree| tree.forget(number.0, times));
    }

    fn getattr(&self, _: &fuser::Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(move |tree| match tree.shown(number.0) {
            Ok(it) => reply.attr(&it.valid, &it.about.numbered(it.number)),
            Err(error) => reply.error(error),
        });
    }

    fn readlink(&self, _: &fuser::Request, number: INodeNo, reply: ReplyData) {
        self.ask(move |tree| match tree.link(number.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        });
    }

    /// Content goes around the kernel's cache, where no sanitization reaches.
    fn open(&self, _: &fuser::Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match flags.acc_mode() {
            OpenAccMode::O_RDONLY => {
                reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
            }
            _ => reply.error(Errno::EROFS),
        }
    }

    fn read(
        &self,
        _: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.ask(move |tree| match tree.read(number.0, offset, size) {
            Ok(content) => reply.data(&content),
            Err(error) => reply.error(error),
        });
    }

    fn readdir(
        &self,
        _: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.ask(move |tree| {
            let listed = list(tree, number.0, offset, &mut |_, next, entry| {
                Ok(match entry {
                    Entry::Dots(name, number) => reply.add(INodeNo(number), next, FileType::Directory, name),
                    Entry::Listed(entry) => {
                        reply.add(UNKNOWN, next, entry.kind, OsStr::from_bytes(&entry.name))
                    }
                })
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            }
        });
    }

    fn readdirplus(
        &self,
        _: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.ask(move |tree| {
            let listed = list(tree, number.0, offset, &mut |tree, next, entry| match entry {
                Entry::Dots(name, number) => Ok(add_dots(next, name, number, &mut reply)),
                Entry::Listed(entry) => add(tree, number.0, next, entry, &mut reply),
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            }
        });
    }

    fn statfs(&self, _: &fuser::Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }

    fn getxattr(&self, _: &fuser::Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes().to_vec();
        self.ask(move |tree| match tree.extended(number.0) {
            Ok(all) => match all.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => give(value, size, reply),
                None => reply.error(Errno::NO_XATTR),
            },
            Err(error) => reply.error(error),
        });
    }

    fn listxattr(&self, _: &fuser::Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(move |tree| match tree.extended(number.0) {
            Ok(all) => {
                let names: Vec<u8> =
                    all.iter().flat_map(|(name, _)| name.iter().copied().chain([0])).collect();
                give(&names, size, reply);
            }
            Err(error) => reply.error(error),
        });
    }
}

/// Answers with attributes, or with how long they are.
fn give(value: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(value.len() as u32),
        size if size < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

/// A line of a listing.
enum Entry<'a> {
    /// The folder itself, or the one above: name and number.
    Dots(&'static str, u64),
    Listed(&'a Listed),
}

/// Adds a line, with the place behind it, to an answer; whether it is full.
type Add<'a> = dyn FnMut(&mut dyn Tree, u64, Entry<'_>) -> Result<bool, Errno> + 'a;

/// Lists a folder from an entry on, until the answer is full.
fn list(tree: &mut dyn Tree, number: u64, offset: u64, add: &mut Add<'_>) -> Result<(), Errno> {
    let dots = [Entry::Dots(".", number), Entry::Dots("..", tree.parent(number)?)];
    let from = usize::try_from(offset.saturating_sub(dots.len() as u64)).unwrap_or(usize::MAX);
    let entries = tree.list(number, from, ENTRIES_MAX)?;
    let dots = dots.into_iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
    for (next, entry) in (offset + 1..).zip(dots.chain(entries.iter().map(Entry::Listed))) {
        if add(tree, next, entry)? {
            break;
        }
    }
    Ok(())
}

/// Looks an entry up and adds it; whether it finds no room any more. The kernel does not know it then.
fn add(
    tree: &mut dyn Tree,
    folder: u64,
    next: u64,
    entry: &Listed,
    reply: &mut ReplyDirectoryPlus,
) -> Result<bool, Errno> {
    let Shown { number, about, valid } = tree.look_up_listed(folder, entry)?;
    let name = OsStr::from_bytes(&entry.name);
    let is_full = reply.add(INodeNo(number), next, name, &valid, &about.numbered(number), Generation(0));
    if is_full {
        tree.forget(number, 1);
    }
    Ok(is_full)
}

/// Adds a folder that the kernel does not look up by this name.
fn add_dots(next: u64, name: &str, number: u64, reply: &mut ReplyDirectoryPlus) -> bool {
    let attributes = About::folder(SystemTime::UNIX_EPOCH).numbered(number);
    reply.add(INodeNo(number), next, name, &Duration::ZERO, &attributes, Generation(0))
}
