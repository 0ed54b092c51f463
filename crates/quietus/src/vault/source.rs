//! Files and folders of this host, as a snapshot.
//!
//! Invariants:
//! 1. A symbolic link is stored, and never followed, but for the folders above a path that was named.
//! 2. What cannot be read is left out and told of. What was stored of it already is owed.

use super::select::check_name;
use super::{Client, Error, Globs, Step, attributes, now_ms};
use quietus_vault::client::{Access, FileWriter, Writer, joined};
use quietus_vault::container::Class;
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe, Snapshot, Totals};
use quietus_vault::{SnapshotId, VaultError};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Files that were left out and are named one by one.
const LEFT_OUT_MAX: usize = 1000;

/// The result of a put.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Put {
    /// The snapshot.
    pub snapshot: u64,
    /// Its name.
    pub name: String,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Chunks that were new, and the bytes that they took.
    pub new_chunks: u64,
    /// Bytes that the new chunks took.
    pub new_bytes: u64,
    /// Paths that were left out, with the reason; the first thousand.
    pub left_out: Vec<String>,
    /// How much was left out.
    pub left_out_count: u64,
}

/// Puts `paths` into the vault, as a snapshot of that name.
///
/// # Errors
/// [`Error`]; nothing is committed then, and what was stored is owed.
pub fn put_files(
    client: &mut Client,
    name: &str,
    paths: &[PathBuf],
    exclude: &Globs,
    step: Step<'_>,
) -> Result<Put, Error> {
    check_name(name)?;
    let mut top = Branch::default();
    paths.iter().try_for_each(|path| top.add(path))?;
    let of = top.measure(exclude, b"", step)?;
    let mut task = Task::begin(client, exclude, of, step)?;
    let folder = task.branch(&top, b"");
    task.end(name, folder)
}

/// The paths of the command line, as a tree of folders of which some are taken whole.
#[derive(Default, Debug)]
struct Branch {
    /// Where it is.
    path: PathBuf,
    is_whole: bool,
    below: BTreeMap<Vec<u8>, Branch>,
}

