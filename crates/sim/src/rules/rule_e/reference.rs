//! Rule E once more, written from `docs/decisions/0006-rule-e.md` alone.
//!
//! Slow and dull on purpose: every pointer that was observed is kept with the
//! block that it stands in, every time is kept as it is, and every question is
//! answered by looking at all of it. It shares nothing with the product but
//! the file system's format. Numbers in parentheses name the page's rules.

mod names;
pub(crate) mod time;
mod unwritten;

use crate::machine::content::indices;
use crate::rules::differential::{Census, Version, place};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{self, Attached, Content, Observation, Verdict};
use quietus_detect::formats::format::{Block, Format, Geometry, Kind};
use quietus_detect::rules::options::{Grade, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use names::Source;
use time::{Clock, Moment, QUIET_MS, Review};
use unwritten::Unwritten;

/// How far a condemned block is on its way (6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// The evidence came after the last cut.
    Unsynced,
    /// The evidence came before the last cut.
    Syncing,
    /// The evidence is durable, and a pointer names the block.
    Referenced,
    /// The block may be destroyed.
    Confirmed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Cell {
    live: bool,
    suspicious: bool,
    unconfirmed: Option<Moment>,
    stage: Option<Stage>,
    /// When the block lost a name while live.
    unlinked: Option<Moment>,
    /// The lost name has not settled: a conservative overwrite is due.
    conservative: bool,
    /// When it was written, if no map has shown it in its turn since (3).
    written: Option<Moment>,
    /// Written or given a name; forgotten when that has settled.
    stirred: Option<Moment>,
    /// Written since the file system was called whole (8).
    touched: bool,
    /// The block lost a name and kept another, and it is not known which names are left (5).
    shaky: bool,
    unwritten: Unwritten,
}

/// The second implementation.
#[derive(Debug)]
pub struct Reference<F> {
    format: F,
    options: Options,
    clock: Clock,
    cells: BTreeMap<Block, Cell>,
    sources: BTreeMap<Block, Source>,
    in_use: bool,
    /// Clients that are connected (3).
    clients: usize,
    attached: Attached,
    /// The mount was observed, and no other host has taken the file system over since (10).
    mount_observed: bool,
    review: Option<Review>,
    /// Maps that are to be read, and whether a tool calls them whole.
    maps: BTreeMap<Block, bool>,
    /// All names have been known once: nothing is cut before (6).
    is_surveyed: bool,
    /// For unwritten blocks, names that are read count like names that are written (10).
    reads_count: bool,
    /// The file system came to rest, and the unwritten are to be judged by that (10).
    rests: bool,
    is_over: bool,
}

impl<F: Format> Reference<F> {
    /// Begins to watch (1).
    pub fn attach(format: F, options: Options, now: Millis, seen_from_start: bool) -> Self {
        let clock = Clock::new(now);
        let written = Some(clock.moment());
        let stirred = written.filter(|_| !seen_from_start);
        let cell = Cell { live: true, written, stirred, ..Cell::default() };
        let data = (0..format.blocks()).filter(|it| format.kind(*it) == Kind::Data);
        let cells = data.map(|it| (it, cell)).collect();
        let inodes = format.survey(Kind::Inodes).into_iter().flatten();
        let sources = inodes.map(|it| (it, Source::new(format.kind(it)))).collect();
        let whole = format.was_clean();
        let mut this = Self {
            options,
            clock,
            cells,
            sources,
            in_use: !whole,
            clients: 0,
            attached: Attached::Direct,
            mount_observed: false,
            review: None,
            maps: BTreeMap::new(),
            is_surveyed: false,
            reads_count: whole && seen_from_start,
            rests: false,
            is_over: false,
            format,
        };
        if whole {
            this.call_whole(!seen_from_start);
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

    /// Blocks for which `settle` of `active` has passed since this moment.
    fn settled(&mut self, since: fn(&Cell) -> Option<Moment>) -> Vec<Block> {
        let settle = self.settle_ms();
        let all = self.cells.iter().filter_map(|(it, cell)| Some((*it, since(cell)?)));
        all.filter(|(_, since)| !self.clock.is_within_active(*since, settle)).map(|it| it.0).collect()
    }

    fn cell(&mut self, block: Block) -> &mut Cell {
        self.cells.get_mut(&block).expect("maps show data, and pointers name it")
    }

    fn condemn(&mut self, block: Block) {
        let cell = self.cell(block);
        (cell.live, cell.stage, cell.unconfirmed) = (false, Some(Stage::Unsynced), None);
        (cell.unlinked, cell.conservative) = (None, false);
    }

    fn doubt(&mut self, block: Block) {
        let moment = self.clock.moment();
        self.cell(block).unconfirmed.get_or_insert(moment);
    }

    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        self.tick(now);
        self.clock.change();
        // A suspicion of what has an owner ends when it was neither written nor given a name for `settle` of `active` (5).
        for block in self.settled(|it| it.stirred) {
            let has_owner = !self.is_guessed(block);
            let cell = self.cell(block);
            cell.stirred = None;
            cell.suspicious &= !has_owner;
        }
        self.condemn_unwritten();
        // A doubt ends after `settle` of `active` (4).
        self.settled(|it| it.unconfirmed).into_iter().for_each(|it| self.condemn(it));
        self.sources_settle();
        // The write that was to settle the suspicion has not come (5).
        for block in self.settled(|it| it.unlinked) {
            let cell = self.cell(block);
            (cell.unlinked, cell.conservative) = (None, true);
        }
        if let Some(review) = &mut self.review {
            review.at = Millis(now.0 + QUIET_MS);
        }
        for block in blocks_of(&self.format, extent) {
            match (self.format.kind(block), content) {
                (Kind::Data, Content::Bytes(_)) => self.written(block),
                (Kind::Data, Content::Zeros) => self.freed(block),
                (Kind::Inodes, Content::Zeros) => {}
                (_, Content::Zeros) => self.stop(),
                (Kind::Map, Content::Bytes(bytes)) => self.map_written(block, extent, bytes),
                _ => {}
            }
        }
    }

    /// A write to data (2).
    fn written(&mut self, block: Block) {
        let is_orphan = self.is_guessed(block) && self.options.grade != Grade::Block;
        let moment = self.clock.moment();
        let cell = self.cell(block);
        (cell.live, cell.stage, cell.unconfirmed) = (true, None, None);
        (cell.written, cell.stirred, cell.touched) = (Some(moment), Some(moment), true);
        cell.suspicious |= is_orphan;
        self.filled(block);
    }

    /// The guest itself frees the block (7).
    fn freed(&mut self, block: Block) {
        let cell = self.cell(block);
        let Cell { written, stirred, touched, shaky, unwritten, .. } = *cell;
        *cell = Cell { written, stirred, touched, shaky, unwritten: unwritten.filled(), ..Cell::default() };
    }

    /// (3)
    fn map_written(&mut self, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let at = extent.overlap(place(block, self.format.block_bytes())).expect("the block is touched");
        let from = (at.start.0 - extent.start.0) as usize;
        let Ok(shown) = self.format.map(at, &bytes[from..from + at.len as usize]) else {
            return self.stop();
        };
        // Above a journal elsewhere, a map that shows a block free may be a recovery's, or too old for what was written
        // there (10).
        let is_journaled = self.in_use && self.format.has_external_journal();
        let is_replayed = self.format.map_needs_rest() || self.format.has_external_journal();
        for (block, allocated) in each(&shown) {
            match (self.cells.get(&block).map(|it| it.live), allocated) {
                (Some(_), true) if self.cells[&block].unwritten.hollow => {}
                (Some(false), false) => self.cell(block).unwritten.hollow = false,
                (Some(_), true) => self.shown_allocated(block),
                (Some(true), false) if is_journaled && (!self.mount_observed || self.is_recent(block)) => {}
                (Some(true), false) if self.format.map_needs_rest() => self.doubt(block),
                (Some(true), false) if self.is_recent(block) => self.doubt(block),
                (Some(true), false) => self.condemn(block),
                _ => {}
            }
            if self.in_use && self.clients <= 1 && !is_replayed {
                self.cells.get_mut(&block).into_iter().for_each(|it| it.written = None);
            }
        }
    }

    /// Notes that earlier writes may come again (3).
    fn connected(&mut self, now: Millis, clients: usize) {
        self.tick(now);
        self.clients = clients;
        let moment = self.clock.moment();
        self.cells.values_mut().filter(|it| it.live).for_each(|it| it.written = Some(moment));
    }

    fn shown_allocated(&mut self, block: Block) {
        let (grade, moment) = (self.options.grade, self.clock.moment());
        let cell = self.cell(block);
        let was_dying = cell.stage.is_some() || cell.unconfirmed.is_some();
        if cell.stage.is_some() && grade != Grade::Block {
            cell.unlinked.get_or_insert(moment);
        }
        (cell.live, cell.stage, cell.unconfirmed) = (true, None, None);
        cell.suspicious |= was_dying && grade != Grade::Block;
    }

    /// Whether no map proves the block free yet (3).
    fn is_recent(&mut self, block: Block) -> bool {
        let Cell { written, stirred, .. } = self.cells[&block];
        let (window, settle) = (self.options.reorder_window_ms, self.settle_ms());
        if self.in_use && !self.attached.is_cached() {
            written.is_some_and(|it| self.clock.is_within(it, window))
        } else {
            stirred.is_some_and(|it| self.clock.is_within_active(it, settle))
        }
    }

    /// (8)
    fn call_whole(&mut self, by_tool: bool) {
        let by_tool = by_tool || self.attached.is_cached();
        (self.in_use, self.mount_observed) = (false, false);
        self.rests = !by_tool;
        self.maps.clear();
        self.review = Some(Review { at: Millis(self.clock.now + QUIET_MS), by_tool });
        self.cells.values_mut().for_each(|it| it.touched = false);
    }

    /// A map was read again (8).
    fn map_read(&mut self, block: Block, bytes: &[u8], by_tool: bool) {
        let Ok(shown) = self.format.map(place(block, self.format.block_bytes()), bytes) else {
            return self.stop();
        };
        for (block, allocated) in each(&shown) {
            let Some(cell) = self.cells.get(&block) else { continue };
            if allocated || !cell.live || cell.touched {
                continue;
            }
            let stirred = cell.stirred.filter(|_| by_tool);
            let settle = self.settle_ms();
            if stirred.is_some_and(|it| self.clock.is_within_active(it, settle)) {
                self.doubt(block);
            } else {
                self.condemn(block);
            }
        }
    }

    fn geometry(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.geometry(block, old, new) {
            Geometry::Same => {}
            Geometry::InUse => self.in_use = true,
            Geometry::Mounted => (self.in_use, self.mount_observed) = (true, true),
            Geometry::Unmounted => self.call_whole(false),
            Geometry::Clean => self.call_whole(true),
            Geometry::Changed => self.stop(),
        }
    }

    /// (9)
    fn stop(&mut self) {
        self.is_over = true;
        self.cells.values_mut().for_each(|it| (it.stage, it.unconfirmed, it.unlinked) = (None, None, None));
    }

    /// A block gets new content (5).
    fn changes(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.kind(block) {
            Kind::Geometry => self.geometry(block, old, new),
            _ => self.source_changes(block, old, new),
        }
    }

    /// Takes content that was read.
    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        let Some(content) = content else { return self.stop() };
        let bytes = self.format.block_bytes() as usize;
        for (block, content) in blocks_of(&self.format, extent).into_iter().zip(content.chunks(bytes)) {
            if let Some(by_tool) = self.maps.remove(&block) {
                self.map_read(block, content, by_tool);
            }
            self.source_read(block, content);
        }
        self.condemn_unwritten();
    }

    /// (6)
    fn cut(&mut self) {
        self.is_surveyed |= self.knows_names();
        if !self.is_surveyed {
            return;
        }
        for cell in self.cells.values_mut().filter(|it| it.stage == Some(Stage::Unsynced)) {
            cell.stage = Some(Stage::Syncing);
        }
    }

    /// (6)
    fn proven(&mut self) {
        let cut: Vec<_> = self.cells.iter().filter(|(_, it)| it.stage == Some(Stage::Syncing)).collect();
        let cut: Vec<_> = cut.into_iter().map(|(block, _)| *block).collect();
        for block in cut {
            let waits = self.names(block) > 0 && self.asks_names() && !self.is_without_content(block);
            let stage = if waits { Stage::Referenced } else { Stage::Confirmed };
            self.cell(block).stage = Some(stage);
        }
    }

    fn knows_names(&self) -> bool {
        !self.asks_names() || self.sources.values().all(Source::is_known)
    }

    /// Where a map is final, names hold up no death (decision 9).
    fn asks_names(&self) -> bool {
        !self.options.eager && !self.format.map_is_final()
    }

    /// How long ago it was on both clocks, as far as that matters.
    fn ages(&self, then: Moment) -> (u64, u64) {
        let now = self.clock.moment();
        let (window, settle) = (self.options.reorder_window_ms, self.settle_ms());
        ((now.now - then.now).min(2 * window), (now.active - then.active).min(2 * settle))
    }

    fn may_be_dead(&self, block: Block) -> bool {
        let Some(cell) = self.cells.get(&block) else { return false };
        let is_overwritten = cell.live && self.options.grade == Grade::Content;
        is_overwritten
            || cell.suspicious
            || cell.stage.is_some()
            || cell.unconfirmed.is_some()
            || cell.unlinked.is_some()
            || cell.conservative
    }
}

/// Below a cache (the page's section of that name).
impl<F: Format> Reference<F> {
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
        self.attached = attached;
        let moment = self.clock.moment();
        for cell in self.cells.values_mut() {
            for since in [&mut cell.unconfirmed, &mut cell.unlinked, &mut cell.stirred].into_iter().flatten()
            {
                *since = moment;
            }
            if attached.is_cached() {
                if cell.stage.take().is_some() {
                    (cell.live, cell.unconfirmed) = (true, Some(moment));
                }
                cell.stirred = if cell.live { Some(moment) } else { cell.stirred };
            } else if cell.live {
                cell.written = Some(moment);
            }
        }
        self.sources.values_mut().filter_map(|it| it.unsettled.as_mut()).for_each(|it| *it = moment);
        if attached.is_cached() {
            self.unwritten_distrust();
            self.review.iter_mut().for_each(|it| it.by_tool = true);
            self.maps.values_mut().for_each(|by_tool| *by_tool = true);
        }
    }
}

