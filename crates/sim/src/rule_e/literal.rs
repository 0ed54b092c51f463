//! Rule E once more, written from `docs/decisions/0006-rule-e.md` alone.
//!
//! Slow and dull on purpose: every pointer that was observed is kept with the
//! block that it stands in, every time is kept as it is, and every question is
//! answered by looking at all of it. It shares nothing with the product but
//! the file system's format. Numbers in brackets are those of the page's rules.

mod digest;
mod names;
mod time;

use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Content, Verdict};
use quietus_detect::format::{Block, Format, Geometry, Kind};
use quietus_detect::options::{Grade, Options};
use std::collections::{BTreeMap, BTreeSet};

use names::Source;
use time::{Clock, Moment};

/// After so long without a change the maps are read again [1].
const QUIET_MS: u64 = 500;

/// How far a condemned block is on its way [6].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Its evidence came after the last cut.
    Young,
    /// Its evidence came before the last cut.
    Cut,
    /// Its evidence is durable, and somebody names it.
    NamedDead,
    /// It may be destroyed.
    Ready,
}

/// What is known of one block.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Cell {
    live: bool,
    suspicious: bool,
    doubted: Option<Moment>,
    stage: Option<Stage>,
    /// It is to be overwritten conservatively: since when.
    unlinked: Option<Moment>,
    written: Option<Moment>,
    /// Written since the file system was called whole [8].
    touched: bool,
}

/// When the maps are to be read again, and why [8].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Review {
    at: Millis,
    by_tool: bool,
}

/// The second implementation.
#[derive(Debug)]
pub struct Literal<F> {
    format: F,
    options: Options,
    clock: Clock,
    cells: BTreeMap<Block, Cell>,
    sources: BTreeMap<Block, Source>,
    in_use: bool,
    review: Option<Review>,
    /// Maps that are to be read, and whether a tool calls them whole.
    maps: BTreeMap<Block, bool>,
    is_over: bool,
}

impl<F: Format> Literal<F> {
    /// Begins to watch [1].
    pub fn attach(format: F, options: Options, now: Millis, seen_from_start: bool) -> Self {
        let clock = Clock::new(now);
        let written = (!seen_from_start).then(|| clock.moment());
        let cell = Cell { live: true, written, ..Cell::default() };
        let data = (0..format.blocks()).filter(|it| format.kind(*it) == Kind::Data);
        let cells = data.map(|it| (it, cell.clone())).collect();
        let inodes = format.survey(Kind::Inodes).into_iter().flatten();
        let sources = inodes.map(|it| (it, Source::new(Kind::Inodes))).collect();
        let whole = format.was_clean();
        let mut this = Self {
            options,
            clock,
            cells,
            sources,
            in_use: !whole,
            review: None,
            maps: BTreeMap::new(),
            is_over: false,
            format,
        };
        if whole {
            this.call_whole(!seen_from_start);
        }
        this
    }

