//! Content for tests.

use std::cell::RefCell;
use std::collections::BTreeSet;

use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};

use crate::Fingerprint;

/// Numbers that look random: SplitMix64.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// `length` bytes, a multiple of 8.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length / 8).flat_map(|_| self.next().to_le_bytes()).collect()
    }
}

/// Lines that compress well.
pub(crate) fn text(length: usize) -> Vec<u8> {
    (0..)
        .flat_map(|number| format!("{number:08} a line of a log that says little\n").into_bytes())
        .take(length)
        .collect()
}

pub(crate) fn fingerprint(noise: &mut Noise) -> Fingerprint {
    let mut bytes = [0; 32];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&noise.next().to_be_bytes());
    }
    Fingerprint(bytes)
}

/// A medium in memory with a cache: a cut of the power leaves any subset of the sectors written since the last
/// sync.
pub(crate) struct Memory(RefCell<Inner>);

struct Inner {
    cache: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// Writes and syncs until the power fails.
    fuse: Option<u32>,
    noise: Noise,
}

const SECTOR_BYTES: usize = 512;

impl Memory {
    pub(crate) fn new(bytes: u64, seed: u64) -> Memory {
        let (cache, durable) = (vec![0; bytes as usize], vec![0; bytes as usize]);
        Memory(RefCell::new(Inner { cache, durable, dirty: BTreeSet::new(), fuse: None, noise: Noise(seed) }))
    }

    /// Lets the power fail after this many more writes and syncs.
    pub(crate) fn light_fuse(&self, changes: u32) {
        self.0.borrow_mut().fuse = Some(changes);
    }

    /// Whether the power has failed.
    pub(crate) fn is_off(&self) -> bool {
        self.0.borrow().fuse == Some(0)
    }

    /// Cuts the power, which comes back.
    pub(crate) fn cut(&self) {
        let mut inner = self.0.borrow_mut();
        inner.fuse = None;
        for sector in std::mem::take(&mut inner.dirty) {
            if inner.noise.next().is_multiple_of(2) {
                inner.settle(sector);
            }
        }
        inner.cache = inner.durable.clone();
    }

    /// The bytes, to look at or to damage.
    pub(crate) fn bytes<T>(&self, act: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut inner = self.0.borrow_mut();
        let found = act(&mut inner.cache);
        inner.durable = inner.cache.clone();
        found
    }
}

impl Inner {
    fn settle(&mut self, sector: usize) {
        let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        self.durable[range.clone()].copy_from_slice(&self.cache[range]);
    }

    fn burn(&mut self) -> Result<(), MediumError> {
        let off = || MediumError { kind: MediumErrorKind::Io, message: "the power is off".into() };
        match &mut self.fuse {
            Some(0) => Err(off()),
            Some(left) => {
                *left -= 1;
                if *left == 0 { Err(off()) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }
}

impl Medium for Memory {
    fn size(&self) -> u64 {
        self.0.borrow().cache.len() as u64
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let from = pos.0 as usize;
        into.copy_from_slice(&self.0.borrow().cache[from..from + into.len()]);
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        let mut inner = self.0.borrow_mut();
        let burnt = inner.burn();
        let at = pos.0 as usize;
        inner.cache[at..at + from.len()].copy_from_slice(from);
        for sector in at / SECTOR_BYTES..(at + from.len()).div_ceil(SECTOR_BYTES) {
            if durable && burnt.is_ok() {
                inner.settle(sector);
                inner.dirty.remove(&sector);
            } else {
                inner.dirty.insert(sector);
            }
        }
        burnt
    }

    fn sync(&self) -> Result<(), MediumError> {
        let mut inner = self.0.borrow_mut();
        inner.burn()?;
        let dirty = std::mem::take(&mut inner.dirty);
        dirty.into_iter().for_each(|sector| inner.settle(sector));
        Ok(())
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.zero(extent)
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.write(extent.start, &vec![0; extent.len as usize], false)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}
