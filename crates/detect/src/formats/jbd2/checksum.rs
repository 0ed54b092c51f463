//! The checksums of a journal: CRC-32C without a final inversion, seeded with the CRC of the
//! journal's UUID.

use crate::formats::jbd2::Tid;
use crate::input::bytes::head;
use crate::mutant::{self, Mutant};
use zerocopy::big_endian::U32;

/// Form of the checksums of blocks and tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// No checksums.
    No,
    /// Blocks of the log have checksums; tags have the lower half of one (`csum_v2`).
    V2 {
        /// The CRC of the UUID of the journal.
        seed: u32,
    },
    /// Blocks of the log have checksums; tags have a whole one (`csum_v3`).
    V3 {
        /// The CRC of the UUID of the journal.
        seed: u32,
    },
}

/// Continues `crc` over `bytes`.
pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!crc, bytes)
}

/// The checksum of `bytes`, where the four at `hole` count as zeros.
pub(super) fn with_hole(seed: u32, bytes: &[u8], hole: usize) -> u32 {
    let (before, rest) = bytes.split_at(hole.min(bytes.len()));
    let after = rest.get(4..).unwrap_or_default();
    crc32c(crc32c(crc32c(seed, before), &[0; 4]), after)
}

impl Checksums {
    fn seed(self) -> Option<u32> {
        match self {
            Self::No => None,
            Self::V2 { seed } | Self::V3 { seed } => Some(seed),
        }
    }

    pub(crate) fn are_on(self) -> bool {
        self != Self::No
    }

    /// Whether `block` has its own checksum at `at`, where one is required.
    pub(super) fn hold(self, block: &[u8], at: usize) -> bool {
        let found = block.get(at..).and_then(head::<U32>);
        self.seed().is_none_or(|seed| {
            mutant::is(Mutant::ChecksumIgnored) || found.is_some_and(|it| *it == with_hole(seed, block, at))
        })
    }

    /// Whether `content`, as it lies in the log, matches the checksum of its tag.
    pub(super) fn holds_tagged(self, tid: Tid, content: &[u8], checksum: u32) -> bool {
        let of = |seed| crc32c(crc32c(seed, &tid.0.to_be_bytes()), content);
        match self {
            _ if mutant::is(Mutant::ChecksumIgnored) => true,
            Self::No => true,
            Self::V2 { seed } => of(seed) & 0xFFFF == checksum,
            Self::V3 { seed } => of(seed) == checksum,
        }
    }
}
