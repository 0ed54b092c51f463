//! An open chip, which threads share.

use super::chip::Chip;
use super::kinds::chip_bytes;
use crate::base::lock::lock;
use quietus_core::base::units::Pos;
use quietus_core::media::medium::{MediumError, MediumErrorKind};
use quietus_flash::chip::timing::Counts;
use quietus_flash::{DiskId, Flash, FlashError, FlashErrorKind, Geometry, Nand, Wear};
use std::fmt;
use std::sync::Mutex;

/// A disk on an open chip.
#[derive(Debug)]
pub(super) struct Open {
    flash: Mutex<State>,
    /// The name in messages.
    name: String,
    disk: DiskId,
    /// Bytes of the disk.
    size: u64,
    geometry: Geometry,
}

#[derive(Debug)]
struct State {
    flash: Flash<Chip>,
    /// Why what was written may not be durable: nothing becomes durable from then on.
    lost: Option<MediumError>,
}

/// How worn a chip is, and what was done with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashWear {
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// Bytes of all pages of the chip, without spare areas.
    pub chip_bytes: u64,
    /// The shape of the chip.
    pub geometry: Geometry,
    /// How worn its blocks are.
    pub wear: Wear,
    /// Number of further blocks that may go bad before the disk takes no more writes.
    pub spare_blocks: u32,
    /// Erases that a block bears.
    pub endurance: u32,
    /// The operations of a file since its chip was made, and how long they would have taken. `None` for a device.
    pub counts: Option<Counts>,
}

impl State {
    /// Checks that no sync failed.
    fn check_kept(&self) -> Result<(), MediumError> {
        self.lost.clone().map_or(Ok(()), Err)
    }
}

impl Open {
    /// The disk on a chip, which messages call `name`.
    pub(super) fn new(mut flash: Flash<Chip>, name: String) -> Self {
        let (disk, size, geometry) = (flash.disk(), flash.size(), flash.nand().geometry());
        Self { flash: Mutex::new(State { flash, lost: None }), name, disk, size, geometry }
    }

    pub(super) fn disk(&self) -> DiskId {
        self.disk
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Does `act`, which may go on after a sync that failed.
    pub(super) fn with<T>(
        &self,
        what: impl fmt::Display,
        act: impl FnOnce(&mut Flash<Chip>) -> Result<T, FlashError>,
    ) -> Result<T, MediumError> {
        act(&mut lock(&self.flash).flash).map_err(|error| self.failed(what, &error))
    }

    /// Asks what is in memory.
    pub(super) fn look<T>(&self, ask: impl FnOnce(&Flash<Chip>) -> T) -> T {
        ask(&lock(&self.flash).flash)
    }

    /// Makes all that was written durable, unless an earlier attempt failed.
    pub(super) fn sync(&self) -> Result<(), MediumError> {
        let mut state = lock(&self.flash);
        state.check_kept()?;
        let synced = state.flash.sync().map_err(|error| error.message);
        let saved = synced.and_then(|()| state.flash.nand().save_counts().map_err(|error| error.to_string()));
        saved.map_err(|message| {
            let message = format!("syncing {}: earlier writes may be lost: {message}", self.name);
            let error = MediumError { kind: MediumErrorKind::Io, message };
            state.lost = Some(error.clone());
            error
        })
    }

    /// Writes `from` at `pos`, durably, unless an earlier sync failed. A lack of space is no loss: the layer keeps what it could not write.
    pub(super) fn write_durable(
        &self,
        what: impl fmt::Display,
        pos: Pos,
        from: &[u8],
    ) -> Result<(), MediumError> {
        let mut state = lock(&self.flash);
        state.check_kept()?;
        let written = state.flash.write(pos, from).and_then(|()| state.flash.sync());
        written.map_err(|error| self.failed(what, &error))
    }

    fn failed(&self, what: impl fmt::Display, error: &FlashError) -> MediumError {
        let kind = match error.kind {
            FlashErrorKind::NoSpace => MediumErrorKind::NoSpace,
            FlashErrorKind::Remains => MediumErrorKind::Remains,
            FlashErrorKind::Unreadable | FlashErrorKind::Format | FlashErrorKind::Io => MediumErrorKind::Io,
        };
        MediumError { kind, message: format!("{what} {}: {}", self.name, error.message) }
    }

    /// How many good blocks the disk can lose.
    fn spare_blocks(&self, wear: &Wear) -> u32 {
        let lost = wear.bad_blocks + u32::try_from(wear.stuck_blocks.len()).unwrap_or(u32::MAX);
        let good = self.geometry.blocks.saturating_sub(lost);
        good.saturating_sub(Flash::<Chip>::blocks_min(self.geometry, self.size))
    }

    pub(super) fn wear(&self) -> FlashWear {
        let mut state = lock(&self.flash);
        let wear = state.flash.wear();
        FlashWear {
            disk_bytes: self.size,
            chip_bytes: chip_bytes(self.geometry),
            geometry: self.geometry,
            spare_blocks: self.spare_blocks(&wear),
            endurance: state.flash.nand().endurance(),
            wear,
            counts: state.flash.nand().counts(),
        }
    }
}
