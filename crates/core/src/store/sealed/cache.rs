//! Pages of the key tree in memory, each with the cell that it was opened under.
//!
//! A page is found by the birth of its cell, so that a purge can leave the pages of the next tree beside those of the present one. Pages
//! that were not used for the longest time are thrown out.

use crate::base::cell::Cell;
use crate::store::sealed::layout::{Layout, PageId};
use crate::store::sealed::page::{Entry, Page};
use std::cell;
use std::collections::BTreeMap;

/// Bytes of memory that a page takes.
pub(super) const PAGE_MEMORY_BYTES: u64 = 4400;
/// Number of pages that are kept at least: one event needs all pages of a long extent at once.
const PAGES_MIN: usize = 128;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Cache {
    pages: BTreeMap<(PageId, u32), Cached>,
    max: usize,
    clock: cell::Cell<u64>,
}

/// A page in memory.
#[derive(Debug)]
pub(super) struct Cached {
    cell: Cell,
    pub(super) page: Page,
    /// Which of its places the page lies in.
    pub(super) side: u8,
    /// When the page was used last.
    used: cell::Cell<u64>,
}

impl Cache {
    /// A cache of so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let max = usize::try_from(bytes / PAGE_MEMORY_BYTES).unwrap_or(usize::MAX).max(PAGES_MIN);
        Self { pages: BTreeMap::new(), max, clock: cell::Cell::new(0) }
    }

    /// Number of pages.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// A use of pages begins: those that it finds count as used at the same time.
    pub(super) fn tick(&self) {
        self.clock.set(self.clock.get() + 1);
    }

    /// The page below `entry`, which lies under the cell of that.
    pub(super) fn get(&self, id: PageId, entry: &Entry) -> Option<&Cached> {
        let cached = self.pages.get(&(id, entry.birth)).filter(|it| it.cell == entry.cell)?;
        cached.used.set(self.clock.get());
        Some(cached)
    }

    /// Adds a page, which lies under the cell of `entry` at this side.
    pub(super) fn insert(&mut self, id: PageId, entry: &Entry, page: Page, side: u8) {
        let used = cell::Cell::new(self.clock.get());
        self.pages.insert((id, entry.birth), Cached { cell: entry.cell.clone(), page, side, used });
        if self.pages.len() > self.max {
            self.throw_out();
        }
    }

    /// Throws out an eighth of all pages. Of pages used at the same time those lower in the tree go first.
    fn throw_out(&mut self) {
        let mut all: Vec<_> =
            self.pages.iter().map(|((id, birth), it)| (it.used.get(), *id, *birth)).collect();
        let gone = all.len() - self.max + self.max / 8;
        all.select_nth_unstable(gone - 1);
        for (_, id, birth) in &all[..gone] {
            self.pages.remove(&(*id, *birth));
        }
    }

    /// Keeps the pages of the tree below `top` alone, as far as those above them are in memory: cells that ended leave the memory.
    pub(super) fn keep(&mut self, layout: &Layout, top: &Page) {
        let mut kept: BTreeMap<PageId, u32> = BTreeMap::new();
        // Those above come before those below.
        for ((id, birth), cached) in self.pages.iter().rev() {
            let (parent, n) = layout.slot_of(layout.blocks_of(*id).start, id.level + 1);
            let above = if parent == layout.top() {
                Some(top)
            } else {
                kept.get(&parent).and_then(|birth| self.pages.get(&(parent, *birth))).map(|it| &it.page)
            };
            let entry = above.map(|page| page.entry(n));
            if entry.is_some_and(|it| it.is_stored && it.birth == *birth && it.cell == cached.cell) {
                kept.insert(*id, *birth);
            }
        }
        self.pages.retain(|(id, birth), _| kept.get(id) == Some(birth));
    }
}
