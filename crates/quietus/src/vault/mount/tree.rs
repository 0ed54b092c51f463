//! The vault as a tree of numbered entries.

use crate::host::fuse::{self, About, Cache, Errno, FOREVER, FileType, Inodes, Listed, ROOT, Shown, time};
use crate::vault::{Error, Line, snapshots};
use quietus_vault::client::{Access, read_folder, read_snapshot};
use quietus_vault::tree::{Kind, Layer, Metadata, Node, Recipe, Snapshot, Span};
use quietus_vault::{Fingerprint, Reference, SnapshotId, VaultError};
use std::rc::Rc;

/// Bytes of chunks that are kept.
const CHUNK_BYTES_MAX: usize = 8 << 20;
/// Entries of folders that are kept.
const ENTRIES_MAX: usize = 1 << 16;
/// Longest name that a host takes.
const NAME_BYTES_MAX: usize = 255;

/// The entries of a folder.
type Entries = Vec<Rc<Node>>;

/// The identity of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    /// A name in a folder.
    Name(u64, Vec<u8>),
    /// All names of a file in a snapshot.
    Link(u64, u64),
}

impl Key {
    /// The identity of `node` in the folder `parent`. `snapshot` is its top folder; `None` if it is one itself.
    pub(super) fn of(parent: u64, snapshot: Option<u64>, node: &Node) -> Self {
        match (snapshot, node.metadata.hard_link) {
            (Some(snapshot), Some(link)) => Self::Link(snapshot, link),
            _ => Self::Name(parent, node.name.clone()),
        }
    }
}

/// An entry that the kernel knows.
struct Inode {
    node: Rc<Node>,
    /// The top folder of its snapshot: hard links are numbered within it.
    snapshot: u64,
    /// The folder where it was found first.
    parent: u64,
}

/// The vault as a tree of numbered entries.
pub(super) struct Tree<'v> {
    vault: &'v mut dyn Access,
    inodes: Inodes<Key, Inode>,
    /// The folders of all snapshots; `None` where one snapshot's own folder is mounted.
    snapshots: Option<Rc<Entries>>,
    folders: Cache<u64, Entries>,
    chunks: Cache<Fingerprint, Vec<u8>>,
}

impl<'v> Tree<'v> {
    /// The tree of all snapshots that can be read, or the one of `only` one.
    pub(super) fn new(vault: &'v mut dyn Access, only: Option<SnapshotId>) -> Result<Self, Error> {
        let (root, snapshots) = match only {
            Some(snapshot) => {
                let found = read_snapshot(vault, snapshot)?;
                (folder(Vec::new(), found), None)
            }
            None => {
                let all = tops(vault)?;
                let newest = all.iter().map(|node| node.metadata.modified_ns / 1_000_000).max();
                let root = Snapshot { created_ms: newest.unwrap_or(0) as u64, ..Snapshot::default() };
                let root = folder(Vec::new(), root);
                (root, Some(Rc::new(all)))
            }
        };
        let root = Inode { node: Rc::new(root), snapshot: ROOT, parent: ROOT };
        Ok(Self {
            vault,
            inodes: Inodes::new(Key::Name(0, Vec::new()), root),
            snapshots,
            folders: Cache::new(ENTRIES_MAX),
            chunks: Cache::new(CHUNK_BYTES_MAX),
        })
    }

    fn inode(&self, number: u64) -> Result<&Inode, Errno> {
        self.inodes.get(number).map(|(_, inode)| inode).ok_or(Errno::ESTALE)
    }

    fn node(&self, number: u64) -> Result<Rc<Node>, Errno> {
        self.inode(number).map(|inode| Rc::clone(&inode.node))
    }

    /// The entries of a folder, by name.
    fn entries(&mut self, number: u64) -> Result<Rc<Entries>, Errno> {
        if let (ROOT, Some(snapshots)) = (number, &self.snapshots) {
            return Ok(Rc::clone(snapshots));
        }
        if let Some(entries) = self.folders.get(&number) {
            return Ok(entries);
        }
        let node = self.node(number)?;
        let Kind::Folder(recipe) = &node.kind else { return Err(Errno::ENOTDIR) };
        let mut entries = read_folder(self.vault, recipe).map_err(|error| failed(&node, &error))?;
        // Such a name leads elsewhere.
        entries.retain(Node::has_good_name);
        let entries: Entries = entries.into_iter().map(Rc::new).collect();
        let count = entries.len();
        Ok(self.folders.keep(number, entries, count))
    }

    fn bytes(&mut self, recipe: &Recipe, offset: u64, end: u64) -> Result<Vec<u8>, VaultError> {
        let mut found = Vec::with_capacity(end.saturating_sub(offset) as usize);
        for (at, span) in self.spans(recipe, offset, end)? {
            let (from, to) = (offset.max(at) - at, end.min(at + span.bytes) - at);
            match span.reference() {
                None => found.resize(found.len() + (to - from) as usize, 0),
                Some(chunk) => {
                    let content = self.chunk(&chunk)?;
                    let content = content.get(from as usize..to as usize);
                    found.extend(content.ok_or(VaultError::Absent(chunk.fingerprint))?);
                }
            }
        }
        Ok(found)
    }

