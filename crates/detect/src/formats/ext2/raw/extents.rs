//! The nodes of a tree of extents (`fs/ext4/ext4_extents.h`): a header, and entries of the same length.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The magic number of a node.
pub const EXT4_EXT_MAGIC: u16 = 0xF30A;
/// Bytes of a header, and of an entry.
pub const ENTRY_BYTES: usize = size_of::<RawExtentHeader>();
/// Greatest depth of a tree: levels between its root and its leaves.
pub const EXT4_MAX_EXTENT_DEPTH: u8 = 5;
/// Longest extent that is written. A longer one is allocated and not written yet, and shorter by this much.
const EXT_INIT_MAX_LEN: u16 = 1 << 15;

/// The header of a node (`struct ext4_extent_header`).
#[allow(missing_docs, reason = "the names are those of the specification")]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawExtentHeader {
    pub eh_magic: U16,
    pub eh_entries: U16,
    pub eh_max: U16,
    pub eh_depth: U16,
    _eh_generation: U32,
}

/// An entry of a leaf (`struct ext4_extent`).
#[allow(missing_docs, reason = "the names are those of the specification")]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawExtent {
    pub ee_block: U32,
    ee_len: U16,
    ee_start_hi: U16,
    ee_start_lo: U32,
}

/// An entry of a node above the leaves (`struct ext4_extent_idx`).
#[allow(missing_docs, reason = "the names are those of the specification")]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawExtentIndex {
    pub ei_block: U32,
    ei_leaf_lo: U32,
    ei_leaf_hi: U16,
    _ei_unused: U16,
}

const _: () = assert!(size_of::<RawExtent>() == ENTRY_BYTES && size_of::<RawExtentIndex>() == ENTRY_BYTES);

impl RawExtent {
    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u16 {
        let ee_len = self.ee_len.get();
        if self.is_written() { ee_len } else { ee_len - EXT_INIT_MAX_LEN }
    }

    /// Whether the blocks are written. Others are allocated only, and read as zeros.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.ee_len.get() <= EXT_INIT_MAX_LEN
    }

    /// The first block.
    #[must_use]
    pub fn ee_start(&self) -> u64 {
        u64::from(self.ee_start_hi) << 32 | u64::from(self.ee_start_lo)
    }
}

impl RawExtentIndex {
    /// The block of the node below.
    #[must_use]
    pub fn ei_leaf(&self) -> u64 {
        u64::from(self.ei_leaf_hi) << 32 | u64::from(self.ei_leaf_lo)
    }
}
