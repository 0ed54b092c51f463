//! The file allocation table: one entry a cluster, 0 for a free one.

use crate::input::bytes::head;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Width of the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 12 bits, two entries in three bytes.
    Fat12,
    /// 16 bits.
    Fat16,
    /// 32 bits, of which the lower 28 count.
    Fat32,
}

/// An entry, as far as the bytes at hand show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Value of the entry; bits that are not shown are 0.
    pub value: u32,
    /// All bits of the entry are shown.
    pub is_whole: bool,
}

impl Width {
    /// Bits of an entry.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }

    /// Most clusters that Linux and the specification allow.
    pub(super) fn clusters_max(self) -> u64 {
        match self {
            Self::Fat12 => 0xFF4,
            Self::Fat16 => 0xFFF4,
            Self::Fat32 => 0x0FFF_FFF6,
        }
    }

    /// The bits of entry 1 for an unmount in order, without a failed read or write.
    pub(super) fn clean_bits(self) -> u32 {
        match self {
            Self::Fat12 => 0,
            Self::Fat16 => 0xC000,
            Self::Fat32 => 0x0C00_0000,
        }
    }

    /// The entries that `bytes` of the table touch.
    pub(super) fn touched(self, bytes: &Range<u64>) -> Range<u32> {
        let first = bytes.start * 8 / self.bits();
        let end = (bytes.end * 8).div_ceil(self.bits());
        let clamp = |entry: u64| entry.min(u64::from(u32::MAX)) as u32;
        clamp(first)..clamp(end)
    }

    /// Entry `n`, as shown by `bytes` from byte `from` of the table on.
    #[must_use]
    pub fn entry(self, bytes: &[u8], from: u64, n: u32) -> Entry {
        let value = match self {
            Self::Fat12 => return twelve(bytes, from, n),
            Self::Fat16 => aligned::<U16>(bytes, from, n).map(|it| it.get().into()),
            Self::Fat32 => aligned::<U32>(bytes, from, n).map(|it| it.get() & 0x0FFF_FFFF),
        };
        Entry { value: value.unwrap_or(0), is_whole: value.is_some() }
    }
}

/// An entry of whole bytes; `None` if `bytes` show only a part of it.
fn aligned<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
    from: u64,
    n: u32,
) -> Option<&T> {
    let at = (u64::from(n) * size_of::<T>() as u64).checked_sub(from)?;
    head(bytes.get(usize::try_from(at).ok()?..)?)
}

/// Of two entries in the bytes `ab cd ef` the first is `dab`, the second `efc`.
fn twelve(bytes: &[u8], from: u64, n: u32) -> Entry {
    let first = u64::from(n) * 3 / 2;
    let byte = |at: u64| {
        let at = usize::try_from(at.checked_sub(from)?).ok()?;
        bytes.get(at).copied()
    };
    let (low, high) = (byte(first), byte(first + 1));
    let both = u32::from(low.unwrap_or(0)) | u32::from(high.unwrap_or(0)) << 8;
    let value = if n.is_multiple_of(2) { both & 0xFFF } else { both >> 4 };
    Entry { value, is_whole: low.is_some() && high.is_some() }
}

#[cfg(test)]
mod tests;
