//! Packing: finds the last blocks of the medium, and moves them into the first free slots.

use super::map::{self, FIRST_SLOT, PAGE_BLOCKS};
use super::{Begun, Doing, Mode, Overlay, address, in_slot};
use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::store::Job;

/// Most blocks that one job moves.
const MOVES_MAX: usize = 4096;
/// Most slots at the end of the medium whose blocks are remembered at once.
const OWNERS_MAX: usize = 1 << 18;
/// Bytes of the map that one search job reads.
const SEARCH_BYTES: u64 = 1 << 20;
/// Lazy packing waits until there is more than one free slot for this many blocks.
const DENSE_SLOTS: u64 = 4096;

/// The search for the blocks that own the slots at the end of the medium.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The first block whose page is still to be searched; `None` while no search is under way.
    pub(super) next: Option<u64>,
    /// Slots and their blocks; once the search is over, in the order of the slots.
    pub(super) owners: Vec<(u64, u64)>,
    /// The map has changed since the search began.
    pub(super) is_stale: bool,
    /// The search found no block to move, and the map has not changed since it began.
    pub(super) is_vain: bool,
}

impl Overlay {
    pub(super) fn is_worth_packing(&self, all: bool) -> bool {
        if self.mode == Mode::Punch || self.search.is_vain || self.slots.clean() == 0 {
            return false;
        }
        all || self.mode == Mode::Packed || self.slots.clean() > self.allocated.blocks().len() / DENSE_SLOTS
    }

    /// Goes on with the search; returns a job if a part of the map has to be read for it.
    pub(super) fn search_on(&mut self) -> Option<Begun> {
        let dense = self.dense_slots();
        let end = self.size.div_ceil(BLOCK_BYTES);
        while let Some(next) = self.search.next {
            let rest = Extent::between((next * BLOCK_BYTES).min(self.size), self.size);
            let Some(run) = self.allocated.blocks().first_run(rest) else {
                self.search.next = None;
                self.search.owners.sort_unstable();
                return None;
            };
            let page = run.start.0 / BLOCK_BYTES / PAGE_BLOCKS;
            if self.map.has(page) {
                let blocks = page * PAGE_BLOCKS..end.min((page + 1) * PAGE_BLOCKS);
                let entries: Vec<_> = blocks.map(|block| (block, self.map.get(block))).collect();
                self.note_owners(dense, entries.into_iter());
                self.search.next = Some((page + 1) * PAGE_BLOCKS);
                continue;
            }
            let pages_max = SEARCH_BYTES / map::PAGE_BYTES;
            let absent =
                (page..page + pages_max).take_while(|it| !self.map.has(*it) && it * PAGE_BLOCKS < end);
            let last = absent.last().unwrap_or(page);
            let part = Extent::between(map::position(page), map::position(last + 1));
            assert!(part.len <= SEARCH_BYTES, "a search job reads no more than it may");
            let job = Job::Read(vec![Place { on: MediumId::Map, extent: part }]);
            return Some((Doing::Search(part), job));
        }
        None
    }

    /// Begins the next job, if there is one; with `all`, also one that gains little.
    pub(super) fn begin_job(&mut self, all: bool) -> Option<Begun> {
        if let Some(begun) = self.slots.residue_job().or_else(|| self.slots.begin_cut()) {
            return Some(begun);
        }
        if self.mode == Mode::Punch {
            return self.slots.begin_punch();
        }
        if self.search.next.is_none() && self.search.owners.is_empty() && self.is_worth_packing(all) {
            (self.search.next, self.search.is_stale) = (Some(0), false);
        }
        let begun = self.search_on().or_else(|| self.moves());
        self.search.is_vain = begun.is_none() && !self.search.is_stale;
        begun
    }

    /// Takes a part of the map that was read for the search.
    pub(super) fn searched(&mut self, part: Extent<Pos>, read: &[u8]) {
        assert_eq!(read.len() as u64, part.len, "all of the part was read");
        let (dense, first) = (self.dense_slots(), map::first_block(part.start.0));
        // The blocks of a damaged part stay where they are; whatever needs its entries is refused.
        if let Ok(entries) = self.map.parse(part.start, read) {
            self.note_owners(dense, (first..).zip(entries));
        }
        let next = map::first_block(part.end());
        assert!(self.search.next.is_none_or(|before| before < next), "a search goes on");
        self.search.next = Some(next);
    }

    /// How many slots a packed medium would have.
    pub(super) fn dense_slots(&self) -> u64 {
        self.allocated.blocks().len() + self.pending.len() as u64
    }

    pub(super) fn note_owners(&mut self, dense: u64, entries: impl Iterator<Item = (u64, u32)>) {
        let slots = entries.filter(|(_, entry)| *entry >= FIRST_SLOT);
        let last = slots
            .map(|(block, entry)| (u64::from(entry - FIRST_SLOT), block))
            .filter(|(slot, _)| *slot >= dense);
        self.search.owners.extend(last);
        if self.search.owners.len() > 2 * OWNERS_MAX {
            // The last slots are kept: another search finds the others.
            self.search.owners.sort_unstable_by(|one, other| other.cmp(one));
            self.search.owners.truncate(OWNERS_MAX);
        }
    }

    /// A job that moves the last blocks found into the first free slots.
    pub(super) fn moves(&mut self) -> Option<Begun> {
        assert!(self.search.owners.len() <= 2 * OWNERS_MAX, "no more owners are remembered than may be");
        let (mut contents, mut to) = (Vec::new(), Vec::new());
        while contents.len() < MOVES_MAX
            && let Some((slot, block)) = self.search.owners.pop()
        {
            if !self.is_allocated(block) || self.pending.contains_key(&block) {
                continue;
            }
            let Some(free) = self.slots.take_below(slot) else {
                self.search.owners.clear();
                break;
            };
            let whole = address(block);
            contents.push((slot, Extent::between(whole.start.0, whole.end().min(self.size))));
            to.push(free);
        }
        // Both in ascending order, so that adjacent slots are read and written at once.
        contents.sort_unstable_by_key(|(slot, _)| *slot);
        to.sort_unstable();
        let is_lower = to.iter().zip(&contents).all(|(to, (from, _))| to < from);
        assert!(is_lower && to.len() == contents.len(), "each block moves towards the start of the medium");
        let contents: Vec<_> = contents.into_iter().map(|(_, content)| content).collect();
        let to = to.into_iter().zip(&contents).map(|(slot, it)| in_slot(slot, *it).extent).collect();
        let begun = |to: Vec<_>| (Doing::Move(to.clone()), Job::Move { contents: contents.clone(), to });
        (!contents.is_empty()).then(|| begun(to))
    }
}

impl Search {
    /// Notes that the map has changed.
    pub(super) fn outdate(&mut self) {
        (self.is_stale, self.is_vain) = (true, false);
    }
}
