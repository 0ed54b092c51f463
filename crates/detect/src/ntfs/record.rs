//! A record of `$MFT`: its update sequence, its header, its attributes.

use super::lie::{Lie, ensure};
use super::runs::{Run, runs};
use crate::bytes::{u16_at, u32_at, u64_at};

/// What the update sequence protects at a time, whatever the size of a sector.
const STRIDE: usize = 512;
/// [`Record`]'s flag: it is of a file that exists.
const IN_USE: u16 = 1;
/// The type that ends the attributes.
const END: u32 = 0xFFFF_FFFF;
/// Header of an attribute whose value lies in the record.
const RESIDENT_BYTES: usize = 0x18;
/// Header of one whose value does not.
const NON_RESIDENT_BYTES: usize = 0x40;
/// Header of a record, as it was before records knew their number.
const HEADER_BYTES: usize = 0x2A;

/// A record that is in use, with its update sequence undone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// Counts how often the record was used anew.
    sequence_number: u16,
    /// The record that this one extends, with its sequence number; 0 if none.
    pub base_mft_record: u64,
}

/// An attribute: a stream of a file, or of what the system knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attribute<'a> {
    pub kind: u32,
    /// In UTF-16.
    pub name: &'a [u8],
    pub value: Value<'a>,
}

/// What an attribute holds, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// In the record.
    Resident(&'a [u8]),
    /// In clusters.
    Elsewhere(Clusters<'a>),
}

/// Where the clusters are, or some of them: others may be told of by records
/// that extend this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Clusters<'a> {
    pub lowest_vcn: u64,
    highest_vcn: u64,
    pairs: &'a [u8],
    pub data_size: u64,
    pub initialized_size: u64,
}

impl Clusters<'_> {
    /// The runs, below a disk of `clusters`. Where there are none Linux's ntfs3
    /// leaves what pairs there were.
    pub(super) fn runs(&self, clusters: u64) -> Result<Vec<Run>, Lie> {
        if self.highest_vcn.wrapping_add(1) == self.lowest_vcn {
            return Ok(Vec::new());
        }
        let (found, end) = runs(self.pairs, self.lowest_vcn, clusters)?;
        ensure(self.highest_vcn.wrapping_add(1) == end, "highest_vcn")?;
        Ok(found)
    }
}

/// Undoes the update sequence of what begins with one at its byte 4: each 512
/// bytes end in a number that is the same for all of one write.
pub(super) fn restored(bytes: &[u8]) -> Result<Vec<u8>, Lie> {
    let (usa_ofs, usa_count) = (usize::from(u16_at(bytes, 4)), usize::from(u16_at(bytes, 6)));
    ensure(usa_count == bytes.len() / STRIDE + 1, "usa_count")?;
    ensure(usa_ofs.is_multiple_of(2) && usa_ofs + usa_count * 2 <= STRIDE - 2, "usa_ofs")?;
    let mut restored = bytes.to_vec();
    let usn = u16_at(bytes, usa_ofs);
    for (n, stride) in (1..).zip(restored.chunks_exact_mut(STRIDE)) {
        let saved = u16_at(bytes, usa_ofs + n * 2);
        ensure(u16_at(stride, STRIDE - 2) == usn, "the update sequence")?;
        stride[STRIDE - 2..].copy_from_slice(&saved.to_le_bytes());
    }
    Ok(restored)
}

