//! Directories: entries of 32 bytes, most of which name the first cluster of a file.

use crate::formats::fat::DIRECTORY;
use crate::formats::fat::table::Width;
use crate::formats::format::Kind;
use crate::input::bytes::all;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// First byte of DIR_Name: this entry, and all that follow, were never used.
const END: u8 = 0;
/// First byte of DIR_Name: a free entry.
const DELETED: u8 = 0xE5;
/// First byte of DIR_Name in the entries of a directory itself and of its parent.
const DOT: u8 = b'.';
/// DIR_Attr: the name of the volume, or a part of a long name.
const ATTR_VOLUME_ID: u8 = 0x08;
/// DIR_Attr: a directory.
const ATTR_DIRECTORY: u8 = 0x10;

/// An entry as it lies on the disk.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    dir_name: [u8; 11],
    dir_attr: u8,
    _dir_nt_res: u8,
    /// DIR_CrtTimeTenth, DIR_CrtTime, DIR_CrtDate.
    created: [u8; 5],
    _dir_lst_acc_date: U16,
    dir_fst_clus_hi: U16,
    _written: [u8; 4],
    dir_fst_clus_lo: U16,
    _dir_file_size: [u8; 4],
}

const _: () = assert!(size_of::<RawEntry>() == 32);

/// The cluster that an entry names, and its generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// DIR_FstClusHI and DIR_FstClusLO; 0 for an empty file.
    pub cluster: u32,
    is_directory: bool,
    dir_name: [u8; 11],
    /// DIR_CrtTimeTenth, DIR_CrtTime, DIR_CrtDate.
    created: [u8; 5],
}

impl Head {
    /// Kind of the named blocks.
    pub(super) fn kind(self) -> Kind {
        if self.is_directory { DIRECTORY } else { Kind::Data }
    }

    fn new(entry: &RawEntry, width: Width) -> Option<Self> {
        if matches!(entry.dir_name[0], DELETED | DOT) || entry.dir_attr & ATTR_VOLUME_ID != 0 {
            return None;
        }
        let high = if width == Width::Fat32 { u32::from(entry.dir_fst_clus_hi) << 16 } else { 0 };
        Some(Self {
            cluster: high | u32::from(entry.dir_fst_clus_lo),
            is_directory: entry.dir_attr & ATTR_DIRECTORY != 0,
            dir_name: entry.dir_name,
            created: entry.created,
        })
    }
}

/// The head that each entry in `bytes`, of one block, names, up to the first entry that was never
/// used. Remains lie behind that.
pub(super) fn heads(bytes: &[u8], width: Width) -> Vec<Option<Head>> {
    let entries = all::<RawEntry>(bytes).iter().take_while(|it| it.dir_name[0] != END);
    entries.map(|it| Head::new(it, width)).collect()
}
