//! Disks on chips: how they are made and opened.

use super::chip::Chip;
use super::kinds::check_geometry;
use super::medium::FlashMedium;
use super::open::{FlashWear, Open};
use super::place::FlashPlace;
use crate::base::lock::lock;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::MediumError;
use quietus_flash::{DiskId, Flash, Nand, UNIT_BYTES};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

/// The chips that this process has open.
static OPEN: Mutex<Vec<(Identity, Weak<Open>)>> = Mutex::new(Vec::new());

/// A chip, however it is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Identity {
    Device(u64),
    /// The device below a file, and its inode.
    File(u64, u64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let it = std::fs::metadata(path)?;
        let is_device = it.file_type().is_char_device();
        Ok(if is_device { Self::Device(it.rdev()) } else { Self::File(it.dev(), it.ino()) })
    }
}

/// A disk on a chip. Each chip is open once in a process; its clones and media share it, and the last of them closes it.
#[derive(Clone, Debug)]
pub struct FlashDisk {
    open: Arc<Open>,
}

impl FlashDisk {
    /// Makes a disk of `bytes` bytes on the chip at `place`, which reads as zeros, and erases all of the chip. `disk` is random. With
    /// `overwrite`, what the chip held is lost; otherwise it has to be blank, and a file has to be new.
    ///
    /// # Errors
    /// The chip cannot be opened or created, is in use, holds something, or is too small ([`FlashDisk::size_max`]).
    pub fn create(place: &FlashPlace, disk: [u8; 16], bytes: u64, overwrite: bool) -> io::Result<Self> {
        let mut all = lock(&OPEN);
        let is_new = !place.path.exists();
        let failed = |what: &str| io::Error::other(format!("cannot create a disk on {place}: {what}"));
        if !is_new {
            // Its lock would keep this process out as well, with a message that misleads.
            refuse_open(&mut all, place)?;
        }
        let made = if is_new { Chip::create_file(place)? } else { existing(place, overwrite)? };
        let made = Flash::format(made, DiskId(disk), bytes).map_err(|error| failed(&error.message));
        let made = made.and_then(|flash| Ok((flash, Identity::of(&place.path)?)));
        let (flash, identity) = made.inspect_err(|_| {
            if is_new {
                // The file is of no use, and was not there before.
                let _ = std::fs::remove_file(&place.path);
            }
        })?;
        Ok(Self::keep(&mut all, identity, place, flash))
    }

    /// Opens the disk `disk` on the chip at `place`. A chip that this process has open already is shared.
    ///
    /// # Errors
    /// The chip cannot be opened, is in use by another process, or holds no disk or another one; the chip fails.
    pub fn open(place: &FlashPlace, disk: [u8; 16]) -> io::Result<Self> {
        let failed = |what: &str| io::Error::other(format!("cannot open the disk on {place}: {what}"));
        let check = |found: Option<DiskId>| match found {
            Some(DiskId(found)) if found == disk => Ok(()),
            Some(_) => Err(failed("the chip holds another disk; name the chip of this disk")),
            None => Err(failed("the chip holds no disk; name the chip of this disk, or create one on it")),
        };
        let mut all = lock(&OPEN);
        let identity = Identity::of(&place.path).map_err(|error| failed(&error.to_string()))?;
        if let Some(open) = find(&mut all, identity) {
            check(Some(open.disk()))?;
            return Ok(Self { open });
        }
        let mut chip = Chip::open(place)?;
        // A chip of another disk does not change.
        check(Flash::peek(&mut chip).map_err(|error| failed(&error.message))?)?;
        let flash = Flash::open(chip).map_err(|error| failed(&error.message))?;
        Ok(Self::keep(&mut all, identity, place, flash))
    }

    fn keep(
        all: &mut Vec<(Identity, Weak<Open>)>,
        identity: Identity,
        place: &FlashPlace,
        flash: Flash<Chip>,
    ) -> Self {
        let open = Arc::new(Open::new(flash, place.stored().to_string()));
        all.push((identity, Arc::downgrade(&open)));
        Self { open }
    }

