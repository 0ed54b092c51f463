//! Rule J: infers deaths below a file system with a journal.
//!
//! The journal is the truth: a transaction counts when its commit block has arrived, and its copies
//! show the allocation maps as of one moment. The rule relies on no order of arrival, and on no
//! mode of the file system's data. `docs/decisions/0008-rule-j.md` has the rules and their proof.
//! Invariants:
//! 1. A block is *live* from the arrival of a write to it until a committed map that is two commits
//!    younger than that write shows it free.
//! 2. An unknown block is not free: a block that no map has shown free since the position was lost
//!    is never called dead ([`RuleJ::lose`]), and no map counts as long as it is unknown.
//! 3. Nothing in the journal is called dead from its tail on ([`log`](journal::log)).
//! 4. Nothing is called dead before the evidence is durable ([`crate::rules::rule::deaths`]).
//! 5. Time proves nothing. But below a cache, which may not pass flushes on, a death waits until
//!    everything older has passed it ([`cached`]).

mod cached;
mod journal;
mod marked;
mod place;
mod receiving;
mod refused;
mod unwritten;
mod view;

use crate::formats::format::{Block, Format, Kind, Reason};
use crate::formats::jbd2::Tid;
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::options::{Grade, Options};
use crate::rules::rule::deaths::Deaths;
use crate::rules::rule::history::{Clock, RecentBlocks};
use crate::rules::rule::survey::Survey;
use crate::rules::rule::{Grid, NOT_FOLLOWED, Rule, joined, overlaid, split};
use crate::rules::rule_j::journal::commits::{Commits, Map};
use crate::rules::rule_j::journal::log::Log;
use crate::rules::rule_j::journal::reads::{Purpose, Reads};
use marked::Marked;
use place::Place;
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{
    Agenda, Attached, Class, Content, Moment, Observation, Observer, Scope, Verdict, Waits, WaitsFor,
};
use roaring::RoaringBitmap;
use std::ops::{Range, RangeInclusive};
use unwritten::Unwritten;

/// Rule J above one file system.
#[derive(Debug)]
pub struct RuleJ {
    format: Box<dyn Format>,
    grid: Grid,
    options: Options,
    clock: Clock,
    /// The shadow bitmap: blocks written, or allocated, since a commit showed them free.
    live: RoaringBitmap,
    /// Blocks that the newest committed map shows free.
    free: RoaringBitmap,
    /// Blocks both free and live.
    candidates: RoaringBitmap,
    /// Live blocks whose present content may be dead, although they are allocated.
    suspicious: RoaringBitmap,
    /// Blocks written within the settling time.
    lately: RecentBlocks,
    deaths: Deaths,
    survey: Survey,
    /// Maps committed since the decision to read them in place.
    committed: RoaringBitmap,
    /// Further maps may have been committed, unseen.
    committed_unseen: bool,
    place: Place,
    /// The blocks of the journal.
    journal: RoaringBitmap,
    /// The log, once the journal's superblock has been seen.
    log: Option<Log>,
    commits: Commits,
    unwritten: Unwritten,
    reads: Reads,
    /// Place in the log at the last stop.
    resumes: Option<(Tid, u32)>,
    /// The file system is mounted, by its own mark.
    in_use: bool,
    /// Blocks of geometry whose last write that was shown meant a change.
    marks: RoaringBitmap,
    /// Marks of files; `None` if everything is sensitive.
    marked: Option<Marked>,
    attached: Attached,
    changed: bool,
    broken: Option<Reason>,
    figures: Figures,
}

/// The writer of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    /// The guest, in a transaction or at the unmount.
    Guest,
    /// A tool, which may have found an owner.
    Tool,
}

/// Counters for the status, in blocks unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Figures {
    freed: u64,
    residue: u64,
    reused: u64,
    losses: u64,
    unwritten: u64,
}

