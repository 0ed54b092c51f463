//! Rule J once more, written from `docs/decisions/0008-rule-j.md` alone.
//!
//! Slow and dull on purpose: the log is followed anew from the beginning of the
//! transaction at every write, for every block the number of commits at its last
//! write is kept, and every question is answered by looking at all of it. It
//! shares nothing with the product but the file system's format. Numbers in
//! brackets are those of the page's rules.

mod log;
mod version;

use crate::rule_e::literal::time::{Clock, Moment};
use crate::rule_j::log::{Area, At, Tag, Tid};
use log::Log;
use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::Content;
use quietus_detect::format::{Block, Format, Geometry, Kind};
use quietus_detect::options::{Grade, Options};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// After so long without a change the maps are read in place [8].
const QUIET_MS: u64 = 500;

/// How far a condemned block is on its way [5].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Stage {
    Young,
    Cut,
    Ready,
}

/// What is known of one block: of data, or of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Cell {
    live: bool,
    /// By the newest committed map.
    free: bool,
    suspicious: bool,
    stage: Option<Stage>,
    /// Commits received when it was last written.
    count: u32,
    written: Option<Moment>,
    /// Written since it was decided to read the maps in place.
    touched: bool,
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
}

/// A commit that was received, and waits for its maps [4].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Commit {
    tid: Tid,
    /// How many were received then, with it.
    number: u32,
    maps: Vec<Copy>,
}

/// When the maps are to be read in place, and why [8].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Review {
    at: Millis,
    by_tool: bool,
    /// Those that were committed since.
    committed: BTreeSet<Block>,
}

/// The second implementation.
#[derive(Debug)]
pub struct Literal<F> {
    format: F,
    area: Area,
    options: Options,
    clock: Clock,
    cells: BTreeMap<Block, Cell>,
    log: Log,
    received: u32,
    commits: VecDeque<Commit>,
    in_use: bool,
    review: Option<Review>,
    /// Maps that are to be read in place, and whether after a tool.
    maps: BTreeMap<Block, bool>,
    /// The journal's superblock is to be read.
    wants_superblock: bool,
    is_over: bool,
}

impl<F: Format> Literal<F> {
    /// Begins to watch [1].
    pub fn attach(format: F, area: Area, options: Options, now: Millis, seen_from_start: bool) -> Self {
        let clock = Clock::new(now);
        let written = (!seen_from_start).then(|| clock.moment());
        let cell = Cell {
            live: true,
            free: false,
            suspicious: false,
            stage: None,
            count: 0,
            written,
            touched: false,
        };
        let is_cell = |it: &Block| format.kind(*it) == Kind::Data || area.at(*it).is_some_and(|at| at > 0);
        let cells = (0..format.blocks()).filter(is_cell).map(|it| (it, cell)).collect();
        let whole = format.was_clean();
        let mut this = Self {
            area,
            options,
            clock,
            cells,
            log: Log::new(area),
            received: 0,
            commits: VecDeque::new(),
            in_use: !whole,
            review: None,
            maps: BTreeMap::new(),
            wants_superblock: true,
            is_over: false,
            format,
        };
        if whole {
            this.decide(!seen_from_start);
        }
        this
    }

    /// Time passes.
    fn tick(&mut self, now: Millis) {
        self.clock.tick(now);
        if let Some(review) = self.review.take_if(|it| it.at <= now) {
            let maps = self.format.survey(Kind::Map).into_iter().flatten();
            let maps = maps.filter(|it| !review.committed.contains(it));
            self.maps = maps.map(|it| (it, review.by_tool)).collect();
        }
    }

