//! Rule E: how deaths are known below a file system with block exclusivity.
//!
//! Its allocation map on the wire shows the map as it is in memory. So a block
//! that a map shows free, *after* the block was last written, holds dead
//! content. Everything else here is there because that sentence has limits:
//! blocks change owner between two writes of a map, requests may be reordered
//! below the guest, and metadata reaches the disk in any order.
//!
//! "Life or Death at Block-Level", sections 6 and 7, without its changes to the
//! file system. Invariants:
//! 1. A block is *live* from the moment a write to it arrives, and until a map
//!    shows it free that arrived later, by more than the reorder window.
//! 2. Only what is not live, not written since, and shown free by the latest
//!    word of the map is ever called dead; and, unless eager, only what no
//!    observed pointer names ([`names`]).
//! 3. Nothing is called dead before the evidence is durable ([`deaths`]).
//! 4. What is not certain is suspicious or overwritten conservatively: both
//!    keep the present content.
//! 5. Time alone kills nothing: the clock that settles doubts stands still
//!    while the guest does (it may be suspended, with all it has yet to write).
//! 6. Below a cache, which knows no order, a map proves nothing against a block that was
//!    written within the time that everybody may hold a write back ([`cached`]).
//! 7. Nothing follows from a map that a recovery may have written from a journal
//!    out of sight ([`RuleE::may_be_replayed`]).

mod cached;
mod heard;
mod names;
mod told;
mod view;

use crate::format::{Block, Format, Geometry, Kind, Reason, Shown};
use crate::mutant::{self, Mutant};
use crate::options::{Grade, Options};
use crate::rule::deaths::Deaths;
use crate::rule::history::{Clock, Lately, add_within};
use crate::rule::survey::Survey;
use crate::rule::{Grid, READ_BYTES_MAX, Rule, overlaid, placed, split};
use names::Names;
use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Content, Scope, Verdict, Waits};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// Rule E above one file system.
#[derive(Debug)]
pub struct RuleE {
    format: Box<dyn Format>,
    grid: Grid,
    options: Options,
    clock: Clock,
    /// The shadow bitmap: written, or allocated, since a map showed it free.
    live: RoaringBitmap,
    names: Names,
    /// Present content that may be dead, although the block is live.
    suspicious: RoaringBitmap,
    /// Written within the reorder window, and not shown by a map since.
    recent: Lately,
    /// Clients that are connected.
    clients: usize,
    attached: Attached,
    /// Written, or given a name, within the time that it takes to settle.
    lately: Lately,
    /// Shown free so soon after a write that the map may be the older of the two.
    doubted: Lately,
    deaths: Deaths,
    survey: Survey,
    /// It is mounted, as far as it says itself.
    in_use: bool,
    /// It was mounted under our eyes, and nobody else may have taken it over since.
    heard: bool,
    /// Metadata in a fixed place.
    fixed: RoaringBitmap,
    /// Those of them that must be seen before they change.
    sources: RoaringBitmap,
    /// Blocks of inodes of which it cannot be known what they name.
    unknown: RoaringBitmap,
    /// Why, of the last one.
    unknown_why: Option<Reason>,
    /// All names have been known once.
    surveyed: bool,
    changed: bool,
    broken: Option<Reason>,
    figures: Figures,
}

/// What was seen, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Figures {
    freed: u64,
    doubted: u64,
    unlinked: u64,
    orphans: u64,
    reused: u64,
    guessed: u64,
}