impl RuleJ {
    /// Begins to watch below `format`, whose journal lies in the blocks of `journal`, in its own
    /// order. `seen_from_start` says that nothing was written since the disk was opened.
    #[must_use]
    pub fn attach(
        format: Box<dyn Format>,
        journal: Vec<Range<Block>>,
        options: Options,
        now: Millis,
        seen_from_start: bool,
    ) -> Self {
        let place = Place::new(journal);
        let mut rule = Self {
            grid: Grid::of(&*format),
            options,
            clock: Clock::new(now),
            free: RoaringBitmap::new(),
            candidates: RoaringBitmap::new(),
            suspicious: RoaringBitmap::new(),
            lately: RecentBlocks::new(0),
            deaths: Deaths::default(),
            survey: Survey::new(Vec::new(), format.block_bytes()),
            committed: RoaringBitmap::new(),
            committed_unseen: false,
            marked: Marked::of(&*format, &place.all(), options),
            journal: place.all(),
            place,
            log: None,
            commits: Commits::default(),
            unwritten: Unwritten::default(),
            reads: Reads::default(),
            resumes: None,
            in_use: !format.was_clean(),
            marks: RoaringBitmap::new(),
            attached: Attached::Direct,
            live: set_of(Some(0..format.blocks())),
            format,
            changed: false,
            broken: None,
            figures: Figures::default(),
        };
        rule.begin(seen_from_start);
        rule
    }

    fn begin(&mut self, seen_from_start: bool) {
        self.commits.write_all(self.format.blocks());
        if !seen_from_start {
            self.lately.extend(&self.live);
        }
        if !seen_from_start || self.in_use {
            self.unwritten = Unwritten::new(self.live.clone());
        }
        if let Some(first) = self.place.block(0) {
            self.reads.want(first);
        }
        if !self.in_use {
            self.reread_maps(seen_from_start);
            self.search_marks(false);
        }
    }

    fn written(&mut self, extent: Extent<Addr>, bytes: &[u8]) {
        let Some(blocks) = self.grid.touched(extent) else { return };
        self.content_written(extent);
        let mut data = None;
        for block in blocks {
            if let Some(index) = self.place.index(block) {
                self.journal_written(index, block, extent, bytes);
                continue;
            }
            match self.format.kind(block) {
                Kind::Data => joined(&mut data, block).into_iter().for_each(|run| self.data_written(run)),
                Kind::Map => self.map_written(),
                Kind::Inodes => self.inodes_written(block),
                _ => {}
            }
        }
        data.into_iter().for_each(|run| self.data_written(run));
    }

    /// Invariant 1.
    fn data_written(&mut self, run: RangeInclusive<Block>) {
        self.revive(run.clone());
        if self.free.range_cardinality(run.clone()) > 0 {
            self.candidates.extend(self.free.range(run.clone()));
        }
        if !mutant::is(Mutant::WriteOutsideWindow) {
            self.commits.written.insert_range(run.clone());
        }
        self.lately.insert(run.clone());
        self.unwritten.written(run.clone());
        self.survey.written(run);
    }

    fn revive(&mut self, run: RangeInclusive<Block>) {
        self.live.insert_range(run.clone());
        if !mutant::is(Mutant::WriteRevivesNothing) {
            self.deaths.revive(run);
        }
    }

    /// Takes a write of a map. While the file system is mounted, the write repeats a commit.
    /// Otherwise a tool writes, through a cache that knows no order.
    fn map_written(&mut self) {
        if !self.in_use && !self.survey.awaits_tools() {
            self.reread_maps(false);
        }
    }

    fn reread_maps(&mut self, in_order: bool) {
        self.committed.clear();
        self.committed_unseen = self.log.as_ref().is_some_and(|log| !log.is_known());
        self.survey.reread_maps(self.format.survey(Kind::Map), self.clock.now, in_order);
    }

    /// Applies the commits that have all their maps, the oldest first.
    fn settle(&mut self) {
        while self.follow_marks() {
            let Some(mut settled) = self.commits.pop() else { return };
            for map in std::mem::take(&mut settled.maps) {
                self.committed.insert(map.block);
                self.shown(map, &settled.written, Word::Guest);
            }
            self.settle_content(&settled.window);
            let since =
                if mutant::is(Mutant::OneCommitProves) { &self.commits.written } else { &settled.written };
            let dead = self.passed_cache(&self.candidates - since);
            self.condemn(dead);
            self.unwritten_settles(&mut settled);
            self.unwritten_at_rest();
        }
    }

