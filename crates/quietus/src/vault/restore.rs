//! Snapshots, as files and folders of this host again.
//!
//! Invariants:
//! 1. Nothing is written outside of the folder that was named: each folder is opened from there, part by part, and a
//!    symbolic link on the way is refused.
//! 2. Nothing that exists is overwritten. A folder that exists takes more entries.
//! 3. A file whose content cannot be read whole is not there afterwards.

use super::attributes::{self, Place};
use super::{Error, Step};
use quietus_vault::SnapshotId;
use quietus_vault::client::{Access, expect_files, joined, read_file, read_folder, read_snapshot, totals};
use quietus_vault::tree::{Kind, Node, Recipe};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Entries that were refused and are named one by one.
const REFUSED_MAX: usize = 1000;
/// Deepest folder: deeper ones have no path that a host takes.
pub(super) const DEPTH_MAX: usize = 2048;
/// Entries of a folder whose content the vault is told of at once.
const EXPECTED_FILES: usize = 1024;
/// Zeros that `cat` writes at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Takes an entry, with its path.
type Take<'a> = &'a mut dyn FnMut(&[u8], &Node) -> Result<(), Error>;

/// The result of a restore.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Restored {
    /// The snapshot.
    pub snapshot: u64,
    /// Where it was restored.
    pub into: PathBuf,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files, holes included.
    pub bytes: u64,
    /// Paths that could not be restored, or not wholly, with the reason; the first thousand.
    pub refused: Vec<String>,
    /// How much could not be restored.
    pub refused_count: u64,
}

/// Restores the snapshot, or only `paths` of it, into the folder `into`, which is made if need be.
///
/// # Errors
/// [`Error`]: the folder, the vault, or a path that the snapshot does not have.
pub fn restore(
    vault: &mut dyn Access,
    snapshot: SnapshotId,
    into: &Path,
    paths: &[PathBuf],
    step: Step<'_>,
) -> Result<Restored, Error> {
    let top = read_snapshot(vault, snapshot)?;
    let wanted = paths.iter().map(|path| inside(path)).collect::<Result<Vec<_>, _>>()?;
    let of = match wanted.is_empty() {
        true => top.totals.bytes,
        false => wanted.iter().map(|path| bytes_at(vault, &top.folder, path)).sum::<Result<_, _>>()?,
    };
    std::fs::create_dir_all(into).map_err(|error| Error::io("make it", into, error))?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root =
        rustix::fs::open(into, flags, Mode::empty()).map_err(|error| Error::io("open it", into, error))?;
    let restored = Restored { snapshot: snapshot.0, into: into.into(), ..Restored::default() };
    let mut task = Task { vault, root, wanted, links: HashMap::new(), restored, step, done: (0, of) };
    task.folder(&top.folder, b"", 0)?;
    Ok(task.restored)
}

/// Writes the content of the file at `path` to `out`.
///
/// # Errors
/// [`Error`]: there is no such file, or `out` cannot be written.
pub fn cat(
    vault: &mut dyn Access,
    snapshot: SnapshotId,
    path: &Path,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let top = read_snapshot(vault, snapshot)?;
    let Some(Node { kind: Kind::File(recipe), .. }) = find(vault, &top.folder, &inside(path)?)? else {
        return Err(Error::Invalid(format!(
            "{}: not a file of the snapshot; `quietus vault list` names all",
            path.display()
        )));
    };
    let unwritten = |error| Error::io("write it", Path::new("standard output"), error);
    expect_files(vault, std::iter::once(&recipe));
    read_file::<Error>(vault, &recipe, &mut |mut bytes, content| {
        if let Some(content) = content {
            return out.write_all(content).map_err(unwritten);
        }
        while bytes > 0 {
            let some = bytes.min(ZEROS.len() as u64);
            out.write_all(&ZEROS[..some as usize]).map_err(unwritten)?;
            bytes -= some;
        }
        Ok(())
    })?;
    out.flush().map_err(unwritten)
}

