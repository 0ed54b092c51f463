//! Which states are one: cells and contents are named by the order in which the state mentions them, slots and halves by whether they are
//! the present root's. Contents that no sector can show again are told apart by their block, their fate, and where they open.

use super::judge::Judge;
use super::page::Page;
use super::state::{Block, CellId, Content, Entry, Fate, Root};
use super::{Server, places};
use std::collections::BTreeSet;
use std::collections::hash_map::{DefaultHasher, Entry as Named, HashMap};
use std::hash::{Hash, Hasher};

/// A hash of a state.
pub(super) type Key = u128;

/// Writes a state as numbers.
#[derive(Default)]
struct Writer {
    out: Vec<u32>,
    cells: HashMap<CellId, u32>,
    cells_in_order: Vec<CellId>,
    contents: HashMap<Content, u32>,
    contents_in_order: Vec<Content>,
}

impl Writer {
    fn put(&mut self, it: impl Into<u32>) {
        self.out.push(it.into());
    }

    fn flags(&mut self, all: &[bool]) {
        let bits = all.iter().fold(1, |bits, it| bits << 1 | u32::from(*it));
        self.put(bits);
    }

    fn cell(&mut self, cell: CellId) {
        let next = self.cells_in_order.len() as u32 + 1;
        let name = match self.cells.entry(cell) {
            Named::Occupied(it) => *it.get(),
            Named::Vacant(it) => {
                self.cells_in_order.push(cell);
                *it.insert(next)
            }
        };
        self.put(name);
    }

    fn content(&mut self, content: Content) {
        if content == 0 {
            return self.put(0_u32);
        }
        let next = self.contents_in_order.len() as u32 + 1;
        let name = match self.contents.entry(content) {
            Named::Occupied(it) => *it.get(),
            Named::Vacant(it) => {
                self.contents_in_order.push(content);
                *it.insert(next)
            }
        };
        self.put(name);
    }
}

/// The key of a state of the page, and of what the judge has noted.
pub(super) fn key(page: &Page, judge: &Judge) -> Key {
    let mut to = Writer::default();
    to.put(match page.server {
        Server::Up => 0,
        Server::Refused => 1,
        Server::Down(done) => 2 + u32::from(done),
    });
    for number in 0..page.blocks.len() {
        block(&mut to, page, judge, number);
    }
    under_way(&mut to, page, judge);
    for half in [page.at, 1 - page.at] {
        let logs = [0, 1].map(|nth| page.map & places::log(half, nth) != 0);
        to.flags(&logs);
        match &page.roots[half] {
            None => to.put(0_u32),
            Some(it) => root(&mut to, page, it),
        }
    }
    to.put(page.map & (places::leaf(0) | places::leaf(1) | places::TOP));
    to.put(page.slot);
    table(&mut to, page);
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &to.out).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    hash(0) << 64 | hash(1)
}

fn block(to: &mut Writer, page: &Page, judge: &Judge, number: usize) {
    let it: &Block = &page.blocks[number];
    to.flags(&[it.is_dead, it.is_owed, it.owes_anew, it.is_early, it.is_touched]);
    if it.is_dead && !it.is_early || page.server != Server::Up {
        to.put(0_u32);
    } else {
        to.cell(it.cell);
    }
    let (written, put) = it.writing.unwrap_or_default();
    to.content(written);
    to.put(put as u32);
    let rewritten = page.rewrite.as_ref().filter(|it| it.block == number).map(|it| it.content);
    let staged = page.staged.filter(|it| it.0 == number).map(|it| it.1);
    for (sector, may) in judge.may[number].iter().enumerate() {
        let can_show = [it.newest[sector], it.settled[sector], written];
        to.content(it.newest[sector]);
        to.content(it.settled[sector]);
        let can_show: Vec<_> = can_show.into_iter().chain(rewritten).chain(staged).chain([0]).collect();
        for content in may.iter().filter(|it| can_show.contains(it)) {
            to.content(*content);
            to.put(judge.flush.as_ref().map_or(0, |it| 1 + u32::from(*content > it.since)));
        }
        to.put(u32::MAX);
        let shown = judge.flush.as_ref().and_then(|it| it.shown[number][sector]);
        match shown.filter(|it| may.contains(it) && can_show.contains(it)) {
            Some(shown) => to.content(shown),
            None => to.put(u32::MAX - u32::from(shown.is_some_and(|it| may.contains(&it)))),
        }
    }
}

fn under_way(to: &mut Writer, page: &Page, judge: &Judge) {
    let (block, content) = page.staged.unwrap_or_default();
    to.put(block as u32);
    to.content(content);
    to.put(page.flush.as_ref().map_or(0, |it| u32::from(it.done)));
    to.put(judge.flush.as_ref().map_or(0, |it| u32::from(it.done)));
    to.flags(&page.flush.as_ref().map(|it| it.named).unwrap_or_default());
    match &page.rewrite {
        None => to.put(0_u32),
        Some(it) => {
            to.put(u32::from(it.done));
            to.put(it.block as u32);
            to.content(it.content);
            to.cell(it.cell);
        }
    }
    match &page.purge {
        None => to.put(0_u32),
        Some(it) => {
            to.put(u32::from(it.done));
            to.put(it.settling.map_or(0, |it| 1 + u32::from(it)));
            to.flags(&it.was_dead);
            to.flags(&it.batch);
        }
    }
}

fn root(to: &mut Writer, page: &Page, it: &Root) {
    to.flags(&[it.is_newest, it.is_settled, it.remains, it.is_dirty]);
    for (block, cell) in page.blocks.iter().zip(it.says) {
        // The next purge gives a dead block another cell, whatever this one is.
        if block.is_dead && page.purge.is_none() {
            to.put(0_u32);
        } else {
            to.cell(cell);
        }
    }
    for Entry { block, cell, is_active } in it.pending.iter().flatten() {
        to.put(1 + *block as u32);
        to.cell(*cell);
        to.flags(&[*is_active]);
    }
    to.put(u32::MAX);
}

/// Of each content that is mentioned, its cell and its fate, and of each such cell where it can be found; and of all other contents the same.
fn table(to: &mut Writer, page: &Page) {
    let slots = [page.at, 1 - page.at];
    let found = |cell: CellId| {
        let is_in = |slot: usize| page.roots[slot].as_ref().is_some_and(|it| it.ever.contains(&cell));
        u32::from(is_in(slots[0])) | u32::from(is_in(slots[1])) << 1
    };
    for content in to.contents_in_order.clone() {
        let it = page.contents[&content];
        to.put(it.fate as u32 * 2 + u32::from(it.is_seen));
        to.cell(it.cell);
    }
    for cell in to.cells_in_order.clone() {
        to.put(found(cell));
    }
    let mut others = BTreeSet::new();
    for (content, it) in &page.contents {
        let is_over = it.fate == Fate::Receipted && found(it.cell) == 0;
        if to.contents.contains_key(content) || is_over {
            continue;
        }
        let cell = if it.is_seen { (to.cells.get(&it.cell).copied(), found(it.cell)) } else { (None, 0) };
        others.insert((it.block, it.fate, cell));
    }
    for (block, fate, (cell, found)) in others {
        to.out.extend([block as u32, fate as u32, cell.unwrap_or(0), found]);
    }
}
