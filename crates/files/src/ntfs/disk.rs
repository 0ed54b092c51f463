//! The records of `$MFT`, and the bytes of a volume.

use crate::clusters::read;
use crate::{Error, Source};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ntfs::boot::Boot;
use quietus_detect::formats::ntfs::list::{number_of, sequence_of};
use quietus_detect::formats::ntfs::record::Record;
use quietus_detect::formats::ntfs::runs::{Pieces, Run};
use std::fmt::Display;

/// The number of `$MFT` itself.
pub(super) const MFT: u64 = 0;

/// Records below this are those of the system.
pub(super) const FIRST_USER_RECORD: u64 = 24;

/// Where the records of a volume lie.
#[derive(Debug)]
pub(super) struct Mft {
    pub boot: Boot,
    pub pieces: Pieces,
    /// Bytes of `$MFT` that were ever written.
    pub bytes: u64,
}

/// What a record has that contradicts itself.
pub(super) fn damaged(number: u64, what: impl Display) -> Error {
    Error::Damaged(format!("record {number}: {what}"))
}

fn missing(number: u64) -> Error {
    Error::Missing(format!("record {number}"))
}

/// Record `number`, of these bytes; `None` if it is not in use.
fn parsed(number: u64, bytes: &[u8]) -> Result<Option<Record>, Error> {
    Record::from_bytes(bytes).map_err(|lie| damaged(number, lie))
}

impl Mft {
    /// The records that lie in `runs`, of which `bytes` were written.
    pub(super) fn new(boot: Boot, runs: Vec<Run>, bytes: u64) -> Result<Self, Error> {
        let pieces = Pieces::new(Vec::new(), boot.cluster_bytes).expect("without runs there is no hole");
        let mut mft = Self { pieces, boot, bytes };
        mft.extend(runs)?;
        Ok(mft)
    }

    /// Adds the records in `runs`. No volume has more of them than it has bytes.
    pub(super) fn extend(&mut self, runs: Vec<Run>) -> Result<(), Error> {
        let mut has_hole = false;
        for run in runs {
            has_hole |= run.vcn != self.pieces.end_vcn();
            self.pieces.runs.push(run);
        }
        if has_hole || self.pieces.bytes() > self.boot.clusters * self.boot.cluster_bytes {
            return Err(damaged(MFT, "its $DATA has holes, or exceeds the volume"));
        }
        Ok(())
    }

    /// The places of the bytes of record `number`.
    fn places(&self, number: u64) -> Result<Vec<Extent<Addr>>, Error> {
        let Boot { record_bytes, cluster_bytes, .. } = self.boot;
        let at = number.checked_mul(record_bytes).filter(|at| self.bytes.saturating_sub(*at) >= record_bytes);
        let at = at.ok_or_else(|| missing(number))?;
        let runs = &self.pieces.runs;
        let first = runs.partition_point(|run| (run.vcn + run.len) * cluster_bytes <= at);
        let places = runs[first..].iter().map_while(|run| {
            let start = run.vcn * cluster_bytes;
            let (from, to) = (at.max(start), (at + record_bytes).min(start + run.len * cluster_bytes));
            (from < to).then(|| Extent::new(run.lcn * cluster_bytes + (from - start), to - from))
        });
        let places: Vec<_> = places.collect();
        if places.iter().map(|it| it.len).sum::<u64>() != record_bytes {
            return Err(damaged(number, "it lies behind the runs of $MFT"));
        }
        Ok(places)
    }
}

/// A volume, while it is read.
pub(super) struct Disk<'a> {
    source: &'a mut dyn Source,
    mft: &'a Mft,
}

impl<'a> Disk<'a> {
    pub(super) fn new(source: &'a mut dyn Source, mft: &'a Mft) -> Self {
        Self { source, mft }
    }

    pub(super) fn boot(&self) -> &Boot {
        &self.mft.boot
    }

    /// The bytes of `at`, which lies within the volume.
    pub(super) fn bytes(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Error> {
        read(self.source, at)
    }

    /// The record of this number, if it is in use.
    pub(super) fn record(&mut self, number: u64) -> Result<Record, Error> {
        self.record_in_use(number)?.ok_or_else(|| missing(number))
    }

    /// Record `number`, which exists; `None` if it is not in use.
    pub(super) fn record_in_use(&mut self, number: u64) -> Result<Option<Record>, Error> {
        let mut bytes = Vec::new();
        for place in self.mft.places(number)? {
            bytes.extend(self.bytes(place)?);
        }
        parsed(number, &bytes)
    }

    /// Those of `count` records that are in use, which lie together at `at`, with their numbers. The number of the first one is `first`.
    pub(super) fn records_at(
        &mut self,
        first: u64,
        at: Addr,
        count: u64,
    ) -> Result<Vec<(u64, Record)>, Error> {
        let Boot { record_bytes, clusters, cluster_bytes, .. } = self.mft.boot;
        let place = Extent::within(at.0, count * record_bytes, clusters * cluster_bytes);
        let bytes = self.bytes(place.ok_or_else(|| missing(first))?)?;
        let all = (first..).zip(bytes.chunks_exact(record_bytes as usize));
        let in_use = all.map(|(number, bytes)| Ok(parsed(number, bytes)?.map(|it| (number, it))));
        in_use.filter_map(Result::transpose).collect()
    }

    /// The record that `mft_reference` names, if it extends `file`.
    pub(super) fn extension(&mut self, file: u64, mft_reference: u64) -> Result<Record, Error> {
        let (number, sequence) = (number_of(mft_reference), sequence_of(mft_reference));
        let record = self.record(number)?;
        let Record { base_mft_record, sequence_number, .. } = record;
        if base_mft_record == 0 || number_of(base_mft_record) != file {
            let text = format!("base_mft_record {base_mft_record:#x}, and record {file} lists it");
            return Err(damaged(number, text));
        }
        if sequence_number != sequence {
            return Err(damaged(number, format_args!("sequence_number {sequence_number}, not {sequence}")));
        }
        Ok(record)
    }
}
