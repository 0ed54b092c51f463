//! A purge: the next key tree, in which what is dead has fresh cells, and then the end of the old one.
//!
//! The tree is walked once, from left to right, as far as something changes. A page is written once all below it are, each under a fresh cell
//! and to the place that it does not lie in; so memory holds the pages of one path, a few that were read ahead, and a few that wait to be
//! written. The old tree stays whole until the new top cell is durable.

use crate::base::blocks::BlockSet;
use crate::base::cell::{Cell, Cells};
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::sealed::early::Early;
use crate::store::sealed::layout::{PAIR_BYTES, PageId};
use crate::store::sealed::page::{Entry, Page};
use crate::store::sealed::root;
use crate::store::sealed::tree::{Tree, damaged};
use crate::store::{Job, JobEnd, Rekey};
use std::collections::BTreeMap;
use std::ops::Range;

/// Most pages that one job writes.
const PUT_PAGES_MAX: usize = 16;
/// Most pages that one job reads.
const READ_PAGES_MAX: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Purge {
    dead: BlockSet,
    /// The cell of the half of the log that begins with this purge.
    log_cell: Cell,
    /// The pages that are being changed, from the top page down.
    path: Vec<Frame>,
    /// Sealed pages that wait to be written.
    sealed: (Vec<Place>, Vec<u8>),
    /// Pages that were read before their turn, and the sides that they lie in.
    ahead: BTreeMap<PageId, (Page, u8)>,
    /// The job that was handed out, until it is done.
    doing: Option<Doing>,
}

/// A page that is being changed.
#[derive(Debug)]
struct Frame {
    id: PageId,
    page: Page,
    /// Where the page goes.
    side: u8,
    /// The first block that was not looked at yet.
    next: u64,
}

/// A job, and what follows from its end.
#[derive(Debug)]
struct Doing {
    job: Job,
    then: Then,
}

#[derive(Debug)]
enum Then {
    /// The walk goes on.
    Nothing,
    /// These pages were read; each with its number among those below the last page of the path.
    Read(Vec<(PageId, usize)>),
    /// The new tree is in force.
    Turn,
    /// The old top cell is destroyed, at last.
    End,
}

/// What the end of a job has changed.
#[derive(Debug)]
pub(super) enum Ended {
    /// The purge goes on.
    Nothing,
    /// The tree with this top page is in force; with `is_over`, the purge is over.
    Turned { top: Page, is_over: bool },
    /// The purge is over.
    Over,
    /// The old tree has a damaged page.
    Damaged(String),
}

impl Purge {
    /// A purge of the `dead` blocks, and of what `early` has for leaves.
    pub(super) fn new(dead: BlockSet, log_cell: Cell, tree: &Tree) -> Self {
        let id = tree.layout.top();
        let top = Frame { id, page: tree.top().clone(), side: 0, next: 0 };
        Self {
            dead,
            log_cell,
            path: vec![top],
            sealed: (Vec::new(), Vec::new()),
            ahead: BTreeMap::new(),
            doing: None,
        }
    }

    /// Destroys what is left in the slot of the root that is not in use: all that is left of a purge.
    pub(super) fn remains(tree: &Tree) -> Self {
        let mut purge = Self::new(BlockSet::default(), tree.top().log_cell(), tree);
        purge.path.clear();
        purge.destroy(tree.purge);
        purge
    }

    /// Whether only the old top cell is left, which its medium would not destroy.
    pub(super) fn is_left(&self) -> bool {
        matches!(self.doing, Some(Doing { then: Then::End, .. }))
    }

    /// Number of pages in memory.
    #[cfg(test)]
    pub(super) fn pages_held(&self) -> usize {
        self.path.len() + self.sealed.0.len() + self.ahead.len()
    }

