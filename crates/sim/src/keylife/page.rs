//! The life of a key, word for word as `docs/decisions/0037-life-of-a-key.md` has it.
//!
//! The page has no media: it knows what a root says of a block, and which cells were ever written where that root opens them. Numbers in
//! parentheses name the page's rules.

use super::state::{Block, CellId, Content, Entry, Fate, Flush, Purge, Rewrite, Root, Written};
use super::{Answer, BLOCKS, Read, SECTORS, Server, Step, places};
use std::collections::BTreeMap;

/// The state of the blocks, of the roots, and of what is under way.
#[derive(Clone, Debug)]
pub struct Page {
    pub(super) server: Server,
    pub(super) blocks: [Block; BLOCKS],
    /// By slot. The root of a purge under way counts from the purge's first step on.
    pub(super) roots: [Option<Root>; 2],
    /// Slot of the present root.
    pub(super) at: usize,
    /// Unsynced places of MAP, as in [`Answer::unsynced`].
    pub(super) map: u32,
    /// The sectors of the slot of staging are not synced, as in [`Answer::unsynced`].
    pub(super) slot: u32,
    /// By the journal: the block that is staged, and its content.
    pub(super) staged: Option<(usize, Content)>,
    pub(super) flush: Option<Flush>,
    pub(super) rewrite: Option<Rewrite>,
    pub(super) purge: Option<Purge>,
    pub(super) contents: BTreeMap<Content, Written>,
    cells: CellId,
    written: Content,
}

impl Page {
    /// Three live blocks; the server is up.
    pub fn new() -> Self {
        let mut first = Root::of(1, [1, 2, 3]);
        (first.is_newest, first.is_settled, first.remains) = (true, true, true);
        let mut page = Self {
            server: Server::Up,
            blocks: [(); BLOCKS].map(|()| Block::default()),
            roots: [None, Some(first)],
            at: 1,
            map: 0,
            slot: 0,
            staged: None,
            flush: None,
            rewrite: None,
            purge: None,
            contents: BTreeMap::new(),
            cells: BLOCKS as CellId,
            written: BLOCKS as Content,
        };
        for (block, id) in (1..).enumerate().take(BLOCKS) {
            let it = &mut page.blocks[block];
            (it.cell, it.newest, it.settled) = (id, [id; SECTORS], [id; SECTORS]);
            page.contents.insert(id, Written { block, cell: id, fate: Fate::Life, is_seen: true });
        }
        page
    }

    // What may happen (1)

    /// Whether `step` can happen.
    pub fn allows(&self, step: Step) -> bool {
        match step {
            Step::Crash(kept) => self.server != Server::Refused && kept & !self.unsynced() == 0,
            Step::Kill => !matches!(self.server, Server::Refused | Server::Down(0)),
            Step::Start => matches!(self.server, Server::Down(_)),
            _ if self.server != Server::Up => false,
            Step::Write(block) => self.is_free(block.into()),
            Step::Sector(block) => self.blocks[usize::from(block)].writing.is_some(),
            Step::Trim(block) => self.is_free(block.into()) && self.blocks[usize::from(block)].is_shown(),
            Step::Flush => true,
            Step::Rewrite(block) => {
                let it = &self.blocks[usize::from(block)];
                !it.is_dead && it.writing.is_none() && self.rewrite.is_none() && self.purge.is_none()
            }
            Step::RewriteNext => self.rewrite.is_some(),
            Step::Purge => match &self.purge {
                Some(purge) => purge.settling.is_none(),
                None => {
                    let owes = self.blocks.iter().any(|it| it.is_dead || it.is_owed);
                    owes && self.flush.is_none() && self.rewrite.is_none()
                }
            },
            Step::Busy | Step::Doubt { .. } => {
                self.purge.as_ref().is_some_and(|it| it.done == 3 && it.settling.is_none())
            }
            Step::Settle => self.purge.as_ref().is_some_and(|it| it.settling.is_some()),
        }
    }

