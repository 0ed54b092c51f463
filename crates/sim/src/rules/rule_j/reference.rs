//! Rule J once more, written from `docs/decisions/0008-rule-j.md` alone.
//!
//! Slow and dull on purpose: the log is followed anew from the beginning of the
//! transaction at every write, for every block the number of commits at its last
//! write is kept, and every question is answered by looking at all of it. It
//! shares nothing with the product but the file system's format. Numbers in
//! parentheses name the page's rules.

mod log;
mod unwritten;
mod version;

use crate::rules::differential::place;
use crate::rules::rule_e::reference::blocks_of;
use crate::rules::rule_e::reference::time::{Clock, Moment, QUIET_MS, Review};
use crate::rules::rule_j::log::{Area, At, Flavour, Own, Tag, Tid};
use log::{Log, Next};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content};
use quietus_detect::formats::format::{Block, Format, Geometry, Kind};
use quietus_detect::rules::options::{Grade, Options};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use unwritten::Unwritten;

/// Bytes that a disk writes at once.
const SECTOR: usize = 512;

/// A reading of the page, which says how much the model of jbd2 is worth: its judge must object to
/// every reading but [`Reading::Page`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reading {
    /// The page as it is meant.
    Page,
    /// One commit received after the last write is enough (4).
    OneCommit,
    /// The number that the newest transaction bears is taken for the number of commits received.
    Numbers,
    /// Writes of commit blocks are taken for commits received.
    Blocks,
    /// Blocks of the next transaction that were written are residue too (6).
    FreshIsResidue,
}

impl Reading {
    /// Commits that must be received after the last write (4).
    fn margin(self) -> u32 {
        if self == Self::OneCommit { 1 } else { 2 }
    }
}

/// How far a condemned block is on its way (5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Stage {
    Unsynced,
    Syncing,
    Confirmed,
}

/// Knowledge of one block: of data, or of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Cell {
    live: bool,
    /// Whether the newest committed map shows the block free.
    free: bool,
    suspicious: bool,
    stage: Option<Stage>,
    /// Commits received when it was last written.
    count: u32,
    written: Option<Moment>,
    /// Written since it was decided to read the maps in place.
    touched: bool,
    unwritten: Unwritten,
}

impl Cell {
    fn is_candidate(&self) -> bool {
        self.live && self.free
    }
}

/// A map that a commit brings.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Copy {
    at: At,
    tag: Tag,
    seen: Option<Vec<u8>>,
    /// The block is being written at this moment.
    is_coming: bool,
}

/// A commit that was received, and waits for its maps (4).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Commit {
    tid: Tid,
    /// Commits that had been received then, this one included.
    number: u32,
    maps: Vec<Copy>,
}

/// The second implementation.
#[derive(Debug)]
pub struct Reference {
    format: Box<dyn Format>,
    area: Area,
    reading: Reading,
    options: Options,
    attached: Attached,
    clock: Clock,
    cells: BTreeMap<Block, Cell>,
    log: Log,
    received: u32,
    commits: VecDeque<Commit>,
    in_use: bool,
    review: Option<Review>,
    /// Maps that are to be read in place, and whether after a tool.
    maps: BTreeMap<Block, bool>,
    /// The maps that were committed since that was decided.
    settled: BTreeSet<Block>,
    /// The position was unknown since then.
    was_unknown: bool,
    /// What each block of inodes names as unwritten, as of the last commit that settled (10).
    tables: BTreeMap<Block, BTreeSet<Block>>,
    /// The file system rests, and what is empty dies once all commits have settled (10).
    rests: bool,
    /// The journal's superblock is to be read.
    wants_superblock: bool,
    /// A block of the log was written since the superblock was.
    superblock_overtaken: bool,
    is_over: bool,
}

