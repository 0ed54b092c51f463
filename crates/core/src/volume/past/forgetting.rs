//! Forgetting epochs, and blocks in all epochs: the intent is durable before the answer, and the receipt comes when all
//! that died is destroyed.
//!
//! Blocks are forgotten in all epochs that are kept, and only if the open epoch shows nothing of what would die. What
//! it shows instead is durable before the intent: else a crash could bring the destroyed content back as the current one.

use crate::journal::Change;
use crate::mutant::{self, Mutant};
use crate::request::Refusal;
use crate::store::{ForgetStep, Shared};
use crate::units::{Addr, BLOCK_BYTES, Epoch, Extent, Scope};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::Erasing;
use crate::volume::requests::running::Stage;
use crate::volume::requests::waiting::Obstacle;
use crate::volume::requests::{Origin, Others, Requests};
use crate::volume::watching::Watching;
use crate::volume::{Command, Volume};
use std::collections::VecDeque;

/// Most steps of a forget in one event: meanwhile the guest waits. A step is that for some hundred versions at most.
const STEPS_MAX: usize = 32;
/// Most forgets that are not completed.
const FORGETS_MAX: usize = 256;
/// Most blocks of the current state that one event looks at.
const LOOKS_MAX: usize = 4096;

const NOT_LAST: Refusal = Refusal::Invalid(
    "blocks are forgotten in all epochs up to the last, and another one is closing, or has closed since",
);

/// How far the volume is with what is to be forgotten.
#[derive(Debug, Default)]
pub(in crate::volume) struct Forgetting {
    /// The commit that has to be durable before anything is destroyed.
    after: u64,
    /// Whether there is a step to take at once.
    has_more: bool,
    /// Requests to forget blocks, of which the current state may show some.
    checks: VecDeque<Check>,
}

/// A look for content that the current state shows, and that is to be forgotten.
#[derive(Clone, Copy, Debug)]
struct Check {
    id: Origin,
    /// The blocks that are still to be looked at.
    left: Extent<Addr>,
    /// The last epoch whose content is to be forgotten.
    to: Epoch,
    /// The open epoch when the look began.
    open: Epoch,
}

impl Forgetting {
    /// Gives the requests up that are being looked at: the medium has failed.
    pub(in crate::volume) fn give_up(&mut self) {
        self.checks.clear();
    }
}

impl Disk {
    /// Up to where the bytes from the start of `block` on are dead by address, if they are. Such content has not left its
    /// place yet.
    fn dead_up_to(&self, block: Extent<Addr>) -> Option<u64> {
        let dead = self.state.ledger.dead().iter_from(block.start.0).next();
        dead.map(|(dead, _)| dead).filter(|dead| dead.start <= block.start).map(|dead| dead.end())
    }

    /// Begins what the journal says is to be forgotten.
    pub(in crate::volume) fn resume_forget(&mut self, scope: Scope) {
        if let Some(known) = self.store.epochs_mut() {
            known.forget(scope);
        }
    }

    /// Whether content that is to be forgotten is dead by address: the store takes it for current until it has left its
    /// place.
    fn waits_for_deaths(&self) -> bool {
        let blocks = self.state.forgets.first().and_then(|scope| scope.blocks);
        blocks.is_some_and(|blocks| self.state.ledger.dead().overlaps(blocks))
    }
}

impl Erasing {
    /// Why `scope` cannot be forgotten, as far as that is known at once.
    pub(in crate::volume) fn refuse_forget(
        &self,
        disk: &Disk,
        Scope { epochs, blocks }: Scope,
    ) -> Option<Refusal> {
        let Some(known) = disk.store.epochs() else {
            return Some(Refusal::NotSupported("the disk does not keep versions"));
        };
        if epochs.from > epochs.to || epochs.to >= known.open() {
            return Some(Refusal::Invalid(
                "the epochs to forget have to be closed, and the first not after the last",
            ));
        }
        let size = disk.store.geometry().size.next_multiple_of(BLOCK_BYTES);
        let is_whole = |it: Extent<Addr>| {
            let are_whole = [it.start.0, it.len].iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES));
            are_whole && !it.is_empty() && it.end() <= size
        };
        if blocks.is_some_and(|it| !is_whole(it)) {
            return Some(Refusal::Invalid("the blocks to forget have to be whole ones of the disk"));
        }
        let is_full = disk.state.forgets.len() + self.forgetting.checks.len() >= FORGETS_MAX;
        is_full.then(|| Refusal::NoSpace("too many forgets are under way; wait for some to complete".into()))
    }

    /// Whether something is still to be forgotten.
    pub(in crate::volume) fn has_forgets(&self, disk: &Disk) -> bool {
        !disk.state.forgets.is_empty() || !self.forgetting.checks.is_empty()
    }
}

