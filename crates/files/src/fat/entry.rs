//! Entries of folders as they lie on the disk ("FAT: General Overview of On-Disk Format", 1.03).

use crate::clusters::time::time;
use crate::clusters::walk::{Node, Place, Stream, plain};
use crate::{Attributes, Kind};
use quietus_detect::formats::fat::table::Width;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// First byte of DIR_Name: this entry, and all that follow, were never used.
pub(super) const END: u8 = 0;
/// First byte of DIR_Name: a free entry.
const DELETED: u8 = 0xE5;
/// DIR_Attr: the name of the volume.
const ATTR_VOLUME_ID: u8 = 0x08;
/// DIR_Attr: a folder.
const ATTR_DIRECTORY: u8 = 0x10;
/// DIR_Attr: a part of a long name.
const ATTR_LONG_NAME: u8 = 0x0F;
/// The bits of DIR_Attr that mark a part of a long name.
const ATTR_LONG_NAME_MASK: u8 = 0x3F;

/// An entry of a file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RawShort {
    pub dir_name: [u8; 11],
    dir_attr: u8,
    pub dir_nt_res: u8,
    dir_crt_time_tenth: u8,
    dir_crt_time: U16,
    dir_crt_date: U16,
    dir_lst_acc_date: U16,
    dir_fst_clus_hi: U16,
    dir_wrt_time: U16,
    dir_wrt_date: U16,
    dir_fst_clus_lo: U16,
    dir_file_size: U32,
}

/// A part of a long name, of 13 units of UTF-16.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RawLong {
    pub ldir_ord: u8,
    ldir_name1: [U16; 5],
    _ldir_attr: u8,
    _ldir_type: u8,
    pub ldir_chksum: u8,
    ldir_name2: [U16; 6],
    _ldir_fst_clus_lo: U16,
    ldir_name3: [U16; 2],
}

const _: () = {
    assert!(size_of::<RawShort>() == 32 && offset_of!(RawShort, dir_file_size) == 28);
    assert!(offset_of!(RawShort, dir_crt_date) == 16 && offset_of!(RawShort, dir_wrt_time) == 22);
    assert!(size_of::<RawLong>() == 32 && offset_of!(RawLong, ldir_chksum) == 13);
    assert!(offset_of!(RawLong, ldir_name3) == 28);
};

impl RawLong {
    /// The units of the name, with the padding behind its end.
    pub(super) fn units(&self) -> impl Iterator<Item = u16> {
        self.ldir_name1.iter().chain(&self.ldir_name2).chain(&self.ldir_name3).map(|it| it.get())
    }
}

/// What a slot of a folder is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot<'a> {
    /// Neither this slot nor any behind it was ever used.
    End,
    /// A part of a long name.
    Long(&'a RawLong),
    /// A file or a folder.
    Short(&'a RawShort),
    /// A deleted entry, the name of the volume, or the entry of the folder itself or of its parent.
    Other,
}

impl<'a> Slot<'a> {
    pub(super) fn from_bytes(bytes: &'a [u8; 32]) -> Self {
        let short: &RawShort = zerocopy::transmute_ref!(bytes);
        match short.dir_name[0] {
            END => Self::End,
            DELETED => Self::Other,
            _ if short.dir_attr & ATTR_LONG_NAME_MASK == ATTR_LONG_NAME => {
                Self::Long(zerocopy::transmute_ref!(bytes))
            }
            _ if short.dir_attr & ATTR_VOLUME_ID != 0 || short.is_dot() => Self::Other,
            _ => Self::Short(short),
        }
    }
}

impl RawShort {
    fn is_dot(&self) -> bool {
        matches!(&self.dir_name, b".          " | b"..         ")
    }

    /// The first cluster; 0 for an empty file.
    fn first_cluster(&self, width: Width) -> u32 {
        let low = u32::from(self.dir_fst_clus_lo.get());
        match width {
            Width::Fat12 | Width::Fat16 => low,
            Width::Fat32 => (u32::from(self.dir_fst_clus_hi.get()) << 16 | low) & 0x0FFF_FFFF,
        }
    }

    /// The file. The size of a folder is not in its entry: it is that of its chain, up to `folder_bytes_max`.
    pub(super) fn node(&self, width: Width, folder_bytes_max: u64) -> Node {
        let is_folder = self.dir_attr & ATTR_DIRECTORY != 0;
        let bytes = if is_folder { 0 } else { u64::from(self.dir_file_size.get()) };
        let attributes = Attributes {
            kind: if is_folder { Kind::Folder } else { Kind::Regular },
            modified: time(self.dir_wrt_date.get(), self.dir_wrt_time.get(), 0),
            accessed: time(self.dir_lst_acc_date.get(), 0, 0),
            born: time(self.dir_crt_date.get(), self.dir_crt_time.get(), self.dir_crt_time_tenth),
            ..plain(bytes)
        };
        let place = Place::Chain(self.first_cluster(width));
        let bytes = if is_folder { folder_bytes_max } else { bytes };
        Node { attributes, stream: Stream { place, bytes, is_open: is_folder } }
    }
}
