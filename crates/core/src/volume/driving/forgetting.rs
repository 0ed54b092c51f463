//! The steps of what is to be forgotten, a few in each event.

use crate::base::units::{BLOCK_BYTES, Extent, Scope};
use crate::mutant::{self, Mutant};
use crate::owed::journal::Change;
use crate::request::Refusal;
use crate::store::{ForgetStep, Shared};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::Erasing;
use crate::volume::obstacle::Obstacle;
use crate::volume::requests::{Others, Requests};
use crate::volume::{Command, Volume};

/// Most steps of a forget in one event: meanwhile the guest waits. A step is that for some hundred versions at most.
const STEPS_MAX: usize = 32;
/// Most blocks of the current state that one event looks at.
const LOOKS_MAX: usize = 4096;
/// As how many blocks a part of a set counts, beside its own: its epochs are looked for first.
const PART_LOOKS: usize = 8;
const NOT_LAST: Refusal = Refusal::Invalid(
    "blocks are forgotten in all epochs up to the last, and another one is closing, or has closed since",
);

impl Requests {
    /// Looks for what the current state shows of blocks that are to be forgotten. Such a forget is refused; all others
    /// go on.
    fn drive_checks(&mut self, others: &mut Others<'_>) {
        let mut looks = LOOKS_MAX;
        while looks > 0 {
            let Some(check) = others.erasing.forgetting.checks.front() else { return };
            // Deaths after the next close could not be told from those before.
            if check.open != others.disk.open_epoch() {
                self.refuse_check(others, NOT_LAST);
                continue;
            }
            let known = others.disk.store.epochs().expect("a store without epochs refuses this");
            let (scope, left) = (check.scope(), check.left);
            let (first, to) = (scope.epochs().from, scope.epochs().to);
            let end = match known.find_shared(left, scope, looks) {
                Err(place) => return others.disk.fetch_for(Obstacle::Page(place), others.out),
                Ok(Shared::Later) => {
                    self.refuse_check(others, NOT_LAST);
                    continue;
                }
                Ok(Shared::Nowhere) => left.end(),
                Ok(Shared::NotBefore(at)) => {
                    others.erasing.forgetting.has_more = true;
                    at
                }
                Ok(Shared::At(block)) => match others.disk.dead_up_to(block) {
                    Some(end) => end,
                    None if mutant::is(Mutant::AmendCurrent) && matches!(scope, Scope::Shown(_)) => {
                        block.end()
                    }
                    None => {
                        self.refuse_check(others, Refusal::Current(to, block));
                        continue;
                    }
                },
                Ok(Shared::By(epoch, block)) => {
                    let shown = if epoch < first { first } else { to };
                    self.refuse_check(others, Refusal::Shared(shown, epoch, block));
                    continue;
                }
            };
            let looked = usize::try_from((end - left.start.0) / BLOCK_BYTES).unwrap_or(usize::MAX);
            looks = looks.saturating_sub(looked).saturating_sub(PART_LOOKS);
            others.erasing.looked_up_to(others.disk, end, others.out);
            if others.erasing.forgetting.has_more {
                return;
            }
        }
        others.erasing.forgetting.has_more = true;
    }

    /// Takes the steps that can be taken now.
    pub(in crate::volume) fn drive_forgets(&mut self, others: &mut Others<'_>) {
        others.erasing.forgetting.has_more = false;
        self.drive_checks(others);
        let Others { disk, erasing, out, .. } = others;
        let may = !disk.config.read_only && !disk.schedule.halting;
        if disk.state.forgets.is_empty() || !may || !disk.commits.is_durable(erasing.forgetting.after) {
            return;
        }
        if disk.waits_for_deaths() {
            return;
        }
        let passes = disk.passes();
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
        erasing.forgetting.has_more = true;
    }
}

impl Erasing {
    /// Notes that the first forget may go on, as far as the blocks before `end` are concerned.
    fn looked_up_to(&mut self, disk: &mut Disk, end: u64, out: &mut Vec<Command>) {
        let Some(check) = self.forgetting.checks.front_mut() else { return };
        assert!(check.left.start.0 <= end, "a look goes on where the last one ended");
        check.left = Extent::between(end.min(check.left.end()), check.left.end());
        if !check.left.is_empty() {
            return;
        }
        check.at += 1;
        if let Some(next) = check.forget.nth(check.at).and_then(Scope::blocks) {
            check.left = next;
        } else {
            let id = check.id;
            self.forgetting.checks.pop_front();
            disk.want_checkpoint(Waiter::Request(id), out);
        }
    }
}

impl Volume {
    /// Whether a forget can go on at once: the next event takes its next steps.
    #[must_use]
    pub fn forgets_go_on(&self) -> bool {
        self.erasing.forgetting.has_more && self.disk.latched.is_none()
    }
}
