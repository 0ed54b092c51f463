//! Snapshots, as files and folders of this host again.
//!
//! Invariants:
//! 1. Nothing is written outside of the folder that was named: each folder is opened from there, part by part, and a
//!    symbolic link on the way is refused.
//! 2. What exists is replaced only if [`Overwrite`] says so, and a folder never. A folder that exists takes more entries.
//! 3. A file has its name only once it is whole. One whose content cannot be read whole is not there afterwards.

mod existing;
mod selection;

use crate::base::path_text::PathText;
use crate::base::refused_paths::RefusedPaths;
use crate::host::entries::attributes::{self, Place, Refused};
use crate::host::entries::{DEPTH_MAX, Partial, clear, is_partial, make_folder, make_special, open_below};
use crate::vault::{Error, Step};
pub use existing::Overwrite;
use existing::{Act, decide, differs, is_one_file};
use quietus_vault::SnapshotId;
use quietus_vault::client::{Access, Thinning, expect_files, joined, read_file, read_folder, read_snapshot};
use quietus_vault::tree::{Kind, Metadata, Node, Recipe};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use schemars::JsonSchema;
pub(in super::super) use selection::{Selection, Wanted};
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Entries of a folder whose content the vault is told of at once.
const EXPECTED_FILES: usize = 1024;

/// Zeros that are written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Takes an entry, with its path.
type Take<'a> = &'a mut dyn FnMut(&[u8], &Node) -> Result<(), Error>;

/// The result of a restore.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Restored {
    /// The snapshot.
    pub snapshot: u64,
    /// Path of the folder, or of the archive, that has it now.
    pub into: PathText,
    /// Entries, folders apart.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of all files, holes included.
    pub bytes: u64,
    /// Entries, folders apart, that were there already and were left as they are.
    pub there_already: u64,
    /// Entries that did not get what only root sets: their owner, attributes of the system.
    pub needs_root: u64,
    /// Paths that could not be restored, or not wholly.
    #[serde(flatten)]
    pub refused: RefusedPaths,
}

/// Restores the snapshot, or only `paths` of it, into the folder `into`, which is made if need be.
///
/// # Errors
/// [`Error`]: the folder, the vault, or a path that the snapshot does not have.
pub fn restore(
    vault: &mut dyn Access,
    snapshot: SnapshotId,
    (into, overwrite): (&Path, Overwrite),
    paths: &[PathBuf],
    step: Step<'_>,
) -> Result<Restored, Error> {
    let (top, wanted) = (read_snapshot(vault, snapshot)?, Selection::new(paths)?);
    let of = wanted.bytes(vault, &top)?;
    std::fs::create_dir_all(into).map_err(|error| Error::io("make it", into, error))?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root =
        rustix::fs::open(into, flags, Mode::empty()).map_err(|error| Error::io("open it", into, error))?;
    clear(&root);
    let own = top.top.filter(|_| wanted.is_all());
    let own = match own {
        Some(own) if has_only(&root, &read_folder(vault, &top.folder)?) => Some(own),
        _ => None,
    };
    let restored = Restored { snapshot: snapshot.0, into: into.into(), ..Restored::default() };
    let (links, going) = (HashMap::new(), Going { step, done: 0, of });
    let mut task = Task { vault, root, wanted, overwrite, links, restored, going };
    task.folder(&top.folder, b"", 0, false)?;
    if let Some(own) = own {
        let root = rustix::io::fcntl_dupfd_cloexec(&task.root, 0)
            .map_err(|error| Error::io("open it", into, error))?;
        task.attributes((root.as_fd(), c"."), &own, false, b".")?;
    }
    Ok(task.restored)
}

/// Whether the folder has nothing but what the snapshot has there. One with other entries keeps its own attributes.
fn has_only(folder: &OwnedFd, nodes: &[Node]) -> bool {
    let is_known = |name: &[u8]| {
        matches!(name, b"." | b"..")
            || is_partial(name)
            || nodes.binary_search_by(|node| node.name.as_slice().cmp(name)).is_ok()
    };
    let mut entries = Dir::read_from(folder).into_iter().flatten();
    entries.all(|entry| entry.is_ok_and(|it| is_known(it.file_name().to_bytes())))
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
    read_file::<Error>(vault, &recipe, &mut |bytes, content| {
        let written = match content {
            Some(content) => out.write_all(content),
            None => zeros(out, bytes),
        };
        written.map_err(unwritten)
    })?;
    out.flush().map_err(unwritten)
}

/// Writes this number of zeros.
pub(in super::super) fn zeros(out: &mut dyn Write, mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let some = bytes.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..some as usize])?;
        bytes -= some;
    }
    Ok(())
}

