//! The table `flash` of `disk.toml`: how the media of a disk divide the flash chip on which they lie.

use super::{DiskToml, StoreKind, absolute, invalid};
use crate::disk::{DiskError, DiskErrorKind};
use crate::host::media::flash::{FlashDisk, FlashPlace};
use quietus_core::base::units::{BLOCK_BYTES, Extent, Pos};
use quietus_core::media::MediumId;
use quietus_core::owed::journal::Shape;
use quietus_core::store::sealed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Shares of a chip's largest disk, in fifths, that a disk takes if its size is not said: the less it takes, the less is copied.
const FIFTHS_TAKEN: u64 = 4;

/// Bytes of each medium on the chip, side by side in this order. All are whole blocks of 4096 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashToml {
    /// Bytes of the medium of content.
    pub medium_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes of the key tree, of a sealed disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keytree_bytes: Option<u64>,
    /// Bytes of the root, if it lies on this chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_bytes: Option<u64>,
}

impl FlashToml {
    /// The media of a disk of `size_bytes` bytes, with its root if that `has_root` here.
    fn new(store: StoreKind, size_bytes: u64, has_root: bool) -> Self {
        let whole = |bytes: u64| bytes.next_multiple_of(BLOCK_BYTES);
        let is_sealed = store == StoreKind::Sealed;
        Self {
            medium_bytes: whole(size_bytes),
            journal_bytes: whole(Shape::of_disk(size_bytes).bytes()),
            keytree_bytes: is_sealed.then(|| whole(sealed::map_bytes(size_bytes))),
            root_bytes: (is_sealed && has_root).then(|| whole(sealed::ROOT_BYTES)),
        }
    }

    /// The media, each with its bytes, in order.
    fn parts(&self) -> [(MediumId, u64); 4] {
        [
            (MediumId::Data, self.medium_bytes),
            (MediumId::Journal, self.journal_bytes),
            (MediumId::Map, self.keytree_bytes.unwrap_or(0)),
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

/// The size of a new disk on the chip at `place`: `wanted`, or what leaves the chip some room.
///
/// # Errors
/// The chip cannot be opened, or is too small.
pub(super) fn size_on_chip(
    place: &FlashPlace,
    store: StoreKind,
    has_root: bool,
    wanted: Option<u64>,
) -> Result<u64, DiskError> {
    let failed = |what: String| DiskErrorKind::Invalid(what).at(Path::new(&place.stored().to_string()));
    let all = FlashDisk::size_max(place).map_err(|error| failed(error.to_string()))?;
    let taken = |size| FlashToml::new(store, size, has_root).bytes();
    // The other media are no larger for a smaller disk.
    let most = |of: u64| of.saturating_sub(taken(of) - of) / BLOCK_BYTES * BLOCK_BYTES;
    let size = wanted.unwrap_or_else(|| most(all / 5 * FIFTHS_TAKEN / BLOCK_BYTES * BLOCK_BYTES));
    if size == 0 || taken(size) > all {
        let what = format!(
            "the chip has room for {all} bytes, and the disk needs {} with its journal and keys; use a larger chip, or --size {} at most",
            taken(size),
            most(all)
        );
        return Err(failed(what));
    }
    Ok(size)
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

    /// The table that fits a disk on a chip.
    pub(super) fn with_flash(mut self) -> Self {
        let is_root_here = self.sealed.as_ref().is_some_and(|it| it.is_root_on_chip());
        let is_on_chip = self.chip().is_some();
        self.flash = is_on_chip.then(|| FlashToml::new(self.store, self.size_bytes, is_root_here));
        self
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
        let is_sealed = self.store == StoreKind::Sealed;
        if flash.keytree_bytes.is_some() != is_sealed || flash.root_bytes.is_some() != is_root_here {
            return Err(invalid("the table [flash] contradicts the store, or the place of the root"));
        }
        if flash.medium_bytes < self.size_bytes || self.medium.adopted {
            return Err(invalid("the disk does not fit into the part of the chip that [flash] names"));
        }
        flash.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_lie_side_by_side_on_a_chip() {
        let flash = FlashToml::new(StoreKind::Sealed, (10 << 20) + 512, true);
        let parts =
            [MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Root].map(|id| flash.extent(id));
        let mut end = 0;
        for part in parts {
            let part = part.expect("a sealed disk has all four");
            assert!(part.start.0 == end && part.len > 0 && part.len.is_multiple_of(BLOCK_BYTES), "{part:?}");
            end = part.end();
        }
        assert_eq!((end, flash.extent(MediumId::Stubs)), (flash.bytes(), None));
        let elsewhere = FlashToml::new(StoreKind::Sealed, 1 << 20, false);
        assert_eq!(elsewhere.extent(MediumId::Root), None);
        let plain = FlashToml::new(StoreKind::InPlace, 1 << 20, false);
        assert_eq!((plain.extent(MediumId::Map), plain.extent(MediumId::Root)), (None, None));
        assert!(plain.check().is_ok() && FlashToml { medium_bytes: 100, ..plain }.check().is_err());
    }
}
