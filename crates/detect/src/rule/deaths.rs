//! From a block that a map shows free to a verdict: evidence first, and, where
//! names count, two witnesses.

use super::Grid;
use super::history::{Lately, add_within};
use crate::format::Block;
use quietus_core::units::{Addr, Extent, Millis};
use quietus_core::watch::{Scope, Verdict, WaitsFor};
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// Most bytes in one verdict.
const VERDICT_BYTES_MAX: u64 = 256 << 20;
/// Most runs that are looked at for one that nothing is under way in.
const RUNS_TRIED_MAX: usize = 256;

/// Blocks on their way to a verdict; a block is in one of the first four sets
/// at most.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Shown free.
    pub(crate) young: RoaringBitmap,
    /// Shown free before the cut.
    pub(crate) cut: RoaringBitmap,
    /// Shown free, and that is durable; named by some pointer.
    pub(crate) named: RoaringBitmap,
    /// The same, and not named.
    pub(crate) ready: RoaringBitmap,
    /// Since when there are young ones.
    pub(crate) since: Option<Millis>,
    /// Live, and no longer named by one who named them. Most of them settle
    /// this themselves: a map shows them free, or they are written.
    pub(crate) unlinked: Lately,
    /// Those that did not.
    pub(crate) scour: RoaringBitmap,
}

impl Deaths {
    pub(crate) fn condemn(&mut self, blocks: RoaringBitmap, now: Millis) {
        if blocks.is_empty() {
            return;
        }
        self.unlinked.subtract(&blocks);
        self.scour -= &blocks;
        self.young |= blocks;
        self.since.get_or_insert(now);
    }

    /// They were written, or freed by the guest itself.
    pub(crate) fn revive(&mut self, run: RangeInclusive<Block>) {
        for set in [&mut self.young, &mut self.cut, &mut self.named, &mut self.ready] {
            if !set.is_empty() {
                set.remove_range(run.clone());
            }
        }
    }

    /// They are allocated again. Returns those that were condemned.
    pub(crate) fn revoke(&mut self, blocks: &RoaringBitmap) -> RoaringBitmap {
        let mut revoked = RoaringBitmap::new();
        for set in [&mut self.young, &mut self.cut, &mut self.named, &mut self.ready] {
            if !set.is_empty() {
                revoked |= blocks & &*set;
                *set -= blocks;
            }
        }
        revoked
    }

    /// Takes back everything that was condemned and not handed out.
    pub(crate) fn take_condemned(&mut self) -> RoaringBitmap {
        self.since = None;
        let sets = [&mut self.young, &mut self.cut, &mut self.named, &mut self.ready];
        sets.into_iter().map(std::mem::take).fold(RoaringBitmap::new(), |all, set| all | set)
    }

    /// A live block lost a name.
    pub(crate) fn unlink(&mut self, block: Block) {
        self.unlinked.insert(block..=block);
    }

    /// What was condemned is allocated again: what lay below it is dead still.
    pub(crate) fn unlink_all(&mut self, blocks: &RoaringBitmap) {
        self.unlinked.extend(blocks);
    }

    /// What lies below these needs no act of its own any more.
    pub(crate) fn forgive(&mut self, run: RangeInclusive<Block>) {
        self.unlinked.remove(run.clone());
        self.scour.remove_range(run);
    }

    pub(crate) fn forgive_all(&mut self) {
        self.unlinked.clear();
        self.scour.clear();
    }

    /// A condemned block got a name, or lost its last one: that is news, whose
    /// evidence has yet to become durable.
    pub(crate) fn renamed(&mut self, block: Block, now: Millis) {
        if self.ready.is_empty() && self.named.is_empty() && self.cut.is_empty() {
            return;
        }
        if self.ready.remove(block) || self.named.remove(block) || self.cut.remove(block) {
            self.young.insert(block);
            self.since.get_or_insert(now);
        }
    }

    /// As [`Self::renamed`], for all of `run`.
    pub(crate) fn renamed_all(&mut self, run: RangeInclusive<Block>, now: Millis) {
        let mut found = RoaringBitmap::new();
        for set in [&mut self.ready, &mut self.named, &mut self.cut] {
            if !set.is_empty() {
                found.extend(set.range(run.clone()));
                set.remove_range(run.clone());
            }
        }
        if !found.is_empty() {
            self.young |= found;
            self.since.get_or_insert(now);
        }
    }

    pub(crate) fn settle(&mut self, now: u64, period: u64) {
        self.scour |= self.unlinked.expire(now, period);
    }

    pub(crate) fn unproven_since(&self) -> Option<Millis> {
        self.since
    }

    pub(crate) fn cut(&mut self) {
        self.cut |= std::mem::take(&mut self.young);
        self.since = None;
    }

    /// What is `named` waits.
    pub(crate) fn proven(&mut self, named: &RoaringBitmap) {
        let cut = std::mem::take(&mut self.cut);
        let named = &cut & named;
        self.ready |= cut - &named;
        self.named |= named;
    }

    /// The next run to be dealt with. `known` says that all names are known.
    pub(crate) fn next(
        &mut self,
        known: bool,
        scope: Scope<'_>,
        block_bytes: u64,
    ) -> Option<(RangeInclusive<Block>, Verdict)> {
        if known && let Some(run) = take_run(&mut self.ready, scope, block_bytes) {
            return Some((run, Verdict::Dead));
        }
        if scope.all {
            self.scour |= self.unlinked.all();
            self.unlinked.clear();
        }
        take_run(&mut self.scour, scope, block_bytes).map(|run| (run, Verdict::Scour))
    }

    /// Adds to `found` those of `blocks` of which the present content is dead,
    /// or what lies below it.
    pub(crate) fn add_within(&self, blocks: RangeInclusive<Block>, found: &mut RoaringBitmap) {
        for set in [&self.young, &self.cut, &self.named, &self.ready, &self.scour] {
            add_within(set, blocks.clone(), found);
        }
        self.unlinked.add_within(blocks, found);
    }

    pub(crate) fn is_idle(&self) -> bool {
        [&self.young, &self.cut, &self.ready, &self.scour].iter().all(|set| set.is_empty())
    }

    pub(crate) fn unproven(&self) -> u64 {
        self.young.len() + self.cut.len()
    }

    pub(crate) fn still_named(&self) -> u64 {
        self.named.len()
    }

    /// The runs of `grid` on their way to a verdict; those that are not known to be named wait for
    /// `unnamed`.
    pub(crate) fn waiting(
        &self,
        grid: Grid,
        unnamed: WaitsFor,
    ) -> impl Iterator<Item = (WaitsFor, Extent<Addr>)> {
        let unnamed = [&self.young, &self.cut, &self.ready].map(|set| (unnamed, set));
        let all = unnamed.into_iter().chain([(WaitsFor::Names, &self.named)]);
        all.flat_map(move |(cause, set)| grid.all_runs(set).map(move |run| (cause, run)))
    }

    /// Those on their way to a verdict, and those of which only what lies below
    /// may be dead.
    pub(crate) fn sets(&self) -> [RoaringBitmap; 2] {
        let condemned = &self.young | &self.cut | &self.named | &self.ready;
        [condemned, &self.scour | self.unlinked.all()]
    }

    pub(crate) fn restore(condemned: RoaringBitmap, below: &RoaringBitmap, now: Millis) -> Self {
        let since = (!condemned.is_empty()).then_some(now);
        Self { young: condemned, since, unlinked: Lately::kept(below), ..Self::default() }
    }
}

/// Takes the first run out of `set` in which nothing is under way.
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
