//! An archive, put into a vault as a snapshot.
//!
//! Invariants:
//! 1. An entry whose path leads elsewhere (`..`), or names no file, is left out and told of.
//! 2. Content goes to the vault as it comes, and holes are no content; the tree of entries, without content, is in memory.

use crate::vault::transfer::source::{Put, Task};
use crate::vault::transfer::tar::acl;
use crate::vault::transfer::tar::read::{Member, Of, Reader};
use crate::vault::transfer::tar::sparse::Map;
use crate::vault::{Client, Error, Globs, Label, Step};
use quietus_vault::chunk::CHUNK_BYTES_MAX;
use quietus_vault::client::{FileWriter, joined};
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path};
use std::rc::Rc;

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Deepest folder; deeper ones have no path that a host takes.
const DEPTH_MAX: usize = 1024;
/// Mode of a folder that the archive does not have: every user may enter it, as tar makes it.
const FOLDER_MODE: u32 = 0o755;
/// The bits of a mode that an ACL has, too.
const RIGHTS: u32 = 0o777;

/// Puts the archive that `input` gives, which messages call `path`, into the vault, as a snapshot with that label.
///
/// # Errors
/// [`Error`]; nothing is committed then, and what was stored is owed.
pub fn put_tar(
    client: &mut Client,
    label: &Label,
    (input, path): (&mut dyn Read, &Path),
    exclude: &Globs,
    step: Step<'_>,
) -> Result<Put, Error> {
    label.check()?;
    let task = Task::begin(client, 0, step)?;
    let mut taking = Taking { task, exclude, path, top: Folder::default(), links: 0 };
    let folder = taking.all(&mut Reader::new(input));
    taking.task.end(label, folder)
}

/// An archive that is being put.
struct Taking<'t, 's, 'a> {
    task: Task<'s, 'a>,
    exclude: &'t Globs,
    path: &'t Path,
    top: Folder,
    /// Files with several names so far.
    links: u64,
}

/// A folder of the archive.
#[derive(Default)]
struct Folder {
    metadata: Option<Metadata>,
    entries: BTreeMap<Vec<u8>, Entry>,
}

enum Entry {
    Folder(Folder),
    /// Names of one file share it.
    Other(Rc<Other>),
}

/// A file, or anything else that is no folder.
struct Other {
    metadata: Metadata,
    kind: Kind,
    /// Its number, if it has several names.
    number: Cell<Option<u64>>,
}

