//! A record of `$MFT`: its update sequence, its header, its attributes.

use crate::formats::ntfs::lie::{Lie, ensure};
use crate::formats::ntfs::runs::{Run, runs};
use crate::input::bytes::{all, head};
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes under each number of the update sequence, whatever the size of a sector.
const STRIDE: usize = 512;
/// [`Record`]'s flag: the record belongs to a file that exists.
const IN_USE: u16 = 1;
/// [`Record`]'s flag: the record belongs to a folder.
const IS_FOLDER: u16 = 2;
/// Type of an attribute: the places of all attributes, where one record does not hold them.
pub const ATTRIBUTE_LIST: u32 = 0x20;
/// Type of an attribute: content.
pub const DATA: u32 = 0x80;
/// Attribute's flags: the method of compression; 0: not compressed.
const COMPRESSION_MASK: u16 = 0x00FF;
/// Attribute's flag: the content is encrypted.
const ENCRYPTED: u16 = 0x4000;
/// Attribute's flag: the content has holes.
const SPARSE: u16 = 0x8000;
/// Type of the end of the attributes.
const END: u32 = 0xFFFF_FFFF;

/// The update sequence does not match.
const TORN: Lie = Lie::of("a part of it was not written (its update sequence does not match)");
const ATTRIBUTE: Lie = Lie::of("an attribute has an impossible `length`");

/// The start of a record, and of every structure with an update sequence (named, as the other
/// structures, as in `ntfs-3g/layout.h`).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawProtected {
    /// Four letters that name the structure.
    pub magic: [u8; 4],
    usa_ofs: U16,
    usa_count: U16,
}

/// The header of a record, as of the version before records stated their number.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    protected: RawProtected,
    _lsn: U64,
    sequence_number: U16,
    _link_count: U16,
    attrs_offset: U16,
    flags: U16,
    bytes_in_use: U32,
    _bytes_allocated: U32,
    base_mft_record: U64,
    _next_attr_instance: U16,
}

/// The header of an attribute.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAttribute {
    kind: U32,
    length: U32,
    non_resident: u8,
    name_length: u8,
    name_offset: U16,
    flags: U16,
    _instance: U16,
}

/// The rest of the header of an attribute whose value lies in the record.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawResident {
    attribute: RawAttribute,
    value_length: U32,
    value_offset: U16,
    _from_0x16: [u8; 2],
}

/// The rest of the header of an attribute whose value lies in clusters.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawNonResident {
    attribute: RawAttribute,
    lowest_vcn: U64,
    highest_vcn: U64,
    mapping_pairs_offset: U16,
    _from_0x22: [u8; 6],
    allocated_size: U64,
    data_size: U64,
    initialized_size: U64,
}

/// The same of an attribute that is compressed or sparse.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCompressed {
    attribute: RawNonResident,
    compressed_size: U64,
}

const _: () = {
    assert!(offset_of!(RawRecord, attrs_offset) == 0x14 && offset_of!(RawRecord, base_mft_record) == 0x20);
    assert!(size_of::<RawRecord>() == 0x2A && size_of::<RawAttribute>() == 0x10);
    assert!(size_of::<RawResident>() == 0x18 && size_of::<RawNonResident>() == 0x40);
    assert!(
        offset_of!(RawNonResident, data_size) == 0x30 && offset_of!(RawCompressed, compressed_size) == 0x40
    );
    assert!(offset_of!(RawAttribute, flags) == 0x0C);
};

/// A record that is in use, with its update sequence undone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    bytes: Vec<u8>,
    /// The range of the attributes in the record.
    attributes: Range<usize>,
    /// Number of times that the record was reused.
    pub sequence_number: u16,
    /// The record is of a folder.
    pub is_folder: bool,
    /// The record that this one extends, with its sequence number; 0 if it extends no record.
    pub base_mft_record: u64,
}

/// An attribute: a stream of a file, or of what the system knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    /// Type, such as [`DATA`].
    pub kind: u32,
    /// Name in UTF-16.
    pub name: &'a [u8],
    flags: u16,
    /// The value, or its place.
    pub value: Value<'a>,
}

impl Attribute<'_> {
    /// The content is compressed, wherever it lies in clusters.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.flags & COMPRESSION_MASK != 0 && matches!(self.value, Value::Elsewhere(_))
    }

    /// The content is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }
}

