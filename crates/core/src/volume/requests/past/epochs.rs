//! Epochs of a disk whose store keeps versions: which one a change belongs to, how one is closed, and reads of
//! the past.
//!
//! Invariants:
//! 1. A change belongs to the epoch that took changes when it arrived, however long it waits. A request to
//!    close the epoch makes a *cut*: what arrives later belongs to the next one.
//! 2. An epoch is closed when all its changes have had their effect, and nothing of the ledger is dead: so what
//!    is dead by address has died in the open epoch.
//! 3. One close is under way at a time: another one makes its cut when that one is done.
//! 4. Nothing waits for a close but later deaths, which the ledger could not tell from earlier ones.

use crate::base::units::{Addr, Epoch, Extent};
use crate::media::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::request::{Question, Refusal};
use crate::volume::Command;
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::origin::Origin;
use crate::volume::requests::running::Stage;
use crate::volume::requests::{Others, Requests};
use std::collections::VecDeque;

/// The closes of epochs that are under way.
#[derive(Debug, Default)]
pub(in crate::volume) struct Closes {
    /// The cut that ends the open epoch, which has not been closed.
    cut: Option<Cut>,
    /// The closes that follow it: the time of each, and its request.
    later: Vec<(u64, Origin)>,
    /// Requests whose deaths belong to an epoch that is not open yet.
    early: VecDeque<Origin>,
    /// Whether something may have changed since the last cut.
    is_changed: bool,
}

/// A cut between the changes of an epoch and those of the next one.
#[derive(Debug)]
struct Cut {
    when: u64,
    /// The requests that get the number of the epoch when it is closed.
    waiters: Vec<Origin>,
}

impl Closes {
    /// The state at a start, when the open epoch may have a change already.
    pub(in crate::volume) fn new(is_changed: bool) -> Self {
        Self { is_changed, ..Self::default() }
    }

    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.cut.is_none()
    }

    pub(in crate::volume) fn has_changed(&self) -> bool {
        self.is_changed
    }

    /// Notes that a change arrives.
    pub(in crate::volume) fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// Lets the deaths of request `id` wait for their epoch.
    pub(in crate::volume) fn wait_for_epoch(&mut self, id: Origin) {
        self.early.push_back(id);
    }

    /// Gives all up: the medium has failed.
    pub(in crate::volume) fn give_up(&mut self) {
        (self.cut, self.later) = (None, Vec::new());
        self.early.clear();
    }
}

impl Disk {
    /// The epoch that is closed next; it never changes if the store keeps no epochs.
    pub(in crate::volume) fn open_epoch(&self) -> Epoch {
        self.store.epochs().map_or(Epoch::default(), |it| it.open())
    }

    pub(in crate::volume) fn can_close(&self) -> bool {
        self.store.epochs().is_none_or(|it| it.can_close())
    }

    /// Answers request `id`, a question about epochs, stubs or versions.
    pub(in crate::volume) fn answer_question(&self, id: Origin, question: &Question, out: &mut Vec<Command>) {
        let answer = self.store.epochs().and_then(|it| it.answer(question).ok()).unwrap_or_default();
        id.reply(Ok(answer), out);
    }
}

impl Requests {
    /// The epoch of a change that arrives now.
    pub(in crate::volume) fn arriving_epoch(&self, disk: &Disk) -> Epoch {
        let is_cut = self.closes.cut.is_some() && !mutant::is(Mutant::LateWrite);
        Epoch(disk.open_epoch().0 + u64::from(is_cut))
    }

    /// Whether change `id` belongs to an epoch that is not open yet.
    pub(in crate::volume) fn is_early(&self, disk: &Disk, id: Origin) -> bool {
        self.order.epoch(id) > disk.open_epoch()
    }

