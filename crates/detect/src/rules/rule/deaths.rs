//! The way of a block from a map that shows it free to a verdict: the evidence becomes durable
//! first; where names count, a second witness must agree.

use crate::formats::format::Block;
use crate::rules::rule::Grid;
use crate::rules::rule::history::{RecentBlocks, add_within};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{Scope, Verdict, WaitsFor};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

const VERDICT_BYTES_MAX: u64 = 256 << 20;
/// Most runs tried in search of one without a request under way.
const RUNS_TRIED_MAX: usize = 256;

/// Blocks on their way to a verdict. A block is in at most one of the first four sets.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Condemned, and the evidence is not synced.
    pub(crate) unsynced: RoaringBitmap,
    /// Condemned, and a sync of the evidence is under way.
    pub(crate) syncing: RoaringBitmap,
    /// Condemned on durable evidence, but a pointer still names the block.
    pub(crate) referenced: RoaringBitmap,
    /// Condemned on durable evidence, and no pointer names the block.
    pub(crate) confirmed: RoaringBitmap,
    /// Time since which there is unsynced evidence.
    pub(crate) since: Option<Millis>,
    /// Live blocks that lost a name. Most are settled soon: a map shows them free, or the guest
    /// writes them.
    pub(crate) unlinked: RecentBlocks,
    /// Blocks that lost a name and were not settled in time, for a conservative overwrite.
    pub(crate) conservative: RoaringBitmap,
}

impl Deaths {
    pub(crate) fn condemn(&mut self, blocks: RoaringBitmap, now: Millis) {
        if blocks.is_empty() {
            return;
        }
        self.unlinked.subtract(&blocks);
        self.conservative -= &blocks;
        self.unsynced |= blocks;
        self.since.get_or_insert(now);
    }

    /// Takes back `run`, which was written, or freed by the guest itself.
    pub(crate) fn revive(&mut self, run: RangeInclusive<Block>) {
        for set in [&mut self.unsynced, &mut self.syncing, &mut self.referenced, &mut self.confirmed] {
            if !set.is_empty() {
                set.remove_range(run.clone());
            }
        }
    }

    /// Takes back `blocks`, which are allocated again. Returns those that were condemned.
    pub(crate) fn revoke(&mut self, blocks: &RoaringBitmap) -> RoaringBitmap {
        let mut revoked = RoaringBitmap::new();
        for set in [&mut self.unsynced, &mut self.syncing, &mut self.referenced, &mut self.confirmed] {
            if !set.is_empty() {
                revoked |= blocks & &*set;
                *set -= blocks;
            }
        }
        revoked
    }

    /// Takes back every condemned block that was not handed out.
    pub(crate) fn take_condemned(&mut self) -> RoaringBitmap {
        self.since = None;
        let sets = [&mut self.unsynced, &mut self.syncing, &mut self.referenced, &mut self.confirmed];
        sets.into_iter().map(std::mem::take).fold(RoaringBitmap::new(), |all, set| all | set)
    }

    /// Drops `run`: nothing below its present content needs a conservative overwrite any more.
    pub(crate) fn forgive(&mut self, run: RangeInclusive<Block>) {
        self.unlinked.remove(run.clone());
        self.conservative.remove_range(run);
    }

    /// As [`Self::forgive`], for `blocks`.
    pub(crate) fn forgive_these(&mut self, blocks: &RoaringBitmap) {
        if !blocks.is_empty() {
            self.unlinked.subtract(blocks);
            self.conservative -= blocks;
        }
    }

    pub(crate) fn forgive_all(&mut self) {
        self.unlinked.clear();
        self.conservative.clear();
    }

    /// Notes that condemned blocks of `run` got a name, or lost their last one: the evidence for that has
    /// yet to become durable.
    pub(crate) fn renamed(&mut self, run: RangeInclusive<Block>, now: Millis) {
        let mut found = RoaringBitmap::new();
        for set in [&mut self.confirmed, &mut self.referenced, &mut self.syncing] {
            if !set.is_empty() {
                found.extend(set.range(run.clone()));
                set.remove_range(run.clone());
            }
        }
        if !found.is_empty() {
            self.unsynced |= found;
            self.since.get_or_insert(now);
        }
    }