/// The value of an attribute, and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// In the record.
    Resident(&'a [u8]),
    /// In clusters.
    Elsewhere(Clusters<'a>),
}

/// Places of clusters, or of some of them: further ones may be in records that extend this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clusters<'a> {
    /// The first cluster that has its place here.
    pub lowest_vcn: u64,
    highest_vcn: u64,
    pairs: &'a [u8],
    /// Bytes of the clusters of the whole attribute, without holes.
    pub allocated_bytes: u64,
    /// Bytes of the value.
    pub data_size: u64,
    /// Bytes of the value from the first on that were ever written; the others are zeros.
    pub initialized_size: u64,
}

impl Clusters<'_> {
    /// The cluster after the last one that has its place here.
    #[must_use]
    pub fn end_vcn(&self) -> u64 {
        self.highest_vcn.wrapping_add(1)
    }

    /// The runs, on a disk of `clusters`. Where there are none, Linux's ntfs3 leaves the old pairs
    /// behind.
    ///
    /// # Errors
    /// If the pairs are impossible, or are for another number of clusters.
    pub fn runs(&self, clusters: u64) -> Result<Vec<Run>, Lie> {
        if self.end_vcn() == self.lowest_vcn {
            return Ok(Vec::new());
        }
        let (found, end) = runs(self.pairs, self.lowest_vcn, clusters)?;
        ensure(self.end_vcn() == end, "highest_vcn", self.highest_vcn)?;
        Ok(found)
    }
}

/// Undoes the update sequence that begins at byte 4: each 512 bytes end in a number that is the
/// same for all of one write.
///
/// # Errors
/// If a number differs, which is a write that did not end, or the update sequence has no place.
pub fn restored(bytes: &[u8]) -> Result<Vec<u8>, Lie> {
    let header: &RawProtected = head(bytes).ok_or(TORN)?;
    let (usa_ofs, usa_count) = (usize::from(header.usa_ofs), usize::from(header.usa_count));
    ensure(usa_count == bytes.len() / STRIDE + 1, "usa_count", usa_count as u64)?;
    ensure(usa_ofs.is_multiple_of(2) && usa_ofs + usa_count * 2 <= STRIDE - 2, "usa_ofs", usa_ofs as u64)?;
    let sequence = bytes.get(usa_ofs..usa_ofs + usa_count * 2).map(all::<U16>).and_then(<[U16]>::split_first);
    let (usn, saved) = sequence.ok_or(Lie::field("usa_ofs", usa_ofs as u64))?;
    let mut restored = bytes.to_vec();
    for (stride, saved) in restored.chunks_exact_mut(STRIDE).zip(saved) {
        let end = &mut stride[STRIDE - 2..];
        if *end != *usn.as_bytes() {
            return Err(TORN);
        }
        end.copy_from_slice(saved.as_bytes());
    }
    Ok(restored)
}

impl Record {
    /// The record in `bytes`; `None` if it is not in use, or was never written.
    ///
    /// # Errors
    /// If it was not written as a whole, or its header is impossible.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, Lie> {
        match bytes.get(..4) {
            Some(b"FILE") => {}
            Some(b"BAAD") => return Err(TORN),
            _ => return Ok(None),
        }
        let bytes = restored(bytes)?;
        let header: &RawRecord = head(&bytes).ok_or(Lie::of("it is shorter than its header"))?;
        let flags = header.flags.get();
        if flags & IN_USE == 0 {
            return Ok(None);
        }
        let (attrs_offset, bytes_in_use) = (header.attrs_offset.into(), header.bytes_in_use.get() as usize);
        ensure(bytes_in_use <= bytes.len(), "bytes_in_use", bytes_in_use as u64)?;
        let is_place = (size_of::<RawRecord>()..bytes_in_use).contains(&attrs_offset);
        ensure(is_place, "attrs_offset", attrs_offset as u64)?;
        let sequence_number = header.sequence_number.get();
        let base_mft_record = header.base_mft_record.get();
        let (is_folder, attributes) = (flags & IS_FOLDER != 0, attrs_offset..bytes_in_use);
        Ok(Some(Self { sequence_number, is_folder, base_mft_record, attributes, bytes }))
    }

    /// Sets this record apart from others of the same number.
    pub(super) fn generation(&self) -> (u16, u64) {
        (self.sequence_number, self.base_mft_record)
    }

    /// The attributes, in order. An error ends them.
    pub fn attributes(&self) -> impl Iterator<Item = Result<Attribute<'_>, Lie>> {
        let mut rest = self.bytes.get(self.attributes.clone());
        std::iter::from_fn(move || {
            let bytes = rest.take()?;
            if head::<U32>(bytes).is_some_and(|kind| *kind == END) {
                return None;
            }
            let found = attribute(bytes);
            rest = found.as_ref().ok().map(|(_, behind)| *behind);
            Some(found.map(|(attribute, _)| attribute))
        })
    }

    /// The first attribute of `kind` without a name.
    ///
    /// # Errors
    /// If it, or an attribute before it, is impossible.
    pub fn unnamed(&self, kind: u32) -> Result<Option<Attribute<'_>>, Lie> {
        let is_it = |it: &Result<Attribute<'_>, Lie>| {
            it.is_err() || it.as_ref().is_ok_and(|it| it.kind == kind && it.name.is_empty())
        };
        self.attributes().find(is_it).transpose()
    }
}

