//! Which file system a state of a disk has: on the disk as a whole, or in one of its partitions.
//!
//! 1. Nothing is guessed: the whole disk or a partition is taken without a choice only if nothing else has a file system that is read. A
//!    partition table leaves the boot sector of an earlier FAT in place, and either may be the one in use.
//! 2. A choice is always followed.

use crate::clusters::read;
use crate::{
    Attributes, Entry, Error, ExtendedAttribute, FileId, Owners, Run, Source, Unread, Volume, exfat, ext,
    fat, ntfs, path,
};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::Contents;
use quietus_detect::partition::{self, Missing, Partition, Table, foreign};
use std::ops::DerefMut;

/// Reads the head of a source, and gives the volume that begins there; [`Error::Unknown`] if it is of another format.
type Reader = fn(&mut dyn Source) -> Result<Box<dyn Volume>, Error>;

/// The formats that are read, in the order in which they are tried.
const READERS: &[Reader] = &[ext::open, fat::open, exfat::open, ntfs::open];

/// Most rounds of questions about one table or signature: a chain of logical partitions takes one for each link.
const ROUNDS_MAX: usize = 1024;

/// The number that stands for the whole disk where a partition is chosen: partitions count from 1.
pub const WHOLE: u32 = 0;

/// A file system, and what it is read from.
pub struct Found {
    /// The disk, or the partition.
    pub source: Box<dyn Source>,
    /// The file system in `source`.
    pub volume: Box<dyn Volume>,
    /// The number of the partition, as in Linux; `None`: the file system takes the whole disk.
    pub partition: Option<u32>,
    /// Where `source` lies on the disk.
    pub place: Extent<Addr>,
}

impl Found {
    /// The file at `path`; see [`path::walk`].
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such file, and those of the folders on the way.
    pub fn look_up(&mut self, path: &[u8]) -> Result<FileId, Error> {
        path::walk(&mut *self.volume, &mut *self.source, path)
    }

    /// See [`Volume::attributes`].
    ///
    /// # Errors
    /// As there.
    pub fn attributes(&mut self, file: FileId) -> Result<Attributes, Error> {
        self.volume.attributes(&mut *self.source, file)
    }

    /// See [`Volume::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&mut self, folder: FileId, found: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        self.volume.list(&mut *self.source, folder, found)
    }

    /// See [`Volume::runs`]; places are those of the disk.
    ///
    /// # Errors
    /// As there.
    pub fn runs(&mut self, file: FileId, found: &mut dyn FnMut(Run) -> bool) -> Result<(), Error> {
        let start = self.place.start.0;
        self.volume.runs(&mut *self.source, file, &mut |run| {
            found(Run { place: run.place.map(|place| Addr(start + place.0)), ..run })
        })
    }

    /// See [`Volume::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&mut self, file: FileId, at: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        self.volume.read(&mut *self.source, file, at, bytes)
    }

    /// See [`Volume::link`].
    ///
    /// # Errors
    /// As there.
    pub fn link(&mut self, file: FileId) -> Result<Vec<u8>, Error> {
        self.volume.link(&mut *self.source, file)
    }

    /// Who has which blocks, and what to read it from: places count from the start of that ([`Found::place`]); see [`Volume::owners`].
    pub fn owners(&mut self) -> Option<(&mut dyn Owners, &mut dyn Source)> {
        Some((self.volume.owners()?, &mut *self.source))
    }

    /// See [`Volume::extended`].
    ///
    /// # Errors
    /// As there.
    pub fn extended(&mut self, file: FileId) -> Result<Vec<ExtendedAttribute>, Error> {
        self.volume.extended(&mut *self.source, file)
    }
}

/// A part of a source, as a source.
#[derive(Debug)]
struct Part<S> {
    source: S,
    extent: Extent<Addr>,
}

impl<S: DerefMut<Target: Source>> Source for Part<S> {
    fn bytes(&self) -> u64 {
        self.extent.len
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        assert!(at.end() <= self.extent.len, "{at:?} lies within the part");
        self.source.read(Extent::new(self.extent.start.0 + at.start.0, at.len))
    }
}

/// Finds the file system of `source`: that of partition number `partition` if it is given, or of the whole disk if that is [`WHOLE`].
///
/// # Errors
/// [`Error::Unknown`] if there is none that is read, [`Error::Several`] if there is more than one and no choice: the text says what there is. [`Error::Missing`] if there
/// is no such partition. [`Error::Damaged`] if it, or the partition table, contradicts itself.
pub fn open(mut source: Box<dyn Source>, partition: Option<u32>) -> Result<Found, Error> {
    let place = Extent::new(0, source.bytes());
    let disk = Partition { number: WHOLE, extent: place, refused: None };
    let table = table(&mut *source)?;
    let (number, extent, volume) = match (partition, &table) {
        (Some(WHOLE), _) | (None, None) => opened(&mut *source, &disk)?,
        (Some(number), None) => {
            return Err(Error::Missing(format!("partition {number}: there is no partition table")));
        }
        (Some(number), Some(table)) => chosen(&mut *source, table, number)?,
        (None, Some(table)) => only(&mut *source, &disk, table)?,
    };
    if number == WHOLE {
        return Ok(Found { source, volume, partition: None, place });
    }
    let source = Box::new(Part { source, extent });
    Ok(Found { source, volume, partition: Some(number), place: extent })
}