impl<F: Format> Version for Reference<F> {
    fn observe(&mut self, at: watch::Moment, observation: Observation<'_>) {
        match observation {
            Observation::Arrived { extent, content } => self.arrived(at.now, extent, content),
            Observation::Overwriting { extent, content, old_extent, old } => {
                let changes = changes(&self.format, (old_extent, old), (extent, content));
                changes.iter().for_each(|(block, old, new)| self.changes(*block, old, new));
            }
            Observation::Given { extent, content } => self.given(extent, content),
            // (10)
            Observation::Read(extent) => self.mount_observed &= !self.format.is_opened_by(extent),
            Observation::Clients => self.connected(at.now, at.clients),
            Observation::Attached => self.attached(at.now, at.attached),
            Observation::Tick => self.tick(at.now),
            Observation::Cut => self.cut(),
            Observation::Proven => self.proven(),
            Observation::Refused { .. } | Observation::Stopping => {}
        }
    }

    fn needs(&self, extent: Extent<Addr>) -> BTreeSet<Block> {
        let is_needed = |it: &Block| self.format.kind(*it) == Kind::Geometry || self.sources.contains_key(it);
        blocks_of(&self.format, extent).into_iter().filter(is_needed).collect()
    }

    fn wants(&self) -> BTreeSet<Block> {
        let sources = self.sources.iter().filter(|(_, source)| source.is_wanted());
        sources.map(|(block, _)| *block).chain(self.maps.keys().copied()).collect()
    }

