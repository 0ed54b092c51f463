//! The journal of ext3 and ext4 as it lies on the disk.
//!
//! The structures read, and the behaviour relied on: `docs/formats/jbd2.md`. Parsers only: rule J
//! gives the journal's content its meaning.

mod checksum;
pub mod record;
pub mod superblock;

pub use checksum::Checksums;

use crate::input::bytes::head;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic number of the log's own blocks.
pub const MAGIC: u32 = 0xC03B_3998;

/// The sequence number of a transaction, which wraps around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tid(pub u32);

impl Tid {
    /// The number of the transaction that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether `self` comes before `other`, by the shorter way round.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self != other && other.0.wrapping_sub(self.0) < 1 << 31
    }
}

/// The header of the log's own blocks, as it lies on the disk (named, as the other structures, as
/// in `include/linux/jbd2.h`).
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    h_magic: U32,
    h_blocktype: U32,
    h_sequence: U32,
}

impl RawHeader {
    /// The header of `block`, if it claims to be one of the log's own.
    fn from_bytes(block: &[u8]) -> Option<&Self> {
        head::<Self>(block).filter(|it| it.h_magic == MAGIC)
    }
}

#[cfg(test)]
pub(crate) mod tests;
