//! Decides what to watch on a disk: the whole disk, or its partitions.
//!
//! 1. A partition table and a file system on the whole disk cannot both be in use, and the stale
//!    one calls the data of the other free. So where both are found, nothing is watched.
//! 2. Where a foreign signature lies, nothing is watched.

use crate::disk::partition;
use crate::disk::partition::{Missing, Table, foreign};
use crate::formats::format::{Contents, Probe, Prober, Reason};
use quietus_core::base::units::{Addr, Extent};

/// A part of the disk that is watched as a disk of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// The number of the partition; `None` for the whole disk.
    pub number: Option<u32>,
    pub extent: Extent<Addr>,
    /// Reason why nothing can be inferred in the region.
    pub refused: Option<Reason>,
    /// Whether the region was searched for foreign signatures, so that `refused` can change.
    pub is_probed: bool,
}

/// The regions of a disk, and why some are not watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// The partition table, if the disk has one.
    pub table: Option<Table>,
    /// Regions, sorted by start. Those that are not refused are disjoint.
    pub regions: Vec<Region>,
    /// Reason why nothing on the disk is watched.
    pub refused: Option<Reason>,
}

impl Plan {
    pub(crate) fn places(&self) -> Vec<Extent<Addr>> {
        self.regions.iter().map(|it| it.extent).collect()
    }

    /// Reason why nothing is watched on a disk without partitions.
    pub(crate) fn why_none(&self) -> String {
        let reasons = self.regions.iter().filter_map(|it| it.refused.as_ref());
        reasons.map(ToString::to_string).next().unwrap_or_default()
    }

    /// One line for the status, where `watched` partitions are being watched.
    pub(crate) fn summary(&self, watched: usize) -> String {
        let name = self.table.as_ref().map_or("none", |table| table.name);
        match &self.refused {
            Some(why) => why.to_string(),
            None => format!("watching {watched} of {} partitions ({name})", self.regions.len()),
        }
    }
}

/// Decides what to watch on a disk of `disk_bytes`.
pub(crate) fn plan(disk_bytes: u64, probers: &[Prober], contents: &Contents) -> Result<Plan, Missing> {
    let table = partition::read(disk_bytes, contents)?;
    let mut plan = match table {
        Some(table) => partitioned(disk_bytes, probers, table, contents)?,
        None => {
            let extent = Extent::new(0, disk_bytes);
            let whole = Region { number: None, extent, refused: None, is_probed: false };
            Plan { table: None, regions: vec![whole], refused: None }
        }
    };
    let mut missing = Vec::new();
    for region in plan.regions.iter_mut().filter(|it| it.refused.is_none()) {
        match foreign(region.extent, contents) {
            Ok(reason) => (region.refused, region.is_probed) = (reason, true),
            Err(Missing(more)) => missing.extend(more),
        }
    }
    if missing.is_empty() { Ok(plan) } else { Err(Missing(missing)) }
}

/// Reason to leave `place` alone, if a foreign signature lies there (invariant 2).
pub(crate) fn foreign(place: Extent<Addr>, contents: &Contents) -> Result<Option<Reason>, Missing> {
    let name = foreign::find(place, &[], contents)?;
    Ok(name.map(|name| Reason(format!("it is {name}"))))
}

fn partitioned(
    disk_bytes: u64,
    probers: &[Prober],
    table: Table,
    contents: &Contents,
) -> Result<Plan, Missing> {
    let places: Vec<_> = table.partitions.iter().map(|it| it.extent).collect();
    let rival = match foreign::find(Extent::new(0, disk_bytes), &places, contents)? {
        Some(name) => Some(format!("the disk has a partition table, and is {name}")),
        None => claims(disk_bytes, probers, contents)?
            .then(|| "the disk has a partition table, and a file system of its own".into()),
    };
    let refused =
        table.broken.as_ref().map(|reason| Reason(format!("its partition table is broken: {reason}")));
    let refused = refused.or_else(|| {
        rival.map(|it| Reason(format!("{it}: clear the one that is not used, for instance with wipefs")))
    });
    let regions = table.partitions.iter().map(|it| Region {
        number: Some(it.number),
        extent: it.extent,
        refused: refused.clone().or_else(|| it.refused.clone()),
        is_probed: false,
    });
    Ok(Plan { regions: regions.collect(), table: Some(table), refused })
}

/// Whether a file system claims the whole disk.
fn claims(disk_bytes: u64, probers: &[Prober], contents: &Contents) -> Result<bool, Missing> {
    for prober in probers {
        match prober(disk_bytes, contents) {
            Probe::Needs(more) => return Err(Missing(more)),
            Probe::Is(_) | Probe::Refused(_) => return Ok(true),
            Probe::IsNot => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
