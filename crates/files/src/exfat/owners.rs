//! Who has which clusters of exFAT: the sets of folders, and other entries that have clusters (specification, sections 6.2 to 6.4).
//!
//! 1. A set that is damaged is an error: then it is not known who has what.
//! 2. Clusters of entries with another meaning are of the file system: the bitmap, the up-case table, and those of vendors.

use crate::clusters::owners::{Claim, Folders};
use crate::clusters::slots::{Slot, Slots};
use crate::clusters::walk::Stream;
use crate::clusters::{Clusters, read};
use crate::exfat::set::{Allocation, END, FILE, Gather};
use crate::exfat::{ExFat, SLOTS_MAX, UPCASE_TABLE};
use crate::{Error, FileId, Kind, Owner, Source};
use quietus_core::base::units::Extent;
use quietus_detect::formats::exfat::boot::BOOT_BYTES;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const BITMAP: u8 = 0x81;
const LABEL: u8 = 0x83;
/// EntryType: in use, without another entry before it; one of a type that is not known may be skipped.
const PRIMARY: u8 = 0x80;
const BENIGN_PRIMARY: u8 = 0xA0;
/// The bits of EntryType that tell these.
const TYPE_MASK: u8 = 0xE0;
/// GeneralPrimaryFlags: the entry has clusters.
const ALLOCATION_POSSIBLE: u16 = 1;
const NO_FAT_CHAIN: u16 = 2;

/// An entry with clusters, of a type that is not known (section 6.3).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawPrimary {
    entry_type: u8,
    _secondary_count: u8,
    _set_checksum: U16,
    general_primary_flags: U16,
    _custom_defined: [u8; 14],
    first_cluster: U32,
    data_length: U64,
}

const _: () = assert!(size_of::<RawPrimary>() == 32 && std::mem::offset_of!(RawPrimary, first_cluster) == 20);

fn system(stream: Stream) -> Claim {
    Claim { owner: Owner::System, stream, is_folder: false }
}

/// What an entry that is not of a set of a file has.
fn other(slot: &Slot) -> Result<Option<Allocation>, Error> {
    let raw: RawPrimary = zerocopy::transmute!(slot.bytes);
    let flags = raw.general_primary_flags.get();
    let is_piece = match raw.entry_type {
        // Their fields at the place of the flags have another meaning.
        BITMAP | UPCASE_TABLE => false,
        FILE | LABEL => return Ok(None),
        other if other & TYPE_MASK == PRIMARY => {
            let text = format!("exFAT: the entry at byte {} has the type {other:#x}", slot.at);
            return Err(Error::Unsupported(text));
        }
        other if other & TYPE_MASK == BENIGN_PRIMARY && flags & ALLOCATION_POSSIBLE != 0 => {
            flags & NO_FAT_CHAIN != 0
        }
        _ => return Ok(None),
    };
    let (first, bytes) = (raw.first_cluster.get(), raw.data_length.get());
    Ok(Some(Allocation { at: slot.at, first, bytes, is_piece }))
}

impl Folders for ExFat {
    fn touch(&self, source: &mut dyn Source) -> Result<(), Error> {
        read(source, Extent::new(0, BOOT_BYTES)).map(drop)
    }

    fn clusters(&mut self) -> &mut Clusters {
        &mut self.clusters
    }

    fn top(&self) -> Stream {
        self.root
    }

    fn claims(
        &mut self,
        source: &mut dyn Source,
        folder: Stream,
        found: &mut dyn FnMut(Claim) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let layout = &self.clusters.layout.clone();
        let mut slots = Slots::new(&self.clusters, folder, 0, SLOTS_MAX)?;
        let mut gather = Gather::default();
        while let Some(slot) = slots.next(&mut self.clusters, source)?.filter(|it| it.bytes[0] != END) {
            let set = gather.push(&slot)?;
            let further = set.iter().flat_map(|set| set.further.clone());
            for allocation in further.chain(other(&slot)?) {
                allocation.stream(layout)?.map_or(Ok(()), |stream| found(system(stream)))?;
            }
            let Some(set) = set else { continue };
            let is_folder = set.node(layout)?.attributes.kind == Kind::Folder;
            let file = FileId { number: set.at, generation: 0 };
            let owner = if is_folder { Owner::System } else { Owner::File(file) };
            if let Some(stream) = set.content().stream(layout)? {
                found(Claim { owner, stream, is_folder })?;
            }
        }
        gather.end()
    }
}
