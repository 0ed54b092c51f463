//! A medium as a translation layer: what a write replaces is left elsewhere, until an erase.

use crate::machine::content::indices;
use crate::machine::medium::{FaultKind, Platter};
use crate::machine::remanence::{Mask, SECTOR_BYTES};
use quietus_core::base::units::{BLOCK_BYTES, Extent, Pos};
use quietus_core::media::medium::{Keep, MediumError};

impl Platter {
    /// Destroys what `extents` held before, and with [`Keep::Nothing`] what they hold; all else that was written is durable then. A medium
    /// that fails, or will not erase a sector, has done any part of that.
    pub(super) fn destroy(&mut self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), MediumError> {
        self.admit(FaultKind::Write)?;
        let remains = extents.iter().try_for_each(|extent| self.erase(*extent, None));
        if keep == Keep::Nothing {
            for extent in extents {
                if remains.is_ok() || self.rng.chance(50) {
                    self.zero(*extent, true);
                }
            }
        }
        if let Err(error) = self.admit(FaultKind::Sync) {
            let dirty = self.dirty.clone();
            self.sync_some(dirty.into_iter().map(|sector| sector as usize));
            return Err(error);
        }
        self.durable_len = self.len;
        for sector in std::mem::take(&mut self.dirty) {
            self.sectors[sector as usize].is_listed = false;
            self.settle(sector as usize);
        }
        for extent in extents {
            if remains.is_ok() || self.rng.chance(50) {
                self.forget_older(*extent);
            }
        }
        remains
    }

    /// Destroys what lay in the blocks that `extent` touches before their present content, but in sectors that will not be erased.
    fn forget_older(&mut self, extent: Extent<Pos>) {
        let first = extent.start.0 / BLOCK_BYTES * BLOCK_BYTES;
        let end = extent.end().next_multiple_of(BLOCK_BYTES).min(self.durable.len() as u64);
        for sector in first as usize / SECTOR_BYTES..end as usize / SECTOR_BYTES {
            if self.stubborn.contains(&sector) {
                continue;
            }
            let there = Extent::<Pos>::new((sector * SECTOR_BYTES) as u64, SECTOR_BYTES as u64);
            self.remains.erase(sector);
            self.remains.layer(sector, &self.durable[indices(there, 0)], Mask::ALL);
            if let Some(layers) = &mut self.layers {
                layers.erase(sector);
                layers.layer(sector, &self.durable[indices(there, 0)], Mask::ALL);
            }
        }
    }
}