    /// Whether inference has stopped [9].
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether something hung on a time that the page does not fix exactly.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.clock.is_unsure()
    }

    /// Time passes.
    pub fn tick(&mut self, now: Millis) {
        self.clock.tick(now);
        self.end_doubts();
        self.sources_settle();
        if self.review.as_ref().is_some_and(|it| it.at <= now) {
            let review = self.review.take().expect("it was there");
            let maps = self.format.survey(Kind::Map).into_iter().flatten();
            self.maps = maps.map(|it| (it, review.by_tool)).collect();
        }
    }

    /// A doubt ends after `settle` of `active` [4].
    fn end_doubts(&mut self) {
        let settle = self.options.settle_ms;
        let blocks: Vec<_> = self.cells.iter().filter_map(|(it, cell)| Some((*it, cell.doubted?))).collect();
        for (block, since) in blocks {
            if !self.clock.is_within_active(since, settle) {
                self.condemn(block);
            }
        }
    }

    fn condemn(&mut self, block: Block) {
        let cell = self.cells.get_mut(&block).expect("maps show data");
        (cell.live, cell.stage, cell.doubted, cell.unlinked) = (false, Some(Stage::Young), None, None);
    }

    fn doubt(&mut self, block: Block) {
        let moment = self.clock.moment();
        let cell = self.cells.get_mut(&block).expect("maps show data");
        (cell.doubted, cell.unlinked) = (Some(moment), None);
    }

    /// Content arrives.
    pub fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        self.tick(now);
        self.clock.change();
        if let Some(review) = &mut self.review {
            review.at = Millis(now.0 + QUIET_MS);
        }
        for block in self.blocks_of(extent) {
            match (self.format.kind(block), content) {
                (Kind::Data, Content::Bytes(_)) => self.written(block),
                (Kind::Data, Content::Zeros) => self.freed(block),
                (_, Content::Zeros) => self.stop(),
                (Kind::Map, Content::Bytes(bytes)) => self.map_written(block, extent, bytes),
                _ => {}
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

    /// A write to data [2].
    fn written(&mut self, block: Block) {
        let is_orphan = self.is_guessed(block) && self.options.grade != Grade::Block;
        let moment = self.clock.moment();
        let cell = self.cells.get_mut(&block).expect("it is data");
        (cell.live, cell.stage, cell.doubted, cell.unlinked) = (true, None, None, None);
        (cell.written, cell.touched) = (Some(moment), true);
        cell.suspicious |= is_orphan;
        if let Some(source) = self.sources.get_mut(&block) {
            source.quiet_since = moment;
            source.is_asked_again = false;
        }
    }

    /// The guest frees it itself [7].
    fn freed(&mut self, block: Block) {
        let moment = self.clock.moment();
        let cell = self.cells.get_mut(&block).expect("it is data");
        *cell = Cell { written: cell.written, touched: true, ..Cell::default() };
        if let Some(source) = self.sources.get_mut(&block) {
            source.quiet_since = moment;
        }
    }

    /// [3]
    fn map_written(&mut self, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let at = extent.overlap(self.place(block)).expect("the block is touched");
        let from = (at.start.0 - extent.start.0) as usize;
        let Ok(shown) = self.format.map(at, &bytes[from..from + at.len as usize]) else {
            return self.stop();
        };
        for (block, allocated) in each(&shown) {
            match (self.cells.get(&block).map(|it| it.live), allocated) {
                (Some(_), true) => self.shown_allocated(block),
                (Some(true), false) if self.is_recent(block) => self.doubt(block),
                (Some(true), false) => self.condemn(block),
                _ => {}
            }
        }
    }

    fn shown_allocated(&mut self, block: Block) {
        let grade = self.options.grade;
        let cell = self.cells.get_mut(&block).expect("it was there");
        let was_dying = cell.stage.is_some() || cell.doubted.is_some();
        (cell.live, cell.stage, cell.doubted) = (true, None, None);
        cell.suspicious |= was_dying && grade != Grade::Block;
    }

    /// Whether a map proves nothing against it yet [3].
    fn is_recent(&mut self, block: Block) -> bool {
        let Some(written) = self.cells[&block].written else { return false };
        if self.in_use {
            self.clock.is_within(written, self.options.reorder_window_ms)
        } else {
            self.clock.is_within_active(written, self.options.settle_ms)
        }
    }

    /// [8]
    fn call_whole(&mut self, by_tool: bool) {
        self.in_use = false;
        self.maps.clear();
        self.review = Some(Review { at: Millis(self.clock.now().0 + QUIET_MS), by_tool });
        self.cells.values_mut().for_each(|it| it.touched = false);
    }

    /// A map was read again [8].
    fn map_read(&mut self, block: Block, bytes: &[u8], by_tool: bool) {
        let Ok(shown) = self.format.map(self.place(block), bytes) else { return self.stop() };
        for (block, allocated) in each(&shown) {
            let Some(cell) = self.cells.get(&block) else { continue };
            if allocated || !cell.live || cell.touched {
                continue;
            }
            let written = cell.written.filter(|_| by_tool);
            let settle = self.options.settle_ms;
            if written.is_some_and(|it| self.clock.is_within_active(it, settle)) {
                self.doubt(block);
            } else {
                self.condemn(block);
            }
        }
    }

    /// The superblock changes.
    fn geometry(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.geometry(block, old, new) {
            Geometry::Same => {}
            Geometry::InUse => {
                (self.in_use, self.review) = (true, None);
                self.maps.clear();
            }
            Geometry::Unmounted => self.call_whole(false),
            Geometry::Clean => self.call_whole(true),
            Geometry::Changed => self.stop(),
        }
    }

    /// [9]
    fn stop(&mut self) {
        self.is_over = true;
        self.cells.values_mut().for_each(|it| (it.stage, it.doubted, it.unlinked) = (None, None, None));
    }

    /// What must be seen before `extent` changes.
    #[must_use]
    pub fn needs(&self, extent: Extent<Addr>) -> BTreeSet<Block> {
        let is_needed =
            |it: &Block| self.format.kind(*it) == Kind::Geometry || self.sources.contains_key(it);
        self.blocks_of(extent).into_iter().filter(is_needed).collect()
    }

    /// `extent` gets `content`; `seen`, whole blocks, holds `old` [5].
    pub fn overwriting(
        &mut self,
        extent: Extent<Addr>,
        content: Content<'_>,
        seen: Extent<Addr>,
        old: &[u8],
    ) {
        let new = patched(seen, old, extent, content);
        let bytes = self.format.block_bytes() as usize;
        for (n, block) in self.blocks_of(seen).into_iter().enumerate() {
            let part = n * bytes..(n + 1) * bytes;
            match self.format.kind(block) {
                Kind::Geometry => self.geometry(block, &old[part.clone()], &new[part]),
                _ => self.source_changes(block, &old[part.clone()], &new[part]),
            }
        }
    }

    /// Blocks that it wants to read.
    #[must_use]
    pub fn wants(&self) -> BTreeSet<Block> {
        let sources = self.sources.iter().filter(|(_, source)| source.is_wanted());
        sources.map(|(block, _)| *block).chain(self.maps.keys().copied()).collect()
    }

    /// What was read.
    pub fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        let Some(content) = content else { return self.stop() };
        let bytes = self.format.block_bytes() as usize;
        for (block, content) in self.blocks_of(extent).into_iter().zip(content.chunks(bytes)) {
            if let Some(by_tool) = self.maps.remove(&block) {
                self.map_read(block, content, by_tool);
            }
            self.source_read(block, content);
        }
    }

    /// [6]
    pub fn cut(&mut self) {
        for cell in self.cells.values_mut().filter(|it| it.stage == Some(Stage::Young)) {
            cell.stage = Some(Stage::Cut);
        }
    }

    /// [6]
    pub fn proven(&mut self) {
        let cut: Vec<_> = self.cells.iter().filter(|(_, it)| it.stage == Some(Stage::Cut)).collect();
        let cut: Vec<_> = cut.into_iter().map(|(block, _)| *block).collect();
        for block in cut {
            let waits = self.names(block) > 0 && !self.options.eager;
            let stage = if waits { Stage::NamedDead } else { Stage::Ready };
            self.cells.get_mut(&block).expect("it was there").stage = Some(stage);
        }
    }

    /// All that is to be done now: `layers` and `all` as in
    /// [`quietus_core::watch::Scope`].
    #[must_use]
    pub fn due(&mut self, layers: bool, all: bool) -> BTreeMap<Block, Verdict> {
        let mut due = BTreeMap::new();
        if self.is_over {
            return due;
        }
        let is_known = self.sources.values().all(|it| it.is_read);
        for (block, cell) in &self.cells {
            if cell.stage == Some(Stage::Ready) && is_known {
                due.insert(*block, Verdict::Dead);
            }
            let Some(since) = cell.unlinked.filter(|_| layers) else { continue };
            if all || !self.clock.is_within_active(since, self.options.settle_ms) {
                due.insert(*block, Verdict::Scour);
            }
        }
        due
    }

    /// `verdict` on `block` was handed out.
    pub fn handed_out(&mut self, block: Block, verdict: Verdict) {
        let cell = self.cells.get_mut(&block).expect("verdicts are on data");
        match verdict {
            Verdict::Dead => (cell.stage, cell.suspicious) = (None, false),
            Verdict::Scour => (cell.unlinked, cell.suspicious) = (None, true),
        }
    }

    /// The parts of `extent` to be destroyed before it is written [2].
    pub fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut parts = Vec::new();
        for block in self.blocks_of(extent) {
            let place = self.place(block);
            let Some(part) = extent.overlap(place).filter(|_| self.may_be_dead(block)) else { continue };
            parts.push(part);
            let cell = self.cells.get_mut(&block).expect("it may be dead");
            (cell.stage, cell.doubted, cell.unlinked) = (None, None, None);
            cell.suspicious = part != place;
        }
        parts
    }

    fn may_be_dead(&self, block: Block) -> bool {
        let Some(cell) = self.cells.get(&block) else { return false };
        cell.suspicious || cell.stage.is_some() || cell.doubted.is_some() || cell.unlinked.is_some()
    }

    /// How many blocks are live, suspicious, doubted, condemned and named: for
    /// comparison.
    #[must_use]
    pub fn census(&self) -> Census {
        let of = |is: &dyn Fn(&Cell) -> bool| {
            let chosen = self.cells.iter().filter(|(_, cell)| is(cell));
            chosen.map(|(block, _)| *block).collect()
        };
        Census {
            live: of(&|it| it.live),
            suspicious: of(&|it| it.suspicious),
            doubted: of(&|it| it.doubted.is_some()),
            condemned: of(&|it| it.stage.is_some()),
            unlinked: of(&|it| it.unlinked.is_some()),
        }
    }
}