impl RuleE {
    /// Begins to watch below `format`. `seen_from_start` says that nothing was
    /// written since it came to lie there.
    #[must_use]
    pub fn attach(format: Box<dyn Format>, options: Options, now: Millis, seen_from_start: bool) -> Self {
        let (mut live, mut lately, mut recent) = (RoaringBitmap::new(), Lately::new(0), Lately::new(now.0));
        live.insert_range(0..format.blocks());
        let mut survey = Survey::new(format.survey(Kind::Inodes), format.block_bytes());
        let was_clean = format.was_clean();
        let in_order = seen_from_start && format.tells_of_mounts();
        if was_clean {
            survey.reread_maps(format.survey(Kind::Map), now, in_order);
        }
        if !in_order {
            lately.extend(&live);
        }
        if !seen_from_start {
            recent.extend(&live);
        }
        let sources = placed(&*format, [Kind::Geometry, Kind::Inodes]);
        let fixed = &sources | placed(&*format, [Kind::Map]);
        Self {
            grid: Grid::of(&*format),
            format,
            options,
            clock: Clock::new(now),
            live,
            names: Names::default(),
            suspicious: RoaringBitmap::new(),
            recent,
            clients: 0,
            attached: Attached::Direct,
            lately,
            doubted: Lately::new(0),
            deaths: Deaths::default(),
            survey,
            in_use: !was_clean,
            heard: false,
            fixed,
            sources,
            unknown: RoaringBitmap::new(),
            unknown_why: None,
            surveyed: false,
            changed: false,
            broken: None,
            figures: Figures::default(),
        }
    }

    fn expire_by_time(&mut self) {
        let now = self.clock.now;
        self.recent.expire(now.0, self.options.reorder_window_ms);
        self.survey.tick(now);
    }

    fn expire(&mut self) {
        self.expire_by_time();
        let (active_ms, settle_ms) = (self.clock.active_ms, self.settle_ms());
        let calm = self.lately.expire(active_ms, settle_ms);
        self.clear_suspicion(calm);
        let settled = self.doubted.expire(active_ms, settle_ms);
        if !settled.is_empty() {
            self.condemn(settled);
        }
        self.names.settle(active_ms, settle_ms);
        self.deaths.settle(active_ms, settle_ms);
    }

    /// Neither a write nor a new name came to these for as long as it takes to
    /// settle: where they have an owner, the content is the owner's.
    fn clear_suspicion(&mut self, calm: RoaringBitmap) {
        if !calm.is_empty() && !self.suspicious.is_empty() {
            let calm = calm - self.lately.all();
            self.suspicious -= self.names.owned_among(&calm);
        }
    }

    fn written(&mut self, extent: Extent<Addr>, bytes: &[u8]) {
        let Some(blocks) = self.grid.touched(extent) else { return };
        let mut data: Option<RangeInclusive<Block>> = None;
        for block in blocks {
            match self.format.kind(block) {
                Kind::Data => match &mut data {
                    Some(run) if *run.end() + 1 == block => *run = *run.start()..=block,
                    run => {
                        if let Some(run) = run.replace(block..=block) {
                            self.data_written(run);
                        }
                    }
                },
                Kind::Map => self.map_written(block, extent, bytes),
                _ => {}
            }
        }
        if let Some(run) = data {
            self.data_written(run);
        }
    }

    /// Invariant 1, and orphan writes (section 7.3.3).
    fn data_written(&mut self, run: RangeInclusive<Block>) {
        self.live.insert_range(run.clone());
        self.recent.insert(run.clone());
        self.lately.insert(run.clone());
        self.doubted.remove(run.clone());
        if !mutant::is(Mutant::WriteRevivesNothing) {
            self.deaths.revive(run.clone());
        }
        self.survey.written(run.clone());
        if self.options.grade == Grade::Block || mutant::is(Mutant::NoOrphanMark) {
            return;
        }
        for block in run {
            if !self.names.owns(block) {
                self.figures.orphans += 1;
                self.suspicious.insert(block);
            }
        }
    }

    /// A free of the guest's own, or zeros. Metadata that goes this way takes
    /// the file system with it; but inodes, which Linux clears so in tables that
    /// have not been used yet.
    fn zeroed(&mut self, extent: Extent<Addr>) {
        let Some(blocks) = self.grid.touched(extent) else { return };
        if self.fixed.range(blocks).any(|block| self.format.kind(block) != Kind::Inodes) {
            self.changed = true;
            return;
        }
        let Some(blocks) = self.grid.covered(extent) else { return };
        let inodes: RoaringBitmap = self.fixed.range(blocks.clone()).collect();
        self.live.remove_range(blocks.clone());
        self.live |= inodes;
        self.suspicious.remove_range(blocks.clone());
        self.doubted.remove(blocks.clone());
        self.deaths.revive(blocks.clone());
        self.deaths.forgive(blocks);
    }