impl Branch {
    fn add(&mut self, path: &Path) -> Result<(), Error> {
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

    /// Bytes of all files.
    fn measure(&self, exclude: &Globs, inside: &[u8], step: Step<'_>) -> Result<u64, Error> {
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

/// A put under way.
pub(super) struct Task<'s, 'a> {
    pub(super) client: &'s mut Client,
    pub(super) writer: Writer,
    exclude: &'a Globs,
    /// The vault's own directory and pool, which are no part of what is put.
    own: Vec<(u64, u64)>,
    /// The files with several names: the number of each, and its content.
    links: HashMap<(u64, u64), (u64, Kind)>,
    devices: Vec<u64>,
    pub(super) totals: Totals,
    done: (u64, u64),
    step: Step<'a>,
    left_out: Vec<String>,
}

impl<'s, 'a> Task<'s, 'a> {
    pub(super) fn begin(
        client: &'s mut Client,
        exclude: &'a Globs,
        of: u64,
        step: Step<'a>,
    ) -> Result<Self, Error> {
        let home = client.home().clone();
        let compression = home.toml().compress.into();
        let own = [home.path().into(), home.pool_path()];
        let own = own.iter().filter_map(|path| fs::metadata(path).ok());
        let own = own.map(|about| (about.dev(), about.ino())).collect();
        let writer = Writer::begin(client, home.key(), compression)?;
        Ok(Self {
            client,
            writer,
            exclude,
            own,
            links: HashMap::new(),
            devices: Vec::new(),
            totals: Totals::default(),
            done: (0, of),
            step,
            left_out: Vec::new(),
        })
    }

    /// Commits the folder as a snapshot; after an error ends the put without one.
    pub(super) fn end(mut self, name: &str, folder: Result<Recipe, Error>) -> Result<Put, Error> {
        let committed = folder.and_then(|folder| self.commit(name, folder));
        if committed.is_err() {
            // The error that matters is the one that led here; a put that is not ended is owed at the next start.
            let _ = self.client.drop_put(self.writer.put());
        }
        committed
    }

    fn commit(&mut self, name: &str, folder: Recipe) -> Result<Put, Error> {
        let Totals { files, folders, bytes } = self.totals;
        let snapshot = Snapshot { name: name.into(), created_ms: now_ms(), totals: self.totals, folder };
        let SnapshotId(snapshot) = self.writer.commit(self.client, &snapshot)?;
        let (new_chunks, new_bytes) = self.writer.stored();
        Ok(Put {
            snapshot,
            name: name.into(),
            files,
            folders,
            bytes,
            new_chunks,
            new_bytes,
            left_out: std::mem::take(&mut self.left_out),
            left_out_count: self.writer.left_out(),
        })
    }

    /// The named parts of a folder; `inside` is its path in the snapshot.
    fn branch(&mut self, branch: &Branch, inside: &[u8]) -> Result<Recipe, Error> {
        if branch.is_whole {
            return self.folder(&branch.path, inside);
        }
        let mut folder = FolderBuilder::default();
        for (name, below) in &branch.below {
            let inside = joined(inside, name);
            let node = if below.is_whole {
                self.entry(&below.path, name, &inside)?
            } else {
                let recipe = self.branch(below, &inside)?;
                // A folder above what was named may be a link: what it leads to is meant.
                let about =
                    fs::metadata(&below.path).and_then(|about| Ok((metadata(&below.path, &about)?, about)));
                let (metadata, _) = about.map_err(|error| Error::io("read it", &below.path, error))?;
                Some(Node { name: name.clone(), metadata, kind: Kind::Folder(recipe) })
            };
            self.push(&mut folder, node)?;
        }
        self.finish(folder)
    }

    /// All that is in a folder.
    fn folder(&mut self, path: &Path, inside: &[u8]) -> Result<Recipe, Error> {
        let mut folder = FolderBuilder::default();
        let names = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().as_bytes().to_vec())).collect::<io::Result<Vec<_>>>()
        });
        match names {
            Err(error) => self.leave_out(path, &error),
            Ok(mut names) => {
                names.sort_unstable();
                for name in names {
                    let node =
                        self.entry(&path.join(OsStr::from_bytes(&name)), &name, &joined(inside, &name))?;
                    self.push(&mut folder, node)?;
                }
            }
        }
        self.finish(folder)
    }

    /// The entry at `path`; none if it is left out.
    fn entry(&mut self, path: &Path, name: &[u8], inside: &[u8]) -> Result<Option<Node>, Error> {
        self.go_on(0)?;
        if self.exclude.have(inside) {
            return Ok(None);
        }
        let read = fs::symlink_metadata(path).and_then(|about| Ok((metadata(path, &about)?, about)));
        let (mut metadata, about) = match read {
            Ok(read) => read,
            Err(error) => {
                self.leave_out(path, &error);
                return Ok(None);
            }
        };
        let key = (about.dev(), about.ino());
        if self.own.contains(&key) {
            tracing::warn!("{}: the vault itself, which is not put into it", path.display());
            return Ok(None);
        }
        if about.is_dir() {
            let kind = Kind::Folder(self.folder(path, inside)?);
            return Ok(Some(Node { name: name.into(), metadata, kind }));
        }
        let known = self.links.get(&key).filter(|_| about.nlink() > 1).cloned();
        let kind = match known {
            Some((number, kind)) => {
                metadata.hard_link = Some(number);
                kind
            }
            None => {
                let Some(kind) = self.kind(path, &about)? else { return Ok(None) };
                if about.nlink() > 1 {
                    let number = self.link_number(&about);
                    metadata.hard_link = Some(number);
                    self.links.insert(key, (number, kind.clone()));
                }
                kind
            }
        };
        Ok(Some(Node { name: name.into(), metadata, kind }))
    }

    /// The number of a file with several names: the host's, so that it is the same in the next snapshot.
    fn link_number(&mut self, about: &fs::Metadata) -> u64 {
        let device = self.devices.iter().position(|device| *device == about.dev()).unwrap_or_else(|| {
            self.devices.push(about.dev());
            self.devices.len() - 1
        });
        about.ino() ^ (device as u64).rotate_right(8)
    }

    /// The kind of an entry that is no folder; none if it cannot be read.
    fn kind(&mut self, path: &Path, about: &fs::Metadata) -> Result<Option<Kind>, Error> {
        let of = about.file_type();
        let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
        let kind = match of {
            _ if of.is_file() => return self.file(path, about),
            _ if of.is_symlink() => match fs::read_link(path) {
                Ok(target) => Kind::Link(target.as_os_str().as_bytes().to_vec()),
                Err(error) => {
                    self.leave_out(path, &error);
                    return Ok(None);
                }
            },
            _ if of.is_block_device() => Kind::BlockDevice(major, minor),
            _ if of.is_char_device() => Kind::CharacterDevice(major, minor),
            _ if of.is_fifo() => Kind::Pipe,
            _ => Kind::Socket,
        };
        Ok(Some(kind))
    }

    fn file(&mut self, path: &Path, about: &fs::Metadata) -> Result<Option<Kind>, Error> {
        // The file may be a pipe by now, and opening that would wait.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path).and_then(|file| {
            let now = file.metadata()?;
            let is_same = (now.dev(), now.ino()) == (about.dev(), about.ino()) && now.is_file();
            if is_same { Ok(file) } else { Err(io::Error::other("it was replaced while it was read")) }
        });
        let read = match opened {
            Ok(file) => self.content(file)?,
            Err(error) => Err(error),
        };
        match read {
            Ok((recipe, after)) => {
                if (after.len(), after.mtime(), after.mtime_nsec())
                    != (about.len(), about.mtime(), about.mtime_nsec())
                {
                    tracing::warn!("{}: changed while it was read", path.display());
                }
                Ok(Some(Kind::File(recipe)))
            }
            Err(error) => {
                self.leave_out(path, &error);
                Ok(None)
            }
        }
    }

    /// The content of a file, holes as holes; and what is known of the file afterwards.
    fn content(&mut self, file: File) -> Result<io::Result<(Recipe, fs::Metadata)>, Error> {
        let mut content = FileWriter::default();
        let mut at = 0;
        loop {
            let (data, hole) = match extent(&file, at) {
                Ok(extent) => extent,
                Err(error) => return Ok(Err(error.into())),
            };
            if data > at {
                content.hole(&mut self.writer, self.client, data - at)?;
                self.go_on(data - at)?;
            }
            if data == hole {
                break;
            }
            let read = self.pieces(&mut content, &file, hole - data)?;
            match read {
                Ok(bytes) if bytes < hole - data => break,
                Ok(_) => at = hole,
                Err(error) => return Ok(Err(error)),
            }
        }
        let recipe = content.finish(&mut self.writer, self.client)?;
        Ok(file.metadata().map(|after| (recipe, after)))
    }

    /// Stores the next `bytes` of a file, or fewer if it ends.
    fn pieces(
        &mut self,
        content: &mut FileWriter,
        file: &File,
        bytes: u64,
    ) -> Result<io::Result<u64>, Error> {
        let mut buffer = vec![0; PIECE_BYTES.min(bytes as usize)];
        let (mut done, mut reader) = (0, file.take(bytes));
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => return Ok(Ok(done)),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            content.push(&mut self.writer, self.client, &buffer[..read])?;
            done += read as u64;
            self.go_on(read as u64)?;
        }
    }

    fn push(&mut self, folder: &mut FolderBuilder, node: Option<Node>) -> Result<(), Error> {
        let Some(node) = node else { return Ok(()) };
        let (writer, vault) = (&mut self.writer, &mut *self.client);
        let pushed = folder.push(&node, &mut |bytes| writer.chunk(vault, Class::Metadata, bytes));
        match pushed {
            Ok(()) => self.totals.count(&node),
            Err(VaultError::Node(bad)) => self.note_left_out(bad.to_string()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, folder: FolderBuilder) -> Result<Recipe, Error> {
        let (writer, vault) = (&mut self.writer, &mut *self.client);
        Ok(folder.finish(&mut |bytes| writer.chunk(vault, Class::Metadata, bytes))?)
    }

    /// Notes that so much more was read.
    pub(super) fn go_on(&mut self, bytes: u64) -> Result<(), Error> {
        self.done.0 += bytes;
        let (done, of) = self.done;
        if (self.step)(done, of.max(done)) { Ok(()) } else { Err(Error::Interrupted) }
    }

    fn leave_out(&mut self, path: &Path, error: &io::Error) {
        self.note_left_out(format!("{}: {error}", path.display()));
    }

    pub(super) fn note_left_out(&mut self, what: String) {
        tracing::warn!("left out: {what}");
        self.writer.leave_out();
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(what);
        }
    }

    /// Adds an entry to a folder.
    pub(super) fn add(&mut self, folder: &mut FolderBuilder, node: Node) -> Result<(), Error> {
        self.push(folder, Some(node))
    }
}

fn metadata(path: &Path, about: &fs::Metadata) -> io::Result<Metadata> {
    Ok(attributes::read(path, about)?)
}

/// Where the next data of a file begins, from `at` on, and where it ends: both at the file's end if none follows.
fn extent(file: &File, at: u64) -> Result<(u64, u64), Errno> {
    let end = rustix::fs::seek(file, SeekFrom::End(0))?;
    let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok((end.max(at), end.max(at))),
        // A host that cannot tell has data everywhere.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => rustix::fs::seek(file, SeekFrom::Start(at))?,
        Err(error) => return Err(error),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(end.max(data));
    rustix::fs::seek(file, SeekFrom::Start(data))?;
    Ok((data, hole))
}
