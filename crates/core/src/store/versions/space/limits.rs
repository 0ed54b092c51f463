//! How much of what the store knows is in memory at most.
//!
//! Nine sixteenths of the memory are pages of the index, and one sixteenth is cells of the root. A quarter is stubs that have no home yet: with half as many the index is due
//! to be written, which brings them home, and with all of them writes wait for that. The rest is for what is on its way to the
//! media: batches of a checkpoint, and commits.

use crate::tree::PAGE_BYTES;

/// Memory of a stub that has no home yet, in bytes, wherever it is noted.
const STUB_BYTES: u64 = 256;
/// Fewest pages of the index: those that one change may need, and all inner ones of a small disk.
const PAGES_MIN: u64 = 64;
/// Fewest stubs.
const STUBS_MIN: u64 = 64;

/// See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Limits {
    /// Pages of the index in memory.
    pub(in super::super) pages: usize,
    /// Changed pages of the index, with which it is due to be written.
    pub(in super::super) changed: usize,
    /// Pages of homes, or of the index, in one batch of a checkpoint.
    pub(in super::super) batch: usize,
    /// Stubs that have no home yet.
    pub(in super::super) stubs: usize,
    /// Bytes of cells that can be read again.
    pub(in super::super) cells: usize,
}

impl Limits {
    /// The limits for a store that may have so much memory.
    pub(in super::super) fn of(bytes: u64) -> Self {
        let pages = (bytes / 16 * 9 / PAGE_BYTES as u64).max(PAGES_MIN);
        let stubs = (bytes / 4 / STUB_BYTES).max(STUBS_MIN);
        let [changed, batch] = [pages / 4, pages / 40].map(|pages| pages as usize);
        let cells = (bytes / 16) as usize;
        assert!(batch > 0 && changed >= batch, "a batch has a page, and what is due has a batch");
        Self { pages: pages as usize, changed, batch, stubs: stubs as usize, cells }
    }

    /// With so many stubs in memory the index is due to be written.
    pub(in super::super) fn many_stubs(self) -> usize {
        self.stubs / 2
    }

    /// With so many entries the log is due to be written, which has to have all of a commit in memory.
    pub(in super::super) fn pending(self) -> usize {
        self.stubs / 8
    }
}

#[cfg(test)]
mod tests {
    use crate::store::versions::space::limits::*;

    #[test]
    fn pages_cells_and_stubs_have_seven_eighths_of_the_memory_and_a_little_one_has_the_least() {
        let Limits { pages, changed, batch, stubs, cells } = Limits::of(64 << 20);
        assert_eq!((pages * PAGE_BYTES, stubs * 256, cells), (36 << 20, 16 << 20, 4 << 20));
        assert!(changed < pages && (900 << 10..=1 << 20).contains(&(batch * PAGE_BYTES)));
        assert_eq!(Limits::of(0), Limits { pages: 64, changed: 16, batch: 1, stubs: 64, cells: 0 });
    }
}
