//! What a medium would not erase ([`MediumErrorKind::Remains`]): it stays owed, and is tried again later.
//!
//! Invariants:
//! 1. No task takes what remains before the next try, so that it keeps nothing else from being destroyed.
//! 2. The journal owes what remains, and has no receipt for it. Only memory knows that it remains: a start tries it again.
//!
//! [`MediumErrorKind::Remains`]: crate::medium::MediumErrorKind::Remains

use super::task::{Kind, Site};
use super::{Command, Volume};
use crate::buf::Buf;
use crate::erase::Limits;
use crate::extents::ExtentMap;
use crate::media::MediumId;
use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::store::Backlog;
use crate::units::{Addr, BLOCK_BYTES, Extent, Millis, Pos};
use std::collections::BTreeMap;

/// How long what remains rests before it is tried again, in milliseconds.
const RETRY_MS: u64 = 60_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// The bytes that are owed by address.
    runs: ExtentMap<Addr, ()>,
    /// The places whose destruction is owed.
    places: BTreeMap<MediumId, ExtentMap<Pos, ()>>,
    /// Whether tasks work block by block, to find the one that remains.
    is_careful: bool,
    /// When all of it is tried again.
    until: Millis,
    /// The medium's answer, the last time.
    why: Option<MediumError>,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.places.is_empty()
    }

    /// Lets what is at `sites`, which a medium would not erase at once, rest `until` then. Has each block tried on its own before,
    /// unless the task was `careful` to do that.
    fn note(&mut self, sites: &[Site], careful: bool, until: Millis, why: &MediumError) {
        (self.until, self.why) = (until, Some(why.clone()));
        let is_one = matches!(sites, [Site::Run(Extent { len, .. })] if *len <= BLOCK_BYTES);
        if !is_one && !careful {
            self.is_careful = true;
            return;
        }
        for site in sites.iter().filter(|_| !mutant::is(Mutant::TryRemainsAtOnce)) {
            match site {
                Site::Run(run) => self.runs.insert(*run, ()),
                Site::Place(at) => self.places.entry(at.on).or_default().insert(at.extent, ()),
            }
        }
    }

    /// Has everything tried again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that nothing is owed at `run` any more, or something else.
    pub(super) fn forget(&mut self, run: Extent<Addr>) {
        self.runs.remove(run);
    }

    /// The parts of `extent` that a task may take.
    pub(super) fn gaps(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        self.runs.gaps(extent)
    }

    /// Whether no task may take any of `extent`.
    pub(super) fn covers(&self, extent: Extent<Addr>) -> bool {
        !self.runs.is_empty() && self.runs.gaps(extent).is_empty()
    }

    /// Whether one of `places` remains.
    pub(super) fn has_any(&self, places: &[Place]) -> bool {
        places.iter().any(|it| self.places.get(&it.on).is_some_and(|on| on.overlaps(it.extent)))
    }
}

impl Volume {
    /// Gives up what a task does at part `part` of its present step, where the medium will not erase. Content that the
    /// task keeps is put back; what was owed stays owed.
    pub(super) fn task_remains(&mut self, part: usize, error: &MediumError, out: &mut Vec<Command>) {
        let Some(task) = &mut self.erasing.task else { return };
        let sites = task.steps.destroys(part).map(<[Site]>::to_vec).unwrap_or_default();
        // Each task would put live content into the same staging slots.
        let is_staging = matches!(task.kind, Kind::Rewrite { .. }) && !task.steps.puts_back();
        if sites.is_empty() || is_staging {
            return self.latch(&format!("destroying: {error}"), out);
        }
        if mutant::is(Mutant::ForgetRemains) {
            return self.task_done(Buf::new());
        }
        let until = Millis(self.schedule.now.0.saturating_add(RETRY_MS));
        match &task.kind {
            Kind::Rewrite { .. } => {
                self.erasing.remaining.note(&sites, task.is_careful, until, error);
                task.is_spared = true;
                task.runs.iter().for_each(|run| self.erasing.layers.forget(*run));
                return task.steps.skip();
            }
            Kind::Shred | Kind::Free | Kind::DestroyOwed { .. } => {
                self.erasing.remaining.note(&sites, task.is_careful, until, error);
            }
            // The space is not given back; the next start finds it.
            Kind::GiveBack => sites.iter().for_each(|site| {
                if let Site::Run(run) = site {
                    self.erasing.pending_punch.remove(*run);
                }
            }),
            Kind::Job => {
                (self.erasing.remaining.until, self.erasing.remaining.why) = (until, Some(error.clone()));
                task.remains.extend(sites.into_iter().filter_map(Site::place));
            }
        }
        task.steps.failed();
    }

