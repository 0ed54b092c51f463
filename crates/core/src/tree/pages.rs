//! The pages of the trees of one index: those in memory, and the space of all.

use super::node::{Node, PAGE_BYTES, PageError};
use super::{Absent, PageNo};
use roaring::RoaringBitmap;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Pages before the first page of a tree: two heads.
pub const HEADS: u32 = 2;
/// The most pages that an index can have.
const PAGES_MAX: u32 = u32::MAX;

/// The pages of an index.
///
/// Invariants:
/// 1. A page that the durable head can reach is never changed, and never used for something else: a change
///    goes to a copy in a free page. A page written since the durable head has the generation of the next
///    head, and can be changed where it is.
/// 2. Inner pages stay in memory, and so do pages until a durable head reaches them.
#[derive(Debug)]
pub struct Pages {
    owner: [u8; 12],
    /// The generation of the next head.
    generation: u64,
    /// By number: the pages in memory.
    nodes: Vec<Option<Cached>>,
    /// How many pages are in memory.
    in_memory: usize,
    unwritten: BTreeSet<PageNo>,
    /// Pages that were taken to be written, and that no durable head reaches yet: the medium may refuse them.
    taken: BTreeSet<PageNo>,
    free: RoaringBitmap,
    /// Pages that an earlier head reaches, and the next one does not.
    released: Vec<PageNo>,
    /// Such pages of the head that is being made durable.
    releasing: Vec<PageNo>,
    /// The first page behind all that were ever used.
    end: PageNo,
    /// All pages before this one have space on the host.
    room: PageNo,
    /// Where eviction goes on to look.
    hand: usize,
}

#[derive(Debug)]
struct Cached {
    node: Node,
    /// Whether the page was used since eviction last looked at it.
    used: Cell<bool>,
}

impl Pages {
    /// The pages of an index of `disk` whose last head had `generation`. No page is free until all that are
    /// used were [found](Pages::found).
    #[must_use]
    pub fn new(disk: [u8; 16], generation: u64) -> Self {
        Self {
            owner: owner(disk),
            generation: generation + 1,
            nodes: Vec::new(),
            in_memory: 0,
            unwritten: BTreeSet::new(),
            taken: BTreeSet::new(),
            free: RoaringBitmap::new(),
            released: Vec::new(),
            releasing: Vec::new(),
            end: PageNo(HEADS),
            room: PageNo(0),
            hand: 0,
        }
    }

    /// Notes the pages that the trees [reach](super::Tree::reach): the others are free.
    pub fn found(&mut self, used: &RoaringBitmap) {
        let end = used.max().map_or(HEADS, |last| last + 1);
        self.free.clear();
        self.free.insert_range(HEADS..end);
        self.free -= used;
        self.end = PageNo(end);
    }

    /// Takes a page that was [absent](Absent), as it was read.
    ///
    /// # Errors
    /// The bytes are not that page.
    pub fn loaded(&mut self, page: PageNo, bytes: &[u8]) -> Result<(), PageError> {
        let node = Node::from_bytes(bytes, page, self.owner, self.generation)?;
        let is_unreached = [&self.released, &self.releasing].into_iter().any(|pages| pages.contains(&page));
        // Meanwhile the page may have been read a second time, changed, and released.
        if self.cached(page).is_none() && !is_unreached && !self.free.contains(page.0) {
            self.put(page, node);
        }
        Ok(())
    }

    /// The fault of a page that was read from the medium; none if it has none, or if nothing durable reaches it.
    #[must_use]
    pub fn fault(&self, page: PageNo, bytes: &[u8]) -> Option<PageError> {
        let is_used = page.0 >= HEADS && page < self.end && !self.free.contains(page.0);
        let is_durable = is_used && !self.unwritten.contains(&page) && !self.taken.contains(&page);
        let read = is_durable.then(|| Node::from_bytes(bytes, page, self.owner, self.generation));
        read.and_then(Result::err)
    }

