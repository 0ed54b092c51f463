//! Rule E: infers deaths below a file system with block exclusivity.
//!
//! The allocation map on the wire is the map as the guest has it in memory. So a block that a map
//! shows free, *after* the block was last written, holds dead content. Everything else here exists
//! because that sentence has limits: blocks change owner between two writes of a map, requests may
//! be reordered below the guest, and metadata reaches the disk in any order.
//!
//! "Life or Death at Block-Level", sections 6 and 7, without its changes to the
//! file system. Invariants:
//! 1. A block is *live* from the arrival of a write to it until a map that arrives later, by more
//!    than the reorder window, shows it free.
//! 2. Only a block that is not live, not written since, and shown free by the latest map is ever
//!    called dead; and, unless eager, only a block that no observed pointer names ([`names`]).
//! 3. Nothing is called dead before the evidence is durable ([`crate::rules::rule::deaths`]).
//! 4. Uncertain blocks are suspicious or overwritten conservatively: both keep the present content.
//! 5. Time alone kills nothing: the clock that confirms deaths stands still while the guest does (it
//!    may be suspended, with everything it has yet to write).
//! 6. Below a cache, which knows no order, a map proves nothing against a block that was written
//!    within the time that any layer may hold a write back ([`cached`]).
//! 7. Nothing follows from a map that a recovery may have written from an external journal
//!    ([`RuleE::may_be_replayed`]).

mod cached;
mod marked;
mod names;
mod observing;
mod refused;
mod replay;
mod unwritten;
mod view;

use crate::formats::format::{Block, Format, Geometry, Kind, Reason, Shown};
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::marks::Marks;
use crate::rules::options::{Grade, Options};
use crate::rules::rule::deaths::Deaths;
use crate::rules::rule::history::{Clock, RecentBlocks, add_within};
use crate::rules::rule::survey::Survey;
use crate::rules::rule::{Grid, joined, placed, set_member, split};
use names::Names;
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Attached, Moment};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;
use unwritten::Unwritten;

/// Rule E above one file system.
#[derive(Debug)]
pub struct RuleE {
    format: Box<dyn Format>,
    grid: Grid,
    options: Options,
    clock: Clock,
    /// The shadow bitmap: blocks written, or allocated, since a map showed them free.
    live: RoaringBitmap,
    names: Names,
    /// Live blocks whose present content may be dead.
    suspicious: RoaringBitmap,
    /// Blocks written within the reorder window, and not shown by a map since.
    recent: RecentBlocks,
    attached: Attached,
    /// Blocks written, or given a name, within the settling time.
    lately: RecentBlocks,
    /// Unconfirmed blocks: shown free so soon after a write that the map may be the older of the
    /// two.
    unconfirmed: RecentBlocks,
    deaths: Deaths,
    unwritten: Unwritten,
    survey: Survey,
    /// The file system is mounted, by its own mark.
    in_use: bool,
    /// The mount was observed, and no other host may have taken the file system over since.
    mount_observed: bool,
    /// Blocks of metadata in a fixed place.
    fixed: RoaringBitmap,
    /// Blocks of fixed metadata whose old content is needed before they change.
    sources: RoaringBitmap,
    /// Blocks of geometry whose last write that was shown meant a change.
    marks: RoaringBitmap,
    /// Maps of which a write was refused, and none has arrived since.
    refused: RoaringBitmap,
    /// Blocks of inodes whose names cannot be known.
    unknown: RoaringBitmap,
    /// Reason for the latest of them.
    unknown_why: Option<Reason>,
    /// All names were known at least once.
    surveyed: bool,
    /// Classes of content; `None` if all of it is sensitive.
    classes: Option<Marks>,
    changed: bool,
    broken: Option<Reason>,
    figures: Figures,
}

/// Counters for the status, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Figures {
    freed: u64,
    unconfirmed: u64,
    unlinked: u64,
    orphans: u64,
    reused: u64,
    guessed: u64,
    unwritten: u64,
}