    /// Whether what remains is not tried yet.
    pub(super) fn remains_rest(&self) -> bool {
        self.schedule.now < self.erasing.remaining.until
    }

    /// When what remains is tried again, if something does.
    pub(super) fn remains_wakeup(&self) -> Option<Millis> {
        let never = self.latched.is_some() || self.config.read_only || self.schedule.halting;
        let remains = || !self.erasing.remaining.is_empty() || self.jobs_remain();
        Some(self.erasing.remaining.until).filter(|_| !never && self.remains_rest() && remains())
    }

    /// Whether no job is left but those that a medium would not do just now.
    pub(super) fn jobs_remain(&self) -> bool {
        self.remains_rest() && self.store.backlog(self.schedule.all_due) == Backlog::Remains
    }

    /// Whether all that is queued remains, and rests.
    pub(super) fn all_remains(&self) -> bool {
        let remaining = &self.erasing.remaining;
        let whole = Extent::new(0, self.store.geometry().size);
        !remaining.is_empty()
            && self.remains_rest()
            && self.state.ledger.queued_within(whole).all(|(run, _)| remaining.covers(run))
            && self.state.owed.iter().all(|(place, _)| self.remaining_at(place) == place.extent.len)
    }

    /// How many bytes of the content owed at `place` remain.
    fn remaining_at(&self, place: Place) -> u64 {
        let residue = self.store.mapped().map(|it| it.residue(place)).unwrap_or_default();
        let remains = residue.iter().filter(|it| self.erasing.remaining.has_any(&it.at));
        remains.map(|it| it.part.extent.len).sum()
    }

    /// How many bytes are owed that remain.
    pub(super) fn remaining_bytes(&self) -> u64 {
        if self.erasing.remaining.is_empty() {
            return 0;
        }
        let runs = self.erasing.remaining.runs.iter();
        let owed = runs.flat_map(|(run, ())| self.state.ledger.within(run)).map(|(part, _)| part.len);
        owed.chain(self.state.owed.iter().map(|(place, _)| self.remaining_at(place))).sum()
    }

    /// Why receipts wait although nothing is under way: a copy of what they are for may remain.
    pub(super) fn copies_remain(&self) -> Option<&str> {
        let why = self.erasing.remaining.why.as_ref().filter(|_| self.remains_rest())?;
        self.store.has_residue().then_some(why.message.as_str())
    }

    /// Has everything that remains tried again when it is time, and refuses the writes that wait for the destruction of some of it
    /// until then. What the task under way has found to remain is left out of the next one in any case.
    pub(super) fn drive_remaining(&mut self, out: &mut Vec<Command>) {
        let Remaining { runs, why: Some(why), .. } = &self.erasing.remaining else { return };
        if !self.remains_rest() {
            if self.erasing.task.is_none() {
                self.erasing.remaining.clear();
            }
            return;
        }
        let (why, geometry) = (why.clone(), self.store.geometry());
        let above = self.requests.waiting.take_above(|extent| runs.overlaps(geometry.changed(extent)));
        for waiting in above {
            self.refuse_waiting(&waiting, &why, out);
        }
    }

    /// The limits of the next task.
    pub(super) fn limits(&self) -> Limits {
        let super::Config { run_bytes_max, batch_bytes_max, .. } = self.config;
        let is_careful = self.erasing.remaining.is_careful;
        let run_bytes_max = if is_careful { run_bytes_max.min(BLOCK_BYTES) } else { run_bytes_max };
        Limits { run_bytes_max, batch_bytes_max, one_by_one: is_careful }
    }
}