impl Reference {
    /// Begins to watch (1).
    pub fn attach(
        format: Box<dyn Format>,
        area: Area,
        reading: Reading,
        options: Options,
        now: Millis,
        seen_from_start: bool,
    ) -> Self {
        let clock = Clock::new(now);
        let written = (!seen_from_start).then(|| clock.moment());
        let whole = format.was_clean();
        let unwritten = Unwritten { touched: !whole || !seen_from_start, ..Unwritten::default() };
        let cell = Cell { live: true, written, unwritten, ..Cell::default() };
        let is_cell = |it: &Block| format.kind(*it) == Kind::Data && area.at(*it) != Some(0);
        let cells = (0..format.blocks()).filter(is_cell).map(|it| (it, cell)).collect();
        let mut this = Self {
            area,
            reading,
            options,
            attached: Attached::Direct,
            clock,
            cells,
            log: Log::new(area),
            received: 0,
            commits: VecDeque::new(),
            in_use: !whole,
            review: None,
            maps: BTreeMap::new(),
            settled: BTreeSet::new(),
            was_unknown: false,
            tables: BTreeMap::new(),
            rests: false,
            wants_superblock: true,
            superblock_overtaken: false,
            is_over: false,
            format,
        };
        if whole {
            this.decide(!seen_from_start);
        }
        this
    }

