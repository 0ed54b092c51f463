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

/// Where the records of a volume lie.
#[derive(Debug)]
pub(super) struct Mft {
    boot: Boot,
    pieces: Pieces,
    /// Bytes of `$MFT` that were ever written.
    bytes: u64,
}

/// What a record has that contradicts itself.
pub(super) fn damaged(number: u64, what: impl Display) -> Error {
    Error::Damaged(format!("record {number}: {what}"))
}

fn missing(number: u64) -> Error {
    Error::Missing(format!("record {number}"))
}

impl Mft {
    /// The records that lie in `runs`, of which `bytes` were written.
    pub(super) fn new(boot: Boot, runs: Vec<Run>, bytes: u64) -> Result<Self, Error> {
        let mut mft = Self { pieces: Pieces::default(), boot, bytes };
        mft.extend(runs)?;
        Ok(mft)
    }

    /// Adds the records in `runs`. No volume has more of them than it has bytes.
    pub(super) fn extend(&mut self, runs: Vec<Run>) -> Result<(), Error> {
        let runs = [std::mem::take(&mut self.pieces.runs), runs].concat();
        let pieces = Pieces::new(runs, self.boot.cluster_bytes);
        let pieces = pieces.filter(|it| it.bytes() <= self.boot.clusters * self.boot.cluster_bytes);
        self.pieces = pieces.ok_or_else(|| damaged(MFT, "its $DATA has holes, or exceeds the volume"))?;
        Ok(())
    }

    /// The places of the bytes of record `number`.
    fn places(&self, number: u64) -> Result<Vec<Extent<Addr>>, Error> {
        let record_bytes = self.boot.record_bytes;
        let at = number.checked_mul(record_bytes).filter(|at| self.bytes.saturating_sub(*at) >= record_bytes);
        let at = at.ok_or_else(|| missing(number))?;
        let places: Vec<_> = self.pieces.extents(at, record_bytes).collect();
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
        let mut bytes = Vec::new();
        for place in self.mft.places(number)? {
            bytes.extend(self.bytes(place)?);
        }
        let found = Record::from_bytes(&bytes).map_err(|lie| damaged(number, lie))?;
        found.ok_or_else(|| missing(number))
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
