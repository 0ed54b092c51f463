//! Names of files: in their own records, and in the index of a folder (`$FILE_NAME`).

use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Type of the attribute.
pub(super) const FILE_NAME: u32 = 0x30;
/// Space of names that only DOS sees.
const FILE_NAME_DOS: u8 = 2;

/// A name as it lies on the disk, without its letters. Sizes and times in it are old, as long as the file is in use.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawName {
    _parent_directory: U64,
    _times: [U64; 4],
    _allocated_size: U64,
    _data_size: U64,
    _file_attributes: U32,
    _reparse_point_tag: U32,
    file_name_length: u8,
    file_name_type: u8,
}

const _: () = assert!(offset_of!(RawName, file_name_length) == 0x40 && size_of::<RawName>() == 0x42);

/// A name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// The letters in UTF-16.
    pub units: Vec<u16>,
    /// Only DOS sees the name: the file has another one, too.
    pub is_dos: bool,
}

impl Name {
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (raw, rest) =
            RawName::read_from_prefix(bytes).map_err(|_| format!("a name of {} bytes", bytes.len()))?;
        let letters = rest.get(..usize::from(raw.file_name_length) * 2);
        let letters = letters.ok_or_else(|| format!("file_name_length {}", raw.file_name_length))?;
        Ok(Self { units: units(letters), is_dos: raw.file_name_type == FILE_NAME_DOS })
    }
}

/// The units of UTF-16 in `bytes`.
pub(super) fn units(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|it| u16::from_le_bytes([it[0], it[1]])).collect()
}