impl Taking<'_, '_, '_> {
    fn all(&mut self, reader: &mut Reader<'_>) -> Result<Recipe, Error> {
        while let Some(member) = reader.next().map_err(|error| self.unreadable(error))? {
            self.task.go_on(0)?;
            self.member(reader, member)?;
        }
        if reader.has_more().map_err(|error| self.unreadable(error))? {
            self.task
                .note_left_out("what follows the end of the archive: another one? put it by itself".into());
        }
        let top = std::mem::take(&mut self.top);
        self.task.top = top.metadata.clone();
        store(&mut self.task, top)
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::io("read the archive", self.path, error)
    }

    /// Takes an entry into the tree, and its content into the vault.
    fn member(&mut self, reader: &mut Reader<'_>, member: Member) -> Result<(), Error> {
        let parts = match parts(&member.path) {
            Ok(parts) if is_excluded(self.exclude, &parts) => return Ok(()),
            Ok(parts) => parts,
            Err(why) => return self.leave_out(&member, &why),
        };
        member.extended.lost.iter().try_for_each(|what| self.leave_out(&member, what))?;
        let metadata = match metadata(&member) {
            Ok(metadata) => metadata,
            Err(why) => return self.leave_out(&member, &why),
        };
        let made = match member.of {
            Of::Folder => self.top.enter(&parts).map(|folder| {
                folder.metadata = Some(metadata);
                None
            }),
            Of::HardLink => link(&mut self.top, &member.link, &parts, &mut self.links),
            _ if parts.is_empty() => Err("the entry has no name".into()),
            of => match self.kind(reader, &member, of)? {
                Ok(kind) => {
                    let other = Other { metadata, kind, number: Cell::new(None) };
                    self.top.insert(&parts, Entry::Other(Rc::new(other)))
                }
                Err(why) => Err(why),
            },
        };
        match made {
            // As tar does, the last entry of a name counts. What the earlier one had is in no snapshot.
            Ok(Some(_)) => Ok(self.task.writer.leave_behind(self.task.client)?),
            Ok(None) => Ok(()),
            Err(why) => self.leave_out(&member, &why),
        }
    }

    fn leave_out(&mut self, member: &Member, why: &str) -> Result<(), Error> {
        self.task.note_left_out(format!("{}: {why}", String::from_utf8_lossy(&member.path)));
        Ok(())
    }

    /// The kind of an entry, with its content in the vault, or why the entry is left out.
    fn kind(
        &mut self,
        reader: &mut Reader<'_>,
        member: &Member,
        of: Of,
    ) -> Result<Result<Kind, String>, Error> {
        let (major, minor) = member.device;
        Ok(Ok(match of {
            Of::File => Kind::File(self.content(reader, &member.map)?),
            Of::SymbolicLink if member.link.is_empty() => {
                return Ok(Err("a symbolic link to nothing".into()));
            }
            Of::SymbolicLink => Kind::Link(member.link.clone()),
            Of::BlockDevice => Kind::BlockDevice(major, minor),
            Of::CharacterDevice => Kind::CharacterDevice(major, minor),
            Of::Pipe => Kind::Pipe,
            Of::Unknown(letter) => return Ok(Err(format!("an entry of the unknown kind {letter:?}"))),
            Of::Folder | Of::HardLink => unreachable!("folders and hard links have no content"),
        }))
    }

    fn content(&mut self, reader: &mut Reader<'_>, map: &Map) -> Result<Recipe, Error> {
        let (mut file, mut at) = (FileWriter::default(), 0);
        let longest = map.runs.iter().map(|(_, length)| *length).max().unwrap_or(0);
        let mut buffer = vec![0; PIECE_BYTES.min(usize::try_from(longest).unwrap_or(PIECE_BYTES))];
        for &(start, length) in &map.runs {
            self.hole(&mut file, start - at)?;
            let mut left = length;
            while left > 0 {
                let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let read = reader.read(&mut buffer[..wanted]).map_err(|error| self.unreadable(error))?;
                file.push(&mut self.task.writer, self.task.client, &buffer[..read])?;
                self.task.go_on(read as u64)?;
                left -= read as u64;
            }
            at = start + length;
        }
        self.hole(&mut file, map.bytes - at)?;
        Ok(file.finish(&mut self.task.writer, self.task.client)?)
    }

    fn hole(&mut self, file: &mut FileWriter, bytes: u64) -> Result<(), Error> {
        match bytes {
            0 => Ok(()),
            bytes => Ok(file.hole(&mut self.task.writer, self.task.client, bytes)?),
        }
    }
}

