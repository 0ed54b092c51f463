//! The pages of the trees of one index: those in memory, and the space of all.

use super::node::{Node, PAGE_BYTES, PageError};
use super::{Absent, PageNo};
use crate::base::numbers::Numbered;
use roaring::RoaringBitmap;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

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
/// 3. What a head under way reaches is written as it was when the head began: a page that changes or goes meanwhile is kept
///    until it is written.
#[derive(Debug)]
pub struct Pages {
    owner: [u8; 12],
    /// The generation of the next head.
    generation: u64,
    nodes: Nodes,
    unwritten: BTreeSet<PageNo>,
    /// The changed pages of the head under way that were not taken to be written yet.
    due: BTreeSet<PageNo>,
    /// Those of them that no tree reaches any more.
    parting: BTreeMap<PageNo, Node>,
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
}

/// The pages in memory: as much memory as these need, however many the index has.
#[derive(Debug, Default)]
struct Nodes {
    /// Where each page is in `cached`.
    places: Numbered<u32, u32>,
    cached: Vec<Option<Cached>>,
    /// The places in `cached` that have no page.
    free: Vec<u32>,
    /// Where eviction goes on to look.
    hand: usize,
}

#[derive(Debug)]
struct Cached {
    page: PageNo,
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
            nodes: Nodes::default(),
            unwritten: BTreeSet::new(),
            due: BTreeSet::new(),
            parting: BTreeMap::new(),
            taken: BTreeSet::new(),
            free: RoaringBitmap::new(),
            released: Vec::new(),
            releasing: Vec::new(),
            end: PageNo(HEADS),
            room: PageNo(0),
        }
    }

    /// Notes the pages that the trees [reach](super::Tree::reach): the others are free.
    pub fn found(&mut self, used: &RoaringBitmap) {
        assert!(self.unwritten.is_empty() && self.released.is_empty(), "pages are found before any changes");
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
        if self.nodes.get(page).is_none() && !is_unreached && !self.free.contains(page.0) {
            self.nodes.put(page, node);
        }
        Ok(())
    }

    /// The fault of a page that was read from the medium; `None` if it has none, or if nothing durable reaches it.
    #[must_use]
    pub fn fault(&self, page: PageNo, bytes: &[u8]) -> Option<PageError> {
        let is_used = page.0 >= HEADS && page < self.end && !self.free.contains(page.0);
        let read = (is_used && self.is_written(page))
            .then(|| Node::from_bytes(bytes, page, self.owner, self.generation));
        read.and_then(Result::err)
    }

    /// Whether the medium has the page as it is.
    fn is_written(&self, page: PageNo) -> bool {
        ![&self.unwritten, &self.due, &self.taken].into_iter().any(|pages| pages.contains(&page))
    }

    /// The page, which was found on the way down.
    fn node(&self, page: PageNo) -> &Node {
        &self.nodes.get(page).expect("the page is in memory").node
    }

    pub(super) fn get(&self, page: PageNo) -> Result<&Node, Absent> {
        let cached = self.nodes.get(page).ok_or(Absent(page))?;
        cached.used.set(true);
        Ok(&cached.node)
    }

    /// The page, which is in memory and was [made changeable](Pages::own).
    pub(super) fn get_mut(&mut self, page: PageNo) -> &mut Node {
        self.unwritten.insert(page);
        let cached = self.nodes.get_mut(page).expect("the page was found on the way down");
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
        self.nodes.put(page, node);
        self.unwritten.insert(page);
        page
    }

    /// Frees a page that its tree does not reach any more.
    pub(super) fn release(&mut self, page: PageNo) {
        let Cached { node, .. } = self.nodes.remove(page).expect("a page is released while it is in memory");
        self.unwritten.remove(&page);
        self.taken.remove(&page);
        if node.generation() == self.generation {
            let is_news = self.free.insert(page.0);
            assert!(is_news, "a page is freed once");
        } else {
            self.released.push(page);
        }
        if self.due.contains(&page) {
            self.parting.insert(page, node);
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
        let lacks = self.spare() < needed;
        assert!(!lacks || u64::from(self.room.0) < end, "what lacks space lies behind what has it");
        lacks.then_some((self.room, end))
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
    /// These pages can be written at any time before the next head begins.
    pub fn take_writes(&mut self, max: usize) -> Vec<(u64, Vec<u8>)> {
        let taken: Vec<_> = self.unwritten.iter().copied().take(max).collect();
        taken.into_iter().map(|page| self.take_write(page)).collect()
    }

    /// The same of the pages that the head under way reaches.
    pub fn take_due(&mut self, max: usize) -> Vec<(u64, Vec<u8>)> {
        let taken: Vec<_> = self.due.iter().copied().take(max).collect();
        taken.into_iter().map(|page| self.take_write(page)).collect()
    }

    fn take_write(&mut self, page: PageNo) -> (u64, Vec<u8>) {
        assert!(page.0 >= HEADS && page < self.end, "a page lies behind the heads");
        let owner = self.owner;
        let is_due = self.due.remove(&page);
        if let Some(node) = self.parting.remove(&page) {
            return (page.position(), node.to_bytes(page, owner));
        }
        self.unwritten.remove(&page);
        self.taken.insert(page);
        let node = self.node(page);
        assert!(
            !is_due || node.generation() < self.generation,
            "what changes meanwhile is no part of a head"
        );
        (page.position(), node.to_bytes(page, owner))
    }

    /// How many pages of the head under way were not [taken](Pages::take_due) yet.
    #[must_use]
    pub fn due(&self) -> usize {
        self.due.len()
    }

    /// Begins the next head: returns its generation. From now on every page that the head reaches is kept, and
    /// what changes goes into the head after it. One head at a time.
    ///
    /// # Panics
    /// If another head is under way.
    pub fn begin_head(&mut self) -> u64 {
        assert!(self.releasing.is_empty() && self.due.is_empty(), "one head at a time");
        assert!(self.parting.is_empty(), "pages that went are written with the head that reaches them");
        self.due = std::mem::take(&mut self.unwritten);
        self.releasing = std::mem::take(&mut self.released);
        self.generation += 1;
        self.generation - 1
    }

    /// Notes that the head is durable: returns the pages that are free from now on.
    ///
    /// # Panics
    /// If a changed page was not taken to be written.
    pub fn end_head(&mut self) -> Vec<PageNo> {
        assert!(self.due.is_empty() && self.parting.is_empty(), "a head follows the pages that it reaches");
        let (nodes, next) = (&self.nodes, self.generation);
        self.taken.retain(|page| nodes.get(*page).is_some_and(|it| it.node.generation() == next));
        let freed = std::mem::take(&mut self.releasing);
        for page in &freed {
            let is_news = self.free.insert(page.0);
            assert!(is_news, "a page is freed once");
            assert!(self.nodes.get(*page).is_none(), "a page that no head reaches is not in memory");
        }
        freed
    }

    /// Gives the head up, whose pages could not all be written: the next head does what it was for, and goes
    /// to the same place. The other place has the durable head. All its pages are to be written again.
    pub fn abort_head(&mut self) {
        self.released.append(&mut self.releasing);
        for gone in std::mem::take(&mut self.parting).into_keys() {
            self.due.remove(&gone);
        }
        self.unwritten.append(&mut self.due);
        self.unwritten.append(&mut self.taken);
        let is_there = |page: &PageNo| self.nodes.get(*page).is_some();
        assert!(self.unwritten.iter().all(is_there), "what no durable head reaches stays in memory");
        self.generation += 1;
    }

    /// Whether all pages that the trees reach are in memory: then no page is [absent](Absent).
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let unreached = self.free.len() + (self.released.len() + self.releasing.len()) as u64;
        // Before the pages that are used were found, no page is known.
        self.end.0 > HEADS && self.nodes.len() as u64 + unreached == u64::from(self.end.0 - HEADS)
    }

    /// How many pages are in memory.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.nodes.len() + self.parting.len()
    }

    /// Bytes of all pages in use, and of the heads.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.used() * PAGE_BYTES as u64
    }

    /// Evicts leaves that were not used since they were last looked at, until at most `max` pages are in memory. More stay where
    /// all are used: a request that needs many pages at once gets them one by one.
    pub fn evict(&mut self, max: usize) {
        for _ in 0..self.nodes.cached.len() {
            if self.in_memory() <= max {
                return;
            }
            let Some(cached) = self.nodes.next() else { continue };
            let (page, is_leaf) = (cached.page, cached.node.level() == 0);
            if !cached.used.take() && is_leaf && self.is_written(page) {
                self.nodes.remove(page);
            }
        }
    }
}

