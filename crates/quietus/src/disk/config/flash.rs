//! The table `flash` of `disk.toml`: how the media of a disk divide the flash chip on which they lie.

use super::versions::VersionsToml;
use super::{CreateOptions, DiskToml, MediumToml, StoreKind, absolute, invalid};
use crate::disk::{DiskError, DiskErrorKind};
use crate::host::media::flash::{FlashDisk, FlashPlace};
use crate::host::media::root::RootKind;
use quietus_core::base::units::{BLOCK_BYTES, Extent, Pos};
use quietus_core::media::MediumId;
use quietus_core::owed::journal::Shape;
use quietus_core::store::overlay::map_bytes;
use quietus_core::store::{sealed, versions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Shares of a chip's largest disk, in fifths, that a disk takes if its size is not said: the less it takes, the less is copied.
const FIFTHS_TAKEN: u64 = 4;
/// Space of an overlay beyond what is changed and owed, for blocks that are about to move.
const OVERLAY_SPARE_BYTES: u64 = 2 << 20;
/// Stubs get one byte of so many beside their log. The largest stub, of 64 bytes, is 1/64 of a block.
const STUBS_SHARE: u64 = 48;
/// The root of versions gets one byte of so many: it has 1/3072 of the content.
const ROOT_SHARE: u64 = 2048;

/// Bytes of each medium on the chip, side by side in this order. All are whole blocks of 4096 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashToml {
    /// Bytes of the medium of content; the most that it takes, where it grows.
    pub medium_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes of the map of an overlay, or of the key tree of a sealed disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_bytes: Option<u64>,
    /// Bytes of the stubs of versions, if they lie on this chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stubs_bytes: Option<u64>,
    /// Bytes of the root, if it lies on this chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_bytes: Option<u64>,
}

/// What decides how a chip is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) store: StoreKind,
    /// The root lies on the chip, if the store has one.
    pub(super) has_root: bool,
    /// Bytes of the log of stubs, if they lie on the chip.
    pub(super) log_bytes: Option<u64>,
}

impl FlashToml {
    /// The media of a disk of `size_bytes` bytes. A medium that grows gets what is left of `all` bytes.
    fn new(wanted: Wanted, size_bytes: u64, all: u64) -> Self {
        let whole = |bytes: u64| bytes.next_multiple_of(BLOCK_BYTES);
        let Wanted { store, has_root, log_bytes } = wanted;
        let map_bytes = match store {
            StoreKind::Sealed => Some(sealed::map_bytes(size_bytes)),
            StoreKind::Overlay => Some(map_bytes(size_bytes)),
            // The index of versions grows, and has no content.
            StoreKind::InPlace | StoreKind::Versions => None,
        };
        let root_bytes = match store {
            StoreKind::Sealed => Some(sealed::ROOT_BYTES),
            StoreKind::Versions => Some(versions::ROOT_BYTES + all / ROOT_SHARE),
            StoreKind::InPlace | StoreKind::Overlay => None,
        };
        let log_bytes = log_bytes.filter(|_| store == StoreKind::Versions);
        let stubs_bytes = log_bytes.map(|log| log + all / STUBS_SHARE);
        let mut flash = Self {
            medium_bytes: 0,
            journal_bytes: whole(Shape::of_disk(size_bytes).bytes()),
            map_bytes: map_bytes.map(whole),
            stubs_bytes: stubs_bytes.map(whole),
            root_bytes: root_bytes.filter(|_| has_root).map(whole),
        };
        let left = all.saturating_sub(flash.bytes()) / BLOCK_BYTES * BLOCK_BYTES;
        flash.medium_bytes = match store {
            StoreKind::InPlace | StoreKind::Sealed => whole(size_bytes),
            // What is changed, and a quarter of it for what is owed at its place.
            StoreKind::Overlay => left.min(whole(size_bytes + size_bytes / 4 + OVERLAY_SPARE_BYTES)),
            StoreKind::Versions => left,
        };
        flash
    }

    /// The media, each with its bytes, in order.
    fn parts(&self) -> [(MediumId, u64); 5] {
        [
            (MediumId::Data, self.medium_bytes),
            (MediumId::Journal, self.journal_bytes),
            (MediumId::Map, self.map_bytes.unwrap_or(0)),
            (MediumId::Stubs, self.stubs_bytes.unwrap_or(0)),
            (MediumId::Root, self.root_bytes.unwrap_or(0)),
        ]
    }

