//! Files of exFAT: sets of entries, chains and pieces, the up-case table.
//!
//! The structures read: `docs/formats/exfat.md`. The number of a file is the byte at which its first entry (EntryType 0x85) lies in the
//! source; that of the root is 0. A time without an offset from UTC is taken as UTC.
//!
//! 1. A damaged set of entries hides no other: a folder is read to its end, and the first damage is the error given then.
//! 2. A file is zeros from its ValidDataLength on. Nothing of its clusters behind that is shown.
//! 3. A folder has [`FOLDER_BYTES_MAX`] at most.

use crate::clusters::slots::{SLOT_BYTES, Slots};
use crate::clusters::walk::{Node, Place, Stream, Walk, plain};
use crate::clusters::{Clusters, Entries, Layout, read};
use crate::exfat::set::{END, FOLDER_BYTES_MAX, Gather, SET_BYTES_MAX, Set};
use crate::exfat::upcase::TABLE_BYTES_MAX;
use crate::names::Upcase;
use crate::{Attributes, Entry, Error, ExtendedAttribute, FileId, Owners, Run, Source, Volume};
use quietus_core::base::units::Extent;
use quietus_detect::formats::exfat::boot::{BOOT_BYTES, Boot, is_boot};
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

mod owners;
mod set;
mod upcase;

const SLOTS_MAX: u64 = FOLDER_BYTES_MAX / SLOT_BYTES;
/// Limit of the bytes of the root's chain: it reaches beyond the last entry, so that one entry too many is noticed.
const ROOT_BYTES_MAX: u64 = FOLDER_BYTES_MAX + SLOT_BYTES;
/// Slots of the root that are searched for the up-case table: every formatter writes it before any file.
const UPCASE_SLOTS_MAX: usize = 2048;
const UPCASE_TABLE: u8 = 0x82;
/// The number of the root, at which no entry can lie.
const ROOT: FileId = FileId { number: 0, generation: 0 };

/// The entry of the up-case table.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawUpcase {
    entry_type: u8,
    _reserved1: [u8; 3],
    table_checksum: U32,
    _reserved2: [u8; 12],
    first_cluster: U32,
    data_length: U64,
}

const _: () = assert!(size_of::<RawUpcase>() == 32 && offset_of!(RawUpcase, first_cluster) == 20);

/// A volume of exFAT.
#[derive(Debug)]
struct ExFat {
    clusters: Clusters,
    root: Stream,
    upcase: Upcase,
}

/// The exFAT volume that begins at the first byte of `source`.
///
/// # Errors
/// [`Error::Unknown`] if `source` does not begin with the boot sector of one; [`Error::Damaged`] if the boot region contradicts itself.
pub fn open(source: &mut dyn Source) -> Result<Box<dyn Volume>, Error> {
    let bytes = source.bytes();
    let head = read(source, Extent::new(0, BOOT_BYTES.min(bytes)))?;
    if !is_boot(&head) {
        return Err(Error::Unknown("no boot sector of exFAT".into()));
    }
    let boot = Boot::from_bytes(&head, bytes).map_err(|reason| Error::Damaged(format!("exFAT: {reason}")))?;
    if !boot.is_summed(&read(source, Extent::new(0, boot.region_bytes()))?) {
        return Err(Error::Damaged("exFAT: the checksum of the boot region is wrong".into()));
    }
    let layout = Layout {
        entries: Entries::ExFat,
        table: boot.entry_at(0)
            ..boot.entry_at(0) + (u64::from(boot.fat_length) << boot.bytes_per_sector_shift),
        heap: boot.heap(),
        cluster_bytes: boot.cluster_bytes(),
        clusters: boot.cluster_count,
    };
    let place = Place::Chain(boot.first_cluster_of_root_directory);
    let root = Stream { place, bytes: ROOT_BYTES_MAX, is_open: true };
    let mut clusters = Clusters::new(layout);
    let upcase = upcase(&mut clusters, source, root).unwrap_or_else(|_| Upcase::ascii());
    Ok(Box::new(ExFat { clusters, root, upcase }))
}

/// The up-case table that the root names.
fn upcase(clusters: &mut Clusters, source: &mut dyn Source, root: Stream) -> Result<Upcase, Error> {
    let mut slots = Slots::new(clusters, root, 0, SLOTS_MAX)?;
    for _ in 0..UPCASE_SLOTS_MAX {
        let Some(slot) = slots.next(clusters, source)?.filter(|it| it.bytes[0] != END) else { break };
        let raw: RawUpcase = zerocopy::transmute!(slot.bytes);
        if raw.entry_type == UPCASE_TABLE {
            return table(clusters, source, &raw);
        }
    }
    Err(Error::Damaged("the root has no up-case table".into()))
}