    /// Content arrives.
    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        self.tick(now);
        self.clock.change();
        if let Some(review) = &mut self.review {
            review.at = Millis(now.0 + QUIET_MS);
        }
        for block in self.blocks_of(extent) {
            match content {
                Content::Bytes(bytes) => self.written(block, extent, bytes),
                Content::Zeros => self.freed(block),
            }
        }
    }

    fn blocks_of(&self, extent: Extent<Addr>) -> Vec<Block> {
        let bytes = u64::from(self.format.block_bytes());
        let end = extent.end().div_ceil(bytes).min(u64::from(self.format.blocks()));
        (extent.start.0 / bytes..end).map(|it| it as Block).collect()
    }

    fn place(&self, block: Block) -> Extent<Addr> {
        let bytes = u64::from(self.format.block_bytes());
        Extent::new(u64::from(block) * bytes, bytes)
    }

    fn written(&mut self, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let part = extent.overlap(self.place(block)).expect("the block is touched");
        let from = (part.start.0 - extent.start.0) as usize;
        let bytes = &bytes[from..from + part.len as usize];
        if let Some(at) = self.area.at(block) {
            return self.journal_written(block, at, bytes);
        }
        match self.format.kind(block) {
            Kind::Data => self.is_written(block),
            Kind::Map if !self.in_use => self.decide(true),
            _ => {}
        }
    }

    /// It has new content [2], [6].
    fn is_written(&mut self, block: Block) {
        let (count, moment) = (self.received, self.clock.moment());
        let cell = self.cells.get_mut(&block).expect("it is data, or of the log");
        *cell = Cell { live: true, stage: None, count, written: Some(moment), touched: true, ..*cell };
    }

    fn journal_written(&mut self, block: Block, at: At, bytes: &[u8]) {
        if at == 0 {
            return self.tail_written(bytes);
        }
        self.is_written(block);
        if self.log.written(at, bytes) {
            self.lost();
        }
        self.receive();
    }

    /// Takes the commits that have been received [3], [4].
    fn receive(&mut self) {
        while let Some((tid, copies)) = self.log.receive() {
            self.received += 1;
            let is_map = |it: &(At, Tag)| self.format.kind(it.1.block) == Kind::Map;
            let maps = copies.into_iter().filter(is_map);
            let maps: Vec<_> = maps.map(|(at, tag)| Copy { at, tag, seen: None }).collect();
            self.commits.push_back(Commit { tid, number: self.received, maps });
        }
        self.settle();
    }

    /// Takes the maps of commits that have all been seen, in order [4].
    fn settle(&mut self) {
        while self.commits.front().is_some_and(|it| it.maps.iter().all(|it| it.seen.is_some())) {
            let commit = self.commits.pop_front().expect("it was there");
            for copy in &commit.maps {
                let seen = copy.seen.as_ref().expect("it was seen");
                let Some(content) = self.area.content(commit.tid, copy.tag, seen) else {
                    return self.lost();
                };
                self.committed(copy.tag.block, &content);
            }
            self.two_commits(commit.number);
        }
    }

    fn committed(&mut self, map: Block, content: &[u8]) {
        self.maps.remove(&map);
        if let Some(review) = &mut self.review {
            review.committed.insert(map);
        }
        for (block, allocated) in self.shown(map, content) {
            if allocated { self.shown_allocated(block) } else { self.cell(block).free = true }
        }
    }

    /// What `content` of `map` says of blocks of data; over, if it is no map [9].
    fn shown(&mut self, map: Block, content: &[u8]) -> Vec<(Block, bool)> {
        let Ok(shown) = self.format.map(self.place(map), content) else {
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

    fn shown_allocated(&mut self, block: Block) {
        let marks = self.options.grade != Grade::Block;
        let cell = self.cell(block);
        cell.free = false;
        if cell.stage.take().is_some() {
            (cell.live, cell.suspicious) = (true, cell.suspicious || marks);
        }
    }

    /// [4]
    fn two_commits(&mut self, number: u32) {
        let dead = self.cells.values_mut().filter(|it| it.is_candidate() && it.count + 2 <= number);
        dead.for_each(|it| (it.live, it.stage) = (false, Some(Stage::Young)));
    }

    /// The position is lost [3].
    fn lost(&mut self) {
        self.log.lose();
        self.commits.clear();
        for (block, cell) in &mut self.cells {
            cell.free = false;
            if self.area.at(*block).is_some() && cell.stage.take().is_some() {
                cell.live = true;
            }
        }
    }

    /// The journal's superblock is written, or read [6].
    fn tail_written(&mut self, bytes: &[u8]) {
        let Some(tail) = self.area.tail(bytes) else { return self.stop() };
        match self.log.tail(tail) {
            Some(residue) => {
                for at in residue {
                    let cell = self.cell(self.area.block(at));
                    if cell.live {
                        (cell.live, cell.stage) = (false, Some(Stage::Young));
                    }
                }
            }
            None => self.lost(),
        }
        self.receive();
    }

    /// The guest frees it itself [7].
    fn freed(&mut self, block: Block) {
        let describes = self.area.at(block) == Some(0) || self.format.kind(block) == Kind::Geometry;
        if describes {
            return self.stop();
        }
        if let Some(cell) = self.cells.get_mut(&block) {
            (cell.live, cell.suspicious, cell.stage) = (false, false, None);
        }
    }

    /// It is decided to read the maps in place [8].
    fn decide(&mut self, by_tool: bool) {
        self.maps.clear();
        let at = Millis(self.clock.now().0 + QUIET_MS);
        self.review = Some(Review { at, by_tool, committed: BTreeSet::new() });
        self.cells.values_mut().for_each(|it| it.touched = false);
    }

    /// A map was read in its place [8].
    fn map_read(&mut self, map: Block, content: &[u8], by_tool: bool) {
        for (block, allocated) in self.shown(map, content) {
            if allocated {
                self.shown_allocated(block);
                continue;
            }
            let settle = self.options.settle_ms;
            let written = self.cell(block).written.filter(|_| by_tool);
            let is_late = written.is_some_and(|it| self.clock.is_within_active(it, settle));
            let cell = self.cell(block);
            cell.free = true;
            if cell.live && !cell.touched && !is_late {
                (cell.live, cell.stage) = (false, Some(Stage::Young));
            }
        }
    }

    fn geometry(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.geometry(block, old, new) {
            Geometry::Same => {}
            Geometry::InUse => self.in_use = true,
            Geometry::Unmounted => self.whole(!self.log.is_empty()),
            Geometry::Clean => self.whole(true),
            Geometry::Changed => self.stop(),
        }
    }

    fn whole(&mut self, by_tool: bool) {
        self.in_use = false;
        self.decide(by_tool);
    }

    /// [9]
    fn stop(&mut self) {
        self.is_over = true;
        self.cells.values_mut().for_each(|it| it.stage = None);
    }

    /// The parts of `extent` to be destroyed before it is written [2].
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut parts = Vec::new();
        for block in self.blocks_of(extent) {
            let place = self.place(block);
            let Some(part) = extent.overlap(place).filter(|_| self.may_be_dead(block)) else { continue };
            parts.push(part);
            let cell = self.cell(block);
            cell.suspicious = part != place;
        }
        parts
    }

    fn may_be_dead(&self, block: Block) -> bool {
        if self.area.at(block).is_some() {
            return false;
        }
        let Some(cell) = self.cells.get(&block) else { return false };
        let is_doubtful = cell.is_candidate() && self.options.grade != Grade::Block;
        cell.suspicious || cell.stage.is_some() || is_doubtful
    }
}
