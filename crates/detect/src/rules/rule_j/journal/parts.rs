//! Blocks of the journal written in parts.

use std::collections::BTreeMap;

/// Bytes that a disk writes at once.
const SECTOR_BYTES: u64 = 512;
/// Most blocks with some sectors.
const BLOCKS_MAX: usize = 1 << 16;

/// Sectors of each block that have arrived, a bit each. The largest block has 128.
#[derive(Debug, Default)]
pub(in super::super) struct Parts(BTreeMap<u32, u128>);

impl Parts {
    /// Notes that the bytes from `start` up to `end` of block `index` have arrived, of a block of
    /// `block_bytes`. Returns whether the block is complete.
    pub(in super::super) fn arrived(&mut self, index: u32, start: u64, end: u64, block_bytes: u64) -> bool {
        if self.0.len() >= BLOCKS_MAX {
            self.clear();
        }
        let sectors = self.0.entry(index).or_default();
        *sectors |= below(end / SECTOR_BYTES) & !below(start.div_ceil(SECTOR_BYTES));
        let is_whole = *sectors == below(block_bytes / SECTOR_BYTES);
        if is_whole {
            self.0.remove(&index);
        }
        is_whole
    }

    /// Drops the parts of `index`: its next content shares none of them.
    pub(in super::super) fn forget(&mut self, index: u32) {
        self.0.remove(&index);
    }

    pub(in super::super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The first `count` sectors.
fn below(count: u64) -> u128 {
    1_u128.checked_shl(count as u32).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use crate::rules::rule_j::journal::parts::*;

    #[test]
    fn a_block_has_arrived_when_all_its_sectors_have() {
        let all = [(7, 0, 512), (7, 0, 512), (8, 512, 1024), (7, 512, 1024), (7, 512, 1024)];
        for (what, block_bytes, arrive, completes) in [
            ("two sectors, twice, beside another block", 1024, &all[..], 3),
            ("a sector of which a part arrives", 1024, &[(1, 0, 700), (1, 700, 1024), (1, 512, 1024)], 2),
            ("the largest block", 65_536, &[(1, 0, 65_535), (1, 65_024, 65_536)], 1),
        ] {
            let mut parts = Parts::default();
            for (n, (index, start, end)) in arrive.iter().enumerate() {
                let is_whole = parts.arrived(*index, *start, *end, block_bytes);
                assert_eq!(is_whole, n == completes, "{what}: {n}");
            }
        }
    }
}
