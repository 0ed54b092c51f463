//! An archive as `tar` writes it, as a snapshot.
//!
//! Invariants:
//! 1. An entry whose path leads elsewhere (`..`), or names no file, is left out and told of.
//! 2. Content goes to the vault as it comes; the tree of entries, without content, is in memory.
//! 3. Names and attributes of an entry, which are read at once, have a limit.

use super::source::{Put, Task};
use super::{Client, Error, Globs, Label, Step};
use quietus_vault::client::{FileWriter, joined};
use quietus_vault::tree::{FolderBuilder, Kind, Metadata, Node, Recipe};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path};
use tar::{Archive, EntryType};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Most bytes of the headers of an entry: its name, the target of its link, its attributes.
const HEADERS_BYTES_MAX: u64 = 1 << 20;
/// Deepest folder; deeper ones have no path that a host takes.
const DEPTH_MAX: usize = 1024;
/// Names of extended attributes in the archive's own attributes.
const XATTR_PREFIX: &str = "SCHILY.xattr.";

/// Puts the archive that `input` gives into the vault, as a snapshot with that label.
///
/// # Errors
/// [`Error`]; nothing is committed then, and what was stored is owed.
pub fn put_tar(
    client: &mut Client,
    label: &Label,
    input: &mut dyn Read,
    exclude: &Globs,
    step: Step<'_>,
) -> Result<Put, Error> {
    label.check()?;
    let mut task = Task::begin(client, 0, step)?;
    let folder = read(&mut task, exclude, input);
    task.end(label, folder)
}

/// A folder of the archive.
#[derive(Default)]
struct Folder {
    metadata: Option<Metadata>,
    entries: BTreeMap<Vec<u8>, Entry>,
}

enum Entry {
    Folder(Folder),
    Other(Metadata, Kind),
}

/// An archive of which only so many more bytes are read.
struct Limited<'i> {
    input: &'i mut dyn Read,
    left: &'i Cell<u64>,
}

impl Read for Limited<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            let what = format!(
                "the headers of an entry have more than {HEADERS_BYTES_MAX} bytes; leave its attributes out"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let length = into.len().min(usize::try_from(self.left.get()).unwrap_or(usize::MAX));
        let read = self.input.read(&mut into[..length])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

fn unreadable(error: io::Error) -> Error {
    Error::io("read the archive", Path::new("standard input"), error)
}

fn read(task: &mut Task<'_, '_>, exclude: &Globs, input: &mut dyn Read) -> Result<Recipe, Error> {
    let left = Cell::new(HEADERS_BYTES_MAX);
    let mut archive = Archive::new(Limited { input, left: &left });
    let (mut top, mut links) = (Folder::default(), 0);
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        left.set(u64::MAX);
        take(task, exclude, (&mut top, &mut links), &mut entry)?;
        io::copy(&mut entry, &mut io::sink()).map_err(unreadable)?;
        left.set(HEADERS_BYTES_MAX);
    }
    store(task, top)
}

/// Takes an entry into the tree, and its content into the vault.
fn take<R: Read>(
    task: &mut Task<'_, '_>,
    exclude: &Globs,
    (top, links): (&mut Folder, &mut u64),
    entry: &mut tar::Entry<'_, R>,
) -> Result<(), Error> {
    let bytes = entry.path_bytes().into_owned();
    let leave_out = |task: &mut Task<'_, '_>, why| {
        task.note_left_out(format!("{}: {why}", String::from_utf8_lossy(&bytes)));
    };
    let parts = match parts(&bytes) {
        Ok(parts) if parts.is_empty() || is_excluded(exclude, &parts) => return Ok(()),
        Ok(parts) => parts,
        Err(why) => {
            leave_out(task, why);
            return Ok(());
        }
    };
    let metadata = metadata(entry).map_err(unreadable)?;
    let made = match entry.header().entry_type() {
        EntryType::Directory => top.enter(&parts).map(|folder| folder.metadata = Some(metadata)),
        EntryType::Link => link(top, entry, &parts, links),
        of => match kind(task, entry, of)? {
            Some(kind) => top.insert(&parts, Entry::Other(metadata, kind)),
            None => Err(format!("an entry of the unknown kind {of:?}")),
        },
    };
    if let Err(why) = made {
        leave_out(task, why);
    }
    Ok(())
}

/// The parts of a path, and why it has none.
fn parts(path: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    use std::os::unix::ffi::OsStrExt;
    let mut parts = Vec::new();
    for part in Path::new(std::ffi::OsStr::from_bytes(path)).components() {
        match part {
            Component::Normal(name) if name.as_bytes().contains(&0) => {
                return Err("a zero byte in its name".into());
            }
            Component::Normal(name) => parts.push(name.as_bytes().to_vec()),
            Component::ParentDir => return Err("`..` in its path".into()),
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
                Entry::Other(..) => return Err("a part of its path is no folder of the archive".into()),
            }
        }
        Ok(here)
    }

    fn insert(&mut self, parts: &[Vec<u8>], entry: Entry) -> Result<(), String> {
        let Some((name, above)) = parts.split_last() else { return Err("it has no name".into()) };
        let folder = self.enter(above)?;
        if matches!(folder.entries.get(name), Some(Entry::Folder(_))) {
            return Err("the archive has a folder of the same name".into());
        }
        // As tar does, the last entry of a name counts.
        folder.entries.insert(name.clone(), entry);
        Ok(())
    }

    fn get(&mut self, parts: &[Vec<u8>]) -> Option<&mut Entry> {
        let (name, above) = parts.split_last()?;
        let mut here = self;
        for part in above {
            match here.entries.get_mut(part)? {
                Entry::Folder(below) => here = below,
                Entry::Other(..) => return None,
            }
        }
        here.entries.get_mut(name)
    }
}

