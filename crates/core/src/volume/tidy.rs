//! Tidying up: what a store wants done with space that nobody's content lies in,
//! and with where content lies.

use super::Volume;
use super::act::{Act, Kind, Site};
use crate::erase::{CopyLive, Destroy, Method, Priority, Zeros};
use crate::media::MediumId;
use crate::place::Place;
use crate::store::{Backlog, Chore, JobEnd};
use crate::units::{Extent, Millis};

/// When background jobs may begin.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Since when there is one to do.
    since: Option<Millis>,
    /// None begins before: there was no space for one.
    pub(super) not_before: Millis,
}

impl Jobs {
    /// Since when there has been a job to do, if one may begin; there is if `has_any`.
    fn waiting_since(&mut self, now: Millis, has_any: bool) -> Option<Millis> {
        self.since = (has_any && now >= self.not_before).then(|| self.since.unwrap_or(now));
        self.since
    }

    /// There is nothing to do.
    pub(super) fn nothing_left(&mut self) {
        self.since = None;
    }

    /// There was no space for one.
    fn put_off(&mut self, until: Millis) {
        self.not_before = until;
    }
}

impl Volume {
    /// Does the next chore, if there is one and it is time.
    pub(super) fn tidy_act(&mut self) -> Option<Act> {
        if !self.may_tidy() {
            return None;
        }
        let chore = self.store.background(self.schedule.all_due)?;
        if let Chore::Move { contents, .. } = &chore
            && contents.iter().any(|run| self.is_busy(*run))
        {
            self.store.background_done(&chore, JobEnd::GivenUp);
            return None;
        }
        let runs = if let Chore::Move { contents, .. } = &chore { contents.clone() } else { Vec::new() };
        let method = method(&chore);
        Some(self.act(Kind::Tidy(chore), runs, method, Priority::Background))
    }

    fn may_tidy(&mut self) -> bool {
        let has_any = !self.schedule.halting && self.store.backlog(self.schedule.all_due) != Backlog::Nothing;
        let Some(since) = self.erasing.jobs.waiting_since(self.schedule.now, has_any) else { return false };
        // Receipts wait until nothing is left that may be a copy.
        let in_the_way = !self.has_room() && self.has_receipts_to_give();
        in_the_way
            || self.store.backlog(self.schedule.all_due) == Backlog::AtOnce
            || self.is_due_since(since) && !self.is_at_work()
            || self.is_overdue_since(since)
    }

    /// Whether there is something to tidy up, now or later.
    pub(super) fn has_chores(&self) -> bool {
        self.store.backlog(self.schedule.all_due) != Backlog::Nothing
    }

    /// Whether all that is left to be done unasked is to tidy up.
    pub(super) fn has_only_chores(&self) -> bool {
        !self.has_queued() && self.erasing.spare.is_empty() && self.is_checkpointed()
    }

    /// There was no space for a chore: it is tried again later.
    pub(super) fn put_off_chores(&mut self) {
        self.erasing.jobs.put_off(self.retry_at());
    }
}

/// How `chore` is done.
fn method(chore: &Chore) -> Method<Site> {
    let medium = Site::all_of(MediumId::Data);
    match chore {
        Chore::Destroy(slots) => Method::Destroy(Destroy {
            residue: Site::data(slots.clone()),
            zeros: Zeros::AfterPasses,
            medium,
            forget: Vec::new(),
            checkpoint: false,
            record: false,
        }),
        Chore::Punch(slots) => Method::Punch(Site::data(slots.clone())),
        Chore::Shrink(to) => {
            Method::Shrink(Site::Place(Place { on: MediumId::Data, extent: Extent::new(to.0, 0) }))
        }
        Chore::Search(part) => Method::Read(Site::Place(Place { on: MediumId::Map, extent: *part })),
        Chore::Move { contents, to } => {
            let (from, to) = (Site::runs(contents), Site::data(to.clone()));
            Method::CopyLive(CopyLive { from, to, medium })
        }
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