/// The parts of a path, or why the path is refused.
fn parts(path: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    use std::os::unix::ffi::OsStrExt;
    let mut parts = Vec::new();
    for part in Path::new(std::ffi::OsStr::from_bytes(path)).components() {
        match part {
            Component::Normal(name) if name.as_bytes().contains(&0) => {
                return Err("a zero byte in the name".into());
            }
            Component::Normal(name) => parts.push(name.as_bytes().to_vec()),
            Component::ParentDir => return Err("`..` in the path".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if parts.len() > DEPTH_MAX { Err(format!("deeper than {DEPTH_MAX} folders")) } else { Ok(parts) }
}

fn is_excluded(exclude: &Globs, parts: &[Vec<u8>]) -> bool {
    let mut path = Vec::new();
    parts.iter().any(|part| {
        path = joined(&path, part);
        exclude.have(&path)
    })
}

impl Folder {
    /// The folder at a path, with those above it.
    fn enter(&mut self, parts: &[Vec<u8>]) -> Result<&mut Folder, String> {
        let mut here = self;
        for part in parts {
            match here.entries.entry(part.clone()).or_insert_with(|| Entry::Folder(Folder::default())) {
                Entry::Folder(below) => here = below,
                Entry::Other(..) => return Err("its parent is not a folder of the archive".into()),
            }
        }
        Ok(here)
    }

    /// Adds an entry; the one of the same name before it.
    fn insert(&mut self, parts: &[Vec<u8>], entry: Entry) -> Result<Option<Entry>, String> {
        let Some((name, above)) = parts.split_last() else { return Err("the entry has no name".into()) };
        let folder = self.enter(above)?;
        if matches!(folder.entries.get(name), Some(Entry::Folder(_))) {
            return Err("the archive has a folder of the same name".into());
        }
        Ok(folder.entries.insert(name.clone(), entry))
    }

    fn get(&self, parts: &[Vec<u8>]) -> Option<&Entry> {
        let (name, above) = parts.split_last()?;
        let mut here = self;
        for part in above {
            match here.entries.get(part)? {
                Entry::Folder(below) => here = below,
                Entry::Other(..) => return None,
            }
        }
        here.entries.get(name)
    }
}

/// Another name of an earlier entry; what had that name before.
fn link(
    top: &mut Folder,
    target: &[u8],
    parts: &[Vec<u8>],
    links: &mut u64,
) -> Result<Option<Entry>, String> {
    let target = self::parts(target)?;
    if target == parts {
        return Err("a hard link to itself".into());
    }
    let Some(Entry::Other(other)) = top.get(&target) else {
        return Err("a hard link to what the archive did not have before".into());
    };
    if other.number.get().is_none() {
        *links += 1;
        other.number.set(Some(*links));
    }
    let other = Rc::clone(other);
    top.insert(parts, Entry::Other(other))
}

fn metadata(member: &Member) -> Result<Metadata, String> {
    let owner = |of: &str, number: i64| {
        u32::try_from(number).map_err(|_| format!("the {of} {number} is out of range"))
    };
    let attributes = &member.extended.attributes;
    let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > CHUNK_BYTES_MAX {
        return Err(format!("the extended attributes have {bytes} bytes, of at most {CHUNK_BYTES_MAX}"));
    }
    // libarchive has the group's own rights in the mode of a file with an ACL.
    let of_acl = attributes.get(acl::ACCESS).and_then(|acl| acl::mode(acl));
    let mode = of_acl.map_or(member.mode, |rights| member.mode & !RIGHTS | rights);
    Ok(Metadata {
        mode,
        user: owner("owner", member.user)?,
        group: owner("group", member.group)?,
        modified_ns: member.modified_ns,
        attributes: attributes.clone().into_iter().collect(),
        hard_link: None,
        origin: None,
    })
}

/// Stores the folders.
fn store(task: &mut Task<'_, '_>, folder: Folder) -> Result<Recipe, Error> {
    let mut builder = FolderBuilder::default();
    for (name, entry) in folder.entries {
        let node = match entry {
            Entry::Other(other) => {
                let Other { metadata, kind, number } = &*other;
                let metadata = Metadata { hard_link: number.get(), ..metadata.clone() };
                Node { name, metadata, kind: kind.clone() }
            }
            Entry::Folder(below) => {
                let metadata = below.metadata.clone();
                let metadata = metadata.unwrap_or(Metadata { mode: FOLDER_MODE, ..Metadata::default() });
                Node { name, metadata, kind: Kind::Folder(store(task, below)?) }
            }
        };
        task.add(&mut builder, node)?;
    }
    task.finish(builder)
}

#[cfg(test)]
mod tests {
    use crate::vault::transfer::tar::put::*;

    #[test]
    fn paths_that_lead_elsewhere_have_no_parts() {
        assert_eq!(parts(b"/a/./b"), Ok(vec![b"a".to_vec(), b"b".to_vec()]));
        assert!(parts(b"a/../../etc").is_err() && parts(b"a\0b").is_err());
        assert!(parts(&b"a/".repeat(DEPTH_MAX + 1)).is_err());
    }
}