    /// Takes the newest state of a map. Blocks `written` since the state before need not hold the
    /// content that was free then. A condemned block is dead whatever owns it by now: an owner's
    /// write would have revived it. Only a tool may take a death back; and an owned block does not
    /// die at grade `block`.
    fn shown(&mut self, map: Map, written: &RoaringBitmap, word: Word) {
        let Map { allocated, free, .. } = map;
        if !free.is_disjoint(&self.journal) {
            self.broken = Some(Reason("a map shows the journal as free".into()));
            return;
        }
        let allocated = allocated - &self.journal;
        self.free -= &allocated;
        self.unwritten.shown(&free);
        if word == Word::Tool || self.options.grade == Grade::Block {
            self.unwritten.shown(&allocated);
            self.revoke(&allocated);
        }
        self.suspect((&allocated & &self.candidates) - written);
        self.candidates -= &allocated;
        if self.knows_position() {
            self.candidates |= &free & &self.live;
            self.free |= free;
        }
    }

    /// Whether no transaction from here on can be missed, with the maps in it.
    fn knows_position(&self) -> bool {
        self.log.as_ref().is_some_and(Log::is_known)
    }

    fn revoke(&mut self, allocated: &RoaringBitmap) {
        let revoked = if mutant::is(Mutant::RevokeIgnored) { &RoaringBitmap::new() } else { allocated };
        let uncertain = self.deaths.revoke(revoked);
        self.live |= &uncertain;
        self.suspect(uncertain);
    }

    /// Notes that the present content of `blocks` may be of an owner that is gone.
    fn suspect(&mut self, blocks: RoaringBitmap) {
        if self.options.grade != Grade::Block && !mutant::is(Mutant::CandidatesForgotten) {
            let plain = self.plain(&blocks);
            self.suspicious |= blocks - plain;
        }
    }

    fn condemn(&mut self, dead: RoaringBitmap) {
        self.live -= &dead;
        self.candidates -= &dead;
        self.figures.freed += dead.len();
        let plain = self.plain(&dead);
        self.deaths.condemn(dead - plain, self.clock.now);
    }

    /// Takes zeros, or a free of the guest's own.
    fn zeroed(&mut self, extent: Extent<Addr>) {
        let Some(blocks) = self.grid.touched(extent) else { return };
        for block in blocks {
            let index = self.place.index(block);
            match self.format.kind(block) {
                Kind::Geometry => self.changed = true,
                Kind::Map => self.map_written(),
                _ if index == Some(0) => self.changed = true,
                _ => {}
            }
            if let (Some(index), Some(log)) = (index, &mut self.log) {
                log.gone(index);
                self.reads.written(block, false);
                self.log_overwritten(index);
            }
        }
        if let Some(blocks) = self.grid.covered(extent) {
            self.gone(blocks);
        }
    }

    /// Drops `blocks`, which hold nothing to destroy any more.
    fn gone(&mut self, blocks: RangeInclusive<Block>) {
        self.live.remove_range(blocks.clone());
        self.candidates.remove_range(blocks.clone());
        self.suspicious.remove_range(blocks.clone());
        self.deaths.revive(blocks.clone());
        self.unwritten.filled(blocks.clone());
        self.deaths.forgive(blocks);
    }

    /// Takes a map that was read after everything had been written. Maps committed since are newer.
    fn map_reread(&mut self, block: Block, content: &[u8]) {
        let Some(exempt) = self.survey.exempt(block) else { return };
        let blind = mutant::is(Mutant::RereadWithoutExemption);
        let exempt = if blind { RoaringBitmap::new() } else { exempt.clone() };
        match self.format.map_at_rest(self.grid.extent_of(block), content) {
            Ok(_) if self.committed.contains(block) || (self.in_use && self.committed_unseen) => {}
            Ok(shown) => {
                let (allocated, free) = split(&shown);
                let mut dead = (&free & &self.live) - &exempt;
                if !self.survey.is_in_order() {
                    dead -= self.lately.within(&dead);
                }
                let word = if self.survey.is_in_order() { Word::Guest } else { Word::Tool };
                self.shown(Map { block, allocated, free }, &exempt, word);
                self.condemn(dead);
            }
            Err(reason) => self.broken = Some(reason),
        }
        self.survey.map_reread(block);
        if !self.survey.rereads_maps() {
            self.maps_known();
        }
    }