    /// Bytes of the largest disk on the chip at `place`, which need not exist if the place says what is to be created. The less of
    /// this a disk takes, the less is copied.
    ///
    /// # Errors
    /// The chip cannot be opened, is in use, or does not suit.
    pub fn size_max(place: &FlashPlace) -> io::Result<u64> {
        let size = Flash::<Chip>::size_max;
        if !place.path.exists() {
            let (kind, blocks) = Chip::wanted(place)?;
            let geometry = kind.geometry(blocks);
            check_geometry(geometry).map_err(io::Error::other)?;
            return Ok(size(geometry, blocks));
        }
        if let Ok(identity) = Identity::of(&place.path)
            && let Some(open) = find(&mut lock(&OPEN), identity)
        {
            let FlashWear { geometry, wear, .. } = open.wear();
            return Ok(size(geometry, geometry.blocks - wear.bad_blocks));
        }
        let mut chip = Chip::open(place)?;
        let good = chip.good_blocks().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(size(chip.geometry(), good))
    }

    /// As [`Flash::set_apart`]: `part` is written to blocks of its own.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn set_apart(&self, part: Extent<Pos>) -> Result<(), MediumError> {
        self.open.with("dividing", |flash| {
            flash.set_apart(part);
            Ok(())
        })
    }

    /// Bytes of the disk.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.open.size()
    }

    /// The part of the disk in `extent` as a medium.
    ///
    /// # Panics
    /// If the extent is not of whole units of 4096 bytes that all lie on the disk.
    #[must_use]
    pub fn region(&self, extent: Extent<Pos>) -> FlashMedium {
        let unit = UNIT_BYTES as u64;
        let is_whole = extent.start.0.is_multiple_of(unit) && extent.len.is_multiple_of(unit);
        assert!(is_whole, "a part of a disk has whole units");
        assert!(
            Extent::<Pos>::within(extent.start.0, extent.len, self.open.size()).is_some(),
            "a part lies on its disk"
        );
        FlashMedium::new(Arc::clone(&self.open), extent)
    }

    /// As [`FlashDisk::region`], as a medium that grows with writes, within the part.
    ///
    /// # Panics
    /// As for [`FlashDisk::region`].
    #[must_use]
    pub fn growing(&self, extent: Extent<Pos>) -> FlashMedium {
        drop(self.region(extent));
        FlashMedium::growing(Arc::clone(&self.open), extent)
    }

    /// How worn the chip is.
    #[must_use]
    pub fn wear(&self) -> FlashWear {
        self.open.wear()
    }

    /// As [`Flash::scrub`]: looks for content that is about to be lost, and moves it.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn scrub(&self, pages: u32) -> Result<(), MediumError> {
        self.open.with("scrubbing", |flash| flash.scrub(pages))
    }
}

/// The open chip, if this process has it open. Forgets those that are closed.
fn find(all: &mut Vec<(Identity, Weak<Open>)>, identity: Identity) -> Option<Arc<Open>> {
    all.retain(|(_, open)| open.strong_count() > 0);
    all.iter().find(|(found, _)| *found == identity).and_then(|(_, open)| open.upgrade())
}

fn refuse_open(all: &mut Vec<(Identity, Weak<Open>)>, place: &FlashPlace) -> io::Result<()> {
    let failed = |what: &str| io::Error::other(format!("cannot create a disk on {place}: {what}"));
    let identity = Identity::of(&place.path).map_err(|error| failed(&error.to_string()))?;
    find(all, identity).map_or(Ok(()), |_| Err(failed("the chip holds a disk that is open; close it first")))
}

/// Opens a chip that exists, to make a disk on it.
fn existing(place: &FlashPlace, overwrite: bool) -> io::Result<Chip> {
    let failed = |what: &str| io::Error::other(format!("cannot create a disk on {place}: {what}"));
    let is_file = place.path.is_file();
    if is_file && !overwrite {
        return Err(failed("the file exists; name another one, or delete it first"));
    }
    let mut chip = Chip::open(place)?;
    if overwrite {
        return Ok(chip);
    }
    match chip.content() {
        Ok(None) => Ok(chip),
        Ok(Some(what)) => {
            Err(failed(&format!("{what}; erase it first with flash_erase {} 0 0", place.path.display())))
        }
        Err(what) => Err(failed(&what)),
    }
}