    /// Begins to close the epoch of the changes that have arrived, for request `id`.
    pub(in crate::volume) fn close_epoch(
        &mut self,
        disk: &mut Disk,
        id: Origin,
        (when, anew): (u64, bool),
        out: &mut Vec<Command>,
    ) {
        self.run(id, Extent::new(0, 0), false, Stage::Close);
        let closes = &mut self.closes;
        assert!(closes.cut.is_some() || closes.later.is_empty(), "a later close follows a cut");
        // An epoch that is being closed is new.
        closes.is_changed |= anew && closes.cut.is_none();
        match &mut closes.cut {
            Some(_) if closes.is_changed => closes.later.push((when, id)),
            Some(cut) => cut.waiters.push(id),
            None => self.cut_epoch(disk, when, vec![id], out),
        }
    }

    /// Makes a cut at the open epoch, if that has any change.
    fn cut_epoch(&mut self, disk: &mut Disk, when: u64, waiters: Vec<Origin>, out: &mut Vec<Command>) {
        assert!(self.closes.cut.is_none(), "one close is under way at a time");
        assert!(!waiters.is_empty(), "a cut is made for a request, which is answered");
        if std::mem::take(&mut self.closes.is_changed) {
            self.closes.cut = Some(Cut { when, waiters });
            return;
        }
        let last = Epoch(disk.open_epoch().0.saturating_sub(1));
        waiters.into_iter().for_each(|id| self.closed(disk, id, last, out));
    }

    /// Closes the epochs that are complete.
    pub(in crate::volume) fn drive_closes(&mut self, disk: &mut Disk, out: &mut Vec<Command>) {
        while self.is_open_epoch_complete(disk)
            && let Some(cut) = self.closes.cut.take()
        {
            let closed = disk.open_epoch();
            if let Some(epochs) = disk.store.epochs_mut() {
                epochs.close(cut.when);
            }
            assert!(disk.open_epoch() > closed, "a close opens the next epoch");
            cut.waiters.into_iter().for_each(|id| self.closed(disk, id, closed, out));
            self.obliging.append(&mut self.closes.early);
            let later = std::mem::take(&mut self.closes.later);
            if let Some((when, _)) = later.first() {
                self.cut_epoch(disk, *when, later.iter().map(|(_, id)| *id).collect(), out);
            }
        }
    }

    /// Whether all that belongs to the open epoch is in the store.
    fn is_open_epoch_complete(&self, disk: &Disk) -> bool {
        !self.order.has_of(disk.open_epoch()) && disk.state.ledger.dead().is_empty() && disk.can_close()
    }

    /// Answers request `id` with the number of the `last` closed epoch once that is durable.
    fn closed(&mut self, disk: &mut Disk, id: Origin, last: Epoch, out: &mut Vec<Command>) {
        assert!(last < disk.open_epoch(), "an epoch is answered for once it has closed");
        self.running.get_mut(id).stage = Stage::Closed(last);
        disk.want_checkpoint(Waiter::Request(id), out);
    }

    /// Tells those who wait for a close that it lacks space. The epoch is closed as soon as there is some.
    pub(in crate::volume) fn refuse_closes(&mut self, others: &mut Others<'_>, error: &MediumError) {
        let closes = &mut self.closes;
        let waiters = closes.cut.iter_mut().flat_map(|cut| std::mem::take(&mut cut.waiters));
        let later = std::mem::take(&mut closes.later).into_iter().map(|(_, id)| id);
        let refused: Vec<_> = waiters.chain(later).chain(std::mem::take(&mut closes.early)).collect();
        refused.into_iter().for_each(|id| self.request_failed(others, id, error.clone()));
    }

    /// Reads what `extent` showed at the end of `epoch`.
    pub(in crate::volume) fn read_past(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        extent: Extent<Addr>,
        epoch: Epoch,
    ) {
        if epoch >= others.disk.open_epoch() {
            return id.reply(Err(Refusal::Invalid("the epoch has not closed yet")), others.out);
        }
        let known = others.disk.store.epochs().expect("a store without epochs refuses this");
        let places = match known.locate(extent, epoch) {
            Ok(places) => places,
            Err(gone) => return id.reply(Err(gone.refusal(epoch)), others.out),
        };
        // The present content of these bytes is not read: it may die, and leave its place.
        self.run_masked(id, extent, false, Stage::Io, vec![extent]);
        self.read(others, id, crate::request::Op::ReadPast(epoch), extent, places);
    }
}
