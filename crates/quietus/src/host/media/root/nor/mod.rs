//! A root on NOR flash: records on the first two blocks of an MTD device, without a translation layer that could keep copies.

mod device;
mod log;
mod record;

pub use device::{MtdAbout, MtdKind};

use super::life::Wear;
use super::slots::{SlotMedium, Slots};
use super::{Label, SlotContent};
use crate::base::lock::lock;
use device::Mtd;
use log::{Chip, Log, NorError};
use quietus_core::media::medium::{MediumError, MediumErrorKind};
use std::io;
use std::path::Path;
use std::sync::Mutex;

/// A root on NOR flash as a medium.
pub type MtdMedium = SlotMedium<Nor>;

/// Two blocks of NOR flash.
#[derive(Debug)]
pub struct Nor {
    log: Mutex<Log<Mtd>>,
    device: String,
    read_only: bool,
    wear: Wear,
}

impl MtdMedium {
    /// Begins a root on two erased blocks.
    ///
    /// # Errors
    /// There is no such device, it cannot hold a root, it is in use, or it holds something.
    pub fn create(device: &Path) -> io::Result<Self> {
        Self::of(device, false, Log::create)
    }

    /// Opens the root of a disk.
    ///
    /// # Errors
    /// There is no such device, it holds no root, or another process uses it.
    pub fn open(device: &Path, read_only: bool) -> io::Result<Self> {
        Self::of(device, read_only, |chip| Log::open(chip, read_only))
    }

    fn of(
        device: &Path,
        read_only: bool,
        begin: impl FnOnce(Mtd) -> Result<Log<Mtd>, NorError>,
    ) -> io::Result<Self> {
        let chip = Mtd::open(device, read_only)?;
        let wear = Wear::of_nor(chip.geometry().purges_per_block());
        let device = device.display().to_string();
        let log = begin(chip).map_err(|error| io::Error::other(format!("{device}: {error}")))?;
        let name = format!("the root on {device}");
        Ok(Self::new(Nor { log: Mutex::new(log), device, read_only, wear }, name))
    }

    /// How the flash of a device wears out that is not in use.
    ///
    /// # Errors
    /// There is no such device, it cannot hold a root, or it is in use.
    pub fn wear_of(device: &Path) -> io::Result<Wear> {
        Ok(Wear::of_nor(Mtd::open(device, true)?.geometry().purges_per_block()))
    }

    /// How the flash wears out.
    #[must_use]
    pub fn wear(&self) -> Wear {
        self.slots().wear
    }
}

impl Nor {
    /// Changes the log. A failure has the kind `kind`.
    fn change(
        &self,
        act: &str,
        kind: MediumErrorKind,
        change: impl FnOnce(&mut Log<Mtd>) -> Result<(), NorError>,
    ) -> Result<(), MediumError> {
        let failed = |kind, why: String| MediumError {
            kind,
            message: format!("{act} the root on {}: {why}", self.device),
        };
        if self.read_only {
            return Err(failed(MediumErrorKind::Io, "the disk is open read-only".into()));
        }
        change(&mut lock(&self.log)).map_err(|error| failed(kind, error.to_string()))
    }
}

impl Slots for Nor {
    fn label(&self) -> Result<Label, MediumError> {
        Ok(lock(&self.log).label())
    }

    fn slot(&self, slot: usize) -> Result<SlotContent, MediumError> {
        Ok(lock(&self.log).slot(slot))
    }

    fn set_label(&self, label: &Label) -> Result<(), MediumError> {
        self.change("writing", MediumErrorKind::Io, |log| log.set_label(label))
    }

    fn set_slot(&self, slot: usize, content: &SlotContent) -> Result<(), MediumError> {
        self.change("writing", MediumErrorKind::Io, |log| log.set_slot(slot, content))
    }

    /// The log knows what is left, and tries again with the next pass: all else is as well as before.
    fn destroy(&self, slot: usize, _: &SlotContent) -> Result<(), MediumError> {
        self.change("overwriting", MediumErrorKind::Remains, |log| log.destroy(slot))
    }

    fn check(&self) -> Result<(), MediumError> {
        Ok(())
    }
}