    fn map_written(&mut self, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let Some((at, part)) = self.grid.part(block, extent, bytes, self.format.map_reach_bytes()) else {
            return;
        };
        let whole = mutant::is(Mutant::WholeMapIsNews);
        let (at, part) = if whole { (self.grid.extent_of(block), bytes) } else { (at, part) };
        match self.format.map(at, part) {
            Ok(shown) => self.shown(&shown),
            Err(reason) => self.broken = Some(reason),
        }
    }

    fn shown(&mut self, shown: &[Shown]) {
        let (allocated, free) = split(shown);
        self.live |= &allocated;
        let revoked = if mutant::is(Mutant::RevokeIgnored) { &RoaringBitmap::new() } else { &allocated };
        let mut uncertain = self.deaths.revoke(revoked);
        if self.options.grade != Grade::Block {
            self.deaths.unlink_all(&uncertain);
        }
        uncertain |= self.doubted.within(&allocated);
        self.doubted.subtract(&allocated);
        if self.options.grade != Grade::Block {
            self.suspicious |= uncertain;
        }
        let freed = self.believed(&free & &self.live);
        let needs_rest = self.format.map_needs_rest() && !mutant::is(Mutant::ReplayAtOnce);
        let doubted = if needs_rest { freed.clone() } else { self.too_soon(&freed) };
        self.doubted.extend(&doubted);
        self.condemn(freed - doubted);
        if self.comes_in_turn() {
            self.recent.subtract(&allocated);
            self.recent.subtract(&free);
        }
    }

    /// Whether the next map in the place of this one is no older than what has been
    /// written until now: who writes it must have heard that this one was, so that it
    /// was on its way with none of that. Not so where the journal's replay writes maps,
    /// nor where a client may send again what another one sent.
    fn comes_in_turn(&self) -> bool {
        let is_replayed = self.format.map_needs_rest() || self.format.has_journal_elsewhere();
        self.in_use && !is_replayed && (self.clients <= 1 || mutant::is(Mutant::EchoBelieved))
    }

    /// Those of `freed` that were written so soon before, with no map in between, that
    /// the map may be older.
    fn too_soon(&mut self, freed: &RoaringBitmap) -> RoaringBitmap {
        let counts = !mutant::is(Mutant::NoWindow);
        let doubted = if counts { self.window().within(freed) } else { RoaringBitmap::new() };
        self.figures.doubted += doubted.len();
        doubted
    }

    /// A map says so: these are free, and were not written since.
    fn condemn(&mut self, blocks: RoaringBitmap) {
        self.live -= &blocks;
        self.doubted.subtract(&blocks);
        self.figures.freed += blocks.len();
        self.deaths.condemn(blocks, self.clock.now);
    }

