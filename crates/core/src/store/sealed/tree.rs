//! The key tree of the last purge: the cell of each block as it was then.

use crate::base::cell::Cell;
use crate::base::units::{BLOCK_BYTES, Pos};
use crate::media::place::Place;
use crate::store::sealed::cache::{Cache, PAGE_MEMORY_BYTES};
use crate::store::sealed::layout::{Layout, PAIR_BYTES, PageId};
use crate::store::sealed::page::{Entry, Page};
use crate::store::sealed::seeds::Seeds;
use std::ops::Range;

/// See the module's documentation. The top page is always in memory.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) layout: Layout,
    /// The number of the purge that wrote it.
    pub(super) purge: u32,
    top: Page,
    /// Which of its places the top page lies in.
    side: u8,
    pub(super) cache: Cache,
    /// Of leaves that are not stored.
    seeds: Seeds,
    /// The page whose last read opened under neither side, and the birth of its cell. A purge may have ended while that was read.
    failed: Option<(PageId, u32)>,
}

/// The leaf of some blocks.
enum Leaf<'a> {
    /// The page.
    Stored(&'a Page),
    /// The leaf is no page; its entries are derived from what this entry of this page has for a seed.
    Derived(&'a Page, PageId, usize),
}

impl Tree {
    pub(super) fn new(layout: Layout, purge: u32, (top, side): (Page, u8), memory_bytes: u64) -> Self {
        let seeds = Seeds::new(layout.pages(0));
        // The rest is for seeds, early cells, and what a purge has in hand.
        let cache = Cache::new(memory_bytes / 8 * 5);
        Self { layout, purge, top, side, cache, seeds, failed: None }
    }

    /// The top page.
    pub(super) fn top(&self) -> &Page {
        &self.top
    }

    /// The place of the next top page.
    pub(super) fn other_top(&self) -> Place {
        self.layout.side(self.layout.top(), 1 - self.side)
    }

    /// Bytes of memory that pages and seeds take.
    pub(super) fn bytes(&self) -> u64 {
        (self.cache.len() as u64 + 1) * PAGE_MEMORY_BYTES + self.seeds.bytes()
    }

    /// The first page that is not in memory, and has the cells of some of `blocks` or names a page that has.
    pub(super) fn missing(&self, blocks: Range<u64>) -> Option<PageId> {
        self.cache.tick();
        let mut next = blocks.start;
        while next < blocks.end {
            match self.find(next) {
                Ok((_, end)) => next = end,
                Err(missing) => return Some(missing),
            }
        }
        None
    }

    /// Calls `each` with every block of `blocks` and its cell, in order.
    ///
    /// # Panics
    /// If a page is [missing](Tree::missing).
    pub(super) fn cells(&self, blocks: Range<u64>, mut each: impl FnMut(u64, Cell)) {
        self.cache.tick();
        let mut next = blocks.start;
        while next < blocks.end {
            let (leaf_id, first) = self.layout.slot_of(next, 0);
            let (leaf, _) = self
                .find(next)
                .unwrap_or_else(|id| panic!("page {id:?} is loaded before its cells are asked for"));
            let end = self.layout.blocks_of(leaf_id).end.min(blocks.end);
            match leaf {
                Leaf::Stored(page) => {
                    (next..end).zip(first..).for_each(|(block, n)| each(block, page.entry(n).cell));
                }
                Leaf::Derived(page, above, n) => {
                    let numbers = first as u64..first as u64 + (end - next);
                    let seed =
                        self.seeds.of(leaf_id.index, || self.seed_of(next, page.entry(n).cell, above.level));
                    seed.children(numbers, |n, cell| each(next + n - first as u64, cell));
                }
            }
            next = end;
        }
    }

    /// The seed of the leaf of `block`, where `seed` is that of the subtree which a page of `level` has for it.
    fn seed_of(&self, block: u64, seed: Cell, level: u8) -> Cell {
        (1..level).rev().fold(seed, |seed, level| seed.child(self.layout.slot_of(block, level).1 as u64))
    }

    /// The leaf of `block`, and the end of the blocks for which no page is missing either; or the page that is missing.
    fn find(&self, block: u64) -> Result<(Leaf<'_>, u64), PageId> {
        let mut id = self.layout.top();
        let mut page = &self.top;
        while id.level > 0 {
            let (_, n) = self.layout.slot_of(block, id.level);
            let (entry, child) = (page.entry(n), self.layout.child(id, n));
            if !entry.is_stored {
                return Ok((Leaf::Derived(page, id, n), self.layout.blocks_of(child).end));
            }
            (id, page) = (child, &self.cache.get(child, &entry).ok_or(child)?.page);
        }
        Ok((Leaf::Stored(page), self.layout.blocks_of(id).end))
    }

    /// The entry above a page, if that page is stored, and those above it are in memory.
    fn entry_of(&self, id: PageId) -> Option<Entry> {
        let block = self.layout.blocks_of(id).start;
        let mut above = self.layout.top();
        let mut page = &self.top;
        loop {
            if above.level <= id.level {
                return None;
            }
            let (_, n) = self.layout.slot_of(block, above.level);
            let (entry, child) = (page.entry(n), self.layout.child(above, n));
            if child == id {
                return Some(entry).filter(|it| it.is_stored);
            }
            if !entry.is_stored {
                return None;
            }
            (above, page) = (child, &self.cache.get(child, &entry)?.page);
        }
    }

    /// Takes the bytes of both places of a page.
    ///
    /// # Errors
    /// What is damaged, if the cell that the tree has opens neither side for the second time.
    pub(super) fn loaded(&mut self, at: Pos, pair: &[u8]) -> Result<(), String> {
        assert!(pair.len() as u64 == PAIR_BYTES, "both places of a page were read");
        let id = self.layout.page_at(at).expect("a page was asked for");
        // The tree may be another one than it was when the page was asked for.
        let Some(entry) = self.entry_of(id) else { return Ok(()) };
        match Page::open_either(&entry.cell, &self.layout, id, pair) {
            Some((page, side)) => {
                self.failed = None;
                self.cache.insert(id, &entry, page, side);
                Ok(())
            }
            None if self.failed != Some((id, entry.birth)) => {
                self.failed = Some((id, entry.birth));
                Ok(())
            }
            None => Err(damaged(&self.layout, id)),
        }
    }

    /// The tree of the next purge is in force, of which this is the top page.
    pub(super) fn turn(&mut self, top: Page) {
        (self.top, self.side) = (top, 1 - self.side);
        self.purge += 1;
        self.cache.keep(&self.layout, &self.top);
        self.seeds.clear();
    }
}

/// What is wrong with a page whose cell opens neither of its places.
pub(super) fn damaged(layout: &Layout, id: PageId) -> String {
    let blocks = layout.blocks_of(id);
    format!(
        "page {} of level {} of the key tree, at byte {} of the file `keytree`, is damaged: bytes {} to {} of the disk cannot be read any more. Copy \
         what else can be read to another disk, with the server started --read-only, or restore a backup of the content",
        id.index,
        id.level,
        layout.pair(id).extent.start.0,
        blocks.start * BLOCK_BYTES,
        blocks.end * BLOCK_BYTES - 1
    )
}
