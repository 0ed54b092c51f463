//! Who has which clusters: each record in use says that of its own, and `$MFT` where the records lie.
//!
//! 1. Records that lie together, up to [`ROLL_BYTES`], are one roll. So what changes is read again, and nothing else. Where a roll depends on
//!    other records, their places are read again, too: who asks knows by his reads what the answer depends on.
//! 2. Content, with and without a name, is the file's. What else a record has, and all that the records of the system have, is metadata.
//! 3. All clusters count, also behind the size. Compressed and encrypted content counts, as it is not read; holes have no clusters.
//! 4. A record that extends a file that is not there, or another one by now, is not used by any driver: what it has is kept for the file system.
//!    A file whose list names a record that does not extend it is an error: then it is not known who has what.

use crate::ntfs::disk::{Disk, FIRST_USER_RECORD, Mft, damaged};
use crate::ntfs::node::{Node, base};
use crate::ntfs::{Ntfs, records};
use crate::{Error, FileId, Owner, Owners, Roll, Source};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ntfs::list::{number_of, sequence_of};
use quietus_detect::formats::ntfs::record::{ATTRIBUTE_LIST, Attribute, DATA, Record, Value};

/// The roll of the boot sectors, and of the records themselves.
const FIXED: Roll = Roll { number: u64::MAX, at: Addr(0) };
/// Most rolls of a volume whose owners are looked at: 4 million records of 1 KiB.
const ROLLS_MAX: usize = 1 << 20;
/// Most bytes of the records of a roll.
const ROLL_BYTES: u64 = 4096;
/// Bits of a roll's number for the number of its records; that of the first one is above. 0 stands for one that lies in several pieces.
const COUNT_BITS: u32 = 4;

const _: () = assert!(ROLL_BYTES / 512 < 1 << COUNT_BITS);

/// Who has what `attribute` has that belongs to `file`.
fn owner(file: FileId, attribute: &Attribute) -> Owner {
    match attribute.kind {
        DATA if file.number >= FIRST_USER_RECORD => Owner::File(file),
        _ => Owner::System,
    }
}

/// Calls `found` for what the attributes in `record` have, which belong to `file`.
fn record_owns(
    disk: &Disk,
    file: FileId,
    record: &Record,
    found: &mut dyn FnMut(Owner, Extent<Addr>),
) -> Result<(), Error> {
    let boot = disk.boot();
    for attribute in record.attributes() {
        let attribute = attribute.map_err(|lie| damaged(file.number, lie))?;
        let Value::Elsewhere(clusters) = attribute.value else { continue };
        for run in clusters.runs(boot.clusters).map_err(|lie| damaged(file.number, lie))? {
            let extent = Extent::new(run.lcn * boot.cluster_bytes, run.len * boot.cluster_bytes);
            found(owner(file, &attribute), extent);
        }
    }
    Ok(())
}

