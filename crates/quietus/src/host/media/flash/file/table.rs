//! What a chip file notes of each block.

use super::head::{ENTRY_BYTES, is_whole, sealed};
use quietus_core::base::fields::Fields;

/// The block is marked bad.
const MARKED: u16 = 1;
/// Programs and erases of the block fail.
const DEAD: u16 = 2;
/// A cut of the power touched the block since it was erased.
const CUT: u16 = 4;
/// Pages of the block get wrong bits.
const WEAK: u16 = 8;
/// Pages of the block do not become black.
const STUBBORN: u16 = 16;
/// Instead of the first torn page: the block has none.
const NONE_TORN: u16 = u16::MAX;

/// A block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The number of the next page to program.
    pub(super) next: u16,
    /// The first page whose program or erase did not end well: from it on, pages are blank or cannot be corrected.
    pub(super) torn: u16,
    /// Number of erases since the chip was made.
    pub(super) erases: u32,
    pub(super) is_marked: bool,
    pub(super) is_dead: bool,
    pub(super) is_cut: bool,
    pub(super) is_weak: bool,
    pub(super) is_stubborn: bool,
    /// Number of wrong bits in its pages.
    pub(super) bits: u16,
}

impl Entry {
    /// A block that was never programmed.
    pub(super) const NEW: Self = Self {
        next: 0,
        torn: NONE_TORN,
        erases: 0,
        is_marked: false,
        is_dead: false,
        is_cut: false,
        is_weak: false,
        is_stubborn: false,
        bits: 0,
    };

    /// Notes that the program or erase of page `index` did not end well.
    pub(super) fn tear(&mut self, index: u16) {
        self.torn = self.torn.min(index);
    }

    /// The block after an erase.
    pub(super) fn erased(self) -> Self {
        let erases = self.erases.saturating_add(1);
        Self { next: 0, torn: NONE_TORN, erases, is_cut: false, bits: 0, ..self }
    }

    /// The entry of `block`, whose checksum covers the block's number too.
    pub(super) fn to_bytes(self, block: u32) -> [u8; ENTRY_BYTES] {
        let flags = [
            (self.is_marked, MARKED),
            (self.is_dead, DEAD),
            (self.is_cut, CUT),
            (self.is_weak, WEAK),
            (self.is_stubborn, STUBBORN),
        ];
        let flags: u16 = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
        let mut bytes = block.to_le_bytes().to_vec();
        bytes.extend([self.next, self.torn].map(u16::to_le_bytes).concat());
        bytes.extend(self.erases.to_le_bytes());
        bytes.extend([flags, self.bits].map(u16::to_le_bytes).concat());
        let bytes = sealed(bytes);
        bytes[4..].try_into().expect("an entry has 16 bytes")
    }

    /// The entry in `bytes`, if it is whole and one of a block of so many pages.
    pub(super) fn from_bytes(bytes: &[u8], block: u32, block_pages: u32) -> Option<Self> {
        if !is_whole(&[&block.to_le_bytes()[..], bytes].concat()) {
            return None;
        }
        let mut fields = Fields(bytes);
        let (next, torn, erases) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let (flags, bits) = (fields.u16()?, fields.u16()?);
        let is = |bit: u16| flags & bit != 0;
        let entry = Self {
            next,
            torn,
            erases,
            is_marked: is(MARKED),
            is_dead: is(DEAD),
            is_cut: is(CUT),
            is_weak: is(WEAK),
            is_stubborn: is(STUBBORN),
            bits,
        };
        let is_known = flags & !(MARKED | DEAD | CUT | WEAK | STUBBORN) == 0;
        (is_known && u32::from(next) <= block_pages).then_some(entry)
    }
}