/// A partition with a file system: its number, its place, the file system.
type Opened = (u32, Extent<Addr>, Box<dyn Volume>);

fn chosen(source: &mut dyn Source, table: &Table, number: u32) -> Result<Opened, Error> {
    check(table)?;
    let partition = table.partitions.iter().find(|it| it.number == number).ok_or_else(|| {
        let numbers: Vec<_> = table.partitions.iter().map(|it| it.number.to_string()).collect();
        Error::Missing(format!("partition {number}: the partition table has {}", numbers.join(", ")))
    })?;
    opened(source, partition)
}

/// An error if the table as a whole is not understood.
fn check(table: &Table) -> Result<(), Error> {
    let broken = |reason| Error::Damaged(format!("the partition table ({}): {reason}", table.name));
    table.broken.as_ref().map_or(Ok(()), |reason| Err(broken(reason)))
}

/// The only file system of the partitions and of the whole `disk` (invariant 1).
fn only(source: &mut dyn Source, disk: &Partition, table: &Table) -> Result<Opened, Error> {
    let (mut list, mut found) = (String::new(), Vec::new());
    let partitions = table.partitions.iter().filter(|_| table.broken.is_none());
    for partition in [disk].into_iter().chain(partitions) {
        let opened = opened(source, partition);
        let what = match &opened {
            Ok((_, _, volume)) => volume.name().to_string(),
            Err(Error::Unknown(_)) if partition.number == WHOLE => continue,
            Err(error) => error.to_string(),
        };
        found.extend(opened);
        let which = if partition.number == WHOLE { " (the whole disk)" } else { "" };
        list += &format!("; {}{which}: {}, {what}", partition.number, size(partition.extent.len));
    }
    match found.pop() {
        Some(opened) if found.is_empty() => Ok(opened),
        Some(_) => Err(Error::Several(format!("several partitions have a file system{list}"))),
        None => Err(check(table)
            .err()
            .unwrap_or_else(|| Error::Unknown(format!("no partition has a file system that is read{list}")))),
    }
}

/// The file system in `partition`. If it is unknown, the error says what there is instead.
fn opened(source: &mut dyn Source, partition: &Partition) -> Result<Opened, Error> {
    let Partition { number, extent, refused } = partition;
    if let Some(reason) = refused {
        return Err(Error::Damaged(format!("partition {number}: {reason}")));
    }
    let mut part = Part { source, extent: *extent };
    match volume(&mut part) {
        Ok(volume) => Ok((*number, *extent, volume)),
        Err(Error::Unknown(_)) => Err(unknown(&mut part)),
        Err(error) => Err(error),
    }
}

/// The file system that begins at the first byte of `source`. Damage is told only if no reader understands what there is.
fn volume(source: &mut dyn Source) -> Result<Box<dyn Volume>, Error> {
    let mut failure = Error::Unknown("unknown content".into());
    for reader in READERS {
        match reader(source) {
            Ok(volume) => return Ok(volume),
            Err(Error::Unknown(_)) => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Says what there is in `source`, which no reader understands.
fn unknown(source: &mut dyn Source) -> Error {
    let bytes = source.bytes();
    let place = Extent::new(0, bytes);
    match asked(source, |contents| foreign::find(place, &[], contents)) {
        Ok(Some(name)) => Error::Unknown(format!("{name}, which is not read")),
        Ok(None) => first_bytes(source),
        Err(error) => error,
    }
}

/// Says what the first bytes of `source` are.
fn first_bytes(source: &mut dyn Source) -> Error {
    let len = source.bytes().min(16);
    match read(source, Extent::new(0, len)) {
        Ok(bytes) => {
            Error::Unknown(format!("no file system that is known; the first bytes are {bytes:02x?}"))
        }
        Err(error) => error,
    }
}

fn table(source: &mut dyn Source) -> Result<Option<Table>, Error> {
    let bytes = source.bytes();
    asked(source, |contents| partition::read(bytes, contents))
}

/// What `look` finds, once it has read all that it asks for.
fn asked<T>(source: &mut dyn Source, look: impl Fn(&Contents) -> Result<T, Missing>) -> Result<T, Error> {
    let mut contents = Contents::default();
    for _ in 0..ROUNDS_MAX {
        match look(&contents) {
            Ok(found) => return Ok(found),
            Err(Missing(extents)) => {
                for at in extents {
                    contents.insert(at.start, read(source, at)?);
                }
            }
        }
    }
    Err(Error::Unknown("the partition table needs too many reads".into()))
}

/// A size for a person.
fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit as f64),
    )
}
