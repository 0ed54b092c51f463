//! The proof about a flash chip: every page of every block, read raw, with its spare area, those of bad blocks too.
//!
//! In place, no version of a block may be there that died and has a receipt; of other stores no version of a free slot. Where content dies with a key, older
//! ciphertext may be there; of the root only the present version may.

use super::{ProofError, Search};
use crate::disk::DiskDir;
use crate::engine::export::{Export, liveness_runs};
use crate::host::media::DiskMedium;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use quietus_core::request::Liveness;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Findings on the flash chip of a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChipFound {
    /// The chip, as `--medium` names it.
    pub chip: String,
    /// Pages that were read raw, each with its spare area.
    pub pages_read: u64,
    /// Blocks that are marked bad; their pages were read, too.
    pub bad_blocks: u32,
    /// Older versions of content on the chip that need not be destroyed: of live blocks, of plain content, or ciphertext without a key.
    pub older_versions: u64,
    /// How many pages hold what must not be there, or may hold it.
    pub remains: u64,
    /// The first of these pages.
    pub pages: Vec<ChipPage>,
}

/// A page of a flash chip.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChipPage {
    /// The erase block.
    pub block: u32,
    /// The page in the block.
    pub page: u32,
    /// Where on the chip's disk lies what the page holds, in bytes; absent if nothing explains what the page holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

impl<F: FnMut(u64, u64) -> bool> Search<'_, F> {
    /// Reads the whole chip of the disk, if it lies on one.
    pub(super) fn look_at_chip(&mut self, dir: &DiskDir) -> Result<Option<ChipFound>, ProofError> {
        let Some(data) = self.engine.medium(MediumId::Data) else { return Ok(None) };
        let DiskMedium::Flash(data) = data else { return Ok(None) };
        let root = self.engine.medium(MediumId::Root);
        let root = match root {
            Some(DiskMedium::Flash(root)) => vec![(root, Extent::new(0, root.size()))],
            _ => Vec::new(),
        };
        let dies_with_stub = dir.toml().versions.as_ref().is_some_and(|it| it.seal.dies_with_stub());
        let is_keyed = dies_with_stub || dir.toml().sealed.is_some();
        let dead = if is_keyed { Vec::new() } else { self.dead_places() };
        let dead: Vec<_> = dead.into_iter().map(|extent| (data, extent)).collect();
        let found = data.audit(&dead, &root)?;
        let page = |it: &quietus_flash::Remain| ChipPage {
            block: it.block.0,
            page: it.page,
            at: it.unit.map(|unit| unit.0),
        };
        Ok(Some(ChipFound {
            chip: dir.medium_path().display().to_string(),
            pages_read: found.pages_read,
            bad_blocks: found.blocks_bad,
            older_versions: found.stale_units,
            remains: found.remains_count,
            pages: found.remains.iter().map(page).collect(),
        }))
    }

    /// Where no version may be on the medium: in place, the whole blocks that are dead by now and have a receipt; elsewhere all slots without
    /// content, unless some of them had plain content, which is not destroyed.
    fn dead_places(&self) -> Vec<Extent<Pos>> {
        if let Some(vacant) = self.engine.unallocated() {
            let is_mixed = self.engine.status().counters.plain_bytes > 0;
            return if is_mixed { Vec::new() } else { vacant.runs().collect() };
        }
        let whole = Extent::new(0, self.engine.info().size);
        let dead = liveness_runs(self.engine, whole).filter(|(_, it)| *it == Liveness::Dead);
        let known = dead.flat_map(|(run, _)| self.destroyed.runs_within(run).collect::<Vec<_>>());
        known.map(|run| Extent::new(run.start.0, run.len)).collect()
    }
}
