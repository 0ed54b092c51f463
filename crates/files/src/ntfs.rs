//! Files of NTFS: records, runs, indices, reparse points.
//!
//! The structures read: `docs/formats/ntfs.md`. The number of a file is that of its record in `$MFT`, its generation the record's sequence
//! number.
//!
//! 1. `$LogFile` is not replayed: the volume is read as it stands. Windows writes a change of the metadata to the log first, and to its
//!    places seconds later. So in an epoch of a running guest a change that only the log has is not seen, and an entry may name a record
//!    that is older: that file is missing or damaged, and others are read.
//! 2. A record or a block of an index counts only if it was written as a whole: its update sequence matches.
//! 3. Content that is not stored as it is (compressed, encrypted, kept elsewhere by a reparse point) is refused by name, file by file.
//!
//! | question | where |
//! | --- | --- |
//! | records and bytes of the volume | `disk` |
//! | where `$MFT` lies | `mft` |
//! | a file, and the records that extend it | `node` |
//! | the value of an attribute: bytes, runs | `stream` |
//! | entries of folders, and names | `index`, `name` |
//! | times | `standard` |
//! | symbolic links, and content that is kept elsewhere | `reparse` |
//! | alternate data streams | `alternate` |
//! | who has which clusters | `owners` |

use crate::clusters::read;
use crate::names::{UNITS, Upcase};
use crate::ntfs::disk::{Disk, Mft, damaged};
use crate::ntfs::index::Indexed;
use crate::ntfs::name::{FILE_NAME, Name, units};
use crate::ntfs::node::Node;
use crate::ntfs::reparse::Reparse;
use crate::ntfs::standard::Times;
use crate::ntfs::stream::Stream;
use crate::{Attributes, Entry, Error, ExtendedAttribute, FileId, Kind, Owners, Run, Source, Volume};
use quietus_core::base::units::Extent;
use quietus_detect::formats::ntfs::boot::{BOOT_BYTES, Boot, is_boot};
use quietus_detect::formats::ntfs::record::{DATA, Value};

mod alternate;
mod disk;
mod index;
mod mft;
mod name;
mod node;
mod owners;
mod reparse;
mod standard;
mod stream;

/// The record of the root folder.
const ROOT: u64 = 5;
/// Its sequence number, as every formatter writes it.
const ROOT_SEQUENCE: u64 = 5;
/// The record of `$UpCase`.
const UPCASE: u64 = 10;
/// A volume of NTFS.
#[derive(Debug)]
struct Ntfs {
    mft: Mft,
    root: FileId,
    /// `None` until a name is searched for.
    upcase: Option<Upcase>,
}

/// The NTFS volume that begins at the first byte of `source`.
///
/// # Errors
/// [`Error::Unknown`] if `source` does not begin with the boot sector of one; [`Error::Damaged`] if that or the record of `$MFT` contradicts
/// itself.
pub fn open(source: &mut dyn Source) -> Result<Box<dyn Volume>, Error> {
    let mft = records(source)?;
    let record = Disk::new(source, &mft).record(ROOT);
    let generation = record.map_or(ROOT_SEQUENCE, |it| it.sequence_number.into());
    Ok(Box::new(Ntfs { mft, root: FileId { number: ROOT, generation }, upcase: None }))
}

/// Reads where the records of the volume lie.
fn records(source: &mut dyn Source) -> Result<Mft, Error> {
    let bytes = source.bytes();
    let head = read(source, Extent::new(0, BOOT_BYTES.min(bytes)))?;
    if !is_boot(&head) {
        return Err(Error::Unknown("no boot sector of NTFS".into()));
    }
    let boot = Boot::from_bytes(&head, bytes).map_err(|reason| Error::Damaged(format!("NTFS: {reason}")))?;
    mft::open(source, boot)
}

/// The upper case of each unit of UTF-16, as the volume has it.
fn upcase(disk: &mut Disk) -> Result<Upcase, Error> {
    let record = disk.record(UPCASE)?;
    let stream = Node::new(disk, UPCASE, record)?.stream(disk, DATA, &[])?;
    let stream = stream.ok_or_else(|| damaged(UPCASE, "$UpCase has no content"))?;
    let table = stream.plain()?.whole(disk, 2 * UNITS as u64)?;
    Upcase::new(units(&table))
        .ok_or_else(|| damaged(UPCASE, format_args!("$UpCase has {} bytes", table.len())))
}

/// What a file is.
fn kind(disk: &mut Disk, node: &Node) -> Result<(Kind, Option<Reparse>), Error> {
    let reparse = Reparse::of(disk, node)?;
    let plain = if node.record.is_folder { Kind::Folder } else { Kind::Regular };
    Ok((reparse.as_ref().and_then(Reparse::kind).unwrap_or(plain), reparse))
}

/// Bytes of the content, and of its clusters.
fn size(disk: &mut Disk, node: &Node, kind: Kind, reparse: Option<&Reparse>) -> Result<(u64, u64), Error> {
    match (kind, reparse) {
        (Kind::Folder, _) => index::size(disk, node),
        (Kind::Link, Some(reparse)) => Ok((reparse.target()?.len() as u64, 0)),
        (Kind::Regular, _) => {
            let stream = node.stream(disk, DATA, &[])?;
            Ok(stream.map_or((0, 0), |it| (it.bytes, it.allocated_bytes)))
        }
        _ => Ok((0, 0)),
    }
}