    pub(crate) fn settle(&mut self, now: u64, period: u64) {
        self.conservative |= self.unlinked.expire(now, period);
    }

    pub(crate) fn cut(&mut self) {
        self.syncing |= std::mem::take(&mut self.unsynced);
        self.since = None;
    }

    /// Confirms the blocks whose sync is complete. Blocks in `named` wait.
    pub(crate) fn proven(&mut self, named: &RoaringBitmap) {
        let synced = std::mem::take(&mut self.syncing);
        let referenced = &synced & named;
        self.confirmed |= synced - &referenced;
        self.referenced |= referenced;
    }

    /// The next verdict. `known` says that all names are known.
    pub(crate) fn next(
        &mut self,
        known: bool,
        scope: Scope<'_>,
        block_bytes: u64,
    ) -> Option<(RangeInclusive<Block>, Verdict)> {
        if known && let Some(run) = take_run(&mut self.confirmed, scope, block_bytes) {
            return Some((run, Verdict::Dead));
        }
        if scope.all {
            self.conservative |= self.unlinked.all();
            self.unlinked.clear();
        }
        take_run(&mut self.conservative, scope, block_bytes).map(|run| (run, Verdict::ConservativeOverwrite))
    }

    /// Adds to `found` the blocks within `blocks` that may hold dead content, present or older.
    pub(crate) fn add_within(&self, blocks: RangeInclusive<Block>, found: &mut RoaringBitmap) {
        for set in [&self.unsynced, &self.syncing, &self.referenced, &self.confirmed, &self.conservative] {
            add_within(set, blocks.clone(), found);
        }
        self.unlinked.add_within(blocks, found);
    }

    pub(crate) fn is_idle(&self) -> bool {
        [&self.unsynced, &self.syncing, &self.confirmed, &self.conservative].iter().all(|set| set.is_empty())
    }

    pub(crate) fn unproven(&self) -> u64 {
        self.unsynced.len() + self.syncing.len()
    }

    /// The runs of `grid` on their way to a verdict. Runs that no known name holds up wait for
    /// `unnamed`.
    pub(crate) fn waiting(
        &self,
        grid: Grid,
        unnamed: WaitsFor,
    ) -> impl Iterator<Item = (WaitsFor, Extent<Addr>)> {
        let unnamed = [&self.unsynced, &self.syncing, &self.confirmed].map(|set| (unnamed, set));
        let all = unnamed.into_iter().chain([(WaitsFor::Names, &self.referenced)]);
        all.flat_map(move |(cause, set)| grid.all_runs(set).map(move |run| (cause, run)))
    }

    /// The condemned blocks, and the live blocks below whose content dead content may lie.
    pub(crate) fn sets(&self) -> [RoaringBitmap; 2] {
        let condemned = &self.unsynced | &self.syncing | &self.referenced | &self.confirmed;
        [condemned, &self.conservative | self.unlinked.all()]
    }

    pub(crate) fn restore(condemned: RoaringBitmap, below: &RoaringBitmap, now: Millis) -> Self {
        let since = (!condemned.is_empty()).then_some(now);
        Self { unsynced: condemned, since, unlinked: RecentBlocks::kept(below), ..Self::default() }
    }
}

/// Takes the first run without a request under way out of `set`.
fn take_run(set: &mut RoaringBitmap, scope: Scope<'_>, block_bytes: u64) -> Option<RangeInclusive<Block>> {
    let most = (VERDICT_BYTES_MAX / block_bytes).max(1) as Block;
    let mut runs = set.iter();
    for _ in 0..RUNS_TRIED_MAX {
        let run = runs.next_range()?;
        let run = *run.start()..=(*run.end()).min(run.start().saturating_add(most - 1));
        let extent =
            Extent::between(u64::from(*run.start()) * block_bytes, (u64::from(*run.end()) + 1) * block_bytes);
        if !(scope.is_busy)(extent) {
            set.remove_range(run.clone());
            return Some(run);
        }
    }
    None
}
