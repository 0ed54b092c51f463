//! Lists of attributes: where the attributes of a file lie that one record does not hold.

use crate::formats::ntfs::lie::Lie;
use crate::input::bytes::head;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Most bytes of a list of attributes, as in Windows.
pub const LIST_BYTES_MAX: u64 = 256 << 10;
/// Bits of a record's number; its sequence number follows.
const NUMBER_BITS: u32 = 48;

const INVALID: Lie = Lie::of("its list of attributes is invalid");

/// An entry as it lies on the disk.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    kind: U32,
    length: U16,
    name_length: u8,
    name_offset: u8,
    lowest_vcn: U64,
    mft_reference: U64,
    _instance: U16,
}

const _: () = assert!(size_of::<RawEntry>() == 0x1A && offset_of!(RawEntry, mft_reference) == 0x10);

/// An attribute, or a part of one that lies in clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListEntry<'a> {
    /// Type of the attribute.
    pub kind: u32,
    /// Name in UTF-16.
    pub name: &'a [u8],
    /// The first cluster of the part.
    pub lowest_vcn: u64,
    /// The record that holds it, with its sequence number.
    pub mft_reference: u64,
}

/// The number of the record that `mft_reference` names.
#[must_use]
pub fn number_of(mft_reference: u64) -> u64 {
    mft_reference & ((1 << NUMBER_BITS) - 1)
}

/// The sequence number of the record that `mft_reference` names.
#[must_use]
pub fn sequence_of(mft_reference: u64) -> u16 {
    (mft_reference >> NUMBER_BITS) as u16
}

/// The entries of the list in `bytes`. An error ends them.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<ListEntry<'_>, Lie>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        let raw: &RawEntry = head(bytes)?;
        let found = entry(raw, bytes);
        rest = found.and_then(|_| bytes.get(usize::from(raw.length)..));
        Some(found.ok_or(INVALID))
    })
}

/// The entry `raw` at the start of `bytes`.
fn entry<'a>(raw: &RawEntry, bytes: &'a [u8]) -> Option<ListEntry<'a>> {
    let length = usize::from(raw.length);
    let whole = bytes.get(..length).filter(|_| length >= size_of::<RawEntry>())?;
    let (at, name_bytes) = (usize::from(raw.name_offset), usize::from(raw.name_length) * 2);
    let name = if name_bytes == 0 { &[][..] } else { whole.get(at..at + name_bytes)? };
    Some(ListEntry {
        kind: raw.kind.get(),
        name,
        lowest_vcn: raw.lowest_vcn.get(),
        mft_reference: raw.mft_reference.get(),
    })
}

#[cfg(test)]
mod tests;