    fn due(&self, all: bool) -> BTreeMap<Block, Verdict> {
        let mut due = BTreeMap::new();
        if self.is_over {
            return due;
        }
        let is_known = self.knows_names();
        for (block, cell) in &self.cells {
            if cell.stage == Some(Stage::Confirmed) && is_known {
                due.insert(*block, Verdict::Dead);
            }
            if cell.conservative || (all && cell.unlinked.is_some()) {
                due.insert(*block, Verdict::ConservativeOverwrite);
            }
        }
        due
    }

    fn handed_out(&mut self, block: Block, verdict: Verdict, all: bool) {
        let cell = self.cell(block);
        match verdict {
            Verdict::Dead => {
                (cell.stage, cell.suspicious, cell.unwritten.hollow) = (None, false, false);
            }
            Verdict::ConservativeOverwrite if all => {
                (cell.unlinked, cell.conservative, cell.suspicious) = (None, false, true)
            }
            Verdict::ConservativeOverwrite => (cell.conservative, cell.suspicious) = (false, false),
        }
    }

    /// (2)
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut parts = Vec::new();
        for block in blocks_of(&self.format, extent) {
            let there = place(block, self.format.block_bytes());
            let Some(part) = extent.overlap(there).filter(|_| self.may_be_dead(block)) else { continue };
            parts.push(part);
            let cell = self.cell(block);
            cell.suspicious = part != there;
            if part == there {
                (cell.stage, cell.unconfirmed, cell.unlinked, cell.conservative) = (None, None, None, false);
            }
        }
        parts
    }

    fn census(&self) -> Census {
        let count = |is: fn(&Cell) -> bool| self.cells.values().filter(|it| is(it)).count() as u64;
        let fixed = u64::from(self.format.blocks()) - self.cells.len() as u64;
        vec![
            ("live", count(|it| it.live) + fixed),
            ("suspicious", count(|it| it.suspicious)),
            ("unconfirmed", count(|it| it.unconfirmed.is_some())),
            (
                "dead, evidence not durable yet",
                count(|it| matches!(it.stage, Some(Stage::Unsynced | Stage::Syncing))),
            ),
            ("dead, still named", count(|it| it.stage == Some(Stage::Referenced))),
            ("named by pointers", self.cells.keys().filter(|it| self.names(**it) > 0).count() as u64),
        ]
    }

    /// (9)
    fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_unsure(&self) -> bool {
        self.clock.is_unsure
    }

    /// States that differ in nothing but when they were reached are one.
    fn digest(&self, mut hasher: &mut dyn Hasher) {
        for cell in self.cells.values() {
            let Cell { live, suspicious, unconfirmed, stage, unlinked, .. } = cell;
            let Cell { conservative, written, stirred, touched, shaky, unwritten, .. } = cell;
            (live, suspicious, stage, conservative, touched, shaky, unwritten).hash(&mut hasher);
            [unconfirmed, unlinked, written, stirred].map(|it| it.map(|it| self.ages(it))).hash(&mut hasher);
        }
        for (block, it) in &self.sources {
            (block, it.named, it.counted, it.ended, it.is_asked_again).hash(&mut hasher);
            (&it.links, it.unsettled.map(|it| self.ages(it))).hash(&mut hasher);
        }
        let review = self.review.as_ref().map(|it| (it.at.0.saturating_sub(self.clock.now), it.by_tool));
        (self.in_use, self.clients, self.attached.is_cached(), self.mount_observed).hash(&mut hasher);
        (review, &self.maps, self.is_over, self.is_surveyed, self.clock.gap()).hash(&mut hasher);
        (self.reads_count, self.rests).hash(&mut hasher);
    }
}