    /// Whether a write or a TRIM of the block may begin.
    fn is_free(&self, block: usize) -> bool {
        let is_named = self.flush.as_ref().is_some_and(|it| it.named[block]);
        let is_rewritten = self.rewrite.as_ref().is_some_and(|it| it.block == block);
        self.blocks[block].writing.is_none() && !is_named && !is_rewritten && !self.is_closed(block)
    }

    /// Whether a purge destroys the content of the block's place now (6).
    fn is_closed(&self, block: usize) -> bool {
        let closing = |it: &Purge| it.done >= 8 && it.was_dead[block] && !self.blocks[block].is_touched;
        self.purge.as_ref().is_some_and(closing)
    }

    /// Whether the server is down.
    pub fn is_down(&self) -> bool {
        matches!(self.server, Server::Down(_))
    }

    // What shows

    /// What shows now.
    pub fn answer(&self) -> Answer {
        let receipts = self.contents.iter().filter(|(_, it)| it.fate == Fate::Receipted);
        Answer {
            server: self.server,
            reads: std::array::from_fn(|block| [0, 1].map(|sector| self.read(block, sector))),
            unsynced: self.unsynced(),
            opens: self.contents.iter().filter(|(_, it)| self.opens(**it)).map(|(id, _)| *id).collect(),
            receipts: receipts.map(|(id, _)| *id).collect(),
        }
    }

    /// What a read shows (2).
    fn read(&self, block: usize, sector: usize) -> Read {
        let it = &self.blocks[block];
        let is_rewritten = self.rewrite.as_ref().is_some_and(|it| it.block == block);
        if self.server != Server::Up || it.writing.is_some() || is_rewritten {
            return Read::Waits;
        }
        match it.newest[sector] {
            _ if !it.is_shown() => Read::Zeros,
            0 => Read::Zeros,
            content if self.contents[&content].cell == it.cell => Read::Content(content),
            _ => Read::Garbage,
        }
    }

    /// Whether an attacker can open a content (8).
    fn opens(&self, it: Written) -> bool {
        it.is_seen && self.roots.iter().flatten().any(|root| root.remains && root.ever.contains(&it.cell))
    }

    /// The places whose newest bytes are not durable.
    pub fn unsynced(&self) -> u32 {
        let mut all = self.map | self.slot;
        for (block, it) in self.blocks.iter().enumerate() {
            for sector in 0..SECTORS {
                all |= u32::from(it.newest[sector] != it.settled[sector]) * places::data(block, sector);
            }
        }
        for (slot, root) in self.roots.iter().enumerate() {
            let differs = root.as_ref().is_some_and(|it| it.is_newest != it.is_settled);
            all |= u32::from(differs) * places::root(slot);
        }
        all
    }

    /// Every obligation is kept (3): what is dying has one, and what opens while the disk is at rest is of the present life.
    pub fn owes_all(&self) -> Result<(), String> {
        for (content, it) in self.contents.iter().filter(|(_, it)| self.opens(**it)) {
            let block = &self.blocks[it.block];
            if it.fate > Fate::Life && !(block.is_dead || block.is_owed) {
                return Err(format!("what is dead is owed: content {content} opens, and nothing is owed"));
            }
        }
        Ok(())
    }

    // What happens

    /// Lets `step` happen.
    pub fn step(&mut self, step: Step) {
        debug_assert!(self.allows(step));
        match step {
            Step::Write(block) => self.write(block.into()),
            Step::Sector(block) => self.sector(block.into()),
            Step::Trim(block) => {
                let block = usize::from(block);
                (self.blocks[block].is_dead, self.blocks[block].is_early) = (true, false);
                self.turn(|it| it.block == block && it.fate == Fate::Life, Fate::Dying);
            }
            Step::Flush => self.flush(),
            Step::Rewrite(block) => self.rewrite(block.into()),
            Step::RewriteNext => self.rewrite_next(),
            Step::Purge => self.purge(),
            Step::Busy => self.give_up(),
            Step::Doubt { reached } => {
                let next = self.next();
                (next.is_newest, next.remains) = (reached, true);
                self.purging().settling = Some(0);
            }
            Step::Settle => self.settle(),
            Step::Crash(kept) => self.crash(kept),
            Step::Kill => self.down(),
            Step::Start => self.start(),
        }
    }

