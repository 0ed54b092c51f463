//! The walk through the files of this host: what is found, in the order in which it is stored.
//!
//! Invariant: a file is asked to be read before it is told of, and files are read in the order in which they were asked for. So the
//! first file that is not stored yet always has a reader, however few there are and however little may wait.

use super::attributes;
use super::read::{Order, Parts, order};
use crate::vault::{Error, Globs, Step};
use crossbeam_channel::Sender;
use quietus_vault::client::joined;
use quietus_vault::tree::{Kind, Metadata};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// One step of a walk.
pub(super) enum Found {
    /// A folder. Its entries follow, in the order of their names, and its end.
    Folder(Vec<u8>, Metadata),
    /// The end of the folder.
    End,
    /// Another entry.
    Entry(Box<Entry>),
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
    /// A file with several names, which is read when it is known that no earlier name of it was.
    Linked,
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

    /// The attributes of the folder, if it is put whole; those of `.`, for one. What cannot be read is not known.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let read = || attributes::read(&self.path, &fs::metadata(&self.path).ok()?).ok();
        self.is_whole.then(read).flatten()
    }

    /// Bytes of all files.
    pub(super) fn measure(&self, exclude: &Globs, inside: &[u8], step: Step<'_>) -> Result<u64, Error> {
        if self.is_whole {
            return measure(&self.path, exclude, inside, step);
        }
        let all = self.below.iter().map(|(name, below)| below.measure(exclude, &joined(inside, name), step));
        all.sum()
    }
}

/// Bytes of the files at `path`; what cannot be read counts nothing.
fn measure(path: &Path, exclude: &Globs, inside: &[u8], step: Step<'_>) -> Result<u64, Error> {
    if !step(0, 0) {
        return Err(Error::Interrupted);
    }
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(0) };
    if exclude.have(inside) || !about.is_dir() {
        return Ok(if about.is_file() && !exclude.have(inside) { about.len() } else { 0 });
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(0) };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.map(|name| measure(&path.join(&name), exclude, &joined(inside, name.as_bytes()), step)).sum()
}

/// A walk under way. It ends when nobody takes any more of what is found.
pub(super) struct Walk<'a> {
    exclude: &'a Globs,
    /// The vault's own directory and pool, which are no part of what is put.
    own: Vec<(u64, u64)>,
    found: Sender<Found>,
    orders: Sender<Order>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        exclude: &'a Globs,
        own: &[PathBuf],
        found: Sender<Found>,
        orders: Sender<Order>,
    ) -> Self {
        let own = own.iter().filter_map(|path| fs::metadata(path).ok());
        let own = own.map(|about| (about.dev(), about.ino())).collect();
        Self { exclude, own, found, orders }
    }

    /// The named parts of a folder; `inside` is its path in the snapshot.
    pub(super) fn branch(&self, of: &Branch, inside: &[u8]) -> Result<(), Error> {
        if of.is_whole {
            return self.folder(&of.path, inside);
        }
        for (name, below) in &of.below {
            let inside = joined(inside, name);
            if below.is_whole {
                self.entry(&below.path, name, &inside)?;
            } else {
                // A folder above what was named may be a link: what it leads to is meant.
                let about =
                    fs::metadata(&below.path).and_then(|about| Ok(attributes::read(&below.path, &about)?));
                let metadata = about.map_err(|error| Error::io("read it", &below.path, error))?;
                self.tell(Found::Folder(name.clone(), metadata))?;
                self.branch(below, &inside)?;
            }
        }
        self.tell(Found::End)
    }

    /// All that is in a folder.
    fn folder(&self, path: &Path, inside: &[u8]) -> Result<(), Error> {
        let names = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().as_bytes().to_vec())).collect::<io::Result<Vec<_>>>()
        });
        match names {
            Err(error) => self.leave_out(path, &error)?,
            Ok(mut names) => {
                names.sort_unstable();
                for name in names {
                    self.entry(&path.join(OsStr::from_bytes(&name)), &name, &joined(inside, &name))?;
                }
            }
        }
        self.tell(Found::End)
    }

    /// The entry at `path`, and all below it.
    fn entry(&self, path: &Path, name: &[u8], inside: &[u8]) -> Result<(), Error> {
        if self.exclude.have(inside) {
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
            return self.folder(path, inside);
        }
        match self.content(path, &about)? {
            Ok(content) => {
                let (name, path) = (name.into(), path.into());
                let entry = Entry { name, path, about, metadata, content };
                self.tell(Found::Entry(Box::new(entry)))
            }
            Err(error) => self.leave_out(path, &error),
        }
    }

    /// The content of an entry that is no folder, or the reason why it cannot be read.
    fn content(&self, path: &Path, about: &fs::Metadata) -> Result<io::Result<Content>, Error> {
        let of = about.file_type();
        let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
        let kind = match of {
            _ if of.is_file() && about.nlink() > 1 => return Ok(Ok(Content::Linked)),
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

    fn leave_out(&self, path: &Path, error: &io::Error) -> Result<(), Error> {
        self.tell(Found::LeftOut(format!("{}: {error}", path.display())))
    }

    fn tell(&self, found: Found) -> Result<(), Error> {
        self.found.send(found).map_err(|_| Error::Interrupted)
    }
}
