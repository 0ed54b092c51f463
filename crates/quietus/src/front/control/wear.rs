//! How worn a disk's flash chip is.

use super::Refused;
use crate::base::rfc3339::now_ms;
use crate::disk::Worn;
use crate::host::media::DiskMedium;
use crate::host::media::flash::FlashWear;
use crate::open_disk::OpenDisk;
use quietus_core::media::MediumId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How worn a disk's flash chip is: the answer to [`Call::Wear`](super::Call::Wear). Erases are counted since the disk was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WearAnswer {
    /// Name of the disk.
    pub name: String,
    /// The chip, as `--medium` names it.
    pub chip: String,
    /// Bytes of all pages of the chip.
    pub chip_bytes: u64,
    /// Bytes of the chip that the disk uses, with its journal and keys; the rest makes room for new content, and for blocks that go bad.
    pub disk_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of an erase block.
    pub block_bytes: u64,
    /// Number of erase blocks.
    pub blocks: u32,
    /// Erases of the least worn block.
    pub erases_min: u32,
    /// Erases of a block on average.
    pub erases_mean: u32,
    /// Erases of the most worn block.
    pub erases_max: u32,
    /// Blocks that are marked bad, those of the maker too.
    pub bad_blocks: u32,
    /// Blocks that neither erase nor can be overwritten, by number: they may hold deleted content.
    pub stuck_blocks: Vec<u32>,
    /// Number of further blocks that may go bad before the disk takes no more writes.
    pub spare_blocks: u32,
    /// Erases that a block bears: of a file its kind says so; of a device it is what makers promise of one bit a cell.
    pub endurance: u32,
    /// How long the chip lasts at the pace of the last days, ms; absent if too little is known, or nothing was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life_ms: Option<u64>,
    /// The operations of a file that stands for a chip; absent for a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
}

/// The operations of a chip since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Operations {
    /// Pages read.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Time that all of them take on such a chip, µs.
    pub micros: u64,
}

impl OpenDisk {
    pub(super) fn wear(&self) -> Result<WearAnswer, Refused> {
        let found = self.chip_wear();
        let found = found.ok_or("the disk lies on no flash chip; `quietus status` shows where it lies")?;
        let (wear, shape) = (&found.wear, found.geometry);
        let recent = self.dir.recent_wear(worn(&found));
        Ok(WearAnswer {
            name: self.dir.name(),
            chip: self.dir.medium_path().display().to_string(),
            chip_bytes: found.chip_bytes,
            disk_bytes: found.disk_bytes,
            page_bytes: shape.page_bytes,
            block_bytes: u64::from(shape.page_bytes) * u64::from(shape.block_pages),
            blocks: shape.blocks,
            erases_min: wear.erases_min,
            erases_mean: wear.erases_mean,
            erases_max: wear.erases_max,
            bad_blocks: wear.bad_blocks,
            stuck_blocks: wear.stuck_blocks.clone(),
            spare_blocks: found.spare_blocks,
            endurance: found.endurance,
            life_ms: recent.and_then(|(erases, over_ms)| life_ms(&found, erases, over_ms)),
            operations: found.counts.map(|it| Operations {
                reads: it.reads,
                programs: it.programs,
                erases: it.erases,
                micros: it.micros,
            }),
        })
    }

    fn chip_wear(&self) -> Option<FlashWear> {
        match self.engine.medium(MediumId::Data)? {
            DiskMedium::Flash(medium) => Some(medium.wear()),
            _ => None,
        }
    }

    /// Notes how worn the chip is by now, if the disk lies on one.
    pub(super) fn note_wear(&self) {
        if let Some(found) = self.chip_wear()
            && let Err(error) = self.dir.note_wear(worn(&found))
        {
            tracing::warn!(%error, "cannot note the wear of the flash chip");
        }
    }
}

/// The erases of all good blocks by now.
fn worn(found: &FlashWear) -> Worn {
    let good = u64::from(found.geometry.blocks - found.wear.bad_blocks);
    Worn { time_ms: now_ms(), erases: good * u64::from(found.wear.erases_mean) }
}

/// How long the chip lasts if it goes on being erased `erases` times in `over_ms`.
fn life_ms(found: &FlashWear, erases: u64, over_ms: u64) -> Option<u64> {
    let good = u64::from(found.geometry.blocks - found.wear.bad_blocks);
    let left = u64::from(found.endurance.saturating_sub(found.wear.erases_mean)) * good;
    let life = u128::from(left) * u128::from(over_ms) / u128::from(Some(erases).filter(|it| *it > 0)?);
    Some(u64::try_from(life).unwrap_or(u64::MAX))
}