/// Another name of an earlier entry.
fn link<R: Read>(
    top: &mut Folder,
    entry: &tar::Entry<'_, R>,
    parts: &[Vec<u8>],
    links: &mut u64,
) -> Result<(), String> {
    let target = entry.link_name_bytes().ok_or("a hard link to nothing")?;
    let first = top.get(&self::parts(&target)?);
    let Some(Entry::Other(metadata, kind)) = first else {
        return Err("a hard link to what the archive did not have before".into());
    };
    let number = *metadata.hard_link.get_or_insert_with(|| {
        *links += 1;
        *links
    });
    let (mut metadata, kind) = (metadata.clone(), kind.clone());
    metadata.hard_link = Some(number);
    top.insert(parts, Entry::Other(metadata, kind))
}

/// The kind of an entry, with its content in the vault; none if the type is unknown.
fn kind<R: Read>(
    task: &mut Task<'_, '_>,
    entry: &mut tar::Entry<'_, R>,
    of: EntryType,
) -> Result<Option<Kind>, Error> {
    let device = |entry: &tar::Entry<'_, R>| {
        let header = entry.header();
        let major = header.device_major().ok().flatten();
        (major.unwrap_or(0), header.device_minor().ok().flatten().unwrap_or(0))
    };
    Ok(Some(match of {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            Kind::File(content(task, entry)?)
        }
        EntryType::Symlink => match entry.link_name_bytes() {
            Some(target) => Kind::Link(target.into_owned()),
            None => return Ok(None),
        },
        EntryType::Block => {
            let (major, minor) = device(entry);
            Kind::BlockDevice(major, minor)
        }
        EntryType::Char => {
            let (major, minor) = device(entry);
            Kind::CharacterDevice(major, minor)
        }
        EntryType::Fifo => Kind::Pipe,
        _ => return Ok(None),
    }))
}

fn content<R: Read>(task: &mut Task<'_, '_>, entry: &mut tar::Entry<'_, R>) -> Result<Recipe, Error> {
    let mut file = FileWriter::default();
    let mut buffer = vec![0; PIECE_BYTES.min((entry.size() as usize).saturating_add(1))];
    loop {
        let read = entry.read(&mut buffer).map_err(unreadable)?;
        if read == 0 {
            return Ok(file.finish(&mut task.writer, task.client)?);
        }
        file.push(&mut task.writer, task.client, &buffer[..read])?;
        task.go_on(read as u64)?;
    }
}

fn metadata<R: Read>(entry: &mut tar::Entry<'_, R>) -> std::io::Result<Metadata> {
    let header = entry.header();
    let mut metadata = Metadata {
        mode: header.mode().unwrap_or(0o644) & 0o7777,
        user: header.uid().unwrap_or(0) as u32,
        group: header.gid().unwrap_or(0) as u32,
        modified_ns: (header.mtime().unwrap_or(0) as i64).saturating_mul(1_000_000_000),
        ..Metadata::default()
    };
    for extension in entry.pax_extensions()?.into_iter().flatten() {
        let extension = extension?;
        let value = || extension.value().ok();
        match extension.key() {
            Ok("mtime") => {
                metadata.modified_ns = value().and_then(nanoseconds).unwrap_or(metadata.modified_ns)
            }
            Ok("uid") => metadata.user = value().and_then(|it| it.parse().ok()).unwrap_or(metadata.user),
            Ok("gid") => metadata.group = value().and_then(|it| it.parse().ok()).unwrap_or(metadata.group),
            Ok(key) => {
                if let Some(name) = key.strip_prefix(XATTR_PREFIX) {
                    metadata.attributes.push((name.into(), extension.value_bytes().to_vec()));
                }
            }
            Err(_) => {}
        }
    }
    metadata.attributes.sort();
    Ok(metadata)
}

/// Seconds with a fraction, in nanoseconds.
fn nanoseconds(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = part.chars().chain("000000000".chars()).take(9).collect();
    let part: i64 = digits.parse().ok()?;
    let part = if whole.starts_with('-') { -part } else { part };
    seconds.checked_mul(1_000_000_000)?.checked_add(part)
}

/// Stores the folders.
fn store(task: &mut Task<'_, '_>, folder: Folder) -> Result<Recipe, Error> {
    let mut builder = FolderBuilder::default();
    for (name, entry) in folder.entries {
        let node = match entry {
            Entry::Other(metadata, kind) => Node { name, metadata, kind },
            Entry::Folder(below) => {
                // A folder that the archive does not have is one that everybody may enter, as tar makes it.
                let metadata = below.metadata.clone();
                let metadata = metadata.unwrap_or(Metadata { mode: 0o755, ..Metadata::default() });
                Node { name, metadata, kind: Kind::Folder(store(task, below)?) }
            }
        };
        task.add(&mut builder, node)?;
    }
    task.finish(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_a_fraction_are_whole_nanoseconds() {
        assert_eq!(nanoseconds("12.5"), Some(12_500_000_000));
        assert_eq!(nanoseconds("-1.25"), Some(-1_250_000_000));
        assert_eq!(nanoseconds("7"), Some(7_000_000_000));
        assert_eq!(nanoseconds("99999999999999999999"), None);
        assert_eq!(nanoseconds("1.x"), None);
    }

    #[test]
    fn paths_that_lead_elsewhere_have_no_parts() {
        assert_eq!(parts(b"/a/./b"), Ok(vec![b"a".to_vec(), b"b".to_vec()]));
        assert!(parts(b"a/../../etc").is_err() && parts(b"a\0b").is_err());
        assert!(parts(&b"a/".repeat(DEPTH_MAX + 1)).is_err());
    }
}
