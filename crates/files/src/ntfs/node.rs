//! A file: its record, and the records that extend it.
//!
//! A list of attributes counts in the file's own record only, and a record that is listed must say whom it extends: no list leads to another.

use crate::ntfs::disk::{Disk, damaged};
use crate::ntfs::stream::{Part, Stream};
use crate::{Error, FileId};
use quietus_detect::formats::ntfs::list::{LIST_BYTES_MAX, ListEntry, entries, number_of};
use quietus_detect::formats::ntfs::record::{ATTRIBUTE_LIST, Attribute, Record, Value};
use std::borrow::Cow;

/// A file.
#[derive(Debug)]
pub(super) struct Node {
    /// Number of its record.
    pub number: u64,
    /// Its own record.
    pub record: Record,
    /// The content of the list of attributes; `None` if the file's own record holds all of them.
    list: Option<Vec<u8>>,
}

/// Whether `attribute` is the first part of its value.
pub(super) fn is_first(attribute: &Attribute) -> bool {
    !matches!(attribute.value, Value::Elsewhere(clusters) if clusters.lowest_vcn > 0)
}

/// The record of this number, if it is that of a file, and extends no other record.
pub(super) fn base(disk: &mut Disk, number: u64) -> Result<Record, Error> {
    let record = disk.record(number)?;
    match record.base_mft_record {
        0 => Ok(record),
        base => {
            let base = number_of(base);
            Err(Error::Missing(format!("file with record {number}: it extends record {base}")))
        }
    }
}

impl Node {
    /// The file, if its record still is of that file.
    pub(super) fn open(disk: &mut Disk, file: FileId) -> Result<Self, Error> {
        let FileId { number, generation } = file;
        let record = base(disk, number)?;
        let sequence_number = record.sequence_number;
        if u64::from(sequence_number) != generation {
            let text = format!("record {number} with sequence_number {generation}: it is {sequence_number}");
            return Err(Error::Missing(text));
        }
        Self::new(disk, number, record)
    }

    /// The file with this `record`.
    pub(super) fn new(disk: &mut Disk, number: u64, record: Record) -> Result<Self, Error> {
        let list = record.unnamed(ATTRIBUTE_LIST).map_err(|lie| damaged(number, lie))?;
        let list = match list {
            Some(it) => Some(Stream::new(disk, number, &it, Vec::new())?.whole(disk, LIST_BYTES_MAX)?),
            None => None,
        };
        Ok(Self { number, record, list })
    }

    /// The record that holds an attribute of the file.
    fn holder(&self, disk: &mut Disk, mft_reference: u64) -> Result<Cow<'_, Record>, Error> {
        if number_of(mft_reference) == self.number {
            return Ok(Cow::Borrowed(&self.record));
        }
        disk.extension(self.number, mft_reference).map(Cow::Owned)
    }

    /// The entries of a list of attributes for those of `kind`.
    fn listed<'a>(&self, list: &'a [u8], kind: u32) -> Result<Vec<ListEntry<'a>>, Error> {
        let of_kind = entries(list).filter(|it| it.as_ref().map_or(true, |it| it.kind == kind));
        of_kind.collect::<Result<_, _>>().map_err(|lie| damaged(self.number, lie))
    }

    /// The value of the attribute of this kind and name, in UTF-16.
    pub(super) fn stream(&self, disk: &mut Disk, kind: u32, name: &[u8]) -> Result<Option<Stream>, Error> {
        let Some(list) = &self.list else {
            return self.stream_in(disk, &self.record, (kind, name), Vec::new());
        };
        let listed = self.listed(list, kind)?.into_iter().filter(|it| it.name == name);
        let mut parts = listed.map(|it| Part { vcn: it.lowest_vcn, mft_reference: it.mft_reference });
        let Some(first) = parts.next() else { return Ok(None) };
        let further: Vec<_> = parts.collect();
        let vcns: Vec<_> = [first].iter().chain(&further).map(|it| it.vcn).collect();
        if first.vcn != 0 || !vcns.is_sorted_by(|one, next| one < next) {
            return Err(damaged(
                self.number,
                format_args!("lowest_vcn of attribute {kind:#x} does not rise from 0"),
            ));
        }
        let record = self.holder(disk, first.mft_reference)?;
        let found = self.stream_in(disk, &record, (kind, name), further)?;
        found.map(Some).ok_or_else(|| {
            damaged(self.number, format_args!("attribute {kind:#x} is not where it is listed"))
        })
    }

    /// The value of the attribute of this kind and name whose first part is in `record`.
    fn stream_in(
        &self,
        disk: &Disk,
        record: &Record,
        what: (u32, &[u8]),
        further: Vec<Part>,
    ) -> Result<Option<Stream>, Error> {
        let mut is_known = false;
        for attribute in record.attributes() {
            let attribute = attribute.map_err(|lie| damaged(self.number, lie))?;
            if (attribute.kind, attribute.name) != what {
                continue;
            }
            if is_first(&attribute) {
                return Stream::new(disk, self.number, &attribute, further).map(Some);
            }
            is_known = true;
        }
        match is_known {
            true => Err(damaged(self.number, format_args!("attribute {:#x} lacks its first part", what.0))),
            false => Ok(None),
        }
    }

    /// Calls `found` for each attribute, or part of one, of this kind.
    pub(super) fn each(
        &self,
        disk: &mut Disk,
        kind: u32,
        found: &mut dyn FnMut(&Attribute) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(list) = &self.list else { return self.each_in(&self.record, kind, found) };
        let mut holders: Vec<_> = self.listed(list, kind)?.iter().map(|it| it.mft_reference).collect();
        holders.sort_unstable();
        holders.dedup();
        for mft_reference in holders {
            let record = self.holder(disk, mft_reference)?;
            self.each_in(&record, kind, found)?;
        }
        Ok(())
    }

    /// Calls `found` for each record of the file: its own, and those that its list names.
    pub(super) fn each_record(
        &self,
        disk: &mut Disk,
        found: &mut dyn FnMut(&mut Disk, &Record) -> Result<(), Error>,
    ) -> Result<(), Error> {
        found(disk, &self.record)?;
        let mut holders = Vec::new();
        for listed in entries(self.list.as_deref().unwrap_or_default()) {
            holders.push(listed.map_err(|lie| damaged(self.number, lie))?.mft_reference);
        }
        holders.retain(|it| number_of(*it) != self.number);
        holders.sort_unstable();
        holders.dedup();
        for mft_reference in holders {
            let record = disk.extension(self.number, mft_reference)?;
            found(disk, &record)?;
        }
        Ok(())
    }

    fn each_in(
        &self,
        record: &Record,
        kind: u32,
        found: &mut dyn FnMut(&Attribute) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for attribute in record.attributes() {
            let attribute = attribute.map_err(|lie| damaged(self.number, lie))?;
            if attribute.kind == kind {
                found(&attribute)?;
            }
        }
        Ok(())
    }
}
