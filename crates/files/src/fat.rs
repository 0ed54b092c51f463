//! Files of FAT12, FAT16 and FAT32: the root of each, long names, chains.
//!
//! The structures read: `docs/formats/fat.md`. The number of a file is the byte at which its entry of 8 and 3 bytes lies in the source; that
//! of the root is 0. FAT notes the local time of the guest, and not which zone that is: times are taken as UTC.
//!
//! 1. A folder ends at its first entry that was never used, at the end of its chain, or with an error after [`SLOTS_MAX`] entries.
//! 2. An entry is read alone: what it says of its chain is checked when the chain is walked, and is an error of that file.
//! 3. No file is read beyond its DIR_FileSize, and none whose chain ends before that is read as zeros.

use crate::clusters::slots::{SLOT_BYTES, Slots};
use crate::clusters::walk::{Node, Place, Stream, plain};
use crate::clusters::{Clusters, Entries, Layout, read};
use crate::fat::entry::Slot;
use crate::fat::name::{Long, is_same};
use crate::{Attributes, Entry, Error, ExtendedAttribute, FileId, Kind, Owners, Run, Source, Volume};
use quietus_core::base::units::Extent;
use quietus_detect::formats::fat::boot::Boot;
use quietus_detect::formats::fat::table::Width;
use quietus_detect::formats::fat::{HEAD_BYTES, is_fat};

mod entry;
mod name;
mod owners;

/// Most entries of a folder, as in Windows and Linux.
const SLOTS_MAX: u64 = 1 << 16;
/// Limit of the bytes of a folder's chain: it reaches beyond the last entry, so that one entry too many is noticed.
const FOLDER_BYTES_MAX: u64 = (SLOTS_MAX + 1) * SLOT_BYTES;
/// The number of the root, at which no entry can lie.
const ROOT: FileId = FileId { number: 0, generation: 0 };

/// A volume of FAT.
#[derive(Debug)]
struct Fat {
    width: Width,
    clusters: Clusters,
    root: Stream,
}

/// An entry with both of its names.
struct Named {
    entry: Entry,
    short: String,
}

impl Named {
    fn is(&self, name: &str) -> bool {
        let own = str::from_utf8(&self.entry.name).is_ok_and(|it| is_same(it, name));
        own || is_same(&self.short, name)
    }
}

/// The FAT volume that begins at the first byte of `source`.
///
/// # Errors
/// [`Error::Unknown`] if `source` does not begin with the boot sector of one; [`Error::Damaged`] if the boot sector contradicts itself.
pub fn open(source: &mut dyn Source) -> Result<Box<dyn Volume>, Error> {
    let bytes = source.bytes();
    let head = read(source, Extent::new(0, HEAD_BYTES.min(bytes)))?;
    if !is_fat(&head) {
        return Err(Error::Unknown("no boot sector of FAT".into()));
    }
    let boot = Boot::from_bytes(&head, bytes).map_err(|reason| Error::Damaged(format!("FAT: {reason}")))?;
    let root = boot.root();
    let layout = Layout {
        entries: Entries::Fat(boot.width),
        table: boot.fat(),
        heap: boot.heap(),
        cluster_bytes: boot.cluster_bytes(),
        clusters: u32::try_from(boot.clusters()).expect("the boot sector was checked"),
    };
    let root = match boot.width {
        Width::Fat12 | Width::Fat16 => {
            Stream { place: Place::Piece(root.start), bytes: root.end - root.start, is_open: false }
        }
        Width::Fat32 => {
            Stream { place: Place::Chain(boot.bpb_root_clus), bytes: FOLDER_BYTES_MAX, is_open: true }
        }
    };
    Ok(Box::new(Fat { width: boot.width, clusters: Clusters::new(layout), root }))
}

impl Fat {
    /// Whether an entry can lie at byte `at`.
    fn can_hold(&self, at: u64) -> bool {
        let is_in_root = match self.root.place {
            Place::Piece(start) => (start..start + self.root.bytes).contains(&at),
            Place::Chain(_) => false,
        };
        at.is_multiple_of(SLOT_BYTES) && (is_in_root || self.clusters.layout.cluster_of(at).is_some())
    }

    fn node(&self, source: &mut dyn Source, file: FileId) -> Result<Node, Error> {
        if file == ROOT {
            return Ok(Node { attributes: plain(0), stream: self.root });
        }
        let missing = || Error::Missing(format!("entry at byte {}", file.number));
        if !self.can_hold(file.number) {
            return Err(missing());
        }
        let bytes = read(source, Extent::new(file.number, SLOT_BYTES))?;
        match bytes.first_chunk().map(Slot::from_bytes) {
            Some(Slot::Short(entry)) => Ok(entry.node(self.width, FOLDER_BYTES_MAX)),
            _ => Err(missing()),
        }
    }

    /// Calls `found` for each entry of `folder`, until it returns `false`.
    fn visit(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(Named) -> bool,
    ) -> Result<(), Error> {
        let stream = self.node(source, folder)?.folder()?.stream;
        let mut slots = Slots::new(&self.clusters, stream, 0, SLOTS_MAX)?;
        let mut long = Long::default();
        while let Some(slot) = slots.next(&mut self.clusters, source)? {
            match Slot::from_bytes(&slot.bytes) {
                Slot::End => break,
                Slot::Long(part) => long.push(part),
                Slot::Other => long.clear(),
                Slot::Short(entry) => {
                    let long = long.take(&entry.dir_name);
                    let Some(short) = name::short(entry) else { continue };
                    let file = FileId { number: slot.at, generation: 0 };
                    let name = long.unwrap_or_else(|| short.clone()).into_bytes();
                    if !found(Named { entry: Entry { name, file }, short }) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Volume for Fat {
    fn name(&self) -> &'static str {
        match self.width {
            Width::Fat12 => "FAT12",
            Width::Fat16 => "FAT16",
            Width::Fat32 => "FAT32",
        }
    }

    fn root(&self) -> FileId {
        ROOT
    }

    fn attributes(&mut self, source: &mut dyn Source, file: FileId) -> Result<Attributes, Error> {
        let Node { mut attributes, stream } = self.node(source, file)?;
        attributes.allocated_bytes = self.clusters.layout.allocated(attributes.bytes);
        if attributes.kind == Kind::Folder {
            attributes.bytes = self.clusters.measure(source, stream)?;
            attributes.allocated_bytes = attributes.bytes;
        }
        Ok(attributes)
    }

    fn find(&mut self, source: &mut dyn Source, folder: FileId, name: &[u8]) -> Result<Option<Entry>, Error> {
        let mut same = None;
        self.visit(source, folder, &mut |it| {
            let is_same = str::from_utf8(name).is_ok_and(|name| it.is(name));
            same = is_same.then_some(it.entry);
            !is_same
        })?;
        Ok(same)
    }

    fn list(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        self.visit(source, folder, &mut |it| found(it.entry))
    }

    fn runs(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Run) -> bool,
    ) -> Result<(), Error> {
        let node = self.node(source, file)?;
        self.clusters.runs(source, node, found)
    }

    fn read(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        at: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let node = self.node(source, file)?;
        self.clusters.content(source, node, at, bytes)
    }

    fn link(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<u8>, Error> {
        self.node(source, file)?;
        Err(Error::NotA("symbolic link"))
    }

    fn extended(&mut self, source: &mut dyn Source, file: FileId) -> Result<Vec<ExtendedAttribute>, Error> {
        self.node(source, file)?;
        Ok(Vec::new())
    }

    fn owners(&mut self) -> Option<&mut dyn Owners> {
        Some(self)
    }
}