impl RuleE {
    /// Begins to watch below `format`. `seen_from_start` says that nothing was written since the
    /// disk was opened.
    #[must_use]
    pub fn attach(format: Box<dyn Format>, options: Options, now: Millis, seen_from_start: bool) -> Self {
        let (mut lately, mut recent) = (RecentBlocks::new(0), RecentBlocks::new(now.0));
        let live = set_of(Some(0..format.blocks()));
        let mut survey = Survey::new(format.survey(Kind::Inodes), format.block_bytes());
        let was_clean = format.was_clean();
        let in_order = seen_from_start && format.tells_of_mounts();
        if was_clean {
            survey.reread_maps(format.survey(Kind::Map), now, in_order);
        }
        if !in_order {
            lately.extend(&live);
        }
        // A client may send again what it had sent to an earlier run of the server.
        if !seen_from_start || !mutant::is(Mutant::EchoTrusted) {
            recent.extend(&live);
        }
        let sources = placed(&*format, [Kind::Geometry, Kind::Inodes]);
        let fixed = &sources | placed(&*format, [Kind::Map]);
        let classes = Self::marks_of(&*format, options, !was_clean);
        Self {
            grid: Grid::of(&*format),
            format,
            options,
            clock: Clock::new(now),
            live,
            names: Names::default(),
            suspicious: RoaringBitmap::new(),
            recent,
            attached: Attached::Direct,
            lately,
            unconfirmed: RecentBlocks::new(0),
            deaths: Deaths::default(),
            unwritten: Unwritten::new(was_clean && in_order),
            survey,
            in_use: !was_clean,
            mount_observed: false,
            fixed,
            sources,
            marks: RoaringBitmap::new(),
            refused: RoaringBitmap::new(),
            unknown: RoaringBitmap::new(),
            unknown_why: None,
            surveyed: false,
            classes,
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
        let (active_ms, settle_ms) = (self.clock.active_ms, self.options.settle_ms_below(self.attached));
        let calm = self.lately.expire(active_ms, settle_ms);
        self.calmed(&calm);
        self.condemn_unwritten(&calm);
        let settled = self.unconfirmed.expire(active_ms, settle_ms);
        if !settled.is_empty() {
            self.condemn(settled);
        }
        self.names.settle(active_ms, settle_ms);
        self.deaths.settle(active_ms, settle_ms);
        self.settle_content();
    }

    /// Ends doubts about blocks that neither a write nor a new name reached for the settling time:
    /// if such a block has an owner, its content is the owner's.
    fn calmed(&mut self, calm: &RoaringBitmap) {
        if let Some(marks) = &mut self.classes {
            marks.calm(calm);
        }
        if !calm.is_empty() && !self.suspicious.is_empty() {
            let calm = calm - self.lately.all();
            self.suspicious -= self.names.owned_among(&calm);
        }
    }

    fn written(&mut self, at: Moment, extent: Extent<Addr>, bytes: &[u8]) {
        let Some(blocks) = self.grid.touched(extent) else { return };
        if let Some(marks) = &mut self.classes {
            marks.written(blocks.clone(), self.grid.covered(extent), &self.live);
        }
        let mut data = None;
        for block in blocks {
            match self.format.kind(block) {
                Kind::Data => joined(&mut data, block).into_iter().for_each(|run| self.data_written(run)),
                Kind::Map => self.map_written(at, block, extent, bytes),
                _ => {}
            }
        }
        data.into_iter().for_each(|run| self.data_written(run));
    }

    /// Invariant 1, and orphan writes (section 7.3.3).
    fn data_written(&mut self, run: RangeInclusive<Block>) {
        self.live.insert_range(run.clone());
        self.recent.insert(run.clone());
        self.lately.insert(run.clone());
        self.unconfirmed.remove(run.clone());
        if !mutant::is(Mutant::WriteRevivesNothing) {
            self.deaths.revive(run.clone());
        }
        self.survey.written(run.clone());
        self.unwritten_filled(&run);
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

    /// Takes zeros, or a free of the guest's own. Zeroed metadata takes the file system with it,
    /// except inodes: Linux clears unused tables that way.
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
        self.unconfirmed.remove(blocks.clone());
        self.deaths.revive(blocks.clone());
        self.unwritten.filled(&blocks);
        self.deaths.forgive(blocks);
    }

    fn map_written(&mut self, at: Moment, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let Some((from, part)) = self.grid.part(block, extent, bytes, self.format.map_reach_bytes()) else {
            return;
        };
        let whole = mutant::is(Mutant::WholeMapIsNews);
        let (from, part) = if whole { (self.grid.extent_of(block), bytes) } else { (from, part) };
        match self.format.map(from, part) {
            Ok(shown) => self.shown(at, block, &shown),
            Err(reason) => self.broken = Some(reason),
        }
    }

    fn shown(&mut self, at: Moment, map: Block, shown: &[Shown]) {
        let (mut allocated, free) = split(shown);
        let hollow = &allocated & &self.unwritten.hollow;
        allocated -= &hollow;
        self.unwritten.hollow -= &free;
        self.live |= &allocated;
        let revoked = if mutant::is(Mutant::RevokeIgnored) { &RoaringBitmap::new() } else { &allocated };
        let mut uncertain = self.deaths.revoke(revoked);
        if self.options.grade != Grade::Block {
            // Content below the present one is still dead.
            self.deaths.unlinked.extend(&uncertain);
        }
        uncertain |= self.unconfirmed.within(&allocated);
        self.unconfirmed.subtract(&allocated);
        if self.options.grade != Grade::Block {
            self.suspicious |= uncertain;
        }
        let freed = self.trusted(&free & &self.live);
        let needs_rest = self.format.map_needs_rest() && !mutant::is(Mutant::ReplayAtOnce);
        // The write may be one that was refused.
        let needs_rest = needs_rest || self.refused.remove(map);
        let unconfirmed = if needs_rest { freed.clone() } else { self.too_soon(&freed) };
        self.unconfirmed.extend(&unconfirmed);
        self.condemn(freed - unconfirmed);
        if self.comes_in_turn(at) {
            [allocated, free, hollow].iter().for_each(|it| self.recent.subtract(it));
        }
    }

    /// Whether the next write of this map is no older than everything written until now: the writer
    /// waits for the completion of this one, so that both were never under way together. That does
    /// not hold where a replay writes maps, nor where a client may repeat another one's requests.
    fn comes_in_turn(&self, at: Moment) -> bool {
        let is_replayed = self.format.map_needs_rest() || self.format.has_external_journal();
        self.in_use && !is_replayed && (at.clients <= 1 || mutant::is(Mutant::EchoTrusted))
    }

    /// The blocks of `freed` that were written so soon before, with no map in between, that the map
    /// may be older.
    fn too_soon(&mut self, freed: &RoaringBitmap) -> RoaringBitmap {
        let counts = !mutant::is(Mutant::NoWindow);
        let unconfirmed = if counts { self.window().within(freed) } else { RoaringBitmap::new() };
        self.figures.unconfirmed += unconfirmed.len();
        unconfirmed
    }

    /// Condemns `blocks`, which a map shows free after their last write. Plain content costs nothing.
    fn condemn(&mut self, blocks: RoaringBitmap) {
        self.live -= &blocks;
        self.unconfirmed.subtract(&blocks);
        self.figures.freed += blocks.len();
        let all_count = mutant::is(Mutant::PlainIsCondemned);
        let plain = if all_count { RoaringBitmap::new() } else { self.plain(&blocks) };
        self.deaths.forgive_these(&plain);
        self.deaths.condemn(blocks - plain, self.clock.now);
    }

    fn geometry_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        let change = self.format.geometry(block, old, new);
        self.may_have_crashed(change);
        set_member(&mut self.marks, block, change != Geometry::Same);
        match change {
            Geometry::Same => {}
            Geometry::InUse => self.in_use = true,
            Geometry::Mounted => (self.in_use, self.mount_observed) = (true, true),
            Geometry::Unmounted => self.cleaned(true),
            Geometry::Clean => self.cleaned(false),
            Geometry::Changed => return self.changed = true,
        }
        if self.format.learn(block, new) {
            self.marks.insert(block);
            self.grown();
        }
    }

