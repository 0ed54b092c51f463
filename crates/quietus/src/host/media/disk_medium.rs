//! A medium of a disk, of whatever kind.

use super::flash::FlashMedium;
use super::root::{MemoryMedium, MtdMedium, RootKind, TpmMedium, Wear};
use super::{FileMedium, SharedMedium, Way};
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Capabilities, Keep, Medium, MediumError};
use std::io::{self, IoSliceMut};

/// A medium of a disk. Those of a disk on raw NAND flash are parts of it; otherwise all but the root are files and devices.
#[derive(Debug)]
pub enum DiskMedium {
    /// A file or block device.
    File(FileMedium),
    /// Two NV indices of a TPM.
    Tpm(Box<TpmMedium>),
    /// NOR flash.
    Mtd(Box<MtdMedium>),
    /// Memory.
    Memory(MemoryMedium),
    /// A part of a disk on raw NAND flash.
    Flash(FlashMedium),
}

/// The same for each kind.
macro_rules! each {
    ($medium:expr, $it:ident => $act:expr) => {
        match $medium {
            DiskMedium::File($it) => $act,
            DiskMedium::Tpm($it) => $act,
            DiskMedium::Mtd($it) => $act,
            DiskMedium::Memory($it) => $act,
            DiskMedium::Flash($it) => $act,
        }
    };
}

impl DiskMedium {
    /// Opens the root of a disk, if it lies elsewhere than at a path. One in memory begins with zeros.
    ///
    /// # Errors
    /// The medium is not there, not this kind of medium, or in use.
    pub fn open_root(root: &RootKind, read_only: bool) -> io::Result<Option<Self>> {
        Ok(Some(match root {
            RootKind::Path(_) => return Ok(None),
            RootKind::Chip => {
                return Err(io::Error::other("the chip of the content is no root without its disk"));
            }
            RootKind::Tpm(place) => Self::Tpm(Box::new(TpmMedium::open(place, read_only)?)),
            RootKind::Mtd(device) => Self::Mtd(Box::new(MtdMedium::open(device, read_only)?)),
            RootKind::Memory => Self::Memory(MemoryMedium::new()?),
        }))
    }

    /// Makes the root of a new disk, if it lies elsewhere than at a path. It holds zeros; a TPM keeps it once
    /// [`DiskMedium::keep`] is called.
    ///
    /// # Errors
    /// The medium is not there, not this kind of medium, in use, or holds something.
    pub fn create_root(root: &RootKind) -> io::Result<Option<Self>> {
        Ok(Some(match root {
            RootKind::Path(_) => return Ok(None),
            RootKind::Chip => {
                return Err(io::Error::other("the chip of the content is no root without its disk"));
            }
            RootKind::Tpm(place) => Self::Tpm(Box::new(TpmMedium::create(place)?)),
            RootKind::Mtd(device) => Self::Mtd(Box::new(MtdMedium::create(device)?)),
            RootKind::Memory => Self::Memory(MemoryMedium::new()?),
        }))
    }

    /// Keeps the root of a new disk, which is made now.
    pub fn keep(&self) {
        match self {
            Self::Tpm(medium) => medium.keep(),
            Self::File(_) | Self::Mtd(_) | Self::Memory(_) | Self::Flash(_) => {}
        }
    }

    /// The file or block device, if the medium is one.
    #[must_use]
    pub fn as_file(&self) -> Option<&FileMedium> {
        match self {
            Self::File(medium) => Some(medium),
            Self::Tpm(_) | Self::Mtd(_) | Self::Memory(_) | Self::Flash(_) => None,
        }
    }

    /// How the medium wears out as a root, which a purge overwrites in `passes` passes.
    #[must_use]
    pub fn wear(&self, passes: u32) -> Wear {
        match self {
            Self::Tpm(_) => Wear::of_tpm(passes),
            Self::Mtd(medium) => medium.wear(),
            Self::File(_) | Self::Memory(_) | Self::Flash(_) => Wear::None,
        }
    }

    /// As [`FileMedium::read_uncached`]. No other medium has a cache.
    ///
    /// # Errors
    /// As for [`Medium::read`].
    pub fn read_uncached(&self, pos: Pos, into: &mut [u8]) -> Result<Way, MediumError> {
        match self {
            Self::File(medium) => medium.read_uncached(pos, into),
            other => other.read(pos, into).map(|()| Way::AroundCache),
        }
    }

