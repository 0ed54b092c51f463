//! Forgetting epochs: the intent is durable before the answer, and the receipt comes when all that died with them is
//! destroyed.

use super::running::Stage;
use super::waiting::Obstacle;
use super::{Command, Volume};
use crate::journal::Change;
use crate::request::{Refusal, RequestId};
use crate::store::ForgetStep;
use crate::units::EpochRange;

/// Most steps of a forget in one event: meanwhile the guest waits. A step is that for some hundred versions at most.
const STEPS_MAX: usize = 32;
/// Most forgets that are not completed.
const FORGETS_MAX: usize = 256;

/// How far the volume is with what is to be forgotten.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    /// The commit that has to be durable before anything is destroyed.
    after: u64,
    /// Whether there is a step to take at once.
    has_more: bool,
}

impl Volume {
    /// Why `epochs` cannot be forgotten, if they cannot.
    pub(super) fn refuse_forget(&self, epochs: EpochRange) -> Option<Refusal> {
        let Some(known) = self.store.epochs() else {
            return Some(Refusal::NotSupported("the disk does not keep versions"));
        };
        if epochs.from > epochs.to || epochs.to >= known.open() {
            return Some(Refusal::Invalid(
                "the epochs to forget have to be closed, and the first not after the last",
            ));
        }
        let is_full = self.state.forgets.len() >= FORGETS_MAX;
        is_full.then(|| Refusal::NoSpace("too many forgets are under way; wait for some to complete".into()))
    }

    /// Notes the intent of request `id`, whose epochs have closed durably.
    pub(super) fn intend_forget(&mut self, id: RequestId, epochs: EpochRange) {
        self.erasing.forgetting.after = self.change(Change::Forget(epochs));
        self.resume_forget(epochs);
        self.requests.running.get_mut(id).stage = Stage::Commit;
        self.commits.wait_for(self.erasing.forgetting.after, id);
    }

    /// Begins what the journal says is to be forgotten.
    pub(super) fn resume_forget(&mut self, epochs: EpochRange) {
        if let Some(known) = self.store.epochs_mut() {
            known.forget(epochs);
        }
    }

    /// Takes the steps that can be taken now.
    pub(super) fn drive_forgets(&mut self, out: &mut Vec<Command>) {
        self.erasing.forgetting.has_more = false;
        let may = !self.config.read_only && !self.schedule.halting;
        if self.state.forgets.is_empty() || !may || !self.commits.is_durable(self.erasing.forgetting.after) {
            return;
        }
        let passes = u16::try_from(self.config.policy.passes().len()).unwrap_or(u16::MAX);
        for _ in 0..STEPS_MAX {
            match self.store.epochs_mut().map(|known| known.forget_step()) {
                None | Some(ForgetStep::Idle | ForgetStep::Waits) => return,
                Some(ForgetStep::More) => {}
                Some(ForgetStep::Missing(place)) => return self.fetch_for(Obstacle::Page(place), out),
                Some(ForgetStep::Done(epochs, bytes)) => {
                    self.change(Change::Forgotten(epochs, bytes, passes));
                }
            }
        }
        self.erasing.forgetting.has_more = true;
    }

    /// Whether some epochs are still to be forgotten.
    pub(super) fn has_forgets(&self) -> bool {
        !self.state.forgets.is_empty()
    }

    /// Whether a forget can go on at once: the next event takes its next steps.
    #[must_use]
    pub fn forgets_go_on(&self) -> bool {
        self.erasing.forgetting.has_more && self.latched.is_none()
    }
}