/// Calls `take` with each entry of the snapshot at `path` and below, each with its path; folders before what they have.
///
/// # Errors
/// [`Error`]: the vault, a path that the snapshot does not have, and those of `take`.
pub fn entries(
    vault: &mut dyn Access,
    snapshot: SnapshotId,
    path: &Path,
    take: Take<'_>,
) -> Result<(), Error> {
    let (top, path) = (read_snapshot(vault, snapshot)?, inside(path)?);
    if path.is_empty() {
        return below(vault, &top.folder, &path, take);
    }
    let node = find(vault, &top.folder, &path)?.ok_or_else(|| unknown(&path))?;
    take(&path, &node)?;
    match &node.kind {
        Kind::Folder(folder) => below(vault, folder, &path, take),
        _ => Ok(()),
    }
}

fn below(vault: &mut dyn Access, folder: &Recipe, path: &[u8], take: Take<'_>) -> Result<(), Error> {
    for node in read_folder(vault, folder)? {
        let path = joined(path, &node.name);
        take(&path, &node)?;
        if let Kind::Folder(folder) = &node.kind {
            below(vault, folder, &path, take)?;
        }
    }
    Ok(())
}

/// A path as a snapshot has it: no slash at either end, no `.`.
fn inside(path: &Path) -> Result<Vec<u8>, Error> {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Component;
    let mut inside = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside = joined(&inside, name.as_bytes()),
            Component::ParentDir => {
                return Err(Error::Invalid(format!(
                    "{}: `..` in a path of a snapshot; leave it out",
                    path.display()
                )));
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(inside)
}

/// The entry at a path.
fn find(vault: &mut dyn Access, folder: &Recipe, path: &[u8]) -> Result<Option<Node>, Error> {
    let (mut folder, mut found) = (folder.clone(), None);
    for name in path.split(|byte| *byte == b'/') {
        let mut nodes = read_folder(vault, &folder)?.into_iter();
        let Some(node) = nodes.find(|node| node.name == name) else { return Ok(None) };
        folder = match &node.kind {
            Kind::Folder(below) => below.clone(),
            _ => Recipe::default(),
        };
        found = Some(node);
    }
    Ok(found)
}

/// Bytes of all files at a path and below.
fn bytes_at(vault: &mut dyn Access, folder: &Recipe, path: &[u8]) -> Result<u64, Error> {
    match find(vault, folder, path)?.map(|node| node.kind) {
        Some(Kind::Folder(below)) => Ok(totals(vault, &below)?.bytes),
        Some(Kind::File(recipe)) => Ok(recipe.bytes()),
        Some(_) => Ok(0),
        None => Err(unknown(path)),
    }
}

fn unknown(path: &[u8]) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::Invalid(format!("{path}: not in the snapshot; `quietus vault list` names all"))
}

/// The part of an entry that is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// Something below it.
    InPart,
    Not,
}

struct Task<'v, 'a> {
    vault: &'v mut dyn Access,
    root: OwnedFd,
    wanted: Vec<Vec<u8>>,
    /// Where the first name of a file with several was restored.
    links: HashMap<u64, Vec<u8>>,
    restored: Restored,
    step: Step<'a>,
    done: (u64, u64),
}

