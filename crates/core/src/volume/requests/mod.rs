//! The requests that have arrived and not ended: those under way, and those that wait.
//!
//! The way of a request: [`admit`] says when it may begin, in the [`order`] of changes, and [`waiting`] keeps it until
//! then. [`carrying`] begins it; where a store writes whole blocks only, the rest of a block is read first ([`partial`]).
//! [`ending`] takes what its I/O operations bring, until the request is answered; [`noting`] does so for a write over dead
//! bytes, and [`refusing`] ends what cannot be done. [`running`] has those that have begun, and [`reading`] begins a read
//! again whose content has moved. What a request frees dies in [`dying`], each part in its class ([`classes`]).
//!
//! The other owners are handed to it ([`Others`]); nothing that it calls there comes back to it.

pub(super) mod admit;
pub(super) mod carrying;
pub(super) mod classes;
pub(super) mod dying;
pub(super) mod ending;
pub(super) mod noting;
pub(super) mod order;
pub(super) mod partial;
pub(super) mod past;
pub(super) mod reading;
pub(super) mod refusing;
pub(super) mod running;
pub(super) mod waiting;

use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::origin::Origin;
use crate::volume::requests::classes::Plain;
use crate::volume::requests::order::Order;
use crate::volume::requests::past::epochs::Closes;
use crate::volume::requests::running::{Stage, Table};
use crate::volume::requests::waiting::{Queue, Unseen};
use crate::volume::watching::Watching;
use crate::volume::{Command, Volume};
use std::collections::VecDeque;

/// The other owners, and where commands go: all that carrying out a request may need.
#[derive(Debug)]
pub(super) struct Others<'a> {
    pub(super) disk: &'a mut Disk,
    pub(super) erasing: &'a mut Erasing,
    pub(super) watching: &'a mut Watching,
    pub(super) out: &'a mut Vec<Command>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The order of changes of the same bytes.
    pub(super) order: Order,
    /// Requests under way.
    pub(super) running: Table,
    /// Requests under way for whose deaths the ledger had no room, or one event no time.
    pub(super) obliging: VecDeque<Origin>,
    /// Requests that cannot begin yet.
    pub(super) waiting: Queue,
    /// The closes of epochs that are under way.
    pub(super) closes: Closes,
    /// The bytes whose content was plain when a request arrived that frees them.
    pub(super) plain: Plain,
}

impl Requests {
    /// Whether no request is under way, and none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Whether no request waits for anything but its I/O operation.
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.obliging.is_empty() && self.closes.is_empty()
    }

    /// Whether a request waits for room in the ledger.
    pub(super) fn wants_room(&self) -> bool {
        !self.obliging.is_empty() || self.waiting.wants_room()
    }

    /// Whether a watcher has yet to be shown what change `id` replaces: it knows that something arrives, not what.
    pub(super) fn is_unseen(&self, id: Origin) -> bool {
        let waits = self.waiting.get(id).is_some_and(|it| match &it.unseen {
            Unseen::ToAsk => true,
            Unseen::Left(left) => !left.is_empty(),
        });
        let reads = self.running.get(id).is_some_and(|it| matches!(it.stage, Stage::ReadForInference { .. }));
        waits || reads
    }

    /// Ends change `id`, which was carried out or refused: the changes behind it are tried again.
    pub(super) fn leave(&mut self, id: Origin) {
        self.plain.forget(id);
        self.order.leave(id).into_iter().for_each(|next| self.waiting.retry(next));
    }

    /// Change `id` has had its effect, and waits only to be answered: the changes that follow it are
    /// tried.
    pub(super) fn retire(&mut self, id: Origin) {
        self.running.retire(id);
        self.order.retire(id).into_iter().for_each(|next| self.waiting.retry(next));
    }

    /// Gives up, because the medium has failed. Returns the requests with no I/O operation under way: what
    /// they wait for never happens.
    pub(super) fn give_up(&mut self) -> Vec<Origin> {
        self.obliging.clear();
        self.closes.give_up();
        let waits = |it: &Stage| {
            matches!(
                it,
                Stage::Commit
                    | Stage::Oblige(_)
                    | Stage::Checkpoint(_)
                    | Stage::Close
                    | Stage::Closed(_)
                    | Stage::Forget(_)
            )
        };
        self.running.in_stage(waits)
    }
}

impl Volume {
    /// Lets requests `act`, and hands them the other owners.
    pub(super) fn on_requests<T>(
        &mut self,
        out: &mut Vec<Command>,
        act: impl FnOnce(&mut Requests, &mut Others<'_>) -> T,
    ) -> T {
        let Self { disk, requests, erasing, watching } = self;
        act(requests, &mut Others { disk, erasing, watching, out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::Buf;
    use crate::base::units::{Epoch, Extent};
    use crate::request::{Op, Request};
    use crate::volume::obstacle::Obstacle;
    use crate::volume::requests::running::Running;
    use crate::volume::requests::waiting::Waiting;

    fn run(requests: &mut Requests, id: u64, stage: Stage) {
        let (masks, buf, extent) = (Vec::new(), Buf::new(), Extent::new(id * 8, 8));
        let running = Running { extent, is_ordered: true, stage, masks, buf, reading: None };
        requests.running.insert(Origin::Own(id), running);
    }

    #[test]
    fn what_follows_a_change_is_tried_when_that_ends_and_not_before() {
        let mut requests = Requests::default();
        let extent = Extent::new(0, 8);
        requests.order.enter(Origin::Own(1), extent, Epoch(0));
        requests.order.enter(Origin::Own(2), extent, Epoch(0));
        let request = Request { op: Op::Trim, extent, fua: false };
        let (obstacle, reused, unseen) = (Obstacle::Order, Vec::new(), Unseen::ToAsk);
        requests.waiting.join(Waiting { id: Origin::Own(2), request, reused, unseen, obstacle });
        assert!(requests.waiting.next_try(true).is_none() && !requests.is_quiet());
        requests.leave(Origin::Own(1));
        let tried = requests.waiting.next_try(true).map(|(_, waiting)| waiting.id);
        assert_eq!(tried, Some(Origin::Own(2)));
        assert!(requests.is_empty() && requests.order.is_first(Origin::Own(2)));
    }

    #[test]
    fn a_failure_ends_what_waits_for_a_commit_and_leaves_what_a_medium_has_yet_to_answer() {
        let mut requests = Requests::default();
        run(&mut requests, 1, Stage::Io);
        run(&mut requests, 2, Stage::Commit);
        requests.obliging.push_back(Origin::Own(3));
        assert!(requests.wants_room());
        assert_eq!(requests.give_up(), [Origin::Own(2)]);
        assert!(!requests.wants_room() && requests.is_quiet() && !requests.is_empty());
    }
}
