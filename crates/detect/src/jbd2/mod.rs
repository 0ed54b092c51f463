//! The journal of ext3 and ext4 as it lies on the disk.
//!
//! What is read and relied on: `docs/formats/jbd2.md`. Parsers only: what the
//! journal's content means is rule J's.

mod checksum;
pub(crate) mod record;
pub(crate) mod superblock;

pub(crate) use checksum::Checksums;

/// What every block of the log's own begins with.
pub(crate) const MAGIC: u32 = 0xC03B_3998;

/// The sequence number of a transaction. They go round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tid(pub(crate) u32);

impl Tid {
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether it comes before `other`, by the shorter way round.
    pub(crate) fn is_before(self, other: Self) -> bool {
        self != other && other.0.wrapping_sub(self.0) < 1 << 31
    }
}

/// The big-endian number of four bytes at `at`; what is missing reads as zero.
fn be32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u32::from_be_bytes(*it))
}

/// The big-endian number of two bytes at `at`.
fn be16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u16::from_be_bytes(*it))
}

#[cfg(test)]
mod tests;