    /// The spans of content that have something of the range, each with where it begins.
    fn spans(&mut self, recipe: &Recipe, offset: u64, end: u64) -> Result<Vec<(u64, Span)>, VaultError> {
        let (mut found, mut at) = (Vec::new(), 0_u64);
        recipe.walk(&mut |chunk| self.chunk(chunk).map(|it| it.to_vec()), &mut |span, layer| {
            let after = at.saturating_add(span.bytes);
            let is_wanted = at < end && offset < after;
            match layer {
                // Its spans come next, and move on.
                Layer::Spans if is_wanted => return true,
                Layer::Content if is_wanted => found.push((at, *span)),
                _ => {}
            }
            at = after;
            false
        })?;
        Ok(found)
    }

    fn chunk(&mut self, chunk: &Reference) -> Result<Rc<Vec<u8>>, VaultError> {
        if let Some(content) = self.chunks.get(&chunk.fingerprint) {
            return Ok(content);
        }
        let content = self.vault.get(chunk)?;
        let weight = content.len();
        Ok(self.chunks.keep(chunk.fingerprint, content, weight))
    }
}

impl fuse::Tree for Tree<'_> {
    fn look_up(&mut self, parent: u64, name: &[u8]) -> Result<Shown, Errno> {
        let entries = self.entries(parent)?;
        let at =
            entries.binary_search_by(|node| node.name.as_slice().cmp(name)).map_err(|_| Errno::ENOENT)?;
        let is_top = parent == ROOT && self.snapshots.is_some();
        let snapshot = if is_top { None } else { Some(self.inode(parent)?.snapshot) };
        let node = &entries[at];
        let inode = |number| Inode { node: Rc::clone(node), snapshot: snapshot.unwrap_or(number), parent };
        let number = self.inodes.look_up(Key::of(parent, snapshot, node), inode);
        self.shown(number)
    }

    fn forget(&mut self, number: u64, times: u64) {
        self.inodes.forget(number, times);
    }

    fn shown(&mut self, number: u64) -> Result<Shown, Errno> {
        let about = about(&*self.node(number)?);
        Ok(Shown { number, about, valid: FOREVER })
    }

    fn parent(&self, number: u64) -> Result<u64, Errno> {
        self.inode(number).map(|inode| inode.parent)
    }

    fn list(&mut self, number: u64, from: usize, most: usize) -> Result<Vec<Listed>, Errno> {
        let listed = |node: &Rc<Node>| Listed { name: node.name.clone(), kind: kind(node) };
        Ok(self.entries(number)?.iter().skip(from).take(most).map(listed).collect())
    }

    fn link(&mut self, number: u64) -> Result<Vec<u8>, Errno> {
        match &self.node(number)?.kind {
            Kind::Link(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn read(&mut self, number: u64, offset: u64, bytes: u32) -> Result<Vec<u8>, Errno> {
        let node = self.node(number)?;
        let Kind::File(recipe) = &node.kind else { return Err(Errno::EISDIR) };
        let end = recipe.bytes().min(offset.saturating_add(bytes.into()));
        self.bytes(recipe, offset, end).map_err(|error| failed(&node, &error))
    }

    fn extended(&mut self, number: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Errno> {
        Ok(self.node(number)?.metadata.attributes.clone())
    }
}

fn kind(node: &Node) -> FileType {
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
fn about(node: &Node) -> About {
    const NS: i64 = 1_000_000_000;
    let metadata = &node.metadata;
    let bytes = match &node.kind {
        Kind::File(recipe) => recipe.bytes(),
        Kind::Link(target) => target.len() as u64,
        _ => 0,
    };
    let device = match node.kind {
        Kind::BlockDevice(major, minor) | Kind::CharacterDevice(major, minor) => (major, minor),
        _ => (0, 0),
    };
    let modified = time(metadata.modified_ns.div_euclid(NS), metadata.modified_ns.rem_euclid(NS) as u32);
    let about = About::new(kind(node), bytes, metadata.mode, (metadata.user, metadata.group), modified);
    About { links: 1 + u32::from(metadata.hard_link.is_some()), device, ..about }
}

/// Says why an entry cannot be read.
fn failed(node: &Node, error: &VaultError) -> Errno {
    tracing::warn!("cannot read {:?}: {error}", String::from_utf8_lossy(&node.name));
    Errno::EIO
}

/// The folder of a snapshot, with the attributes that it has or of one that only this tree has.
fn folder(name: Vec<u8>, of: Snapshot) -> Node {
    let modified_ns = i64::try_from(of.created_ms).unwrap_or(0).saturating_mul(1_000_000);
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let metadata = Metadata { mode: 0o555, user, group, modified_ns, ..Metadata::default() };
    Node { name, metadata: of.top.unwrap_or(metadata), kind: Kind::Folder(of.folder) }
}

/// The folders of all snapshots that can be read, by name.
fn tops(vault: &mut dyn Access) -> Result<Entries, Error> {
    let mut all = Vec::new();
    for line in snapshots(vault)? {
        if let Some(fault) = &line.fault {
            tracing::warn!("snapshot {} is not shown: {fault}", line.snapshot);
            continue;
        }
        let found = read_snapshot(vault, SnapshotId(line.snapshot))?;
        all.push(Rc::new(folder(top_name(&line), found)));
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// The number makes the name of the folder the only one.
fn top_name(line: &Line) -> Vec<u8> {
    let mut name = format!("{}-{}", line.snapshot, line.label.name).replace('/', "_");
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name.into_bytes()
}