    /// As [`FileMedium::holes`]. No other medium has any.
    pub fn holes(&self) -> impl Iterator<Item = Extent<Pos>> + '_ {
        self.as_file().into_iter().flat_map(FileMedium::holes)
    }

    /// As [`FileMedium::data_within`]. Other media are data wherever they have space.
    pub fn data_within(&self, extent: Extent<Pos>) -> impl Iterator<Item = Extent<Pos>> + '_ {
        let file = self.as_file();
        let other = if file.is_none() && !extent.is_empty() { self.allocated(extent) } else { Vec::new() };
        file.into_iter().flat_map(move |file| file.data_within(extent)).chain(other)
    }

    /// As [`FileMedium::be_gentle`].
    pub fn be_gentle(&self, gentle: bool) {
        self.as_file().into_iter().for_each(|file| file.be_gentle(gentle));
    }
}

impl From<FileMedium> for DiskMedium {
    fn from(medium: FileMedium) -> Self {
        Self::File(medium)
    }
}

impl From<FlashMedium> for DiskMedium {
    fn from(medium: FlashMedium) -> Self {
        Self::Flash(medium)
    }
}

impl Medium for DiskMedium {
    fn size(&self) -> u64 {
        each!(self, it => it.size())
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        each!(self, it => it.read(pos, into))
    }

    fn read_vectored(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Result<(), MediumError> {
        each!(self, it => it.read_vectored(pos, into))
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        each!(self, it => it.write(pos, from, durable))
    }

    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        each!(self, it => it.overwrite(pos, from))
    }

    fn sync(&self) -> Result<(), MediumError> {
        each!(self, it => it.sync())
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        each!(self, it => it.punch(extent))
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        each!(self, it => it.zero(extent))
    }

    fn erase(&self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), MediumError> {
        each!(self, it => it.erase(extents, keep))
    }

    fn clear(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        each!(self, it => it.clear(extent))
    }

    fn reserve(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        each!(self, it => it.reserve(extent))
    }

    fn shrink(&self, bytes: u64) -> Result<(), MediumError> {
        each!(self, it => it.shrink(bytes))
    }

    fn allocated(&self, extent: Extent<Pos>) -> Vec<Extent<Pos>> {
        each!(self, it => it.allocated(extent))
    }

    fn next_data(&self, pos: Pos) -> Pos {
        each!(self, it => it.next_data(pos))
    }

    fn prefetch(&self, extent: Extent<Pos>) {
        each!(self, it => it.prefetch(extent));
    }

    fn capabilities(&self) -> Capabilities {
        each!(self, it => it.capabilities())
    }
}

impl SharedMedium for DiskMedium {
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        each!(self, it => it.read_cached(pos, into))
    }

    fn check_whole(&self) -> Result<(), MediumError> {
        each!(self, it => it.check_whole())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_file_as_a_medium_of_a_disk_tells_its_holes_and_memory_is_data_everywhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        std::fs::write(&path, [1; 4096]).expect("a file");
        std::fs::File::options().write(true).open(&path).expect("it opens").set_len(1 << 20).expect("a hole");
        let file = DiskMedium::from(FileMedium::open(&path, false).expect("a medium"));
        let (whole, data) = (Extent::new(0, 1 << 20), Extent::<Pos>::new(0, 4096));
        let found: Vec<_> = file.data_within(whole).collect();
        assert!(found == [data] || found == [whole], "{found:?}");
        assert_eq!(found == [data], file.holes().next().is_some());
        assert!(file.as_file().is_some() && file.wear(1) == Wear::None);

        let memory = DiskMedium::open_root(&RootKind::Memory, false).expect("memory").expect("no path");
        let all = Extent::new(0, memory.size());
        assert_eq!((memory.data_within(all).collect::<Vec<_>>(), memory.holes().count()), (vec![all], 0));
        memory.write(Pos(4096), &[7; 40], true).expect("a write");
        let mut found = [0; 4096];
        assert_eq!(memory.read_uncached(Pos(4096), &mut found), Ok(Way::AroundCache));
        assert_eq!((found[39], found[40]), (7, 0));
        let path = RootKind::of(Path::new("/srv/root")).expect("a path");
        assert!(DiskMedium::open_root(&path, true).expect("a path").is_none());
        assert!(DiskMedium::create_root(&path).expect("a path").is_none());
    }
}