impl Task<'_, '_> {
    fn folder(&mut self, folder: &Recipe, path: &[u8], depth: usize) -> Result<(), Error> {
        let nodes = match read_folder(self.vault, folder) {
            Ok(nodes) => nodes,
            Err(error) => return self.refuse(path, &error),
        };
        if depth >= DEPTH_MAX {
            return self.refuse(path, &format!("deeper than {DEPTH_MAX} folders"));
        }
        let nodes: Vec<_> =
            nodes.into_iter().filter(|node| self.wants(&joined(path, &node.name)) != Wanted::Not).collect();
        let mut folders = Vec::new();
        let here = match open_below(&self.root, path) {
            Ok(here) => here,
            Err(error) => return self.refuse(path, &error),
        };
        for (at, node) in nodes.iter().enumerate() {
            if at % EXPECTED_FILES == 0 {
                self.expect(&nodes[at..nodes.len().min(at + EXPECTED_FILES)]);
            }
            let inside = joined(path, &node.name);
            match &node.kind {
                _ if !node.has_good_name() => self.refuse(&inside, &"such a name leads elsewhere")?,
                Kind::Folder(below) => match make_folder(&here, &node.name) {
                    Ok(()) => folders.push((node, inside, below)),
                    Err(error) => self.refuse(&inside, &error)?,
                },
                _ => self.entry(here.as_fd(), node, &inside)?,
            }
        }
        drop(here);
        for (_, inside, below) in &folders {
            self.folder(below, inside, depth + 1)?;
        }
        self.finish_folders(path, &folders)
    }

    /// Tells the vault which files are read next: those whose content is not linked to.
    fn expect(&mut self, nodes: &[Node]) {
        let links = &self.links;
        let files = nodes.iter().filter_map(|node| match &node.kind {
            Kind::File(recipe) if !node.metadata.hard_link.is_some_and(|it| links.contains_key(&it)) => {
                Some(recipe)
            }
            _ => None,
        });
        expect_files(self.vault, files);
    }

    /// Gives folders what they had, once nothing is written in them any more.
    fn finish_folders(&mut self, path: &[u8], folders: &[(&Node, Vec<u8>, &Recipe)]) -> Result<(), Error> {
        let here = match open_below(&self.root, path) {
            Ok(here) => here,
            Err(error) => return self.refuse(path, &error),
        };
        for (node, inside, _) in folders {
            self.restored.folders += 1;
            self.attributes(here.as_fd(), node, inside)?;
        }
        Ok(())
    }

    /// Restores an entry that is no folder.
    fn entry(&mut self, here: BorrowedFd<'_>, node: &Node, inside: &[u8]) -> Result<(), Error> {
        self.go_on(0)?;
        let made = match self.link(here, node) {
            Some(linked) => linked,
            None => {
                let made = match &node.kind {
                    Kind::File(recipe) => self.file(here, &node.name, recipe)?,
                    _ => make_special(here, node).map_err(|error| error.to_string()),
                };
                if made.is_ok() {
                    if let Some(number) = node.metadata.hard_link {
                        self.links.insert(number, inside.into());
                    }
                    self.attributes(here, node, inside)?;
                }
                made
            }
        };
        match made {
            Ok(()) => {
                self.restored.files += 1;
                Ok(())
            }
            Err(why) => self.refuse(inside, &why),
        }
    }

