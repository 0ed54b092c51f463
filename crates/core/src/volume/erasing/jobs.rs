//! Background jobs: what a store wants done with space that holds no content, and with where
//! content lies.

use crate::base::units::{Extent, Millis};
use crate::erase::{CopyLive, Destroy, Limits, Method, Put, Zeros};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::store::{Backlog, Job, Rekey};
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;

/// When background jobs may begin.
#[derive(Debug, Default)]
pub(in crate::volume) struct Jobs {
    /// Since when there has been a job to do.
    since: Option<Millis>,
    /// No job begins before this: there was no space for the last one.
    pub(in crate::volume) not_before: Millis,
}

impl Jobs {
    /// Since when there has been a job to do, if one may begin; there is if `has_any`.
    fn waiting_since(&mut self, now: Millis, has_any: bool) -> Option<Millis> {
        self.since = (has_any && !self.rest(now)).then(|| self.since.unwrap_or(now));
        assert!(self.since.is_none_or(|since| since <= now), "a job waits since a time that has been");
        self.since
    }

    /// There is nothing to do.
    pub(in crate::volume) fn nothing_left(&mut self) {
        self.since = None;
    }

    /// Whether jobs rest: the last one lacked space, or its medium was busy.
    pub(in crate::volume) fn rest(&self, now: Millis) -> bool {
        now < self.not_before
    }

    /// No job begins before `until`: there was no space for one.
    pub(in crate::volume) fn put_off(&mut self, until: Millis) {
        assert!(self.not_before <= until, "a rest is made longer, and not shorter");
        self.not_before = until;
    }
}

impl Disk {
    /// Whether there is a background job to do, now or later.
    pub(in crate::volume) fn has_jobs(&self) -> bool {
        self.store.backlog(self.schedule.all_due) != Backlog::Nothing && !self.jobs_remain()
    }
}

impl Erasing {
    pub(in crate::volume) fn may_begin_job(&mut self, disk: &Disk) -> bool {
        let has_any = !disk.schedule.halting && disk.has_jobs();
        let Some(since) = self.jobs.waiting_since(disk.schedule.now, has_any) else {
            return false;
        };
        // Receipts wait until nothing is left that may be a copy.
        let in_the_way = !disk.has_room() && disk.has_receipts_to_give();
        // Where dead content leaves its place at once, only jobs make room in a ledger that fills with dead places.
        let fills = disk.dead_leave() && disk.is_filling();
        in_the_way
            || fills
            || disk.store.backlog(disk.schedule.all_due) == Backlog::AtOnce
            || disk.is_due_since(since) && !disk.is_at_work()
            || disk.is_overdue_since(since)
    }

    /// Whether background jobs are all that is left to be done unasked.
    pub(in crate::volume) fn has_only_jobs(&self, disk: &Disk) -> bool {
        let is_up_to_jobs = disk.is_checkpointed() || disk.map_waits();
        let have_jobs_left = disk.dead_leave() && disk.has_jobs();
        let owes = !disk.state.owed.is_empty() && !have_jobs_left;
        let has_queued = (disk.state.ledger.has_queued() || owes) && !disk.all_remains();
        !has_queued && self.pending_punch.is_empty() && is_up_to_jobs
    }
}

/// How `job` is done.
pub(in crate::volume) fn method(job: &Job, limits: Limits) -> Method<Site> {
    let medium = Site::all_of(MediumId::Data);
    match job {
        Job::Destroy(places) => Method::Destroy(destroy_all(places, limits, Zeros::AfterPasses)),
        Job::Renew(places, fresh) => {
            Method::Renew(destroy_all(places, limits, Zeros::Holes(Vec::new())), fresh.clone().into())
        }
        Job::Put(places, bytes) => Method::Put(put(places, bytes)),
        Job::Rekey(Rekey { keys, content, old }) => Method::Rekey(
            [put(&keys.0, &keys.1), put(&content.0, &content.1)],
            destroy_all(old, limits, Zeros::Always),
        ),
        Job::Turn(Rekey { keys, content, old }) => Method::Turn(
            [put(&keys.0, &keys.1), put(&content.0, &content.1)],
            destroy_all(old, limits, Zeros::Always),
        ),
        Job::Read(places) => Method::Read(places.iter().copied().map(Site::Place).collect()),
        Job::Punch(slots) => Method::Punch(Site::data(slots.clone())),
        Job::Shrink(to) => {
            Method::Shrink(Site::Place(Place { on: MediumId::Data, extent: Extent::new(to.0, 0) }))
        }
        Job::Move { contents, to } => {
            let (from, to) = (Site::runs(contents), Site::data(to.clone()));
            Method::CopyLive(CopyLive { from, to, medium })
        }
    }
}

fn put(places: &[Place], bytes: &[u8]) -> Put<Site> {
    let at = places.iter().copied().map(Site::Place).collect();
    Put { at, bytes: bytes.to_vec().into(), medium: Site::medium_of(places) }
}

/// How `places` of one medium are destroyed.
fn destroy_all(places: &[Place], limits: Limits, zeros: Zeros<Site>) -> Destroy<Site> {
    Destroy {
        residue: places.iter().copied().map(Site::Place).collect(),
        at_once: limits.at_once(places.iter().map(|place| place.extent)),
        zeros,
        medium: Site::medium_of(places),
        forget: Vec::new(),
        checkpoint: false,
        record: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_waits_since_it_was_seen_first_and_not_at_all_after_a_failure_for_a_while() {
        let mut jobs = Jobs::default();
        assert_eq!(jobs.waiting_since(Millis(5), true), Some(Millis(5)));
        assert_eq!(jobs.waiting_since(Millis(9), true), Some(Millis(5)));
        assert_eq!(jobs.waiting_since(Millis(10), false), None);
        assert_eq!(jobs.waiting_since(Millis(11), true), Some(Millis(11)));
        jobs.put_off(Millis(112));
        assert_eq!(jobs.waiting_since(Millis(111), true), None);
        assert_eq!(jobs.waiting_since(Millis(112), true), Some(Millis(112)));
    }
}