    fn turn(&mut self, which: impl Fn(&Written) -> bool, fate: Fate) {
        self.contents.values_mut().filter(|it| which(it)).for_each(|it| it.fate = fate);
    }

    fn fresh(&mut self) -> CellId {
        self.cells += 1;
        self.cells
    }

    fn draw(&mut self, block: usize, cell: CellId) -> Content {
        self.written += 1;
        self.contents.insert(self.written, Written { block, cell, fate: Fate::Life, is_seen: false });
        self.written
    }

    /// A write begins (4).
    fn write(&mut self, block: usize) {
        if !self.blocks[block].is_shown() {
            let cell = self.fresh();
            let it = &mut self.blocks[block];
            (it.cell, it.is_early, it.is_touched) = (cell, true, true);
        }
        let content = self.draw(block, self.blocks[block].cell);
        self.blocks[block].writing = Some((content, 0));
    }

    fn sector(&mut self, block: usize) {
        let it = &mut self.blocks[block];
        let Some((content, put)) = it.writing else { return };
        it.newest[put] = content;
        it.writing = (put + 1 < SECTORS).then_some((content, put + 1));
        self.contents.entry(content).and_modify(|it| it.is_seen = true);
    }

    /// Entries go to the end of the log of the present root, and to that of the next or the old one while a purge has not yet destroyed
    /// the old one (5).
    fn log(&mut self, entries: &[Entry]) {
        let is_both = self.purge.as_ref().is_some_and(|it| it.done < 7);
        let at = self.at;
        for (half, root) in self.roots.iter_mut().enumerate() {
            let Some(root) = root.as_mut().filter(|_| is_both || half == at) else { continue };
            self.map |= places::log(half, root.pending.len());
            root.pending.push(entries.to_vec());
            root.ever.extend(entries.iter().map(|it| it.cell));
        }
    }

    fn sync_map(&mut self) {
        self.map = 0;
        self.roots.iter_mut().flatten().for_each(|it| it.keep_log(usize::MAX));
    }

    fn sync_data(&mut self) {
        self.blocks.iter_mut().for_each(|it| it.settled = it.newest);
    }

    /// What was written to a slot since the last sync becomes all that the slot has (7).
    fn sync_roots(&mut self) {
        for slot in &mut self.roots {
            if let Some(root) = slot.as_mut().filter(|it| it.is_dirty) {
                (root.is_settled, root.remains, root.is_dirty) = (root.is_newest, root.is_newest, false);
            }
            *slot = slot.take().filter(|it| !it.is_gone());
        }
    }

    /// The next step of a flush (5).
    fn flush(&mut self) {
        let Some(Flush { done, named }) = self.flush.clone() else {
            let named = self.blocks.each_ref().map(|it| it.is_early && it.writing.is_none());
            let of_named = (0..BLOCKS).filter(|block| named[*block]);
            let entry = |block| Entry { block, cell: self.blocks[block].cell, is_active: true };
            let entries: Vec<_> = of_named.map(entry).collect();
            if !entries.is_empty() {
                self.log(&entries);
            }
            self.flush = Some(Flush { done: 1, named });
            return;
        };
        self.flush = (done < 3).then_some(Flush { done: done + 1, named });
        match done {
            1 => self.sync_map(),
            2 => self.sync_data(),
            _ => {
                for it in self.blocks.iter_mut().zip(named).filter_map(|(it, is)| is.then_some(it)) {
                    (it.is_dead, it.is_early) = (false, false);
                    (it.is_owed, it.owes_anew) = (true, true);
                }
            }
        }
    }

    /// A rewrite begins (9).
    fn rewrite(&mut self, block: usize) {
        let cell = self.fresh();
        let content = self.draw(block, cell);
        self.contents.entry(content).and_modify(|it| it.is_seen = true);
        self.slot = places::staged(0) | places::staged(1);
        self.log(&[Entry { block, cell, is_active: false }]);
        self.rewrite = Some(Rewrite { done: 1, block, content, cell });
    }

