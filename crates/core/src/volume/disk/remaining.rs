//! What a medium would not erase ([`MediumErrorKind::Remains`]): it stays owed, and is tried again later.
//!
//! Invariants:
//! 1. No task takes what remains before the next try, so that it keeps nothing else from being destroyed.
//! 2. The journal owes what remains, and has no receipt for it. Only memory knows that it remains: a start tries it again.

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Millis, Pos};
use crate::erase::Limits;
use crate::media::MediumId;
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::store::Backlog;
use crate::volume::Config;
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use std::collections::BTreeMap;

/// How long what remains rests before it is tried again, in milliseconds.
const RETRY_MS: u64 = 60_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::volume) struct Remaining {
    /// The bytes that are owed by address.
    pub(in crate::volume) runs: ExtentMap<Addr, ()>,
    /// The places whose destruction is owed.
    places: BTreeMap<MediumId, ExtentMap<Pos, ()>>,
    /// Whether tasks work block by block, to find the one that remains.
    is_careful: bool,
    /// When all of it is tried again.
    pub(in crate::volume) until: Millis,
    /// The medium's answer, the last time.
    pub(in crate::volume) why: Option<MediumError>,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.places.is_empty()
    }

    /// Notes the answer of a medium that would not erase, at `now`: what remains rests for a while.
    pub(in crate::volume) fn refused(&mut self, why: &MediumError, now: Millis) {
        assert!(why.kind == MediumErrorKind::Remains, "only a refusal leaves something that remains");
        let until = Millis(now.0.saturating_add(RETRY_MS));
        assert!(self.until <= until, "a rest is made longer, and not shorter");
        (self.until, self.why) = (until, Some(why.clone()));
    }

    /// Lets what is at `sites` rest, which a medium would not erase at once. Has each block tried on its own before, unless the
    /// task was `careful` to do that.
    pub(in crate::volume) fn note(&mut self, sites: &[Site], careful: bool) {
        assert!(!sites.is_empty(), "what remains lies somewhere");
        let is_one = matches!(sites, [Site::Run(Extent { len, .. })] if *len <= BLOCK_BYTES);
        if !is_one && !careful {
            return self.be_careful();
        }
        for site in sites.iter().filter(|_| !mutant::is(Mutant::TryRemainsAtOnce)) {
            match site {
                Site::Run(run) => self.runs.insert(*run, ()),
                Site::Place(at) => self.places.entry(at.on).or_default().insert(at.extent, ()),
            }
        }
    }

    /// Has the next tasks work block by block.
    pub(in crate::volume) fn be_careful(&mut self) {
        self.is_careful = true;
    }

    /// Has everything tried again.
    pub(in crate::volume) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no task may take any of `extent`.
    pub(in crate::volume) fn covers(&self, extent: Extent<Addr>) -> bool {
        !self.runs.is_empty() && self.runs.gaps(extent).is_empty()
    }

    /// Whether one of `places` remains.
    pub(in crate::volume) fn has_any(&self, places: &[Place]) -> bool {
        places.iter().any(|it| self.places.get(&it.on).is_some_and(|on| on.overlaps(it.extent)))
    }
}

impl Disk {
    /// Whether what remains is not tried yet.
    pub(in crate::volume) fn remains_rest(&self) -> bool {
        self.schedule.now < self.remaining.until
    }

    /// When what remains is tried again, if something does.
    pub(in crate::volume) fn remains_wakeup(&self) -> Option<Millis> {
        let never = self.latched.is_some() || self.config.read_only || self.schedule.halting;
        let remains = || !self.remaining.is_empty() || self.jobs_remain();
        Some(self.remaining.until).filter(|_| !never && self.remains_rest() && remains())
    }

    /// Whether no job is left but those that a medium would not do just now.
    pub(in crate::volume) fn jobs_remain(&self) -> bool {
        self.remains_rest() && self.store.backlog(self.schedule.all_due) == Backlog::Remains
    }

    /// Whether all that is queued remains, and rests.
    pub(in crate::volume) fn all_remains(&self) -> bool {
        if self.dies_by_key() {
            // Without the end of a purge nothing else is destroyed.
            return self.is_purging() && self.jobs_remain();
        }
        let remaining = &self.remaining;
        let whole = Extent::new(0, self.store.geometry().size);
        !remaining.is_empty()
            && self.remains_rest()
            && self.state.ledger.queued_within(whole).all(|(run, _)| remaining.covers(run))
            && self.state.owed.iter().all(|(place, _)| self.remaining_at(place) == place.extent.len)
    }

    /// How many bytes of the content owed at `place` remain.
    fn remaining_at(&self, place: Place) -> u64 {
        let blocks = place.extent.pieces(BLOCK_BYTES).map(|extent| Place { extent, ..place });
        if self.leaves_older() {
            let remains = blocks.filter(|block| self.remaining.has_any(&[*block]));
            return remains.map(|block| block.extent.len).sum();
        }
        let Some(mapped) = self.store.mapped() else { return 0 };
        let residue = blocks.flat_map(|block| mapped.residue(block));
        let remains = residue.filter(|it| self.remaining.has_any(&it.at));
        remains.map(|it| it.part.extent.len).sum()
    }

    /// How many bytes are owed that remain.
    pub(in crate::volume) fn remaining_bytes(&self) -> u64 {
        if self.dies_by_key() {
            let owed = self.state.ledger.dead().bytes() + self.state.owed.bytes();
            return if self.all_remains() { owed } else { 0 };
        }
        if self.remaining.is_empty() {
            return 0;
        }
        let runs = self.remaining.runs.iter();
        let owed = runs.flat_map(|(run, ())| self.state.ledger.within(run)).map(|(part, _)| part.len);
        owed.chain(self.state.owed.iter().map(|(place, _)| self.remaining_at(place))).sum()
    }

    /// Why receipts wait although nothing is under way: a copy of what they are for may remain.
    pub(in crate::volume) fn copies_remain(&self) -> Option<&str> {
        let why = self.remaining.why.as_ref().filter(|_| self.remains_rest())?;
        self.store.has_residue().then_some(why.message.as_str())
    }

    /// The limits of the next task.
    pub(in crate::volume) fn limits(&self) -> Limits {
        let Config { run_bytes_max, batch_bytes_max, .. } = self.config;
        let is_careful = self.remaining.is_careful;
        let run_bytes_max = if is_careful { run_bytes_max.min(BLOCK_BYTES) } else { run_bytes_max };
        Limits { run_bytes_max, batch_bytes_max, one_by_one: is_careful }
    }
}
