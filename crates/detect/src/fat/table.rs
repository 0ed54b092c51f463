//! The file allocation table: one entry a cluster, 0 for a free one.

use crate::bytes::{u16_at, u32_at};
use std::ops::Range;

/// How wide the entries are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    /// 12 bits, two entries in three bytes.
    Fat12,
    /// 16 bits.
    Fat16,
    /// 32 bits, of which the lower 28 count.
    Fat32,
}

/// An entry as far as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Its value; bits that are not shown are 0.
    pub value: u32,
    /// All of it is shown.
    pub is_whole: bool,
}

impl Width {
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }

    /// Most clusters that Linux and the specification grant.
    pub(super) fn clusters_max(self) -> u64 {
        match self {
            Self::Fat12 => 0xFF4,
            Self::Fat16 => 0xFFF4,
            Self::Fat32 => 0x0FFF_FFF6,
        }
    }

    /// In entry 1: it was unmounted in order, and without a failed read or write.
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

    /// Entry `n`, as `bytes` show it, which begin at byte `from` of the table.
    pub(super) fn entry(self, bytes: &[u8], from: u64, n: u32) -> Entry {
        match self {
            Self::Fat12 => twelve(bytes, from, n),
            Self::Fat16 => aligned(bytes, from, n, 2, |bytes, at| u16_at(bytes, at).into()),
            Self::Fat32 => aligned(bytes, from, n, 4, |bytes, at| u32_at(bytes, at) & 0x0FFF_FFFF),
        }
    }
}

/// An entry of `width` bytes. Of one that begins before `bytes` nothing is taken.
fn aligned(bytes: &[u8], from: u64, n: u32, width: usize, get: impl Fn(&[u8], usize) -> u32) -> Entry {
    let at = (u64::from(n) * width as u64).checked_sub(from).and_then(|at| usize::try_from(at).ok());
    let at = at.filter(|at| at.checked_add(width).is_some_and(|end| end <= bytes.len()));
    at.map_or(Entry { value: 0, is_whole: false }, |at| Entry { value: get(bytes, at), is_whole: true })
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