/// Each block, and whether it is shown allocated.
fn each(shown: &[quietus_detect::formats::format::Shown]) -> Vec<(Block, bool)> {
    shown.iter().flat_map(|it| it.blocks.clone().map(|block| (block, it.allocated))).collect()
}

/// The blocks of a file system that `extent` touches.
pub(crate) fn blocks_of(format: &dyn Format, extent: Extent<Addr>) -> Vec<Block> {
    let bytes = u64::from(format.block_bytes());
    let end = extent.end().div_ceil(bytes).min(u64::from(format.blocks()));
    (extent.start.0 / bytes..end).map(|it| it as Block).collect()
}

/// Each block of `old_extent`, which holds `old`, before and after `extent` gets `content`.
pub(crate) fn changes(
    format: &dyn Format,
    (old_extent, old): (Extent<Addr>, &[u8]),
    (extent, content): (Extent<Addr>, Content<'_>),
) -> Vec<(Block, Vec<u8>, Vec<u8>)> {
    let mut new = old.to_vec();
    if let Some(both) = old_extent.overlap(extent) {
        let into = &mut new[indices(both, old_extent.start.0)];
        match content {
            Content::Zeros => into.fill(0),
            Content::Bytes(bytes) => into.copy_from_slice(&bytes[indices(both, extent.start.0)]),
        }
    }
    let bytes = format.block_bytes() as usize;
    let (old, new) = (old.chunks(bytes).map(<[u8]>::to_vec), new.chunks(bytes).map(<[u8]>::to_vec));
    let blocks = blocks_of(format, old_extent).into_iter();
    blocks.zip(old.zip(new)).map(|(block, (old, new))| (block, old, new)).collect()
}
