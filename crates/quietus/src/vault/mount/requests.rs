//! Requests of the kernel.

use super::Request;
use super::attributes::{attributes, kind};
use super::tree::Tree;
use crossbeam_channel::Sender;
use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenAccMode,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr,
};
use quietus_vault::tree::Kind;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How long the kernel takes an answer for true. Snapshots do not change.
const VALID: Duration = Duration::from_secs(3600);
/// The number in a listing of what was not looked up.
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);

/// Passes requests on to the thread that has the tree.
pub(super) struct Requests(pub(super) Sender<Request>);

impl Requests {
    /// Has something done. The request is dropped, and the answer with it, once the thread has ended.
    fn ask(&self, act: impl FnOnce(&mut Tree<'_>) + Send + 'static) {
        let _ = self.0.send(Box::new(act));
    }
}

impl Filesystem for Requests {
    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask(move |tree| match tree.look_up(parent.0, &name) {
            Ok((number, node)) => reply.entry(&VALID, &attributes(number, &node), Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    fn forget(&self, _: &fuser::Request, number: INodeNo, times: u64) {
        self.ask(move |tree| tree.inodes.forget(number.0, times));
    }

    fn getattr(&self, _: &fuser::Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(move |tree| match tree.node(number.0) {
            Ok(node) => reply.attr(&VALID, &attributes(number.0, &node)),
            Err(error) => reply.error(error),
        });
    }

    fn readlink(&self, _: &fuser::Request, number: INodeNo, reply: ReplyData) {
        self.ask(move |tree| match tree.node(number.0).as_deref().map(|node| &node.kind) {
            Ok(Kind::Link(target)) => reply.data(target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(*error),
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
        self.ask(move |tree| match list(tree, number.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn statfs(&self, _: &fuser::Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }

    fn getxattr(&self, _: &fuser::Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes().to_vec();
        self.ask(move |tree| match tree.node(number.0) {
            Ok(node) => match node.metadata.attributes.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => give(value, size, reply),
                None => reply.error(Errno::NO_XATTR),
            },
            Err(error) => reply.error(error),
        });
    }

    fn listxattr(&self, _: &fuser::Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(move |tree| match tree.node(number.0) {
            Ok(node) => {
                let names = node.metadata.attributes.iter();
                let names: Vec<u8> = names.flat_map(|(name, _)| name.iter().copied().chain([0])).collect();
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

/// Lists a folder from an entry on, as much as fits.
fn list(tree: &mut Tree<'_>, number: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
    let entries = tree.entries(number)?;
    let parent = tree.inode(number)?.parent;
    let dots = [(INodeNo(number), &b"."[..]), (INodeNo(parent), &b".."[..])];
    let dots = dots.into_iter().map(|(number, name)| (number, FileType::Directory, name));
    let all = dots.chain(entries.iter().map(|node| (UNKNOWN, kind(node), node.name.as_slice())));
    for (at, (number, kind, name)) in (1..).zip(all).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
        if reply.add(number, at, kind, OsStr::from_bytes(name)) {
            break;
        }
    }
    Ok(())
}