impl Nodes {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, page: PageNo) -> Option<&Cached> {
        self.cached[*self.places.get(&page.0)? as usize].as_ref()
    }

    fn get_mut(&mut self, page: PageNo) -> Option<&mut Cached> {
        self.cached[*self.places.get(&page.0)? as usize].as_mut()
    }

    fn put(&mut self, page: PageNo, node: Node) {
        let cached = Some(Cached { page, node, used: Cell::new(true) });
        let place = match self.free.pop() {
            Some(place) => {
                assert!(self.cached[place as usize].is_none(), "a free place has no page");
                self.cached[place as usize] = cached;
                place
            }
            None => {
                self.cached.push(cached);
                self.cached.len() as u32 - 1
            }
        };
        let before = self.places.insert(page.0, place);
        assert!(before.is_none(), "a page is in memory once");
        assert!(
            self.places.len() + self.free.len() == self.cached.len(),
            "each place has a page, or is free"
        );
    }

    fn remove(&mut self, page: PageNo) -> Option<Cached> {
        let place = self.places.remove(&page.0)?;
        self.free.push(place);
        let cached = self.cached[place as usize].take();
        assert!(cached.as_ref().is_some_and(|it| it.page == page), "each place has the page that it is for");
        assert!(
            self.places.len() + self.free.len() == self.cached.len(),
            "each place has a page, or is free"
        );
        cached
    }

    /// The page that eviction looks at next, if there is one at its place.
    fn next(&mut self) -> Option<&Cached> {
        self.hand = (self.hand + 1) % self.cached.len();
        self.cached[self.hand].as_ref()
    }
}

/// The first bytes of the disk's identity.
fn owner(disk: [u8; 16]) -> [u8; 12] {
    disk[..12].try_into().expect("twelve bytes")
}