    /// The blocks within `blocks` whose present content may be dead.
    fn may_be_dead(&self, blocks: RangeInclusive<Block>) -> RoaringBitmap {
        let mut found: RoaringBitmap = self.suspicious.range(blocks.clone()).collect();
        self.deaths.add_within(blocks.clone(), &mut found);
        if self.options.grade != Grade::Block {
            found.extend(self.candidates.range(blocks.clone()));
        }
        if self.options.grade == Grade::Content {
            found.extend(self.live.range(blocks).filter(|block| self.format.kind(*block) == Kind::Data));
        }
        // A recovery needs the journal's superblock.
        self.place.block(0).map(|superblock| found.remove(superblock));
        let plain = self.plain_now(&found);
        found - plain
    }

    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        self.clock.change(now);
        self.lately.expire(self.clock.active_ms, self.options.settle_ms_below(self.attached));
        self.survey.tick(self.clock.now);
        self.survey.changed(now);
        match content {
            Content::Bytes(bytes) => self.written(extent, bytes),
            Content::Zeros => self.zeroed(extent),
        }
    }

    fn overwriting(
        &mut self,
        extent: Extent<Addr>,
        content: Content<'_>,
        old_extent: Extent<Addr>,
        old: &[u8],
    ) {
        let Some(blocks) = self.grid.covered(old_extent) else { return };
        for (block, old) in blocks.zip(old.chunks_exact(self.format.block_bytes() as usize)) {
            if let Some(wanted) = self.reads.shown(block) {
                self.copy_seen(wanted, old);
                self.settle();
            } else if self.format.kind(block) == Kind::Geometry {
                let new = overlaid(self.grid.extent_of(block), old, extent, content);
                self.geometry_written(block, old, &new);
            } else {
                self.marked_block_seen(block, old, true);
                self.settle();
            }
        }
    }

    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        let Some(content) = content else {
            self.broken = Some(Reason("metadata could not be read".into()));
            return;
        };
        let Some(blocks) = self.grid.covered(extent) else { return };
        for (block, content) in blocks.zip(content.chunks_exact(self.format.block_bytes() as usize)) {
            match self.place.index(block).map(|index| (index, self.reads.given(block))) {
                Some((index, Purpose::Content)) => self.journal_seen(index, content, self.log.is_some()),
                Some((_, Purpose::Copy(wanted))) => {
                    self.copy_seen(wanted, content);
                    self.settle();
                }
                Some((_, Purpose::Void)) => {}
                None if self.format.kind(block) == Kind::Map => self.map_reread(block, content),
                None => {
                    self.marked_block_seen(block, content, false);
                    self.settle();
                }
            }
        }
    }

    fn tick(&mut self, now: Millis) {
        self.clock.tick(now);
        self.survey.tick(self.clock.now);
    }

    fn cut(&mut self) {
        self.deaths.cut();
        if mutant::is(Mutant::VerdictBeforeProven) {
            self.proven();
        }
    }

    fn proven(&mut self) {
        self.deaths.proven(&RoaringBitmap::new());
    }
}

