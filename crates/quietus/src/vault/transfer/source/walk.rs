//! The walk through the files of this host: what is found, in the order in which it is stored.
//!
//! Invariant: a file is asked to be read before it is told of, and files are read in the order in which they were asked for. So the
//! first file that is not stored yet always has a reader, however few there are and however little may wait.

use crate::vault::Error;
use crate::vault::transfer::source::parent::{Before, Parent};
use crate::vault::transfer::source::read::{Order, Parts, order};
use crate::vault::transfer::source::{Wanted, attributes};
use crossbeam_channel::Sender;
use quietus_vault::client::joined;
use quietus_vault::tree::{Kind, Metadata, Node, Recipe};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most files without a change that are told of together, so that one request asks for the content of all.
const UNCHANGED_MAX: usize = 128;
/// Most chunks at the top of these files together.
const UNCHANGED_CHUNKS_MAX: usize = 2048;
/// The name of the file that marks a folder as a cache, and how the file begins (bford.info/cachedir).
const CACHE_TAG: &str = "CACHEDIR.TAG";
const CACHE_SIGNATURE: [u8; 43] = *b"Signature: 8a477f597d28d172789f06886806bc55";

/// One step of a walk.
pub(super) enum Found {
    /// A folder. Its entries follow, in the order of their names, and its end.
    Folder(Vec<u8>, Metadata),
    /// The end of the folder.
    End,
    /// Another entry.
    Entry(Box<Entry>),
    /// Files unchanged since the snapshot before, each with its content there.
    Unchanged(Vec<(Entry, Recipe)>),
    /// A path that cannot be read, and the reason.
    LeftOut(String),
}

/// An entry that is no folder.
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) path: PathBuf,
    pub(super) about: fs::Metadata,
    pub(super) metadata: Metadata,
    pub(super) content: Content,
}

/// The content of an entry.
pub(super) enum Content {
    /// A file that is being read.
    Coming(Parts),
    /// A file that is read when it is stored: one with several names, when it is known that no earlier name of it was.
    Late,
    /// No file.
    Other(Kind),
}

/// The paths of the command line, as a tree of folders of which some are taken whole.
#[derive(Default, Debug)]
pub(super) struct Branch {
    /// Where it is.
    path: PathBuf,
    is_whole: bool,
    below: BTreeMap<Vec<u8>, Branch>,
}

impl Branch {
    pub(super) fn add(&mut self, path: &Path) -> Result<(), Error> {
        let (mut at, mut here) = (self, PathBuf::new());
        for part in path.components() {
            here.push(part);
            match part {
                Component::Normal(name) => {
                    at = at.below.entry(name.as_bytes().to_vec()).or_default();
                    at.path.clone_from(&here);
                }
                Component::ParentDir => {
                    return Err(Error::Invalid(format!(
                        "{}: `..` in a path; name the absolute path",
                        path.display()
                    )));
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => at.path.clone_from(&here),
            }
        }
        fs::symlink_metadata(path).map_err(|error| Error::io("read it", path, error))?;
        at.is_whole = true;
        Ok(())
    }

    /// The attributes of the folder, if it is put whole, such as `.`. What cannot be read is not known.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let read = || attributes::read(&self.path, &fs::metadata(&self.path).ok()?).ok();
        self.is_whole.then(read).flatten()
    }
}

/// Counts the bytes of all files beside the walk, so that it is known how far that is.
pub(super) struct Measure<'a> {
    pub(super) wanted: &'a Wanted<'a>,
    pub(super) bytes: &'a AtomicU64,
    /// Whether the results are not wanted any more.
    pub(super) is_over: &'a AtomicBool,
}

impl Measure<'_> {
    pub(super) fn branch(&self, of: &Branch, inside: &[u8]) {
        if of.is_whole {
            return self.entry(&of.path, inside, None);
        }
        of.below.iter().for_each(|(name, below)| self.branch(below, &joined(inside, name)));
    }

    /// Counts what is at `path` and below; what cannot be read counts nothing.
    fn entry(&self, path: &Path, inside: &[u8], device: Option<u64>) {
        if self.is_over.load(Ordering::Relaxed) || self.wanted.exclude.have_at(inside, path) {
            return;
        }
        let Ok(about) = fs::symlink_metadata(path) else { return };
        if about.is_file() {
            self.bytes.fetch_add(about.len(), Ordering::Relaxed);
        }
        if !about.is_dir() || !self.wanted.enters(device, &about) {
            return;
        }
        let is_cache = self.wanted.leaves_out(path);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !is_cache || name == CACHE_TAG {
                self.entry(&path.join(&name), &joined(inside, name.as_bytes()), Some(about.dev()));
            }
        }
    }
}