impl Record {
    /// The record in `bytes`; none if it is not in use, or was never written.
    ///
    /// # Errors
    /// A part of it was not written, or a field lies.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, Lie> {
        match bytes.get(..4) {
            Some(b"FILE") => {}
            Some(b"BAAD") => return Err(Lie("the update sequence")),
            _ => return Ok(None),
        }
        let bytes = restored(bytes)?;
        if u16_at(&bytes, 0x16) & IN_USE == 0 {
            return Ok(None);
        }
        let (attrs_offset, bytes_in_use) = (u16_at(&bytes, 0x14).into(), u32_at(&bytes, 0x18) as usize);
        ensure(bytes_in_use <= bytes.len(), "bytes_in_use")?;
        ensure((HEADER_BYTES..bytes_in_use).contains(&attrs_offset), "attrs_offset")?;
        let sequence_number = u16_at(&bytes, 0x10);
        let base_mft_record = u64_at(&bytes, 0x20);
        Ok(Some(Self { sequence_number, base_mft_record, bytes }))
    }

    /// What sets this record apart from others of the same number.
    pub(super) fn generation(&self) -> (u16, u64) {
        (self.sequence_number, self.base_mft_record)
    }

    /// The attributes, in order.
    pub(super) fn attributes(&self) -> impl Iterator<Item = Result<Attribute<'_>, Lie>> {
        let used = self.bytes.get(..u32_at(&self.bytes, 0x18) as usize).unwrap_or_default();
        let mut rest = used.get(u16_at(&self.bytes, 0x14).into()..);
        std::iter::from_fn(move || {
            let bytes = rest.take()?;
            if bytes.len() >= 4 && u32_at(bytes, 0) == END {
                return None;
            }
            let found = attribute(bytes);
            rest = found.as_ref().ok().map(|(_, behind)| *behind);
            Some(found.map(|(attribute, _)| attribute))
        })
    }

    /// The first attribute of `kind` without a name.
    pub(super) fn unnamed(&self, kind: u32) -> Result<Option<Attribute<'_>>, Lie> {
        let is_it = |it: &Result<Attribute<'_>, Lie>| {
            it.is_err() || it.as_ref().is_ok_and(|it| it.kind == kind && it.name.is_empty())
        };
        self.attributes().find(is_it).transpose()
    }
}

/// The attribute that `bytes` begin with, and what follows.
fn attribute(bytes: &[u8]) -> Result<(Attribute<'_>, &[u8]), Lie> {
    let length = u32_at(bytes, 4) as usize;
    let whole = bytes.split_at_checked(length).filter(|_| length.is_multiple_of(8));
    let (whole, behind) = whole.ok_or(Lie("the length of an attribute"))?;
    ensure(length >= RESIDENT_BYTES, "the length of an attribute")?;
    let (name_at, name_bytes) = (usize::from(u16_at(whole, 0x0A)), usize::from(whole[9]) * 2);
    let name = if name_bytes == 0 { Some(&[][..]) } else { whole.get(name_at..name_at + name_bytes) };
    let name = name.ok_or(Lie("name_offset"))?;
    let value = match whole[8] {
        0 => Value::Resident(resident(whole)?),
        1 => Value::Elsewhere(elsewhere(whole)?),
        _ => return Err(Lie("non_resident")),
    };
    Ok((Attribute { kind: u32_at(whole, 0), name, value }, behind))
}

fn resident(whole: &[u8]) -> Result<&[u8], Lie> {
    let (len, at) = (u32_at(whole, 0x10) as usize, usize::from(u16_at(whole, 0x14)));
    whole.get(at..).and_then(|it| it.get(..len)).ok_or(Lie("value_length"))
}

fn elsewhere(whole: &[u8]) -> Result<Clusters<'_>, Lie> {
    ensure(whole.len() >= NON_RESIDENT_BYTES, "the length of an attribute")?;
    let at = usize::from(u16_at(whole, 0x20));
    ensure((NON_RESIDENT_BYTES..=whole.len()).contains(&at), "mapping_pairs_offset")?;
    let clusters = Clusters {
        lowest_vcn: u64_at(whole, 0x10),
        highest_vcn: u64_at(whole, 0x18),
        pairs: &whole[at..],
        data_size: u64_at(whole, 0x30),
        initialized_size: u64_at(whole, 0x38),
    };
    let is_order = clusters.lowest_vcn <= clusters.highest_vcn.wrapping_add(1);
    ensure(is_order && clusters.lowest_vcn <= i64::MAX as u64, "lowest_vcn")?;
    Ok(clusters)
}

#[cfg(test)]
mod tests;