/// Calls `take` with each entry of the snapshot at `path` and below, each with its path; folders before what they have.
///
/// # Errors
/// [`Error`]: the vault, a path that the snapshot does not have, and the errors of `take`.
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
        Some(Kind::Folder(below)) => Ok(Thinning::new(&|_| true).totals(vault, &below)?.bytes),
        Some(Kind::File(recipe)) => Ok(recipe.bytes()),
        Some(_) => Ok(0),
        None => Err(unknown(path)),
    }
}

fn unknown(path: &[u8]) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::Invalid(format!("{path}: not in the snapshot; `quietus vault list` names all"))
}

struct Task<'v, 'a> {
    vault: &'v mut dyn Access,
    root: OwnedFd,
    wanted: Selection,
    overwrite: Overwrite,
    /// Where the first name of a file with several was restored.
    links: HashMap<u64, Vec<u8>>,
    restored: Restored,
    going: Going<'a>,
}

/// How far it has come.
pub(in super::super) struct Going<'a> {
    pub(in super::super) step: Step<'a>,
    pub(in super::super) done: u64,
    pub(in super::super) of: u64,
}

impl Going<'_> {
    /// Goes on after so many bytes more, if that is wanted.
    pub(in super::super) fn on(&mut self, bytes: u64) -> Result<(), Error> {
        self.done += bytes;
        if (self.step)(self.done, self.of.max(self.done)) { Ok(()) } else { Err(Error::Interrupted) }
    }
}

impl Task<'_, '_> {
    /// Restores what is in a folder; `is_new` if it had no entries before.
    fn folder(&mut self, folder: &Recipe, path: &[u8], depth: usize, is_new: bool) -> Result<(), Error> {
        let nodes = match read_folder(self.vault, folder) {
            Ok(nodes) => nodes,
            Err(error) => return self.refuse(path, &error),
        };
        if depth >= DEPTH_MAX {
            return self.refuse(path, &format!("deeper than {DEPTH_MAX} folders"));
        }
        let nodes: Vec<_> = nodes
            .into_iter()
            .filter(|node| self.wanted.of(&joined(path, &node.name)) != Wanted::Not)
            .collect();
        let mut folders = Vec::new();
        let here = match open_below(&self.root, path) {
            Ok(here) => here,
            Err(error) => return self.refuse(path, &error),
        };
        for (at, node) in nodes.iter().enumerate() {
            if at % EXPECTED_FILES == 0 {
                let some = &nodes[at..nodes.len().min(at + EXPECTED_FILES)];
                self.expect((!is_new).then_some(here.as_fd()), some);
            }
            let inside = joined(path, &node.name);
            match &node.kind {
                _ if !node.has_good_name() => self.refuse(&inside, &"such a name leads elsewhere")?,
                Kind::Folder(below) => match make_folder(&here, &node.name) {
                    Ok(is_new) => folders.push((node, inside, below, is_new)),
                    Err(error) => self.refuse(&inside, &error)?,
                },
                _ => self.entry(here.as_fd(), node, &inside)?,
            }
        }
        drop(here);
        for (_, inside, below, is_new) in &folders {
            self.folder(below, inside, depth + 1, *is_new)?;
        }
        self.finish_folders(path, &folders)
    }

    /// Tells the vault which files are read next: those that are not linked to, and not `there`, where entries may be.
    fn expect(&mut self, there: Option<BorrowedFd<'_>>, nodes: &[Node]) {
        let (links, how) = (&self.links, self.overwrite);
        let is_read = |node: &Node| {
            let is_linked = node.metadata.hard_link.is_some_and(|it| links.contains_key(&it));
            let is_made = |here| matches!(decide(here, node, how), Ok(Act::Make | Act::Replace));
            !is_linked && there.is_none_or(is_made)
        };
        let files = nodes.iter().filter_map(|node| match &node.kind {
            Kind::File(recipe) if is_read(node) => Some(recipe),
            _ => None,
        });
        expect_files(self.vault, files);
    }

    /// Gives folders what they had, once nothing is written in them any more.
    fn finish_folders(
        &mut self,
        path: &[u8],
        folders: &[(&Node, Vec<u8>, &Recipe, bool)],
    ) -> Result<(), Error> {
        let here = match open_below(&self.root, path) {
            Ok(here) => here,
            Err(error) => return self.refuse(path, &error),
        };
        for (node, inside, ..) in folders {
            self.restored.folders += 1;
            let Ok(name) = CString::new(node.name.clone()) else { continue };
            self.attributes((here.as_fd(), &name), &node.metadata, false, inside)?;
        }
        Ok(())
    }

    /// Restores an entry that is no folder.
    fn entry(&mut self, here: BorrowedFd<'_>, node: &Node, inside: &[u8]) -> Result<(), Error> {
        self.going.on(0)?;
        let made = match self.link(here, node) {
            Some(linked) => linked,
            None => self.first_name(here, node, inside)?,
        };
        match made {
            Ok(()) => {
                self.restored.files += 1;
                Ok(())
            }
            Err(why) => self.refuse(inside, &why),
        }
    }