    /// Takes up new blocks of inodes: they are read, and are no longer data.
    fn grown(&mut self) {
        let sources = placed(&*self.format, [Kind::Geometry, Kind::Inodes]);
        let more = &sources - &self.sources;
        self.live |= &more;
        self.deaths.revoke(&more);
        self.unconfirmed.subtract(&more);
        self.names.no_pointers(&more);
        self.unwritten.forget(&more);
        self.survey.owe(&more);
        self.fixed |= more;
        self.sources = sources;
    }

    /// Notes that everything was written, so that the maps on the disk can be trusted.
    fn cleaned(&mut self, in_order: bool) {
        (self.in_use, self.mount_observed) = (false, false);
        let in_order = in_order && self.keeps_order();
        self.unwritten.rest = in_order.then(RoaringBitmap::new);
        self.survey.reread_maps(self.format.survey(Kind::Map), self.clock.now, in_order);
    }

    fn inodes_written(&mut self, block: Block, kind: Kind, old: &[u8], new: &[u8]) {
        self.inodes_read(block, kind, old);
        self.follow_marks(|tree, marking| tree.table_written(marking, block, old, new));
        let unwritten = self.unwritten_lost(block, kind, old, new);
        let changes = self.format.diff(block, kind, old, new);
        self.apply(changes, false);
        self.unwritten_gained(&unwritten, true);
        self.note_unknown(block, new);
    }