    /// The next job: the same one, until it is done.
    pub(super) fn job(&mut self, tree: &mut Tree, early: &Early, cells: &mut Cells) -> Job {
        if let Some(doing) = &self.doing {
            return doing.job.clone();
        }
        let (job, then) = loop {
            if self.sealed.0.len() >= PUT_PAGES_MAX {
                break (self.put(), Then::Nothing);
            }
            let frame = self.path.last().expect("the top page is sealed last");
            let blocks = tree.layout.blocks_of(frame.id);
            match self.next_change(frame.next.max(blocks.start)..blocks.end, early) {
                Some(block) => {
                    if let Some(pages) = self.change(block, tree, early, cells) {
                        let places = pages.iter().map(|(id, _)| tree.layout.pair(*id)).collect();
                        break (Job::Read(places), Then::Read(pages));
                    }
                }
                None if self.path.len() > 1 => self.seal(tree, cells),
                None if !self.sealed.0.is_empty() => break (self.put(), Then::Nothing),
                None => break (self.turn(tree, cells), Then::Turn),
            }
        };
        self.doing = Some(Doing { job: job.clone(), then });
        job
    }

    /// The first of `blocks` whose cell changes.
    fn next_change(&self, blocks: Range<u64>, early: &Early) -> Option<u64> {
        let extent = bytes_of(blocks);
        let dead = self.dead.first_run(extent).map(|run| run.start.0);
        let first = dead.into_iter().chain(early.first_leaving(extent)).min()?;
        Some(first / BLOCK_BYTES)
    }

    /// Whether all of these blocks are dead.
    fn are_dead(&self, blocks: Range<u64>) -> bool {
        let extent = bytes_of(blocks);
        self.dead.first_run(extent) == Some(extent)
    }

    /// Changes the entry above `block` in the last page of the path, or enters the page below it. Returns the pages to read, if that one
    /// is not in memory.
    fn change(
        &mut self,
        block: u64,
        tree: &Tree,
        early: &Early,
        cells: &mut Cells,
    ) -> Option<Vec<(PageId, usize)>> {
        let birth = tree.purge + 1;
        let id = self.path.last()?.id;
        let (_, n) = tree.layout.slot_of(block, id.level);
        let fresh = if id.level == 0 {
            Some((early.leaving(block).unwrap_or_else(|| cells.draw_key()), block + 1))
        } else {
            let below = tree.layout.blocks_of(tree.layout.child(id, n));
            let end = below.end;
            self.are_dead(below).then(|| (cells.draw_key(), end))
        };
        let frame = self.path.last_mut()?;
        if let Some((cell, next)) = fresh {
            frame.page.set(n, &Entry { cell, birth, is_stored: false });
            frame.next = next;
            return None;
        }
        let (entry, child) = (frame.page.entry(n), tree.layout.child(id, n));
        let (page, side) = if entry.is_stored {
            let cached = || tree.cache.get(child, &entry).map(|it| (it.page.clone(), it.side));
            let Some((page, side)) = self.ahead.remove(&child).or_else(cached) else {
                return Some(self.absent(child, n, tree, early));
            };
            (page, 1 - side)
        } else {
            (Page::derived(&entry.cell, entry.birth), 0)
        };
        frame.next = tree.layout.blocks_of(child).end;
        self.path.push(Frame { id: child, page, side, next: 0 });
        None
    }

    /// Page `child`, which is entry `n` of the last page of the path, and the next ones of that which will have to be read.
    fn absent(&self, child: PageId, n: usize, tree: &Tree, early: &Early) -> Vec<(PageId, usize)> {
        let mut pages = vec![(child, n)];
        let Some(frame) = self.path.last() else { return pages };
        let end = tree.layout.blocks_of(frame.id).end;
        let mut next = tree.layout.blocks_of(child).end;
        while pages.len() < READ_PAGES_MAX
            && let Some(block) = self.next_change(next..end, early)
        {
            let (_, n) = tree.layout.slot_of(block, frame.id.level);
            let (entry, child) = (frame.page.entry(n), tree.layout.child(frame.id, n));
            let below = tree.layout.blocks_of(child);
            next = below.end;
            let is_here = self.ahead.contains_key(&child) || tree.cache.get(child, &entry).is_some();
            if entry.is_stored && !is_here && !self.are_dead(below) {
                pages.push((child, n));
            }
        }
        pages
    }