impl Observer for RuleJ {
    /// Reads and clients change nothing: a transaction itself says what counts.
    fn observe(&mut self, at: Moment, observation: Observation<'_>) {
        match observation {
            Observation::Arrived { extent, content } => self.arrived(at.now, extent, content),
            Observation::Overwriting { extent, content, old_extent, old } => {
                self.overwriting(extent, content, old_extent, old);
            }
            Observation::Refused { extent, was_shown } => self.refused(at.now, extent, was_shown),
            Observation::Given { extent, content } => self.given(extent, content),
            Observation::Attached => self.attached_so(at),
            Observation::Tick => self.tick(at.now),
            Observation::Cut => self.cut(),
            Observation::Proven => self.proven(),
            Observation::Read(_) | Observation::Clients | Observation::Stopping => {}
        }
        self.forget_plain();
    }

    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let Some(blocks) = self.grid.touched(extent) else { return Vec::new() };
        let mut needed = self.reads.shown_within(blocks.clone());
        needed.extend(blocks.clone().filter(|block| self.format.kind(*block) == Kind::Geometry));
        needed.extend(self.marked.iter().flat_map(|marked| marked.sources_within(blocks.clone())));
        self.grid.runs(needed)
    }

    fn wants(&mut self) -> Option<Extent<Addr>> {
        let read = self.reads.next().map(|block| self.grid.extent_of(block));
        read.or_else(|| self.survey.next_read()).or_else(|| self.next_marked())
    }

    fn agenda(&self) -> Agenda {
        let is_reading = !self.reads.is_empty() || self.marked.as_ref().is_some_and(Marked::is_reading);
        let is_idle = self.survey.is_idle() && !is_reading && self.deaths.is_idle();
        Agenda { unproven_since: self.deaths.since, wakes_at: self.survey.begins_at(), is_working: !is_idle }
    }

    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        if self.changed || self.broken.is_some() {
            return None;
        }
        if !scope.layers {
            self.suspicious.clear();
        }
        if let Some(marked) = &mut self.marked {
            marked.classes.has_layers = scope.layers;
        }
        let (grid, reads) = (&self.grid, &self.reads);
        let is_wanted = |extent| grid.touched(extent).is_some_and(|blocks| reads.hold_copy(blocks));
        let is_held = |extent| is_wanted(extent) && !mutant::is(Mutant::WantedIsResidue);
        let is_busy = |extent| (scope.is_busy)(extent) || is_held(extent);
        let scope = Scope { is_busy: &is_busy, ..scope };
        let (run, verdict) = self.deaths.next(true, scope, self.format.block_bytes().into())?;
        self.suspicious.remove_range(run.clone());
        self.unwritten.filled(run.clone());
        if let Some(marked) = &mut self.marked {
            marked.classes.handed_out(run.clone());
        }
        Some((self.grid.extent_of_run(&run), verdict))
    }

    fn waiting(&self) -> Waits<'_> {
        let mut runs = Vec::new();
        let empty = &self.unwritten.empty & &self.live;
        for (cause, blocks) in [(WaitsFor::Commits, &self.candidates), (WaitsFor::Content, &empty)] {
            let blocks = blocks - self.plain_now(blocks);
            runs.extend(self.grid.all_runs(&blocks).map(|run| (cause, run)));
        }
        Box::new(self.deaths.waiting(self.grid, WaitsFor::Proof).chain(runs))
    }

    fn classes(&self, extent: Extent<Addr>) -> Vec<(Extent<Addr>, Class)> {
        self.grid.classes(extent, |block| self.class(block))
    }

    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let Some(blocks) = self.grid.touched(extent) else { return Vec::new() };
        let found = self.may_be_dead(blocks);
        if found.is_empty() {
            return Vec::new();
        }
        self.figures.reused += found.len();
        if let Some(whole) = self.grid.covered(extent) {
            self.taken(&found, whole);
        }
        self.grid.suspect(&mut self.suspicious, &found, extent)
    }

    fn view(&self) -> Option<Vec<u8>> {
        self.known()
    }
}

impl Rule for RuleJ {
    fn format(&self) -> &dyn Format {
        &*self.format
    }

    fn is_in_use(&self) -> bool {
        self.in_use
    }

    fn has_changed(&self) -> bool {
        self.changed
    }

    fn broken(&self) -> Option<&Reason> {
        self.broken.as_ref()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.format.figures();
        figures.extend([
            ("blocks of the journal", self.journal.len()),
            ("place in the journal known (1: yes)", self.knows_position().into()),
            ("commits received", self.commits.received),
            ("live", self.live.len()),
            ("free by a committed map", self.free.len()),
            ("free, and written within two commits", self.candidates.len()),
            ("suspicious", self.suspicious.len()),
            ("dead, evidence not durable yet", self.deaths.unproven()),
            ("shown free, with residue of the journal", self.figures.freed),
            ("residue of the journal", self.figures.residue),
            ("dead below unwritten extents", self.figures.unwritten),
            ("written while suspicious", self.figures.reused),
            ("times that the place in the journal was lost", self.figures.losses),
        ]);
        figures.extend(self.marked.iter().flat_map(Marked::figures));
        figures
    }

    fn marks(&self) -> Result<&'static str, &'static str> {
        self.marked.as_ref().map_or(Err(NOT_FOLLOWED), Marked::note)
    }

    fn resume(&mut self, view: &[u8]) -> bool {
        self.resumed(view).is_some()
    }
}

#[cfg(test)]
mod tests;