    /// Makes another name of a file that has one already; none if it has none.
    fn link(&mut self, here: BorrowedFd<'_>, node: &Node) -> Option<Result<(), String>> {
        let first = self.links.get(&node.metadata.hard_link?)?;
        let (parent, name) = match first.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&first[..at], &first[at + 1..]),
            None => (&b""[..], &first[..]),
        };
        let linked = open_below(&self.root, parent).and_then(|parent| {
            rustix::fs::linkat(&parent, name, here, node.name.as_slice(), AtFlags::empty())
        });
        if linked.is_ok()
            && let Kind::File(recipe) = &node.kind
        {
            self.restored.bytes += recipe.bytes();
            self.done.0 += recipe.bytes();
        }
        Some(linked.map_err(|error| error.to_string()))
    }

    /// Restores a file's content. The inner error is the file's alone.
    fn file(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        recipe: &Recipe,
    ) -> Result<Result<(), String>, Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = match rustix::fs::openat(here, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(error) => return Ok(Err(error.to_string())),
        };
        match self.content(&mut file, recipe) {
            Ok(()) => Ok(Ok(())),
            Err(error) => {
                drop(file);
                // A partial file would pass for the whole one.
                let _ = rustix::fs::unlinkat(here, name, AtFlags::empty());
                match error {
                    Error::Interrupted => Err(error),
                    error => Ok(Err(error.to_string())),
                }
            }
        }
    }

    fn content(&mut self, file: &mut File, recipe: &Recipe) -> Result<(), Error> {
        let unwritten = |error: io::Error| Error::io("write it", Path::new("the file"), error);
        let (step, done) = (&mut self.step, &mut self.done);
        read_file::<Error>(self.vault, recipe, &mut |bytes, content| {
            match content {
                Some(content) => file.write_all(content).map_err(unwritten)?,
                None => file.seek(SeekFrom::Current(bytes as i64)).map(drop).map_err(unwritten)?,
            }
            done.0 += bytes;
            if step(done.0, done.1.max(done.0)) { Ok(()) } else { Err(Error::Interrupted) }
        })?;
        self.restored.bytes += recipe.bytes();
        file.set_len(recipe.bytes()).map_err(unwritten)
    }

    fn attributes(&mut self, here: BorrowedFd<'_>, node: &Node, inside: &[u8]) -> Result<(), Error> {
        let Ok(name) = CString::new(node.name.clone()) else { return Ok(()) };
        let place = Place { parent: here, name: &name, is_link: matches!(node.kind, Kind::Link(_)) };
        let refused = attributes::write(place, &node.metadata);
        if refused.is_empty() { Ok(()) } else { self.refuse(inside, &refused.join("; ")) }
    }

    fn wants(&self, path: &[u8]) -> Wanted {
        let is_below = |path: &[u8], top: &[u8]| {
            top.is_empty() || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        match () {
            () if self.wanted.is_empty() || self.wanted.iter().any(|it| is_below(path, it)) => Wanted::Whole,
            () if self.wanted.iter().any(|it| is_below(it, path)) => Wanted::InPart,
            () => Wanted::Not,
        }
    }

    fn go_on(&mut self, bytes: u64) -> Result<(), Error> {
        self.done.0 += bytes;
        let (done, of) = self.done;
        if (self.step)(done, of.max(done)) { Ok(()) } else { Err(Error::Interrupted) }
    }

    fn refuse(&mut self, path: &[u8], why: &dyn std::fmt::Display) -> Result<(), Error> {
        let what = format!("{}: {why}", String::from_utf8_lossy(path));
        self.restored.refused_count += 1;
        if self.restored.refused.len() < REFUSED_MAX {
            self.restored.refused.push(what);
        }
        Ok(())
    }
}

/// Opens the folder at `path` below `root`, and follows no link.
fn open_below(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut here = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
    }
    Ok(here)
}

/// Makes a folder, or takes one that is there and is no link.
fn make_folder(here: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::mkdirat(here, name, Mode::RWXU) {
        Err(Errno::EXIST) => {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
            rustix::fs::openat(here, name, flags, Mode::empty()).map(drop)
        }
        made => made,
    }
}

fn make_special(here: BorrowedFd<'_>, node: &Node) -> Result<(), Errno> {
    let name = node.name.as_slice();
    let make = |of, major, minor| {
        rustix::fs::mknodat(here, name, of, Mode::RUSR | Mode::WUSR, rustix::fs::makedev(major, minor))
    };
    match &node.kind {
        Kind::Link(target) => rustix::fs::symlinkat(target.as_slice(), here, name),
        Kind::BlockDevice(major, minor) => make(FileType::BlockDevice, *major, *minor),
        Kind::CharacterDevice(major, minor) => make(FileType::CharacterDevice, *major, *minor),
        Kind::Pipe => make(FileType::Fifo, 0, 0),
        Kind::Socket => make(FileType::Socket, 0, 0),
        Kind::File(_) | Kind::Folder(_) => unreachable!("files and folders are made elsewhere"),
    }
}