    /// Bytes of all media.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts().into_iter().fold(0, |all, (_, bytes)| all.saturating_add(bytes))
    }

    /// Where the medium `id` lies; `None` if it is not on the chip.
    #[must_use]
    pub fn extent(&self, id: MediumId) -> Option<Extent<Pos>> {
        let before = self.parts().into_iter().take_while(|(part, _)| *part != id).map(|(_, bytes)| bytes);
        let start = before.sum();
        let found = self.parts().into_iter().find(|(part, bytes)| *part == id && *bytes > 0);
        found.map(|(_, bytes)| Extent::new(start, bytes))
    }

    fn check(&self) -> Result<(), DiskErrorKind> {
        let is_whole = self.parts().iter().all(|(_, bytes)| bytes.is_multiple_of(BLOCK_BYTES));
        if is_whole && self.bytes() < i64::MAX as u64 {
            return Ok(());
        }
        Err(invalid("the sizes in [flash] are no multiples of 4096, or too large"))
    }
}

/// Bytes of the largest disk on the chip at `place`.
fn size_max(place: &FlashPlace) -> Result<u64, DiskError> {
    FlashDisk::size_max(place).map_err(|error| unfit(place, error.to_string()))
}

fn unfit(place: &FlashPlace, what: String) -> DiskError {
    DiskErrorKind::Invalid(what).at(Path::new(&place.stored().to_string()))
}

/// The size of a new disk whose byte n lies at byte n of its medium, on the chip at `place`: that of `options`, or what leaves the chip some room.
///
/// # Errors
/// The chip cannot be opened, or is too small.
pub(super) fn size_on_chip(place: &FlashPlace, options: &CreateOptions) -> Result<u64, DiskError> {
    let all = size_max(place)?;
    let taken = |size| FlashToml::new(options.on_chip(), size, 0).bytes();
    // The other media are no larger for a smaller disk.
    let most = |of: u64| of.saturating_sub(taken(of) - of) / BLOCK_BYTES * BLOCK_BYTES;
    let size = options.size.unwrap_or_else(|| most(all / 5 * FIFTHS_TAKEN / BLOCK_BYTES * BLOCK_BYTES));
    if size == 0 || taken(size) > all {
        let instead = match most(all) {
            0 => "use a larger chip".into(),
            most => format!("use a larger chip, or --size {most} at most"),
        };
        let what = format!(
            "the chip has room for {all} bytes, and the disk needs {} with its journal and keys; {instead}",
            taken(size)
        );
        return Err(unfit(place, what));
    }
    Ok(size)
}

impl MediumToml {
    pub(super) fn on_chip(place: &FlashPlace) -> Self {
        Self { path: place.stored().to_string().into(), adopted: false }
    }

    /// The file in the disk's own directory, or the chip that the options name.
    pub(super) fn own_or_chip(options: &CreateOptions) -> Result<Self, DiskError> {
        let chip = options.medium.as_deref().map(chip).transpose()?.flatten();
        Ok(chip.map_or_else(Self::own, |place| Self::on_chip(&place)))
    }
}

impl CreateOptions {
    /// What of the disk is to lie on its chip.
    pub(super) fn on_chip(&self) -> Wanted {
        let root = self.versions.root_kind();
        let has_root = matches!(root, Ok(None | Some(RootKind::Chip)));
        let seal = self.versions.seal.unwrap_or_default();
        let log_bytes = || VersionsToml::new(seal, "".into(), "".into()).log_bytes();
        let log_bytes = self.versions.stub_medium.is_none().then(log_bytes);
        Wanted { store: self.store, has_root, log_bytes }
    }
}

/// The chip that `path` names, if it names one, with a path that is absolute.
pub(super) fn chip(path: &Path) -> Result<Option<FlashPlace>, DiskError> {
    let Some(place) = FlashPlace::of(path) else { return Ok(None) };
    let place = place.map_err(|what| DiskErrorKind::Usage(what).at(path))?;
    Ok(Some(FlashPlace { path: absolute(&place.path)?, ..place }))
}

impl DiskToml {
    /// The flash chip on which the disk lies, if it does.
    #[must_use]
    pub fn chip(&self) -> Option<FlashPlace> {
        FlashPlace::of(&self.medium.path).and_then(Result::ok)
    }