impl Requests {
    /// Begins to forget `scope`, for request `id`.
    pub(in crate::volume) fn begin_forget(
        &mut self,
        disk: &mut Disk,
        erasing: &mut Erasing,
        id: Origin,
        scope: Scope,
        out: &mut Vec<Command>,
    ) {
        self.run(id, Extent::new(0, 0), false, Stage::Forget(scope));
        match scope.blocks {
            None => disk.want_checkpoint(Waiter::Request(id), out),
            Some(left) => {
                let check = Check { id, left, to: scope.epochs.to, open: disk.open_epoch() };
                erasing.forgetting.checks.push_back(check);
            }
        }
    }

    fn refuse_check(
        &mut self,
        erasing: &mut Erasing,
        watching: &mut Watching,
        refusal: Refusal,
        out: &mut Vec<Command>,
    ) {
        if let Some(Check { id, .. }) = erasing.forgetting.checks.pop_front() {
            self.finish(watching, id, Err(refusal), out);
        }
    }

    /// Notes the intent of request `id`, whose epochs have closed durably.
    pub(in crate::volume) fn intend_forget(&mut self, others: &mut Others<'_>, id: Origin, scope: Scope) {
        others.erasing.forgetting.after = others.disk.change(Change::Forget(scope));
        others.disk.resume_forget(scope);
        if mutant::is(Mutant::ReplyBeforeIntent) {
            return self.finish_with_buf(others.watching, id, others.out);
        }
        self.running.get_mut(id).stage = Stage::Commit;
        others.disk.commits.wait_for(others.erasing.forgetting.after, id);
    }
}

impl Erasing {
    /// Looks for what the current state shows of blocks that are to be forgotten. Such a forget is refused; all others
    /// go on.
    fn drive_checks(
        &mut self,
        disk: &mut Disk,
        requests: &mut Requests,
        watching: &mut Watching,
        out: &mut Vec<Command>,
    ) {
        for _ in 0..LOOKS_MAX {
            let Some(check) = self.forgetting.checks.front().copied() else { return };
            // Deaths after the next close could not be told from those before.
            if check.open != disk.open_epoch() {
                requests.refuse_check(self, watching, NOT_LAST, out);
                continue;
            }
            let known = disk.store.epochs().expect("a store without epochs refuses this");
            let end = match known.find_shared(check.left, check.to, LOOKS_MAX) {
                Err(place) => return disk.fetch_for(Obstacle::Page(place), out),
                Ok(Shared::Later) => {
                    requests.refuse_check(self, watching, NOT_LAST, out);
                    continue;
                }
                Ok(Shared::Nowhere) => check.left.end(),
                Ok(Shared::NotBefore(at)) => {
                    self.forgetting.has_more = true;
                    at
                }
                Ok(Shared::At(block)) => match disk.dead_up_to(block) {
                    Some(end) => end,
                    None => {
                        requests.refuse_check(self, watching, Refusal::Current(check.to, block), out);
                        continue;
                    }
                },
            };
            self.looked_up_to(disk, end, out);
            if self.forgetting.has_more {
                return;
            }
        }
        self.forgetting.has_more = true;
    }

    /// Notes that the first forget may go on, as far as the blocks before `end` are concerned.
    fn looked_up_to(&mut self, disk: &mut Disk, end: u64, out: &mut Vec<Command>) {
        let Some(check) = self.forgetting.checks.front_mut() else { return };
        check.left = Extent::between(end.min(check.left.end()), check.left.end());
        if check.left.is_empty() {
            let id = check.id;
            self.forgetting.checks.pop_front();
            disk.want_checkpoint(Waiter::Request(id), out);
        }
    }

    /// Takes the steps that can be taken now.
    pub(in crate::volume) fn drive_forgets(
        &mut self,
        disk: &mut Disk,
        requests: &mut Requests,
        watching: &mut Watching,
        out: &mut Vec<Command>,
    ) {
        self.forgetting.has_more = false;
        self.drive_checks(disk, requests, watching, out);
        let may = !disk.config.read_only && !disk.schedule.halting;
        if disk.state.forgets.is_empty() || !may || !disk.commits.is_durable(self.forgetting.after) {
            return;
        }
        if disk.waits_for_deaths() {
            return;
        }
        let passes = u16::try_from(disk.config.policy.passes().len()).unwrap_or(u16::MAX);
        for _ in 0..STEPS_MAX {
            match disk.store.epochs_mut().map(|known| known.forget_step()) {
                None | Some(ForgetStep::Idle | ForgetStep::Waits) => return,
                Some(ForgetStep::More) => {}
                Some(ForgetStep::Missing(place)) => return disk.fetch_for(Obstacle::Page(place), out),
                Some(ForgetStep::Done(scope, blocks)) => {
                    disk.state.counters.destroyed_bytes += blocks * BLOCK_BYTES;
                    disk.change(Change::Forgotten(scope, blocks, passes));
                }
            }
        }
        self.forgetting.has_more = true;
    }
}

impl Volume {
    /// Whether a forget can go on at once: the next event takes its next steps.
    #[must_use]
    pub fn forgets_go_on(&self) -> bool {
        self.erasing.forgetting.has_more && self.disk.latched.is_none()
    }
}
