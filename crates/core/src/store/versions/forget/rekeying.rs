//! The jobs that destroy stubs: by the cells above them, and in no other way.
//!
//! A stub that the log has dies with its half: if nothing else has the index written soon, a job asks for that. One
//! at home dies with the cell of its page. The stubs of the page that are to stay go under another cell before
//! ([`crate::store::versions::stubs::homes`]). Cells that are not in use come first: they may hide copies of the same stubs.

use crate::base::units::Slot;
use crate::mutant::{self, Mutant};
use crate::store::versions::Versions;
use crate::store::versions::forget::killing::{Begun, Doing, HomesJob, LOOKS_MAX, some};
use crate::store::versions::positions::Missing;
use crate::store::{Job, JobEnd, Rekey};
use crate::tree::Absent;
use std::collections::BTreeSet;

/// Most pages of homes that get other cells at once.
const PAGES_MAX: usize = 128;
/// Most cells that one job destroys because they are not in use.
const STALE_MAX: usize = 1024;

impl Versions {
    /// The next job that destroys stubs.
    pub(in super::super) fn stub_job(&mut self) -> Result<Option<Begun>, Missing> {
        if let Some(job) = self.job_under_way() {
            return Ok(Some(job));
        }
        if self.catalog.homes.has_stale() {
            let old = self.catalog.homes.stale(STALE_MAX);
            let job = Job::Rekey(Rekey { old: old.clone(), ..Rekey::default() });
            return Ok(Some((Doing::Homes(HomesJob::Stale(old)), job)));
        }
        let turns = self.committing.index.is_some() && !mutant::is(Mutant::BringMeanwhile);
        // What has the index written would wait for the job, and for the next one. And while more is found to be dead, a page
        // would get one cell after the other.
        if turns || self.is_index_due() || self.forgetting.is_searching() {
            return Ok(None);
        }
        loop {
            let sweep = self.killing.sweep;
            let slots = self.stubs_at_home()?;
            if slots.is_empty() {
                self.killing.note_swept();
                self.turn_for_owed();
                return Ok(None);
            }
            let doomed = self.catalog.doomed(&slots, |slot| self.killing.is_gone(slot));
            let mut kept = doomed.iter().filter(|(_, stay)| !stay.is_empty());
            if let Err(missing) = kept.try_for_each(|(page, _)| self.catalog.homes.pages.hold(*page)) {
                self.killing.sweep = sweep;
                return Err(missing);
            }
            if self.catalog.homes.begin(doomed) {
                assert!(self.killing.job.slots.is_empty(), "the slots of the job before are done with");
                self.killing.job.slots = slots;
                let job = self.job_under_way();
                assert!(job.is_some(), "a move that has begun has a job");
                return Ok(job);
            }
            // Their pages have no cells any more.
            self.killed(some(&slots));
            if self.stuck.is_some() {
                return Ok(None);
            }
        }
    }

    /// The job of the pages that are getting other cells, if any are.
    fn job_under_way(&self) -> Option<Begun> {
        let homes = &self.catalog.homes;
        let (job, its) = match homes.unread() {
            places if places.is_empty() => (HomesJob::Move, Job::Rekey(homes.rekey()?)),
            places => (HomesJob::Read, Job::Read(places)),
        };
        Some((Doing::Homes(job), its))
    }

    /// The slots of stubs at home that a job may destroy; with one of a page come all others of the page.
    fn stubs_at_home(&mut self) -> Result<BTreeSet<Slot>, Absent> {
        let layout = self.catalog.layout;
        let (mut slots, mut pages, mut from) = (BTreeSet::new(), BTreeSet::new(), self.killing.sweep.next);
        let mut looks = 0;
        'looks: loop {
            let Some(owed) = self.catalog.history.owed_from(from)? else {
                from = Slot(0);
                self.killing.sweep.looked = true;
                break;
            };
            for slot in owed.each().map(|dead| dead.slot) {
                let page = layout.page_of(slot);
                if (looks >= LOOKS_MAX || pages.len() == PAGES_MAX) && pages.last() != Some(&page) {
                    from = layout.slots_of(page).start;
                    break 'looks;
                }
                if self.killing.may_kill(slot) && !self.catalog.log.has(slot) {
                    slots.insert(slot);
                    pages.insert(page);
                }
                (from, looks) = (Slot(slot.0 + 1), looks + 1);
            }
        }
        assert!(pages.len() <= PAGES_MAX, "a job has no more pages than fit");
        self.killing.sweep.next = from;
        Ok(slots)
    }

    /// Has the index written if the log has stubs that are to die, which they do with their half.
    fn turn_for_owed(&mut self) {
        let is_owed = self.catalog.log.owed().any(|slot| self.killing.may_kill(slot));
        self.committing.wants_index |= is_owed;
    }

    /// Ends a job of the pages that are getting other cells. One that was given up begins again: it is not known what it has
    /// written.
    pub(in super::super) fn homes_job_done(&mut self, job: HomesJob, end: JobEnd<'_>) {
        match (job, end) {
            (HomesJob::Read, JobEnd::Done(read)) => {
                if let Err(place) = self.catalog.prepare_homes(read) {
                    self.give_up_move();
                    let why = format!(
                        "{} bytes of stubs at byte {} are not under their key: damaged, or of another time than the root",
                        place.extent.len, place.extent.start.0
                    );
                    self.killing.stopped = Some(why);
                }
            }
            (HomesJob::Read, JobEnd::GivenUp) => self.give_up_move(),
            (HomesJob::Stale(cells), JobEnd::Done(_)) => self.catalog.homes.cleaned(&cells),
            (HomesJob::Move, JobEnd::Done(_)) => {
                self.catalog.homes.rekeyed();
                self.killing.note_swept();
                let slots = std::mem::take(&mut self.killing.job.slots);
                assert!(!slots.is_empty(), "a move knows the slots whose stubs it destroys");
                self.killed(some(&slots));
            }
            (_, JobEnd::GivenUp | JobEnd::Remains(_)) => {}
        }
    }

    fn give_up_move(&mut self) {
        self.catalog.homes.cancel();
        self.killing.job.slots.clear();
        self.killing.begin_sweep();
    }
}
