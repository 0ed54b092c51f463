//! The evidence behind the regions of a disk, kept up to date: whether a new search would find the
//! same regions.

use crate::disk::partition;
use crate::disk::partition::foreign;
use crate::disk::plan;
use crate::disk::plan::Plan;
use crate::formats::format::Contents;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::Content;

/// Bytes at a disk's start and end that may hold a foreign signature.
const MARGIN_BYTES: u64 = 128 << 10;

/// A plan, and the content that it follows from.
#[derive(Debug)]
pub(super) struct Basis {
    disk_bytes: u64,
    pub(super) plan: Plan,
    /// Pieces of the partition table.
    table: Vec<Extent<Addr>>,
    /// For each region that may gain a foreign signature: its number in the plan, and the places of
    /// the signatures.
    foreign: Vec<(usize, Vec<Extent<Addr>>)>,
    /// Content of all those pieces.
    contents: Contents,
}

impl Basis {
    /// Keeps the part of `contents` that `plan` follows from.
    pub(super) fn new(disk_bytes: u64, plan: Plan, contents: &Contents) -> Self {
        let pieces = plan.table.as_ref().map(|table| table.pieces.clone());
        let table = pieces.unwrap_or_else(|| vec![partition::first_sector()]);
        let regions = plan.regions.iter().enumerate().filter(|(_, it)| it.is_probed);
        let foreign: Vec<_> = regions.map(|(n, it)| (n, foreign::pieces(it.extent))).collect();
        let mut kept = Contents::default();
        for piece in table.iter().chain(foreign.iter().flat_map(|(_, pieces)| pieces)) {
            if let (None, Some(bytes)) = (kept.get(*piece), contents.get(*piece)) {
                kept.insert(piece.start, bytes.to_vec());
            }
        }
        Self { disk_bytes, plan, table, foreign, contents: kept }
    }

    /// Whether the plan depends on the content of `extent`.
    pub(super) fn depends_on(&self, extent: Extent<Addr>) -> bool {
        self.pieces().any(|piece| piece.overlaps(extent))
    }

    fn pieces(&self) -> impl Iterator<Item = Extent<Addr>> {
        self.table.iter().chain(self.foreign.iter().flat_map(|(_, pieces)| pieces)).copied()
    }

    /// Applies a write of `content` to `extent`. Returns whether the plan may change.
    pub(super) fn written(&mut self, extent: Extent<Addr>, content: Content<'_>) -> bool {
        let is_outside =
            self.plan.table.is_some() && Self::is_outside(self.disk_bytes, &self.plan.places(), extent);
        if self.depends_on(extent) {
            self.overwrite(extent, content);
            return is_outside || self.has_other_table(extent) || self.has_other_owner(extent);
        }
        is_outside
    }

    /// Whether a part of `extent` lies at the start or the end of the disk, and
    /// outside of all `places`.
    pub(super) fn is_outside(disk_bytes: u64, places: &[Extent<Addr>], extent: Extent<Addr>) -> bool {
        let start = Extent::between(0, MARGIN_BYTES.min(disk_bytes));
        let end = Extent::between(disk_bytes.saturating_sub(MARGIN_BYTES), disk_bytes);
        [start, end].into_iter().filter_map(|margin| margin.overlap(extent)).any(|part| {
            let inside = places.iter().filter_map(|place| place.overlap(part));
            inside.map(|it| it.len).sum::<u64>() < part.len
        })
    }

    fn overwrite(&mut self, extent: Extent<Addr>, content: Content<'_>) {
        let touched: Vec<_> = self.pieces().filter_map(|piece| piece.overlap(extent)).collect();
        for part in touched {
            match content.part(extent, part) {
                Content::Bytes(bytes) => self.contents.overwrite(part, bytes),
                Content::Zeros => self.contents.overwrite(part, &vec![0; part.len as usize]),
            }
        }
    }

    fn has_other_table(&self, extent: Extent<Addr>) -> bool {
        self.table.iter().any(|piece| piece.overlaps(extent))
            && partition::read(self.disk_bytes, &self.contents).as_ref() != Ok(&self.plan.table)
    }

    fn has_other_owner(&self, extent: Extent<Addr>) -> bool {
        self.foreign.iter().any(|(n, pieces)| {
            let region = &self.plan.regions[*n];
            pieces.iter().any(|piece| piece.overlaps(extent))
                && plan::foreign(region.extent, &self.contents).as_ref() != Ok(&region.refused)
        })
    }
}