    fn tick(&mut self, now: Millis) {
        self.clock.tick(now);
        if let Some(review) = self.review.take_if(|it| it.at <= now) {
            let maps = self.format.survey(Kind::Map).into_iter().flatten();
            self.maps = maps.map(|it| (it, review.by_tool)).collect();
        }
    }

    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        self.tick(now);
        self.commits.iter_mut().flat_map(|it| &mut it.maps).for_each(|it| it.is_coming = false);
        self.clock.change();
        if let Some(review) = &mut self.review {
            review.at = Millis(now.0 + QUIET_MS);
        }
        for block in blocks_of(&*self.format, extent) {
            match content {
                Content::Bytes(bytes) => self.written(block, extent, bytes),
                Content::Zeros => self.freed(block),
            }
        }
    }

    fn written(&mut self, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let part = extent.overlap(place(block, self.format.block_bytes())).expect("the block is touched");
        let from = (part.start.0 - extent.start.0) as usize;
        let bytes = &bytes[from..from + part.len as usize];
        if let Some(at) = self.area.at(block) {
            let from = (part.start.0 - place(block, self.format.block_bytes()).start.0) as usize;
            return self.journal_written((block, at), from, bytes);
        }
        match self.format.kind(block) {
            Kind::Data => self.is_written(block),
            Kind::Map => self.map_written(),
            Kind::Inodes if !self.in_use => drop(self.tables.remove(&block)),
            _ => {}
        }
    }

    /// A map was written: by a tool, if the file system is not mounted (8).
    fn map_written(&mut self) {
        if !self.in_use && !self.review.as_ref().is_some_and(|it| it.by_tool) {
            self.decide(true);
        }
    }

    /// Notes new content of `block` (2), (6).
    fn is_written(&mut self, block: Block) {
        let (count, moment) = (self.received, self.clock.moment());
        let cell = self.cells.get_mut(&block).expect("it is data, or of the log");
        *cell = Cell { live: true, stage: None, count, written: Some(moment), touched: true, ..*cell };
        cell.unwritten = Unwritten { touched: true, ..cell.unwritten.filled() };
    }

    /// `bytes` arrive at `from` in a block of the journal.
    fn journal_written(&mut self, (block, at): (Block, At), from: usize, bytes: &[u8]) {
        let is_whole = bytes.len() == self.format.block_bytes() as usize;
        if at > 0 {
            self.is_written(block);
        }
        // The write at `at` is newer than all that is still to be read.
        self.log.overtaken = self.log.unread.clone();
        self.log.overtaken.remove(&at);
        self.superblock_overtaken = at > 0 && self.wants_superblock;
        match (at, is_whole) {
            (0, true) => {
                self.wants_superblock = false;
                self.tail_written(bytes, false);
            }
            (0, false) => self.wants_superblock = true,
            (_, true) => self.log_written(at, bytes, false),
            (_, false) => self.log.part_written(at, from / SECTOR..(from + bytes.len()) / SECTOR),
        }
    }

    /// A block of the log has arrived; `late`: it had to be read.
    fn log_written(&mut self, at: At, bytes: &[u8], late: bool) {
        let overtaken = self.log.overtaken.contains(&at);
        if self.log.written(at, bytes, overtaken) {
            self.lost();
        }
        self.receive(Some(at).filter(|_| !late), late, overtaken);
        let is_commit = || self.area.header(bytes).is_some_and(|it| it.kind == Own::Commit);
        if self.reading == Reading::Blocks && is_commit() {
            self.received += 1;
            self.two_commits(self.received);
        }
        self.note_position();
    }

    /// Takes the commits that have been received (3), (4).
    fn receive(&mut self, coming: Option<At>, late: bool, overtaken: bool) {
        loop {
            let (tid, copies) = match self.log.receive(overtaken) {
                Next::Incomplete => break,
                Next::TooLong => return self.lost(),
                Next::Received(tid, copies) => (tid, copies),
            };
            self.received = match self.reading {
                Reading::Numbers => tid,
                Reading::Blocks => self.received,
                Reading::Page | Reading::OneCommit | Reading::FreshIsResidue => self.received + 1,
            };
            if late {
                let (before, now) = (self.received.wrapping_sub(1), self.received);
                self.cells.values_mut().filter(|it| it.count == before).for_each(|it| it.count = now);
            }
            let maps = copies.into_iter().filter(|it| self.wants_copy(it.1.block));
            let maps: Vec<_> =
                maps.map(|(at, tag)| Copy { at, tag, seen: None, is_coming: Some(at) == coming }).collect();
            self.commits.push_back(Commit { tid, number: self.received, maps });
        }
        self.settle();
    }

    /// Takes the maps of commits that have all been seen, in order (4).
    fn settle(&mut self) {
        while self.commits.front().is_some_and(|it| it.maps.iter().all(|it| it.seen.is_some())) {
            let commit = self.commits[0].clone();
            let mut inodes = Vec::new();
            for copy in &commit.maps {
                let seen = copy.seen.as_ref().expect("it was seen");
                let content = self.area.content(commit.tid, copy.tag, seen);
                // Whether a copy in the log is known to be of its transaction.
                let is_known = self.area.flavour == Flavour::Summed || !self.attached.is_cached();
                let Some(content) = content.filter(|_| is_known) else {
                    return self.lost();
                };
                if self.format.kind(copy.tag.block) == Kind::Inodes {
                    inodes.push((copy.tag.block, content));
                } else {
                    self.committed(copy.tag.block, &content, commit.number);
                }
            }
            self.commits.pop_front();
            self.two_commits(commit.number);
            self.unwritten_settles(inodes, commit.number);
            self.unwritten_at_rest();
        }
    }

    fn committed(&mut self, map: Block, content: &[u8], number: u32) {
        self.settled.insert(map);
        for (block, allocated) in self.shown(map, content) {
            let old = self.cell(block).count + self.reading.margin() <= number;
            if allocated {
                self.shown_allocated(block, old, false);
            } else {
                let cell = self.cell(block);
                (cell.free, cell.unwritten.hollow) = (true, false);
            }
        }
    }

    /// The statements of `content` of `map` about blocks of data. If it is not a map, the rule ends (9).
    fn shown(&mut self, map: Block, content: &[u8]) -> Vec<(Block, bool)> {
        let Ok(shown) = self.format.map(place(map, self.format.block_bytes()), content) else {
            self.stop();
            return Vec::new();
        };
        let each = shown.iter().flat_map(|it| it.blocks.clone().map(|block| (block, it.allocated)));
        let (journal, others): (Vec<_>, Vec<_>) = each.partition(|(it, _)| self.area.at(*it).is_some());
        if journal.iter().any(|(_, allocated)| !allocated) {
            self.stop();
            return Vec::new();
        }
        others.into_iter().filter(|(it, _)| self.format.kind(*it) == Kind::Data).collect()
    }

    fn cell(&mut self, block: Block) -> &mut Cell {
        self.cells.get_mut(&block).expect("maps show data")
    }

    /// `old`: the content is older than what showed the block free.
    fn shown_allocated(&mut self, block: Block, old: bool, by_tool: bool) {
        let marks = self.options.grade != Grade::Block;
        let cell = self.cell(block);
        cell.suspicious |= marks && old && cell.is_candidate();
        cell.free = false;
        cell.unwritten.hollow &= !by_tool && marks;
        if (by_tool || !marks) && cell.stage.take().is_some() {
            (cell.live, cell.suspicious) = (true, cell.suspicious || marks);
        }
    }

    /// (4)
    fn two_commits(&mut self, number: u32) {
        let margin = self.reading.margin();
        let is_old = |it: &Cell| it.is_candidate() && it.count + margin <= number;
        let old: Vec<_> = self.cells.iter().filter(|(_, it)| is_old(it)).map(|(block, _)| *block).collect();
        old.into_iter().for_each(|it| self.condemn(it));
    }

    /// Condemns `block`, unless the cache may still hold what is older than its last write.
    fn condemn(&mut self, block: Block) {
        let (settle, written) = (self.settle_ms(), self.cells[&block].written);
        if !self.attached.is_cached() || !written.is_some_and(|it| self.clock.is_within_active(it, settle)) {
            let cell = self.cell(block);
            (cell.live, cell.stage) = (false, Some(Stage::Unsynced));
        }
    }

    /// The position is lost (3).
    fn lost(&mut self) {
        self.log.lose();
        self.nothing_is_free();
        for (block, cell) in &mut self.cells {
            if self.area.at(*block).is_some() && cell.stage.take().is_some() {
                cell.live = true;
            }
        }
    }

    /// Forgets the statements of maps (3), (6).
    fn nothing_is_free(&mut self) {
        let oldest = self.commits.front().map_or(self.received, |it| it.number - 1);
        let marks = self.options.grade != Grade::Block;
        for cell in self.cells.values_mut() {
            cell.suspicious |= marks && cell.is_candidate() && cell.count < oldest;
            cell.free = false;
            cell.count = if cell.count >= oldest { self.received } else { cell.count };
        }
        self.commits.clear();
        self.unwritten_forgotten();
        self.was_unknown = true;
    }

    /// The journal's superblock is written, or read (6).
    fn tail_written(&mut self, bytes: &[u8], overtaken: bool) {
        let Some(tail) = self.area.tail(bytes) else { return self.stop() };
        let (goes_back, is_first) = (self.log.goes_back(tail), !self.log.is_read());
        if self.log.is_replayed(tail, overtaken) || goes_back {
            self.nothing_is_free();
        }
        if goes_back {
            let received = self.received;
            self.cells.values_mut().for_each(|it| it.count = received);
        }
        match self.log.tail(tail, overtaken, self.reading == Reading::FreshIsResidue) {
            Some(residue) => {
                for at in residue {
                    let block = self.area.block(at);
                    if self.cell(block).live {
                        self.condemn(block);
                    }
                }
            }
            None => self.lost(),
        }
        if is_first && self.attached.is_cached() {
            self.log.look();
        }
        self.receive(None, false, false);
        self.note_position();
    }

    /// The guest itself frees the block (7).
    fn freed(&mut self, block: Block) {
        let describes = self.area.at(block) == Some(0) || self.format.kind(block) == Kind::Geometry;
        if describes {
            return self.stop();
        }
        if let Some(cell) = self.cells.get_mut(&block) {
            (cell.live, cell.suspicious, cell.stage) = (false, false, None);
            cell.unwritten = cell.unwritten.filled();
        }
        if let Some(at) = self.area.at(block) {
            self.log.gone(at);
        }
        if self.format.kind(block) == Kind::Map {
            self.map_written();
        }
    }

    /// Decides to read the maps in place (8).
    fn decide(&mut self, by_tool: bool) {
        self.maps.clear();
        let at = Millis(self.clock.now + QUIET_MS);
        self.review = Some(Review { at, by_tool });
        self.settled.clear();
        self.was_unknown = false;
        self.note_position();
        self.cells.values_mut().for_each(|it| it.touched = false);
    }

    fn note_position(&mut self) {
        self.was_unknown |= self.log.is_unknown();
    }

    /// A map was read in its place (8).
    fn map_read(&mut self, map: Block, content: &[u8], by_tool: bool) {
        if self.settled.contains(&map) || (self.in_use && self.was_unknown) {
            return;
        }
        let is_known = self.log.is_known();
        for (block, allocated) in self.shown(map, content) {
            if allocated {
                let old = !self.cell(block).touched;
                self.shown_allocated(block, old, by_tool);
                continue;
            }
            let settle = self.settle_ms();
            let written = self.cell(block).written.filter(|_| by_tool);
            let is_late = written.is_some_and(|it| self.clock.is_within_active(it, settle));
            let cell = self.cell(block);
            (cell.free, cell.unwritten.hollow) = (is_known, false);
            if cell.live && !cell.touched && !is_late {
                (cell.live, cell.stage) = (false, Some(Stage::Unsynced));
            }
        }
    }

    fn geometry(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.geometry(block, old, new) {
            Geometry::Same => {}
            Geometry::InUse | Geometry::Mounted => self.in_use = true,
            Geometry::Unmounted => self.whole(!self.log.is_empty()),
            Geometry::Clean => self.whole(true),
            Geometry::Changed => self.stop(),
        }
    }

    /// The file system is not mounted.
    fn whole(&mut self, by_tool: bool) {
        self.in_use = false;
        let by_tool = by_tool || self.attached.is_cached();
        self.rests = !by_tool;
        if self.rests {
            self.cells.values_mut().for_each(|it| it.unwritten.touched = false);
            self.unwritten_at_rest();
        } else {
            self.unwritten_forgotten();
        }
        self.decide(by_tool);
    }

    /// (9)
    fn stop(&mut self) {
        self.is_over = true;
        self.cells.values_mut().for_each(|it| it.stage = None);
    }

    fn may_be_dead(&self, block: Block) -> bool {
        let Some(cell) = self.cells.get(&block) else { return false };
        let is_doubtful = cell.is_candidate() && self.options.grade != Grade::Block;
        let is_content = cell.live && self.options.grade == Grade::Content;
        cell.suspicious || cell.stage.is_some() || is_doubtful || is_content
    }
}

