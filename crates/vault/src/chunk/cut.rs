//! Content-defined cutting: FastCDC (Xia et al., USENIX ATC 2016; the variant of 2020), with a
//! gear table of the vault's own.

use fastcdc::v2020::{Normalization, cut_gear, select_masks};

use super::{CHUNK_BYTES_AVERAGE, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, VaultKey};

/// Cuts the content of one file. Chunks never span two files: what is left of a forgotten file would
/// live on in the chunk of its neighbour.
#[derive(Clone)]
pub struct Cutter {
    gear: [u64; 256],
    gear_shifted: [u64; 256],
    mask_small: u64,
    mask_large: u64,
}

impl Cutter {
    /// The cutter of a vault. Without the key, the lengths of chunks tell little.
    pub fn new(key: &VaultKey) -> Cutter {
        let gear = key.gear();
        let (mask_small, mask_large) = select_masks(CHUNK_BYTES_AVERAGE, Normalization::Level1);
        Cutter { gear, gear_shifted: gear.map(|word| word << 1), mask_small, mask_large }
    }

    /// The length of the chunk that `content` begins with. `content` is the rest of the file, or its next
    /// [`CHUNK_BYTES_MAX`] bytes at least, and not empty.
    pub fn cut(&self, content: &[u8]) -> usize {
        let (_, length) = cut_gear(
            content,
            CHUNK_BYTES_MIN,
            CHUNK_BYTES_AVERAGE,
            CHUNK_BYTES_MAX,
            self.mask_small,
            self.mask_large,
            self.mask_small << 1,
            self.mask_large << 1,
            &self.gear,
            &self.gear_shifted,
        );
        length
    }
}

impl std::fmt::Debug for Cutter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Cutter")
    }
}
