//! A root in memory, for machines that are thrown away: when the server stops, all content of the disk is lost with it.

use super::ROOT_BYTES;
use crate::base::lock::lock;
use crate::base::locked::Locked;
use crate::host::media::SharedMedium;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Mutex;
use zeroize::Zeroizing;

/// See the module's documentation. The memory is locked, as far as the host allows, and wiped at the end.
pub struct MemoryMedium {
    bytes: Mutex<Locked<Zeroizing<[u8; ROOT_BYTES as usize]>>>,
}

impl MemoryMedium {
    /// A medium of zeros.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> io::Result<Self> {
        let bytes = Locked::new(Zeroizing::new([0; ROOT_BYTES as usize]))?;
        Ok(Self { bytes: Mutex::new(bytes) })
    }

    fn range(act: &str, pos: Pos, len: usize) -> Result<Range<usize>, MediumError> {
        let within = Extent::<Pos>::within(pos.0, len as u64, ROOT_BYTES);
        within.map(|it| it.start.0 as usize..it.end() as usize).ok_or_else(|| MediumError {
            kind: MediumErrorKind::Io,
            message: format!(
                "{act} {len} bytes at {} of the root in memory: the medium has {ROOT_BYTES} bytes",
                pos.0
            ),
        })
    }
}

impl fmt::Debug for MemoryMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMedium").finish_non_exhaustive()
    }
}

impl Medium for MemoryMedium {
    fn size(&self) -> u64 {
        ROOT_BYTES
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let range = Self::range("reading", pos, into.len())?;
        into.copy_from_slice(&lock(&self.bytes)[range]);
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], _durable: bool) -> Result<(), MediumError> {
        let range = Self::range("writing", pos, from.len())?;
        lock(&self.bytes)[range].copy_from_slice(from);
        Ok(())
    }

    /// Nothing outlives the memory.
    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.zero(extent)
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let range = Self::range("zeroing", extent.start, extent.len as usize)?;
        lock(&self.bytes)[range].fill(0);
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: false, erases: false }
    }
}

impl SharedMedium for MemoryMedium {
    fn read_cached(&self, pos: Pos, into: &mut [IoSliceMut<'_>]) -> Option<Result<(), MediumError>> {
        Some(self.read_vectored(pos, into))
    }

    fn check_whole(&self) -> Result<(), MediumError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_in_memory_begins_empty_keeps_what_is_written_and_says_none_of_it() {
        let medium = MemoryMedium::new().expect("memory");
        let mut found = [1; 64];
        medium.read(Pos(4096), &mut found).expect("a read");
        assert_eq!(found, [0; 64]);
        medium.write(Pos(4100), &[0xab; 8], true).expect("a write");
        medium.read(Pos(4096), &mut found).expect("a read");
        assert_eq!((&found[..4], &found[4..12], &found[12..16]), (&[0; 4][..], &[0xab; 8][..], &[0; 4][..]));
        assert!(!format!("{medium:?}").contains("171"));
        for pos in [12287, 12288, u64::MAX] {
            let error = medium.write(Pos(pos), &[0; 2], true).expect_err("it lies beyond the end");
            assert!(error.message.contains("12288"), "{error}");
        }
    }
}