/// Below a cache (the page's section of that name).
impl Reference {
    /// `settle`, and what the cache may hold a write back for.
    fn settle_ms(&self) -> u64 {
        self.options.settle_ms + self.attached.hold_ms()
    }

    /// The attachment of the guest changes.
    fn attached(&mut self, now: Millis, attached: Attached) {
        self.tick(now);
        if attached == self.attached {
            return;
        }
        let (settle, moment) = (self.settle_ms(), self.clock.moment());
        self.attached = attached;
        // All counts as new.
        self.unwritten_forgotten();
        let anew = Unwritten { touched: true, ..Unwritten::default() };
        self.cells.values_mut().for_each(|it| it.unwritten = anew);
        for cell in self.cells.values_mut() {
            // A time that has not run out begins anew: its length has changed.
            cell.written = cell.written.filter(|it| self.clock.is_within_active(*it, settle)).map(|_| moment);
            if attached.is_cached() {
                cell.live |= cell.stage.take().is_some();
                cell.written = if cell.live { Some(moment) } else { cell.written };
            } else {
                cell.count = self.received;
            }
        }
        if attached.is_cached() {
            self.review.iter_mut().for_each(|it| it.by_tool = true);
            self.maps.values_mut().for_each(|by_tool| *by_tool = true);
            self.log.look();
        } else {
            self.lost();
        }
    }
}