    fn rewrite_next(&mut self) {
        let Some(it) = &mut self.rewrite else { return };
        let Rewrite { done, block, content, cell } = *it;
        it.done += 1;
        match done {
            1 => {
                self.slot = 0;
                self.sync_map();
            }
            2 => self.staged = Some((block, content)),
            3 => {
                self.blocks[block].newest = [content; SECTORS];
                self.log(&[Entry { block, cell, is_active: true }]);
            }
            4 => self.sync_data(),
            5 => self.sync_map(),
            _ => {
                self.rewrite = None;
                self.release(block, content);
            }
        }
    }

    /// The frame `release`: what was staged lies in its place (9).
    fn release(&mut self, block: usize, content: Content) {
        self.staged = None;
        let cell = self.contents[&content].cell;
        self.turn(|it| it.block == block && it.fate == Fate::Life && it.cell != cell, Fate::Dying);
        let it = &mut self.blocks[block];
        (it.cell, it.is_owed, it.owes_anew) = (cell, true, true);
    }

    fn purging(&mut self) -> &mut Purge {
        self.purge.as_mut().expect("a purge is under way")
    }

    fn next(&mut self) -> &mut Root {
        self.roots[1 - self.at].as_mut().expect("a purge has a next root")
    }

    /// The next step of a purge (6).
    fn purge(&mut self) {
        let Some(purge) = &mut self.purge else { return self.begin_purge() };
        purge.done += 1;
        let purge = purge.clone();
        match purge.done {
            2 => {
                self.map |= places::TOP;
                let is_changed = [purge.batch[0] || purge.batch[1], purge.batch[2]];
                (0..2).filter(|leaf| is_changed[*leaf]).for_each(|leaf| self.map |= places::leaf(leaf));
            }
            3 => self.sync_map(),
            4 => {
                let next = self.next();
                (next.is_newest, next.remains, next.is_dirty) = (true, true, true);
            }
            5 => {
                self.sync_roots();
                self.at = 1 - self.at;
            }
            6 => {
                let old = self.next();
                (old.is_newest, old.is_dirty) = (false, true);
            }
            7 => self.sync_roots(),
            8 => {
                for block in (0..BLOCKS).filter(|block| self.is_closed(*block)).collect::<Vec<_>>() {
                    self.blocks[block].newest = [0; SECTORS];
                }
            }
            9 => self.sync_data(),
            _ => self.end_purge(&purge),
        }
    }

    fn begin_purge(&mut self) {
        let was_dead = self.blocks.each_ref().map(|it| it.is_dead);
        let batch = self.blocks.each_ref().map(|it| it.is_dead || it.is_owed);
        let present = self.roots[self.at].as_ref().expect("an open disk has a root");
        let (number, mut says) = (present.number + 1, present.says);
        for (_, says) in says.iter_mut().enumerate().filter(|(block, _)| was_dead[*block]) {
            *says = self.fresh();
        }
        for it in &mut self.blocks {
            (it.owes_anew, it.is_touched) = (false, it.is_early);
        }
        assert!(self.roots[1 - self.at].is_none(), "a purge begins while another root may be found");
        self.roots[1 - self.at] = Some(Root::of(number, says));
        self.turn(|it| it.fate == Fate::Dying && batch[it.block], Fate::Taken);
        self.purge = Some(Purge { done: 1, was_dead, batch, settling: None });
    }

    /// Receipts (6).
    fn end_purge(&mut self, purge: &Purge) {
        let says = self.roots[self.at].as_ref().map_or([0; BLOCKS], |it| it.says);
        for (block, cell) in says.into_iter().enumerate() {
            let is_closed = self.is_closed(block);
            let it = &mut self.blocks[block];
            if is_closed {
                (it.is_dead, it.cell) = (false, cell);
            }
            it.is_owed &= it.owes_anew || !purge.batch[block];
        }
        self.purge = None;
        self.turn(|it| it.fate == Fate::Taken, Fate::Receipted);
    }

