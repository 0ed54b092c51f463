//! A chip, of whatever kind.

use super::file::{Faults, FileChip, Fuse};
use super::kinds::ChipKind;
use super::mtd::MtdChip;
use super::place::FlashPlace;
use quietus_flash::chip::timing::{Counts, SLC};
use quietus_flash::{EraseBlock, Flash, Geometry, Nand, NandError, Page, Reading};
use std::io;
use std::os::unix::fs::FileTypeExt;

/// Number of good blocks whose first page a creation looks at.
const LOOK_BLOCKS: usize = 8;

/// A chip.
#[derive(Debug)]
pub enum Chip {
    /// A file that stands for a chip.
    File(Box<FileChip>),
    /// An MTD device.
    Mtd(Box<MtdChip>),
}

/// The same for each kind.
macro_rules! each {
    ($chip:expr, $it:ident => $act:expr) => {
        match $chip {
            Chip::File($it) => $act,
            Chip::Mtd($it) => $act,
        }
    };
}

impl Chip {
    /// Opens the chip at `place`, which exists.
    ///
    /// # Errors
    /// The chip cannot be opened, is in use, or does not suit; the place has options that do not.
    pub(super) fn open(place: &FlashPlace) -> io::Result<Self> {
        if place.chip.is_some() || place.blocks.is_some() {
            return Err(io::Error::other(format!(
                "cannot open {place}: chip= and blocks= only create a file; leave them out"
            )));
        }
        if !is_device(place) {
            return Ok(Self::File(Box::new(FileChip::open(&place.path, faults(place))?)));
        }
        if place.has_options() {
            return Err(io::Error::other(format!(
                "cannot open {place}: cut= and nature= are for files that stand for a chip; leave them out"
            )));
        }
        Ok(Self::Mtd(Box::new(MtdChip::open(&place.path)?)))
    }

    /// The kind and the number of blocks of the file that `place` says to create.
    ///
    /// # Errors
    /// The place does not say which chip, or the kind cannot be read.
    pub(super) fn wanted(place: &FlashPlace) -> io::Result<(ChipKind, u32)> {
        let (Some(chip), Some(blocks)) = (&place.chip, place.blocks) else {
            return Err(io::Error::other(format!(
                "cannot create a disk on {place}: there is no such file or device; name a device such as nand:/dev/mtd4, or add \
                 chip= and blocks= to create a file that stands for a chip, as in nand:{},chip=slc-2k,blocks=4096",
                place.path.display()
            )));
        };
        Ok((chip.load()?, blocks))
    }

    /// Creates the file of a blank chip at `place`.
    ///
    /// # Errors
    /// The place does not say which chip, the kind or the number of blocks does not suit, or the file cannot be created.
    pub(super) fn create_file(place: &FlashPlace) -> io::Result<Self> {
        let (kind, blocks) = Self::wanted(place)?;
        Ok(Self::File(Box::new(FileChip::create(&place.path, kind, blocks, faults(place))?)))
    }

    /// What a chip holds that a creation would destroy, in words; `None` if it looks blank.
    pub(super) fn content(&mut self) -> Result<Option<String>, String> {
        if Flash::peek(self).map_err(|error| error.to_string())?.is_some() {
            return Ok(Some("it holds a Quietus disk".into()));
        }
        let geometry = self.geometry();
        let mut bytes = vec![0; geometry.page_bytes as usize];
        let mut good = 0;
        for block in (0..geometry.blocks).map(EraseBlock) {
            if self.is_bad(block).map_err(|error| error.to_string())? {
                continue;
            }
            match self.read(geometry.page(block, 0), &mut bytes) {
                Ok(Reading::Blank) => {}
                Err(error @ NandError::Gone(_)) => return Err(error.to_string()),
                Ok(_) | Err(_) => return Ok(Some(format!("block {} is not blank", block.0))),
            }
            good += 1;
            if good == LOOK_BLOCKS {
                break;
            }
        }
        Ok(None)
    }

    /// Number of blocks that are not marked bad.
    pub(super) fn good_blocks(&mut self) -> Result<u32, NandError> {
        let mut good = 0;
        for block in (0..self.geometry().blocks).map(EraseBlock) {
            good += u32::from(!self.is_bad(block)?);
        }
        Ok(good)
    }

    /// The operations of a file since its chip was made. A device does not count them.
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Self::File(chip) => Some(chip.counts()),
            Self::Mtd(_) => None,
        }
    }

    /// Number of erases that a block bears. No device tells.
    pub(super) fn endurance(&self) -> u32 {
        match self {
            Self::File(chip) => chip.kind().endurance,
            Self::Mtd(_) => SLC.endurance,
        }
    }

    /// Brings what the chip counts to where it outlives the process.
    pub(super) fn save_counts(&mut self) -> io::Result<()> {
        match self {
            Self::File(chip) => chip.save_counts(),
            Self::Mtd(_) => Ok(()),
        }
    }
}

/// Whether there is a character device.
fn is_device(place: &FlashPlace) -> bool {
    std::fs::metadata(&place.path).is_ok_and(|it| it.file_type().is_char_device())
}

fn faults(place: &FlashPlace) -> Faults {
    Faults { fuse: place.cut.map(Fuse::aborting), nature: place.nature }
}

impl Nand for Chip {
    fn geometry(&self) -> Geometry {
        each!(self, it => it.geometry())
    }

    fn read(&mut self, page: Page, into: &mut [u8]) -> Result<Reading, NandError> {
        each!(self, it => it.read(page, into))
    }

    fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError> {
        each!(self, it => it.program(page, from))
    }

    fn erase(&mut self, block: EraseBlock) -> Result<(), NandError> {
        each!(self, it => it.erase(block))
    }

    fn blacken(&mut self, page: Page) -> Result<(), NandError> {
        each!(self, it => it.blacken(page))
    }

    fn raw(&mut self, page: Page, into: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        each!(self, it => it.raw(page, into, spare))
    }

    fn is_bad(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        each!(self, it => it.is_bad(block))
    }

    fn mark_bad(&mut self, block: EraseBlock) -> Result<(), NandError> {
        each!(self, it => it.mark_bad(block))
    }
}