    /// The description with the table that fits a disk on the chip that `options` name.
    ///
    /// # Errors
    /// The chip cannot be opened, or is too small.
    pub(super) fn with_flash(mut self, options: &CreateOptions) -> Result<Self, DiskError> {
        let Some(place) = options.medium.as_deref().map(chip).transpose()?.flatten() else { return Ok(self) };
        let all = size_max(&place)?;
        // Media that grow leave the chip some room.
        let flash = FlashToml::new(options.on_chip(), self.size_bytes, all / 5 * FIFTHS_TAKEN);
        if flash.medium_bytes < BLOCK_BYTES || flash.bytes() > all {
            let needed = flash.bytes() - flash.medium_bytes;
            let what = format!(
                "the chip has room for {all} bytes, and the disk needs {needed} beside its content; use a larger chip, or a smaller --size"
            );
            return Err(unfit(&place, what));
        }
        self.flash = Some(flash);
        Ok(self)
    }

    pub(super) fn check_flash(&self) -> Result<(), DiskErrorKind> {
        let is_root_here = self.sealed.as_ref().is_some_and(|it| it.is_root_on_chip());
        let Some(flash) = &self.flash else {
            return match FlashPlace::of(&self.medium.path) {
                _ if is_root_here => {
                    Err(invalid("field `sealed.root` names the chip of the content, which lies on no chip"))
                }
                Some(_) => {
                    Err(invalid("field `medium.path` names a flash chip, and the table [flash] is missing"))
                }
                None => Ok(()),
            };
        };
        if self.chip().is_none_or(|chip| !chip.path.is_absolute()) {
            return Err(invalid("the table [flash] needs a field `medium.path` such as nand:/dev/mtd4"));
        }
        let has_map = matches!(self.store, StoreKind::Sealed | StoreKind::Overlay);
        let (has_root, is_sealed) = (flash.root_bytes.is_some(), self.store == StoreKind::Sealed);
        let is_versions = self.store == StoreKind::Versions;
        let may_have_root = if is_sealed { has_root == is_root_here } else { is_versions || !has_root };
        let may_have_stubs = is_versions || flash.stubs_bytes.is_none();
        if flash.map_bytes.is_some() != has_map || !may_have_root || !may_have_stubs {
            return Err(invalid("the table [flash] contradicts the store, or the place of the root"));
        }
        let grows = matches!(self.store, StoreKind::Overlay | StoreKind::Versions);
        if !grows && flash.medium_bytes < self.size_bytes || self.medium.adopted {
            return Err(invalid("the disk does not fit into the part of the chip that [flash] names"));
        }
        flash.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(store: StoreKind, has_root: bool) -> Wanted {
        Wanted { store, has_root, log_bytes: Some(8 << 20) }
    }

    #[test]
    fn media_lie_side_by_side_on_a_chip() {
        for store in [StoreKind::InPlace, StoreKind::Overlay, StoreKind::Versions, StoreKind::Sealed] {
            let flash = FlashToml::new(wanted(store, true), (10 << 20) + 512, 60 << 20);
            let all = [MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Stubs, MediumId::Root];
            let mut end = 0;
            for part in all.into_iter().filter_map(|id| flash.extent(id)) {
                assert!(
                    part.start.0 == end && part.len > 0 && part.len.is_multiple_of(BLOCK_BYTES),
                    "{part:?}"
                );
                end = part.end();
            }
            assert!(end == flash.bytes() && end <= 60 << 20 && flash.check().is_ok(), "{store:?}");
            let has = all.map(|id| flash.extent(id).is_some());
            let expected = match store {
                StoreKind::InPlace => [true, true, false, false, false],
                StoreKind::Overlay => [true, true, true, false, false],
                StoreKind::Versions => [true, true, false, true, true],
                StoreKind::Sealed => [true, true, true, false, true],
            };
            assert_eq!(has, expected, "{store:?}");
        }
        let elsewhere = FlashToml::new(wanted(StoreKind::Sealed, false), 1 << 20, 60 << 20);
        assert_eq!(elsewhere.extent(MediumId::Root), None);
        assert!(FlashToml { medium_bytes: 100, ..elsewhere }.check().is_err());
    }
}