/// Number of names, without those that only DOS sees.
fn links(disk: &mut Disk, node: &Node) -> Result<u32, Error> {
    let mut names = 0;
    node.each(disk, FILE_NAME, &mut |attribute| {
        let Value::Resident(value) = attribute.value else {
            return Err(damaged(node.number, "a name in clusters"));
        };
        let name = Name::from_bytes(value).map_err(|what| damaged(node.number, what))?;
        names += u32::from(!name.is_dos);
        Ok(())
    })?;
    Ok(names)
}

/// The folder `file`.
fn folder(disk: &mut Disk, file: FileId) -> Result<Node, Error> {
    let node = Node::open(disk, file)?;
    match kind(disk, &node)?.0 {
        Kind::Folder => Ok(node),
        _ => Err(Error::NotA("folder")),
    }
}

/// The content of the regular file `file`, if it has some.
fn content(disk: &mut Disk, file: FileId) -> Result<Option<Stream>, Error> {
    let node = Node::open(disk, file)?;
    match kind(disk, &node)? {
        (Kind::Regular, None) => node.stream(disk, DATA, &[])?.map(Stream::plain).transpose(),
        (Kind::Regular, Some(reparse)) => Err(reparse.refusal()),
        _ => Err(Error::NotA("regular file")),
    }
}

fn entry(indexed: Indexed) -> Entry {
    Entry { name: indexed.name.into_bytes(), file: indexed.file }
}

impl Ntfs {
    fn disk<'a>(&'a self, source: &'a mut dyn Source) -> Disk<'a> {
        Disk::new(source, &self.mft)
    }
}

impl Volume for Ntfs {
    fn name(&self) -> &'static str {
        "NTFS"
    }

    fn root(&self) -> FileId {
        self.root
    }

    fn file(&mut self, source: &mut dyn Source, number: u64) -> Result<FileId, Error> {
        let disk = &mut self.disk(source);
        let generation = node::base(disk, number)?.sequence_number.into();
        Ok(FileId { number, generation })
    }

    fn attributes(&mut self, source: &mut dyn Source, file: FileId) -> Result<Attributes, Error> {
        let disk = &mut self.disk(source);
        let node = Node::open(disk, file)?;
        let times = Times::of(disk, &node)?;
        let (kind, reparse) = kind(disk, &node)?;
        let (bytes, allocated_bytes) = size(disk, &node, kind, reparse.as_ref())?;
        Ok(Attributes {
            kind,
            bytes,
            allocated_bytes,
            mode: None,
            owner: None,
            links: Some(links(disk, &node)?),
            modified: Some(times.modified),
            accessed: Some(times.accessed),
            changed: Some(times.changed),
            born: Some(times.born),
        })
    }

    /// Of names that differ in case only, as the space of POSIX can have them, the one that is spelled so counts.
    fn find(&mut self, source: &mut dyn Source, folder: FileId, name: &[u8]) -> Result<Option<Entry>, Error> {
        let disk = &mut Disk::new(source, &self.mft);
        let folder = self::folder(disk, folder)?;
        let upcase = match &mut self.upcase {
            Some(upcase) => upcase,
            unread => unread.insert(upcase(disk)?),
        };
        let name = str::from_utf8(name).unwrap_or_default();
        let mut same: Option<Indexed> = None;
        let mut is_exact = false;
        let walked = index::entries(disk, &folder, &mut |it| {
            is_exact = it.name == name;
            if is_exact || (same.is_none() && upcase.is_same(&it.name, name)) {
                same = Some(it);
            }
            !is_exact
        });
        match same {
            Some(indexed) => Ok(Some(entry(indexed))),
            None => walked.map(|()| None),
        }
    }

    fn list(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        let disk = &mut self.disk(source);
        let folder = self::folder(disk, folder)?;
        index::entries(disk, &folder, &mut |it| !it.is_visible() || found(entry(it)))
    }

    fn runs(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Run) -> bool,
    ) -> Result<(), Error> {
        let disk = &mut self.disk(source);
        let content = content(disk, file)?;
        content.map_or(Ok(()), |it| it.runs(disk, found))
    }

    fn read(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        at: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let disk = &mut self.disk(source);
        let content = content(disk, file)?;
        content.map_or(Ok(Vec::new()), |it| it.read(disk, at, bytes))
    }

    fn link(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<u8>, Error> {
        let disk = &mut self.disk(source);
        let node = Node::open(disk, file)?;
        Reparse::of(disk, &node)?.ok_or(Error::NotA("symbolic link"))?.target()
    }

    fn extended(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<ExtendedAttribute>, Error> {
        let disk = &mut self.disk(source);
        let node = Node::open(disk, file)?;
        alternate::all(disk, &node)
    }

    fn owners(&mut self) -> Option<&mut dyn Owners> {
        Some(self)
    }
}