    /// Restores an entry that has no other name yet. The inner error is the entry's alone.
    fn first_name(
        &mut self,
        here: BorrowedFd<'_>,
        node: &Node,
        inside: &[u8],
    ) -> Result<Result<(), String>, Error> {
        let made = match decide(here, node, self.overwrite) {
            Ok(act @ (Act::Make | Act::Replace)) => self.make(here, node, inside, act == Act::Replace)?,
            Ok(Act::Keep) => {
                self.is_there(node);
                Ok(())
            }
            Ok(Act::SetAttributes) => {
                self.is_there(node);
                if let Ok(name) = CString::new(node.name.clone()) {
                    let is_link = matches!(node.kind, Kind::Link(_));
                    self.attributes((here, &name), &node.metadata, is_link, inside)?;
                }
                Ok(())
            }
            Err(why) => Err(why),
        };
        if let (Ok(()), Some(number)) = (&made, node.metadata.hard_link) {
            self.links.insert(number, inside.into());
        }
        Ok(made)
    }

    /// Counts an entry that was there.
    fn is_there(&mut self, node: &Node) {
        self.restored.there_already += 1;
        self.count(node);
    }

    /// Counts the content of a file that is there without being written.
    fn count(&mut self, node: &Node) {
        if let Kind::File(recipe) = &node.kind {
            self.restored.bytes += recipe.bytes();
            self.going.done += recipe.bytes();
        }
    }

    /// Makes another name of a file that has one already; `None` if the file has no name yet.
    fn link(&mut self, here: BorrowedFd<'_>, node: &Node) -> Option<Result<(), String>> {
        let first = self.links.get(&node.metadata.hard_link?)?;
        let (parent, first) = match first.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&first[..at], &first[at + 1..]),
            None => (&b""[..], &first[..]),
        };
        let (name, how) = (node.name.as_slice(), self.overwrite);
        let linked = open_below(&self.root, parent).map_err(|error| error.to_string()).and_then(|parent| {
            let link = |name: &CStr| rustix::fs::linkat(&parent, first, here, name, AtFlags::empty());
            if is_one_file((parent.as_fd(), first), (here, name)) {
                return Ok(());
            }
            let made =
                Partial::make(here, link).and_then(|(link, ())| link.keep(name, how != Overwrite::Never));
            made.map_err(|error| if error == Errno::EXIST { differs() } else { error.to_string() })
        });
        if linked.is_ok() {
            self.count(node);
        }
        Some(linked)
    }

    /// Makes an entry, in the place of what is there if that `replaces` it. The inner error is the entry's alone.
    fn make(
        &mut self,
        here: BorrowedFd<'_>,
        node: &Node,
        inside: &[u8],
        replaces: bool,
    ) -> Result<Result<(), String>, Error> {
        let made = match &node.kind {
            Kind::File(recipe) => match Partial::file(here) {
                Ok((partial, mut file)) => match self.content(&mut file, recipe) {
                    Ok(()) => Ok((partial, Some(file))),
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => return Ok(Err(error.to_string())),
                },
                Err(error) => Err(error),
            },
            _ => Partial::make(here, |name| make_special(here, name, &node.kind))
                .map(|(partial, ())| (partial, None)),
        };
        let (partial, _locked) = match made {
            Ok(made) => made,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let is_link = matches!(node.kind, Kind::Link(_));
        self.attributes((here, partial.name()), &node.metadata, is_link, inside)?;
        Ok(partial.keep(&node.name, replaces).map_err(|error| error.to_string()))
    }

    fn content(&mut self, file: &mut File, recipe: &Recipe) -> Result<(), Error> {
        let unwritten = |error: io::Error| Error::io("write it", Path::new("the file"), error);
        let going = &mut self.going;
        read_file::<Error>(self.vault, recipe, &mut |bytes, content| {
            match content {
                Some(content) => file.write_all(content).map_err(unwritten)?,
                None => file.seek(SeekFrom::Current(bytes as i64)).map(drop).map_err(unwritten)?,
            }
            going.on(bytes)
        })?;
        self.restored.bytes += recipe.bytes();
        file.set_len(recipe.bytes()).map_err(unwritten)
    }

    fn attributes(
        &mut self,
        (parent, name): (BorrowedFd<'_>, &CStr),
        metadata: &Metadata,
        is_link: bool,
        inside: &[u8],
    ) -> Result<(), Error> {
        let Refused { what, needs_root } = attributes::write(Place { parent, name, is_link }, metadata);
        self.restored.needs_root += u64::from(needs_root);
        if what.is_empty() { Ok(()) } else { self.refuse(inside, &what.join("; ")) }
    }

    fn refuse(&mut self, path: &[u8], why: &dyn std::fmt::Display) -> Result<(), Error> {
        self.restored.refused.note(path, why);
        Ok(())
    }
}
