//! Directories: entries of 32 bytes, most of which name the first cluster of a file.

use super::DIRECTORY;
use super::table::Width;
use crate::bytes::u16_at;
use crate::format::Kind;

/// Bytes of an entry.
const DIR_ENTRY_BYTES: usize = 32;
/// First byte of DIR_Name: this entry, and all that follow, were never used.
const END: u8 = 0;
/// First byte of DIR_Name: it is free.
const DELETED: u8 = 0xE5;
/// First byte of DIR_Name in the entries of a directory itself and of its parent.
const DOT: u8 = b'.';
/// DIR_Attr: the name of the volume, or a part of a long name.
const ATTR_VOLUME_ID: u8 = 0x08;
/// DIR_Attr: a directory.
const ATTR_DIRECTORY: u8 = 0x10;

/// What an entry names, and the generation that it is of.
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
    /// What is to be found in its cluster.
    pub(super) fn kind(self) -> Kind {
        if self.is_directory { DIRECTORY } else { Kind::Data }
    }

    fn from_bytes(entry: &[u8], width: Width) -> Option<Self> {
        let (dir_name, dir_attr) = (*entry.first_chunk::<11>()?, *entry.get(11)?);
        if matches!(dir_name[0], DELETED | DOT) || dir_attr & ATTR_VOLUME_ID != 0 {
            return None;
        }
        let high = if width == Width::Fat32 { u32::from(u16_at(entry, 20)) << 16 } else { 0 };
        Some(Self {
            cluster: high | u32::from(u16_at(entry, 26)),
            is_directory: dir_attr & ATTR_DIRECTORY != 0,
            dir_name,
            created: *entry.get(13..18)?.first_chunk()?,
        })
    }
}

/// What each of the entries in `bytes`, of one block, names, up to the first that was never
/// used: what lies behind that is remains.
pub(super) fn heads(bytes: &[u8], width: Width) -> Vec<Option<Head>> {
    let entries = bytes.chunks_exact(DIR_ENTRY_BYTES).take_while(|it| it[0] != END);
    entries.map(|it| Head::from_bytes(it, width)).collect()
}