impl Wanted<'_> {
    /// Whether what is in a folder is wanted; the folder above is on `device`.
    fn enters(&self, device: Option<u64>, folder: &fs::Metadata) -> bool {
        !self.one_file_system || device.is_none_or(|device| device == folder.dev())
    }

    /// Whether nothing of a folder is wanted but the file that says that it is a cache.
    fn leaves_out(&self, folder: &Path) -> bool {
        self.exclude_caches && is_cache(&folder.join(CACHE_TAG)).unwrap_or(false)
    }
}

fn is_cache(tag: &Path) -> io::Result<bool> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(tag)?;
    let mut begins = [0; CACHE_SIGNATURE.len()];
    file.read_exact(&mut begins)?;
    Ok(begins == CACHE_SIGNATURE)
}

/// A walk under way. It ends when the receiver is gone.
pub(super) struct Walk<'a> {
    wanted: &'a Wanted<'a>,
    /// The vault's own directory and pool, which are no part of what is put.
    own: Vec<(u64, u64)>,
    parent: Option<Parent>,
    found: Sender<Found>,
    orders: Sender<Order>,
    /// Unchanged files, which are told of before anything else is, and the chunks at their tops.
    unchanged: (Vec<(Entry, Recipe)>, usize),
}

/// Where an entry is.
struct Place<'p> {
    path: &'p Path,
    name: &'p [u8],
    /// Its path in the snapshot.
    inside: &'p [u8],
    /// The device of the folder above, if that is wanted whole.
    device: Option<u64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        wanted: &'a Wanted<'a>,
        own: &[PathBuf],
        parent: Option<Parent>,
        (found, orders): (Sender<Found>, Sender<Order>),
    ) -> Self {
        let own = own.iter().filter_map(|path| fs::metadata(path).ok());
        let own = own.map(|about| (about.dev(), about.ino())).collect();
        Self { wanted, own, parent, found, orders, unchanged: (Vec::new(), 0) }
    }

    /// All that is wanted.
    pub(super) fn all(&mut self, top: &Branch) -> Result<(), Error> {
        let before = self.parent.as_ref().map(|parent| parent.folder.clone());
        self.branch(top, b"", before.as_ref())
    }

    /// The named parts of a folder; `inside` is its path in the snapshot, `before` the same folder of the snapshot before.
    fn branch(&mut self, of: &Branch, inside: &[u8], before: Option<&Recipe>) -> Result<(), Error> {
        if of.is_whole {
            let about = fs::symlink_metadata(&of.path);
            let device = about.map_err(|error| Error::io("read it", &of.path, error))?.dev();
            return self.folder(&of.path, inside, device, before);
        }
        let mut before = Before::of(before);
        for (name, below) in &of.below {
            let node = before.take(self.parent.as_mut(), name);
            let inside = joined(inside, name);
            if below.is_whole {
                let place = Place { path: &below.path, name, inside: &inside, device: None };
                self.entry(&place, node)?;
            } else {
                // A folder above what was named may be a link: what it leads to is meant.
                let about =
                    fs::metadata(&below.path).and_then(|about| Ok(attributes::read(&below.path, &about)?));
                let metadata = about.map_err(|error| Error::io("read it", &below.path, error))?;
                self.tell(Found::Folder(name.clone(), metadata))?;
                self.branch(below, &inside, folder_of(node.as_ref()))?;
            }
        }
        self.tell(Found::End)
    }

    /// All that is in a folder on `device`.
    fn folder(
        &mut self,
        path: &Path,
        inside: &[u8],
        device: u64,
        before: Option<&Recipe>,
    ) -> Result<(), Error> {
        let names = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().as_bytes().to_vec())).collect::<io::Result<Vec<_>>>()
        });
        match names {
            Err(error) => self.leave_out(path, &error)?,
            Ok(mut names) => {
                if self.wanted.leaves_out(path) {
                    names.retain(|name| name == CACHE_TAG.as_bytes());
                }
                names.sort_unstable();
                let mut before = Before::of(before);
                for name in names {
                    let (path, inside) = (path.join(OsStr::from_bytes(&name)), joined(inside, &name));
                    let node = before.take(self.parent.as_mut(), &name);
                    let place = Place { path: &path, name: &name, inside: &inside, device: Some(device) };
                    self.entry(&place, node)?;
                }
            }
        }
        self.tell(Found::End)
    }

    /// An entry, and all below it; `node` is the entry of the snapshot before.
    fn entry(&mut self, place: &Place<'_>, node: Option<Node>) -> Result<(), Error> {
        let Place { path, name, inside, device } = *place;
        if self.wanted.exclude.have_at(inside, path) {
            return Ok(());
        }
        let read = fs::symlink_metadata(path).and_then(|about| Ok((attributes::read(path, &about)?, about)));
        let (metadata, about) = match read {
            Ok(read) => read,
            Err(error) => return self.leave_out(path, &error),
        };
        if self.own.contains(&(about.dev(), about.ino())) {
            tracing::warn!("{}: the vault itself, which is not put into it", path.display());
            return Ok(());
        }
        if about.is_dir() {
            self.tell(Found::Folder(name.into(), metadata))?;
            return match self.wanted.enters(device, &about) {
                true => self.folder(path, inside, about.dev(), folder_of(node.as_ref())),
                // Another file system begins here: its place is kept, and nothing of it.
                false => self.tell(Found::End),
            };
        }
        let unchanged = node.and_then(|node| self.parent.as_ref()?.unchanged(node, &about));
        let content = match &unchanged {
            Some(_) => Ok(Content::Late),
            None => self.content(path, &about)?,
        };
        let content = match content {
            Ok(content) => content,
            Err(error) => return self.leave_out(path, &error),
        };
        let entry = Entry { name: name.into(), path: path.into(), about, metadata, content };
        match unchanged {
            Some(recipe) => self.keep(entry, recipe),
            None => self.tell(Found::Entry(Box::new(entry))),
        }
    }

    /// The content of an entry that is no folder, or the reason why it cannot be read.
    fn content(&self, path: &Path, about: &fs::Metadata) -> Result<io::Result<Content>, Error> {
        let of = about.file_type();
        let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
        let kind = match of {
            _ if of.is_file() && about.nlink() > 1 => return Ok(Ok(Content::Late)),
            _ if of.is_file() => {
                let (order, parts) = order(path, about);
                self.orders.send(order).map_err(|_| Error::Interrupted)?;
                return Ok(Ok(Content::Coming(parts)));
            }
            _ if of.is_symlink() => match fs::read_link(path) {
                Ok(target) => Kind::Link(target.as_os_str().as_bytes().to_vec()),
                Err(error) => return Ok(Err(error)),
            },
            _ if of.is_block_device() => Kind::BlockDevice(major, minor),
            _ if of.is_char_device() => Kind::CharacterDevice(major, minor),
            _ if of.is_fifo() => Kind::Pipe,
            _ => Kind::Socket,
        };
        Ok(Ok(Content::Other(kind)))
    }

    fn leave_out(&mut self, path: &Path, error: &io::Error) -> Result<(), Error> {
        self.tell(Found::LeftOut(format!("{}: {error}", path.display())))
    }

    /// Tells of an unchanged file, together with others.
    fn keep(&mut self, entry: Entry, recipe: Recipe) -> Result<(), Error> {
        self.unchanged.1 += recipe.top().0.len();
        self.unchanged.0.push((entry, recipe));
        let (files, chunks) = &self.unchanged;
        if files.len() < UNCHANGED_MAX && *chunks < UNCHANGED_CHUNKS_MAX {
            Ok(())
        } else {
            self.tell_unchanged()
        }
    }

    fn tell_unchanged(&mut self) -> Result<(), Error> {
        let (files, _) = std::mem::take(&mut self.unchanged);
        if files.is_empty() { Ok(()) } else { self.send(Found::Unchanged(files)) }
    }

    fn tell(&mut self, found: Found) -> Result<(), Error> {
        self.tell_unchanged()?;
        self.send(found)
    }

    fn send(&self, found: Found) -> Result<(), Error> {
        self.found.send(found).map_err(|_| Error::Interrupted)
    }
}

/// The recipe of an entry that is a folder.
fn folder_of(node: Option<&Node>) -> Option<&Recipe> {
    match &node?.kind {
        Kind::Folder(recipe) => Some(recipe),
        _ => None,
    }
}
