//! How much of the map is in memory.

use super::Overlay;
use super::map::PAGE_BLOCKS;
use std::collections::BTreeSet;

impl Overlay {
    /// How many pages of the map may stay in memory: half a byte for each block, and 16 MiB, the whole map of 16 GiB.
    fn pages_max(&self) -> usize {
        4096 + 2 * self.allocated_share()
    }

    /// How many pages of the map may wait for the next checkpoint before it is due. A guest that writes anywhere changes
    /// a page with each write, and each checkpoint syncs all that the guest has written.
    pub(super) fn changed_pages_max(&self) -> usize {
        1024 + self.allocated_share()
    }

    /// One page for each 16,384 allocated blocks.
    fn allocated_share(&self) -> usize {
        (self.allocated.blocks().len() / (16 * PAGE_BLOCKS)) as usize
    }

    /// Drops durable pages of the map from memory, if there are too many.
    pub(super) fn throw_out(&mut self) {
        if self.map.resident() >= self.pages_max() {
            let pending: BTreeSet<_> = self.pending.keys().map(|block| block / PAGE_BLOCKS).collect();
            self.map.throw_out(&pending);
        }
    }
}