    /// A purge ends, and nothing happened (6). Its log is left to itself.
    fn give_up(&mut self) {
        self.purge = None;
        self.turn(|it| it.fate == Fate::Taken, Fate::Dying);
        for slot in &mut self.roots {
            *slot = slot.take().filter(|it| !it.is_gone());
        }
    }

    /// The next step after a doubt (7).
    fn settle(&mut self) {
        let is_first = self.purging().settling == Some(0);
        if is_first {
            self.next().is_dirty = true;
            self.purging().settling = Some(1);
            return;
        }
        self.sync_roots();
        if self.roots[1 - self.at].is_none() {
            return self.give_up();
        }
        self.at = 1 - self.at;
        (self.purging().settling, self.purging().done) = (None, 5);
    }

    /// The host loses what is not synced, but for the places `kept` (10).
    fn crash(&mut self, kept: u32) {
        for (block, it) in self.blocks.iter_mut().enumerate() {
            for sector in 0..SECTORS {
                if kept & places::data(block, sector) != 0 {
                    it.settled[sector] = it.newest[sector];
                }
            }
            it.newest = it.settled;
        }
        for (half, root) in self.roots.iter_mut().enumerate() {
            let Some(root) = root else { continue };
            root.keep_log((0..2).take_while(|nth| kept & places::log(half, *nth) != 0).count());
            if kept & places::root(half) != 0 {
                root.is_settled = root.is_newest;
            }
            (root.is_newest, root.is_dirty) = (root.is_settled, false);
        }
        (self.map, self.slot) = (0, 0);
        self.down();
    }

    /// The server's memory is lost (10).
    fn down(&mut self) {
        self.server = Server::Down(0);
        (self.flush, self.rewrite) = (None, None);
        self.give_up();
        for it in &mut self.blocks {
            (it.is_early, it.is_touched, it.owes_anew, it.writing) = (false, false, false, None);
        }
        let is_dead = self.blocks.each_ref().map(|it| it.is_dead);
        self.turn(|it| is_dead[it.block] && it.fate == Fate::Life, Fate::Dying);
    }

    /// The next step of a start (11).
    fn start(&mut self) {
        let Server::Down(done) = self.server else { return };
        self.server = Server::Down(done + 1);
        match done {
            0 => {
                self.sync_map();
                let number = |slot: &usize| self.roots[*slot].as_ref().map(|it| it.number);
                let is_whole = |slot: &usize| self.roots[*slot].as_ref().is_some_and(|it| it.is_newest);
                let newest = [0, 1].into_iter().filter(is_whole).max_by_key(number);
                self.at = newest.expect("a disk always has a root");
                self.roots[self.at].as_mut().expect("it is whole").is_dirty = true;
            }
            1 | 3 => {
                self.sync_roots();
                self.is_up(done == 3 && self.staged.is_none());
            }
            2 => {
                if let Some(other) = &mut self.roots[1 - self.at] {
                    (other.is_newest, other.is_dirty) = (false, true);
                }
            }
            4 => {
                let (block, content) = self.staged.expect("a start goes on for what is staged");
                self.blocks[block].newest = [content; SECTORS];
                self.log(&[Entry { block, cell: self.contents[&content].cell, is_active: true }]);
            }
            5 => {
                self.sync_data();
                self.sync_map();
            }
            _ => {
                let (block, content) = self.staged.expect("a start goes on for what is staged");
                self.is_up(true);
                self.release(block, content);
            }
        }
    }

    /// Takes the cells of the live blocks from the present root, if the server `is` up.
    fn is_up(&mut self, is: bool) {
        let Some(root) = self.roots[self.at].as_ref().filter(|_| is) else { return };
        for (it, cell) in self.blocks.iter_mut().zip(root.says).filter(|(it, _)| !it.is_dead) {
            it.cell = cell;
        }
        self.server = Server::Up;
    }
}