    /// Seals the last page of the path, below which all is done, and names it in the page above.
    fn seal(&mut self, tree: &mut Tree, cells: &mut Cells) {
        let Frame { id, page, side, .. } = self.path.pop().expect("a page is on the path until it is sealed");
        let above = self.path.last_mut().expect("the top page is sealed last");
        let (_, n) = tree.layout.slot_of(tree.layout.blocks_of(id).start, above.id.level);
        let old = above.page.entry(n);
        let keeps = old.is_stored && mutant::is(Mutant::KeepPageCell);
        let cell = if keeps { old.cell.clone() } else { cells.draw_key() };
        let entry = Entry { cell, birth: tree.purge + 1, is_stored: true };
        self.sealed.0.push(tree.layout.side(id, side));
        self.sealed.1.extend(page.seal(&entry.cell, &tree.layout, id));
        above.page.set(n, &entry);
        // The page is in use as much as the old one was.
        if old.is_stored && tree.cache.get(id, &old).is_some() {
            tree.cache.insert(id, &entry, page, side);
        }
    }

    fn put(&mut self) -> Job {
        let (places, bytes) = std::mem::take(&mut self.sealed);
        Job::Put(places, bytes)
    }

    /// Writes the top page, then its cell, then destroys the old cell.
    fn turn(&mut self, tree: &Tree, cells: &mut Cells) -> Job {
        assert!(self.sealed.0.is_empty() && self.ahead.is_empty(), "the top page is written last");
        let [Frame { id, page, .. }] = &mut self.path[..] else { panic!("the path ends with the top page") };
        page.set_log_cell(&self.log_cell);
        let keeps = mutant::is(Mutant::KeepTop);
        let same = Cell::from_bytes(&[1; 32]).filter(|_| keeps);
        let cell = same.unwrap_or_else(|| cells.draw_key());
        let (purge, disk) = (tree.purge + 1, tree.layout.disk());
        let (new, old) = (root::slot_of(purge), root::slot_of(tree.purge));
        assert!(new != old, "the new top cell leaves the old one alone");
        Job::Turn(Rekey {
            keys: (vec![tree.other_top()], page.seal(&cell, &tree.layout, *id)),
            content: (vec![root::slot_place(new)], root::slot_bytes(disk, purge, &cell)),
            old: vec![root::area(old)],
        })
    }

    fn destroy(&mut self, purge: u32) {
        let job = Job::Destroy(vec![root::area(1 - root::slot_of(purge))]);
        self.doing = Some(Doing { job, then: Then::End });
    }

    /// Ends the job that was handed out last.
    pub(super) fn done(&mut self, end: JobEnd<'_>, tree: &Tree) -> Ended {
        let Some(Doing { job, then }) = self.doing.take() else { panic!("a job ends that was handed out") };
        match (then, end) {
            (Then::Read(pages), JobEnd::Done(bytes)) => self.read(&pages, bytes, tree),
            (Then::Nothing, JobEnd::Done(_)) => Ended::Nothing,
            (Then::End, JobEnd::Done(_)) => Ended::Over,
            (Then::Turn, JobEnd::Done(_) | JobEnd::Remains(_)) => {
                let top = self.path.pop().expect("the top page is on the path").page;
                let is_over = matches!(end, JobEnd::Done(_));
                if !is_over {
                    self.destroy(tree.purge + 1);
                }
                Ended::Turned { top, is_over }
            }
            (Then::Turn, JobEnd::GivenUp) if mutant::is(Mutant::TurnUnwritten) => {
                let top = self.path.pop().expect("the top page is on the path").page;
                Ended::Turned { top, is_over: true }
            }
            // The same one begins again: what it may have written stays as it is.
            (Then::Turn, JobEnd::GivenUp) if mutant::is(Mutant::TurnTwice) => Ended::Nothing,
            (then, JobEnd::GivenUp | JobEnd::Remains(_)) => {
                self.doing = Some(Doing { job, then });
                Ended::Nothing
            }
        }
    }

    fn read(&mut self, pages: &[(PageId, usize)], bytes: &[u8], tree: &Tree) -> Ended {
        assert!(bytes.len() as u64 == pages.len() as u64 * PAIR_BYTES, "both places of each page were read");
        let above = &self.path.last().expect("pages are read below one").page;
        for ((id, n), pair) in pages.iter().zip(bytes.chunks(PAIR_BYTES as usize)) {
            match Page::open_either(&above.entry(*n).cell, &tree.layout, *id, pair) {
                Some(opened) => self.ahead.insert(*id, opened),
                None => return Ended::Damaged(damaged(&tree.layout, *id)),
            };
        }
        Ended::Nothing
    }
}

fn bytes_of(blocks: Range<u64>) -> Extent<Addr> {
    Extent::between(blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES)
}