    fn put(&mut self, page: PageNo, node: Node) {
        let at = page.0 as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, || None);
        }
        self.nodes[at] = Some(Cached { node, used: Cell::new(true) });
        self.in_memory += 1;
    }

    fn cached(&self, page: PageNo) -> Option<&Cached> {
        self.nodes.get(page.0 as usize)?.as_ref()
    }

    /// The page, which was found on the way down.
    fn node(&self, page: PageNo) -> &Node {
        &self.cached(page).expect("the page is in memory").node
    }

    fn remove(&mut self, page: PageNo) -> Option<Cached> {
        let cached = self.nodes.get_mut(page.0 as usize)?.take()?;
        self.in_memory -= 1;
        Some(cached)
    }

    pub(super) fn get(&self, page: PageNo) -> Result<&Node, Absent> {
        let cached = self.cached(page).ok_or(Absent(page))?;
        cached.used.set(true);
        Ok(&cached.node)
    }

    /// The page, which is in memory and was [made changeable](Pages::own).
    pub(super) fn get_mut(&mut self, page: PageNo) -> &mut Node {
        self.unwritten.insert(page);
        let cached = self.nodes[page.0 as usize].as_mut().expect("the page was found on the way down");
        assert!(cached.node.generation() == self.generation, "a page that the durable head reaches is kept");
        &mut cached.node
    }

    /// Makes a page changeable: returns its number from now on.
    pub(super) fn own(&mut self, page: PageNo) -> PageNo {
        let node = self.node(page);
        if node.generation() == self.generation {
            return page;
        }
        let copy = node.clone();
        self.release(page);
        self.add(copy)
    }

    /// Adds a new page.
    pub(super) fn add(&mut self, mut node: Node) -> PageNo {
        node.set_generation(self.generation);
        let page = match self.free.min() {
            Some(page) => PageNo(page),
            None => self.end,
        };
        if !self.free.remove(page.0) {
            assert!(page.0 < PAGES_MAX, "an index has at most {PAGES_MAX} pages");
            self.end = PageNo(page.0 + 1);
        }
        self.put(page, node);
        self.unwritten.insert(page);
        page
    }

    /// Frees a page that its tree does not reach any more.
    pub(super) fn release(&mut self, page: PageNo) {
        let cached = self.remove(page).expect("a page is released while it is in memory");
        self.unwritten.remove(&page);
        self.taken.remove(&page);
        if cached.node.generation() == self.generation {
            self.free.insert(page.0);
        } else {
            self.released.push(page);
        }
    }

    /// Notes that all pages before `page` have space on the host.
    pub fn reserved(&mut self, page: PageNo) {
        self.room = self.room.max(page);
    }

    /// The part of the medium that lacks space so that `needed` pages are [spare](Pages::spare): from the first page to
    /// the one behind the last.
    #[must_use]
    pub fn lacking(&self, needed: u64) -> Option<(PageNo, u64)> {
        let end = (self.used() + needed).max(u64::from(self.end.0));
        (self.spare() < needed).then_some((self.room, end))
    }

    /// Whether it is known where pages have space on the host.
    #[must_use]
    pub fn knows_room(&self) -> bool {
        self.room > PageNo(0)
    }

    /// How many pages changes can take before the next head is durable, and have space on the host.
    #[must_use]
    pub fn spare(&self) -> u64 {
        let free =
            if self.room < self.end { self.free.range_cardinality(..self.room.0) } else { self.free.len() };
        free + u64::from(self.room.0.saturating_sub(self.end.0))
    }

    /// How many pages come back with the next head.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released.len() as u64
    }

    /// How many pages the trees have, changed ones twice.
    #[must_use]
    pub fn used(&self) -> u64 {
        u64::from(self.end.0) - self.free.len()
    }

    /// How many changed pages were not taken to be written.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Takes the writes of at most `max` changed pages, ascending: the position of each, and its bytes.
    /// These pages can be written at any time before the next head.
    pub fn take_writes(&mut self, max: usize) -> Vec<(u64, Vec<u8>)> {
        let taken: Vec<_> = self.unwritten.iter().copied().take(max).collect();
        let write = |page: PageNo| {
            self.unwritten.remove(&page);
            self.taken.insert(page);
            (page.position(), self.node(page).to_bytes(page, self.owner))
        };
        taken.into_iter().map(write).collect()
    }

    /// Begins the next head: returns its generation. From now on every page that the head reaches is kept, and
    /// what changes goes into the head after it. One head at a time.
    ///
    /// # Panics
    /// If a changed page was not taken to be written.
    pub fn begin_head(&mut self) -> u64 {
        assert!(self.unwritten.is_empty(), "a head follows the pages that it reaches");
        assert!(self.releasing.is_empty(), "one head at a time");
        self.releasing = std::mem::take(&mut self.released);
        self.generation += 1;
        self.generation - 1
    }

    /// Notes that the head is durable: returns the pages that are free from now on.
    pub fn end_head(&mut self) -> Vec<PageNo> {
        let (nodes, next) = (&self.nodes, self.generation);
        let is_of_next = |page: &PageNo| {
            nodes[page.0 as usize].as_ref().is_some_and(|cached| cached.node.generation() == next)
        };
        self.taken.retain(is_of_next);
        let freed = std::mem::take(&mut self.releasing);
        freed.iter().for_each(|page| _ = self.free.insert(page.0));
        freed
    }

    /// Gives the head up, whose pages could not all be written: the next head does what it was for, and goes
    /// to the same place. The other place has the durable head. All its pages are to be written again.
    pub fn abort_head(&mut self) {
        self.released.append(&mut self.releasing);
        self.unwritten.append(&mut self.taken);
        self.generation += 1;
    }

    /// Whether all pages that the trees reach are in memory: then none is [absent](Absent).
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let unreached = self.free.len() + (self.released.len() + self.releasing.len()) as u64;
        // Before the pages that are used were found, none is known.
        self.end.0 > HEADS && self.in_memory as u64 + unreached == u64::from(self.end.0 - HEADS)
    }

    /// How many pages are in memory.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.in_memory
    }

    /// Bytes of all pages in use, and of the heads.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.used() * PAGE_BYTES as u64
    }

    /// Evicts leaves that were not used lately until at most `max` pages are in memory, or no more can be
    /// evicted.
    pub fn evict(&mut self, max: usize) {
        for _ in 0..2 * self.nodes.len() {
            if self.in_memory <= max {
                return;
            }
            self.hand = (self.hand + 1) % self.nodes.len();
            let page = PageNo(self.hand as u32);
            let Some(cached) = self.cached(page) else { continue };
            let is_written = !self.unwritten.contains(&page) && !self.taken.contains(&page);
            if !cached.used.take() && cached.node.level() == 0 && is_written {
                self.remove(page);
            }
        }
    }
}

/// The first bytes of the disk's identity.
fn owner(disk: [u8; 16]) -> [u8; 12] {
    disk[..12].try_into().expect("twelve bytes")
}