    fn geometry_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.geometry(block, old, new) {
            Geometry::Same => {}
            Geometry::InUse => self.in_use = true,
            Geometry::Mounted => (self.in_use, self.heard) = (true, true),
            Geometry::Unmounted => self.cleaned(true),
            Geometry::Clean => self.cleaned(false),
            Geometry::Changed => return self.changed = true,
        }
        if self.format.learn(block, new) {
            self.grown();
        }
    }

    /// There are more inodes: what lies there is read, and is data no more.
    fn grown(&mut self) {
        let sources = placed(&*self.format, [Kind::Geometry, Kind::Inodes]);
        let more = &sources - &self.sources;
        self.live |= &more;
        self.deaths.revoke(&more);
        self.doubted.subtract(&more);
        self.survey.owe(&more);
        self.fixed |= more;
        self.sources = sources;
    }

    /// Everything it holds has been written, so that its maps can be believed
    /// as they lie there.
    fn cleaned(&mut self, in_order: bool) {
        (self.in_use, self.heard) = (false, false);
        let in_order = in_order && self.keeps_order();
        self.survey.reread_maps(self.format.survey(Kind::Map), self.clock.now, in_order);
    }

    fn inodes_written(&mut self, block: Block, kind: Kind, old: &[u8], new: &[u8]) {
        self.inodes_read(block, kind, old);
        let changes = self.format.diff(block, kind, old, new);
        self.apply(changes, false);
        self.note_unknown(block, new);
    }

    fn note_unknown(&mut self, block: Block, content: &[u8]) {
        match self.format.unknown(block, content) {
            Some(reason) => {
                self.unknown.insert(block);
                self.unknown_why = Some(reason);
            }
            None => {
                self.unknown.remove(block);
            }
        }
    }

    /// Counts the names in inodes that are seen for the first time.
    fn inodes_read(&mut self, block: Block, kind: Kind, content: &[u8]) {
        if self.survey.owes_inodes(block) {
            let changes = self.format.pointers(block, kind, content);
            self.apply(changes, false);
            self.note_unknown(block, content);
        }
    }

    /// A map as it lies there, after everything had been written.
    fn map_reread(&mut self, block: Block, extent: Extent<Addr>, content: &[u8]) {
        let Some(exempt) = self.survey.exempt(block) else { return };
        let Some((at, part)) = self.grid.part(block, extent, content, self.format.map_reach_bytes()) else {
            return;
        };
        match self.format.map_at_rest(at, part) {
            Ok(shown) => {
                let (_, free) = split(&shown);
                let blind = mutant::is(Mutant::RereadWithoutExemption);
                let exempt = if blind { &RoaringBitmap::new() } else { exempt };
                let mut freed = (free & &self.live) - exempt;
                if !self.survey.is_in_order() {
                    let doubted = self.lately.within(&freed);
                    self.doubted.extend(&doubted);
                    freed -= doubted;
                }
                self.condemn(freed);
            }
            Err(reason) => self.broken = Some(reason),
        }
        self.survey.map_reread(block);
    }

    /// Whether whatever names a block has been seen, where that counts.
    fn knows_names(&self) -> bool {
        !self.asks_names() || (self.survey.is_done() && self.names.are_known() && self.unknown.is_empty())
    }

    /// Whether a block that is named may not be dead, whatever a map says.
    fn asks_names(&self) -> bool {
        let is_final = self.format.map_is_final() && !mutant::is(Mutant::NoMapIsFinal);
        (!self.options.eager || self.format.always_two_witnesses()) && !is_final
    }

    /// Those of `blocks` whose present content may be dead.
    fn may_be_dead(&self, blocks: RangeInclusive<Block>) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        add_within(&self.suspicious, blocks.clone(), &mut found);
        self.deaths.add_within(blocks.clone(), &mut found);
        self.doubted.add_within(blocks.clone(), &mut found);
        if self.options.grade == Grade::Content {
            found.extend(self.live.range(blocks).filter(|block| self.format.kind(*block) == Kind::Data));
        }
        found
    }

    /// Whether nothing can be inferred from here on.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.changed || self.broken.is_some()
    }
}

impl Rule for RuleE {
    fn format(&self) -> &dyn Format {
        &*self.format
    }

    fn arrived(&mut self, now: Millis, extent: Extent<Addr>, content: Content<'_>) {
        self.clock.change(now);
        self.expire();
        self.survey.changed(now);
        match content {
            Content::Bytes(bytes) => self.written(extent, bytes),
            Content::Zeros => self.zeroed(extent),
        }
    }

    fn connected(&mut self, now: Millis, clients: usize) {
        self.tick(now);
        self.clients = clients;
        if !mutant::is(Mutant::EchoBelieved) {
            self.recent.extend(&self.live);
        }
    }

    fn attached(&mut self, now: Millis, attached: Attached) {
        self.tick(now);
        self.attached_so(attached);
    }