/// The attribute at the start of `bytes`, and the bytes after it.
fn attribute(bytes: &[u8]) -> Result<(Attribute<'_>, &[u8]), Lie> {
    let header: &RawAttribute = head(bytes).ok_or(ATTRIBUTE)?;
    let length = header.length.get() as usize;
    let whole = bytes.split_at_checked(length).filter(|_| length.is_multiple_of(8));
    let (whole, behind) = whole.ok_or(ATTRIBUTE)?;
    if length < size_of::<RawResident>() {
        return Err(ATTRIBUTE);
    }
    let (name_at, name_bytes) = (usize::from(header.name_offset), usize::from(header.name_length) * 2);
    let name = if name_bytes == 0 { Some(&[][..]) } else { whole.get(name_at..name_at + name_bytes) };
    let name = name.ok_or(Lie::field("name_offset", name_at as u64))?;
    let value = match header.non_resident {
        0 => Value::Resident(resident(whole)?),
        1 => Value::Elsewhere(elsewhere(whole)?),
        other => return Err(Lie::field("non_resident", other.into())),
    };
    Ok((Attribute { kind: header.kind.get(), name, flags: header.flags.get(), value }, behind))
}

fn resident(whole: &[u8]) -> Result<&[u8], Lie> {
    let header: &RawResident = head(whole).ok_or(ATTRIBUTE)?;
    let (len, at) = (header.value_length.get() as usize, usize::from(header.value_offset));
    whole.get(at..).and_then(|it| it.get(..len)).ok_or(Lie::field("value_length", len as u64))
}

fn elsewhere(whole: &[u8]) -> Result<Clusters<'_>, Lie> {
    let header: &RawNonResident = head(whole).ok_or(ATTRIBUTE)?;
    let at = usize::from(header.mapping_pairs_offset);
    ensure((size_of::<RawNonResident>()..=whole.len()).contains(&at), "mapping_pairs_offset", at as u64)?;
    let clusters = Clusters {
        lowest_vcn: header.lowest_vcn.get(),
        highest_vcn: header.highest_vcn.get(),
        pairs: &whole[at..],
        allocated_bytes: allocated_bytes(header, whole),
        data_size: header.data_size.get(),
        initialized_size: header.initialized_size.get(),
    };
    let is_order = clusters.lowest_vcn <= clusters.highest_vcn.wrapping_add(1);
    ensure(is_order && clusters.lowest_vcn <= i64::MAX as u64, "lowest_vcn", clusters.lowest_vcn)?;
    Ok(clusters)
}

/// Bytes of the clusters of an attribute: those of one with holes are in a field of its own.
fn allocated_bytes(header: &RawNonResident, whole: &[u8]) -> u64 {
    let has_holes = header.attribute.flags.get() & (COMPRESSION_MASK | SPARSE) != 0;
    let has_field = usize::from(header.mapping_pairs_offset) >= size_of::<RawCompressed>();
    let compressed: Option<&RawCompressed> = head(whole).filter(|_| has_holes && has_field);
    compressed.map_or(header.allocated_size, |it| it.compressed_size).get()
}

#[cfg(test)]
mod tests;
