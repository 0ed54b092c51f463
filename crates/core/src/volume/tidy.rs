//! Tidying up: what a store wants done with space that nobody's content lies in,
//! and with where content lies.

use super::Volume;
use super::act::{Act, Kind, Site};
use crate::erase::{CopyLive, Destroy, Method, Priority, Zeros};
use crate::store::{Chore, Place, Target};
use crate::units::{Extent, Millis};

/// After so long there may be space for what there was none.
const RETRY_MS: u64 = 10_000;

impl Volume {
    /// Does the next chore, if there is one and it is time.
    pub(super) fn tidy_act(&mut self) -> Option<Act> {
        if self.store.is_fixed() || !self.may_tidy() {
            return None;
        }
        let chore = self.store.chore(self.all_due)?;
        if let Chore::Move { contents, .. } = &chore
            && contents.iter().any(|run| self.is_busy(*run))
        {
            self.store.left_untidy(&chore);
            return None;
        }
        let runs = if let Chore::Move { contents, .. } = &chore { contents.clone() } else { Vec::new() };
        let method = method(&chore);
        Some(self.act(Kind::Tidy(chore), runs, method, Priority::Background))
    }

    fn may_tidy(&mut self) -> bool {
        if self.halting || self.now < self.tidy_from || !self.store.has_chores(self.all_due) {
            self.untidy_since = None;
            return false;
        }
        let since = *self.untidy_since.get_or_insert(self.now);
        // Receipts wait until nothing is left that may be a copy.
        let in_the_way = !self.has_room() && self.has_receipts_to_give();
        in_the_way
            || self.store.is_tidy()
            || self.is_due_since(since) && !self.is_at_work()
            || self.is_overdue_since(since)
    }

    /// Whether there is something to tidy up, now or later.
    pub(super) fn has_chores(&self) -> bool {
        self.store.has_chores(self.all_due)
    }

    /// Whether all that is left to be done unasked is to tidy up.
    pub(super) fn has_only_chores(&self) -> bool {
        !self.has_queued() && self.spare.is_empty() && self.is_sealed()
    }

    /// There was no space for a chore: it is tried again later.
    pub(super) fn put_off_chores(&mut self) {
        self.tidy_from = Millis(self.now.0.saturating_add(RETRY_MS));
    }
}

/// How `chore` is done.
fn method(chore: &Chore) -> Method<Site> {
    let medium = Site::all_of(Target::Data);
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
            Method::Shrink(Site::Place(Place { on: Target::Data, extent: Extent::new(to.0, 0) }))
        }
        Chore::Search(part) => Method::Read(Site::Place(Place { on: Target::Map, extent: *part })),
        Chore::Move { contents, to } => {
            let (from, to) = (Site::runs(contents), Site::data(to.clone()));
            Method::CopyLive(CopyLive { from, to, medium })
        }
    }
}