/// The file to which the attributes in record `number` belong; `None` if there is no such file.
fn file_of(disk: &mut Disk, number: u64, record: &Record) -> Result<Option<FileId>, Error> {
    let of = |number, record: &Record| FileId { number, generation: record.sequence_number.into() };
    let mft_reference = record.base_mft_record;
    if mft_reference == 0 {
        return Ok(Some(of(number, record)));
    }
    let number = number_of(mft_reference);
    if number < FIRST_USER_RECORD {
        return Ok(None);
    }
    match base(disk, number) {
        Ok(base) if base.sequence_number == sequence_of(mft_reference) => Ok(Some(of(number, &base))),
        Ok(_) | Err(Error::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Calls `found` for what `records` have, with their numbers.
fn records_own(
    disk: &mut Disk,
    records: Vec<(u64, Record)>,
    found: &mut dyn FnMut(Owner, Extent<Addr>),
) -> Result<(), Error> {
    for (number, record) in records {
        // Record 0 is of the system.
        let file = file_of(disk, number, &record)?.unwrap_or(FileId { number: 0, generation: 0 });
        record_owns(disk, file, &record, found)?;
        if record.base_mft_record == 0 {
            // The records that extend it tell what they have; here it counts that they are there.
            Node::new(disk, number, record)?.each_record(disk, &mut |_, _| Ok(()))?;
        }
    }
    Ok(())
}

/// Whether what `record` has can be told without other records.
fn is_alone(record: &Record) -> bool {
    record.base_mft_record == 0 && matches!(record.unnamed(ATTRIBUTE_LIST), Ok(None))
}

impl Mft {
    /// The rolls of all records.
    fn rolls(&self) -> Result<Vec<Roll>, Error> {
        let (record_bytes, cluster_bytes) = (self.boot.record_bytes, self.boot.cluster_bytes);
        let (in_roll, count) = (ROLL_BYTES / record_bytes, self.bytes / record_bytes);
        let (mut rolls, mut next) = (vec![FIXED], 0);
        for run in &self.pieces.runs {
            let (start, end) = (run.vcn * cluster_bytes, (run.vcn + run.len) * cluster_bytes);
            while next < count && next * record_bytes < end {
                let whole = (end - next * record_bytes) / record_bytes;
                let some = whole.min(in_roll - next % in_roll).min(count - next);
                let at = run.lcn * cluster_bytes + (next * record_bytes - start);
                if rolls.len() >= ROLLS_MAX {
                    return Err(Error::Unsupported(format!("NTFS: $MFT has {count} records")));
                }
                rolls.push(Roll { number: next << COUNT_BITS | some, at: Addr(at) });
                next += some.max(1);
            }
        }
        if next < count {
            return Err(damaged(next, "it lies behind the runs of $MFT"));
        }
        Ok(rolls)
    }

    /// Calls `found` for the boot sectors, and for the clusters of records.
    fn fixed(&self, source_bytes: u64, found: &mut dyn FnMut(Owner, Extent<Addr>)) {
        let cluster_bytes = self.boot.cluster_bytes;
        found(Owner::System, Extent::new(0, cluster_bytes));
        // The copy of the boot sector lies behind the last whole cluster.
        let end = self.boot.clusters * cluster_bytes;
        let behind = Extent::between(end, source_bytes.min(end + cluster_bytes));
        if !behind.is_empty() {
            found(Owner::System, behind);
        }
        for run in &self.pieces.runs {
            found(Owner::System, Extent::new(run.lcn * cluster_bytes, run.len * cluster_bytes));
        }
    }
}

impl Owners for Ntfs {
    fn rolls(&mut self, source: &mut dyn Source) -> Result<Vec<Roll>, Error> {
        records(source)?.rolls()
    }

    fn roll(
        &mut self,
        source: &mut dyn Source,
        roll: Roll,
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error> {
        if roll == FIXED {
            let bytes = source.bytes();
            records(source)?.fixed(bytes, found);
            return Ok(());
        }
        let (first, count) = (roll.number >> COUNT_BITS, roll.number & ((1 << COUNT_BITS) - 1));
        if count == 0 {
            let mft = records(source)?;
            let disk = &mut Disk::new(source, &mft);
            let record = disk.record_in_use(first)?;
            return records_own(disk, record.map(|it| (first, it)).into_iter().collect(), found);
        }
        let all = self.disk(source).records_at(first, roll.at, count)?;
        if all.iter().all(|(_, record)| is_alone(record)) {
            return records_own(&mut self.disk(source), all, found);
        }
        let mft = records(source)?;
        records_own(&mut Disk::new(source, &mft), all, found)
    }

    fn owned(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error> {
        let mft = records(source)?;
        let disk = &mut Disk::new(source, &mft);
        let node = match Node::open(disk, file) {
            Ok(node) => node,
            Err(Error::Missing(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        node.each_record(disk, &mut |disk, record| {
            record_owns(disk, file, record, &mut |owner, extent| {
                if owner == Owner::File(file) {
                    found(extent);
                }
            })
        })
    }
}

#[cfg(test)]
mod tests;
