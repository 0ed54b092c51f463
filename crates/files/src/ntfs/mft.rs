//! Where `$MFT` lies: its own record says so, and the records that extend it.

use crate::clusters::read;
use crate::ntfs::disk::{Disk, MFT, Mft, damaged};
use crate::ntfs::node::Node;
use crate::{Error, Source};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ntfs::boot::Boot;
use quietus_detect::formats::ntfs::lie::Lie;
use quietus_detect::formats::ntfs::record::{DATA, Record, Value};

/// Most parts of `$MFT`, as detection has it.
const PARTS_MAX: usize = 512;

/// Reads where the records of a volume lie. A record that extends that of `$MFT` lies in what the records before it told.
pub(super) fn open(source: &mut dyn Source, boot: Boot) -> Result<Mft, Error> {
    let record = own_record(source, &boot)?;
    let mut mft = first_part(boot, &record)?;
    let disk = &mut Disk::new(source, &mft);
    let stream = Node::new(disk, MFT, record)?.stream(disk, DATA, &[]).map_err(unlisted)?;
    let stream = stream.ok_or_else(|| damaged(MFT, "it has no $DATA"))?;
    if stream.further().len() > PARTS_MAX {
        return Err(damaged(MFT, format_args!("{} parts of its $DATA", stream.further().len())));
    }
    for part in stream.further() {
        let runs = stream.part_runs(&mut Disk::new(source, &mft), *part).map_err(unlisted)?;
        mft.extend(runs)?;
    }
    Ok(mft)
}

/// The error for a part of `$MFT` that lies in no record known by then.
fn unlisted(error: Error) -> Error {
    match error {
        Error::Missing(what) => damaged(MFT, format_args!("its list of attributes leads to no {what}")),
        error => error,
    }
}

/// The record of `$MFT`, from `$MFTMirr` if the original is damaged.
fn own_record(source: &mut dyn Source, boot: &Boot) -> Result<Record, Error> {
    let place = |lcn: u64| -> Option<Extent<Addr>> {
        let end = boot.clusters * boot.cluster_bytes;
        Extent::within(lcn * boot.cluster_bytes, boot.record_bytes, end)
    };
    let mut failure = damaged(MFT, format_args!("mft_lcn {} is not a whole record", boot.mft_lcn));
    for place in [boot.mft_lcn, boot.mftmirr_lcn].into_iter().filter_map(place) {
        let found = Record::from_bytes(&read(source, place)?);
        match found.and_then(|it| it.ok_or(Lie::of("it is not in use"))) {
            Ok(record) => return Ok(record),
            Err(lie) => failure = damaged(MFT, lie),
        }
    }
    Err(failure)
}

/// The records that the record of `$MFT` itself has the places of.
fn first_part(boot: Boot, record: &Record) -> Result<Mft, Error> {
    let data = record.unnamed(DATA).map_err(|lie| damaged(MFT, lie))?;
    let Some(Value::Elsewhere(clusters)) = data.map(|it| it.value) else {
        return Err(damaged(MFT, "it has no $DATA in clusters"));
    };
    let runs = clusters.runs(boot.clusters).map_err(|lie| damaged(MFT, lie))?;
    Mft::new(boot, runs, clusters.initialized_size.min(clusters.data_size))
}