    fn note_unknown(&mut self, block: Block, content: &[u8]) {
        let why = self.format.unknown(block, content);
        set_member(&mut self.unknown, block, why.is_some());
        self.unknown_why = why.or_else(|| self.unknown_why.take());
    }

    /// Counts the names in a block of inodes that is seen for the first time.
    fn inodes_read(&mut self, block: Block, kind: Kind, content: &[u8]) {
        let is_first = self.survey.owes_inodes(block);
        self.follow_marks(|tree, marking| tree.table_seen(marking, block, content, is_first));
        if is_first {
            let changes = self.format.pointers(block, kind, content);
            self.apply(changes, false);
            self.unwritten_read(block, kind, content);
            self.note_unknown(block, content);
        }
    }

    /// Takes a map that was read after everything had been written.
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
                    let unconfirmed = self.lately.within(&freed);
                    self.unconfirmed.extend(&unconfirmed);
                    freed -= unconfirmed;
                }
                self.condemn(freed);
            }
            Err(reason) => self.broken = Some(reason),
        }
        self.survey.map_reread(block);
    }

    /// Whether all names are known, where names count.
    fn knows_names(&self) -> bool {
        !self.asks_names() || (self.survey.is_done() && self.names.are_known() && self.unknown.is_empty())
    }

    /// Whether a name keeps a block from being called dead, whatever a map shows.
    fn asks_names(&self) -> bool {
        let is_final = self.format.map_is_final() && !mutant::is(Mutant::NoMapIsFinal);
        (!self.options.eager || self.format.always_two_witnesses()) && !is_final
    }

    /// The blocks within `blocks` whose present content may be dead.
    fn may_be_dead(&self, blocks: RangeInclusive<Block>) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        add_within(&self.suspicious, blocks.clone(), &mut found);
        self.deaths.add_within(blocks.clone(), &mut found);
        self.unconfirmed.add_within(blocks.clone(), &mut found);
        if self.options.grade == Grade::Content {
            found.extend(self.live.range(blocks).filter(|block| self.format.kind(*block) == Kind::Data));
        }
        found
    }

    /// Whether nothing can be inferred from here on.
    fn is_broken(&self) -> bool {
        self.changed || self.broken.is_some()
    }
}