fn table(clusters: &mut Clusters, source: &mut dyn Source, raw: &RawUpcase) -> Result<Upcase, Error> {
    let bytes = raw.data_length.get();
    if bytes > TABLE_BYTES_MAX {
        return Err(Error::Damaged(format!("DataLength of the up-case table is {bytes}")));
    }
    let stream = Stream { place: Place::Chain(raw.first_cluster.get()), bytes, is_open: false };
    let mut walk = Walk::new(clusters, stream, 0..bytes)?;
    let mut table = Vec::new();
    while let Some(part) = walk.next(clusters, source)? {
        table.extend(read(source, part.place)?);
    }
    upcase::from_bytes(&table, raw.table_checksum.get())
}

impl ExFat {
    fn node(&mut self, source: &mut dyn Source, file: FileId) -> Result<Node, Error> {
        if file == ROOT {
            return Ok(Node { attributes: plain(0), stream: self.root });
        }
        self.set(source, file.number)?.node(&self.clusters.layout)
    }

    /// The set of entries that begins at byte `at`.
    ///
    /// It may go on in another cluster, and which one that is depends on the folder: the next one if it lies in one piece, or the next one of
    /// its chain. Both are tried; the set's checksum decides.
    fn set(&mut self, source: &mut dyn Source, at: u64) -> Result<Set, Error> {
        let layout = &self.clusters.layout;
        let missing = || Error::Missing(format!("entry at byte {at}"));
        let cluster = layout.cluster_of(at).filter(|_| at.is_multiple_of(SLOT_BYTES)).ok_or_else(missing)?;
        let (within, end) = ((at - layout.heap) % layout.cluster_bytes, layout.heap + layout.bytes());
        let piece = Stream { place: Place::Piece(at), bytes: SET_BYTES_MAX.min(end - at), is_open: false };
        let place = Place::Chain(cluster);
        let chain = Stream { place, bytes: within + SET_BYTES_MAX, is_open: true };
        match self.gather(source, piece, 0) {
            Err(Error::Damaged(_)) => self.gather(source, chain, within)?.ok_or_else(missing),
            found => found?.ok_or_else(missing),
        }
    }

    /// The set with which byte `from` of `stream` begins; `None` if there is another entry.
    fn gather(&mut self, source: &mut dyn Source, stream: Stream, from: u64) -> Result<Option<Set>, Error> {
        let mut slots = Slots::new(&self.clusters, stream, from, SLOTS_MAX)?;
        let mut gather = Gather::default();
        while let Some(slot) = slots.next(&mut self.clusters, source)? {
            let set = gather.push(&slot)?;
            if set.is_some() || gather.is_empty() {
                return Ok(set);
            }
        }
        gather.end().map(|()| None)
    }

    /// Calls `found` for each file of `folder`, until it returns `false`.
    fn visit(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(&Upcase, &Set) -> bool,
    ) -> Result<(), Error> {
        let stream = self.node(source, folder)?.folder()?.stream;
        let mut slots = Slots::new(&self.clusters, stream, 0, SLOTS_MAX)?;
        let (mut gather, mut damage) = (Gather::default(), Ok(()));
        while let Some(slot) = slots.next(&mut self.clusters, source)?.filter(|it| it.bytes[0] != END) {
            match gather.push(&slot) {
                Ok(Some(set)) if !found(&self.upcase, &set) => return Ok(()),
                Ok(_) => {}
                Err(error) => damage = damage.and(Err(error)),
            }
        }
        damage.and(gather.end())
    }
}

fn entry(set: &Set) -> Entry {
    Entry { name: set.name.clone().into_bytes(), file: FileId { number: set.at, generation: 0 } }
}

impl Volume for ExFat {
    fn name(&self) -> &'static str {
        "exFAT"
    }

    fn root(&self) -> FileId {
        ROOT
    }

    fn attributes(&mut self, source: &mut dyn Source, file: FileId) -> Result<Attributes, Error> {
        let node = self.node(source, file)?;
        if file == ROOT {
            Ok(plain(self.clusters.measure(source, node.stream)?))
        } else {
            Ok(node.attributes)
        }
    }

    fn find(&mut self, source: &mut dyn Source, folder: FileId, name: &[u8]) -> Result<Option<Entry>, Error> {
        let name = str::from_utf8(name).unwrap_or_default();
        let mut same = None;
        self.visit(source, folder, &mut |upcase, set| {
            same = upcase.is_same(&set.name, name).then(|| entry(set));
            same.is_none()
        })?;
        Ok(same)
    }

    fn list(
        &mut self,
        source: &mut dyn Source,
        folder: FileId,
        found: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        self.visit(source, folder, &mut |_, set| found(entry(set)))
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