    fn read(&mut self, extent: Extent<Addr>) {
        self.may_be_opened(extent);
    }

    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let Some(blocks) = self.grid.touched(extent) else { return Vec::new() };
        let mut needed = self.names.pointers_within(blocks.clone());
        needed.extend(self.sources.range(blocks));
        self.grid.runs(needed)
    }

    fn overwriting(&mut self, extent: Extent<Addr>, content: Content<'_>, seen: Extent<Addr>, old: &[u8]) {
        let Some(blocks) = self.grid.covered(seen) else { return };
        for (block, old) in blocks.zip(old.chunks_exact(self.format.block_bytes() as usize)) {
            let new = overlaid(self.grid.extent_of(block), old, extent, content);
            match self.format.kind(block) {
                Kind::Geometry => {
                    self.inodes_written(block, Kind::Geometry, old, &new);
                    self.geometry_written(block, old, &new);
                }
                Kind::Map if mutant::is(Mutant::MapHoldsNoPointers) => {}
                kind @ (Kind::Inodes | Kind::Map) => self.inodes_written(block, kind, old, &new),
                _ => self.pointers_written(block, old, &new),
            }
        }
    }

    fn wants(&mut self) -> Option<Extent<Addr>> {
        let most = READ_BYTES_MAX / u64::from(self.format.block_bytes());
        let read = self.names.next_read(most as usize).map(|run| self.grid.extent_of_run(&run));
        read.or_else(|| self.survey.next_read())
    }

    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        let Some(content) = content else {
            self.broken = Some(Reason("metadata could not be read".into()));
            return;
        };
        let Some(blocks) = self.grid.covered(extent) else { return };
        for block in blocks {
            let Some((_, part)) = self.grid.part(block, extent, content, 0) else { return };
            match self.format.kind(block) {
                Kind::Map => {
                    self.map_reread(block, extent, content);
                    self.inodes_read(block, Kind::Map, part);
                }
                kind @ (Kind::Inodes | Kind::Geometry) => self.inodes_read(block, kind, part),
                _ => self.pointers_read(block, part),
            }
        }
    }

    fn tick(&mut self, now: Millis) {
        self.clock.tick(now);
        self.expire_by_time();
    }

    fn unproven_since(&self) -> Option<Millis> {
        self.deaths.unproven_since().filter(|_| self.surveyed || self.knows_names())
    }

    fn cut(&mut self) {
        self.surveyed |= self.knows_names();
        // A name that goes unseen is evidence too, and may not be durable.
        if self.surveyed {
            self.deaths.cut();
        }
        if mutant::is(Mutant::VerdictBeforeProven) {
            self.proven();
        }
    }

    fn proven(&mut self) {
        let counts = self.asks_names() && !mutant::is(Mutant::NoSecondWitness);
        let none = RoaringBitmap::new();
        self.deaths.proven(if counts { &self.names.named } else { &none });
    }

    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        if self.is_broken() {
            return None;
        }
        if !scope.layers {
            self.suspicious.clear();
            self.deaths.forgive_all();
        }
        let known = self.knows_names();
        let bytes = u64::from(self.format.block_bytes());
        let (run, verdict) = self.deaths.next(known, scope, bytes)?;
        self.suspicious.remove_range(run.clone());
        if verdict == Verdict::Scour && scope.all {
            // It did not settle: who got it may not have written it yet.
            self.suspicious.insert_range(run.clone());
        }
        Some((self.grid.extent_of_run(&run), verdict))
    }

    fn waiting(&self) -> Waits<'_> {
        self.waits()
    }

    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let Some(blocks) = self.grid.touched(extent) else { return Vec::new() };
        let found = self.may_be_dead(blocks);
        if found.is_empty() {
            return Vec::new();
        }
        self.figures.reused += found.len();
        self.suspicious |= &found;
        if let Some(whole) = self.grid.covered(extent) {
            self.suspicious.remove_range(whole.clone());
            self.deaths.forgive(whole);
        }
        self.grid.parts(&found, extent)
    }

    fn is_idle(&self) -> bool {
        let waits = !self.unknown.is_empty() && self.asks_names();
        self.survey.is_idle() && self.names.are_known() && (waits || self.deaths.is_idle())
    }

    fn wakes_at(&self) -> Option<Millis> {
        self.survey.begins_at()
    }

    fn has_changed(&self) -> bool {
        self.changed
    }

    fn broken(&self) -> Option<&Reason> {
        self.broken.as_ref()
    }

    fn hindrance(&self) -> Option<String> {
        if self.may_be_replayed() {
            return Some(heard::MAY_BE_REPLAYED.into());
        }
        self.unknown_why.as_ref().filter(|_| !self.unknown.is_empty()).map(ToString::to_string)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.counted()
    }

    fn progress(&self) -> Option<(u64, u64)> {
        self.survey.progress()
    }

    fn view(&self) -> Option<Vec<u8>> {
        self.known()
    }

    fn resume(&mut self, view: &[u8]) -> bool {
        self.resumed(view).is_some()
    }
}