/// Blocks, by what is known of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Census {
    /// By the shadow bitmap.
    pub live: Vec<Block>,
    /// Their next write destroys first.
    pub suspicious: Vec<Block>,
    /// Shown free too soon.
    pub doubted: Vec<Block>,
    /// Shown free, and not handed out.
    pub condemned: Vec<Block>,
    /// To be overwritten conservatively, and not handed out.
    pub unlinked: Vec<Block>,
}

/// Each block, and whether it is shown allocated.
fn each(shown: &[quietus_detect::format::Shown]) -> Vec<(Block, bool)> {
    shown.iter().flat_map(|it| it.blocks.clone().map(|block| (block, it.allocated))).collect()
}

/// `old`, the content of `seen`, once `extent` has got `content`.
fn patched(seen: Extent<Addr>, old: &[u8], extent: Extent<Addr>, content: Content<'_>) -> Vec<u8> {
    let mut new = old.to_vec();
    let Some(both) = seen.overlap(extent) else { return new };
    let into = (both.start.0 - seen.start.0) as usize..(both.end() - seen.start.0) as usize;
    match content {
        Content::Zeros => new[into].fill(0),
        Content::Bytes(bytes) => {
            let from = (both.start.0 - extent.start.0) as usize;
            new[into].copy_from_slice(&bytes[from..from + both.len as usize]);
        }
    }
    new
}
