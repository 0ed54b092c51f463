//! Forgetting epochs: finding what dies with them, in steps, and knowing when all of it is destroyed.

use super::{Versions, history, page_place};
use crate::store::{ForgetStep, Store};
use crate::tree::Absent;
use crate::units::{BLOCK_BYTES, Epoch, EpochRange};
use std::collections::VecDeque;

/// The epochs that are to be forgotten, in order. None of them is shown any more.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    queue: VecDeque<EpochRange>,
    /// How far the first of them is.
    stage: Stage,
    /// How many versions have died with it.
    versions: u64,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begin,
    /// What dies is being found.
    Search(history::Forget),
    /// The index has to say durably what was found.
    Index,
    /// The stubs have to be destroyed.
    Stubs,
}

impl Forgetting {
    pub(super) fn contains(&self, epoch: Epoch) -> bool {
        self.queue.iter().any(|epochs| epochs.contains(epoch))
    }

    /// Whether what dies is being found: the half of the log is turned away from after that.
    pub(super) fn is_searching(&self) -> bool {
        matches!(self.stage, Stage::Search(_))
    }

    /// Whether stubs are being destroyed that a receipt waits for.
    pub(super) fn awaits_stubs(&self) -> bool {
        matches!(self.stage, Stage::Stubs)
    }
}

impl Versions {
    pub(super) fn begin_forget(&mut self, epochs: EpochRange) {
        self.forgetting.queue.push_back(epochs);
    }

    /// Takes a step of the first forget.
    pub(super) fn step_forget(&mut self) -> ForgetStep {
        let Some(epochs) = self.forgetting.queue.front().copied() else { return ForgetStep::Idle };
        if self.forgetting.awaits_stubs() && self.has_stubs_left() {
            return ForgetStep::Waits;
        }
        match &mut self.forgetting.stage {
            Stage::Begin => {
                self.forgetting.versions = 0;
                self.forgetting.stage = Stage::Search(history::Forget::new(epochs.from, epochs.to));
                ForgetStep::More
            }
            Stage::Search(forget) => match self.catalog.forget_step(forget) {
                Err(Absent(page)) => ForgetStep::Missing(page_place(page)),
                Ok(step) => {
                    self.found(step);
                    ForgetStep::More
                }
            },
            Stage::Index if self.committing.has_index_to_write() => ForgetStep::Waits,
            Stage::Index => {
                self.killing.begin_sweep();
                self.forgetting.stage = Stage::Stubs;
                ForgetStep::More
            }
            Stage::Stubs => {
                self.forgetting.queue.pop_front();
                self.forgetting.stage = Stage::Begin;
                ForgetStep::Done(epochs, self.forgetting.versions * BLOCK_BYTES)
            }
        }
    }

    /// Whether something is left of what has died.
    fn has_stubs_left(&self) -> bool {
        self.has_residue() || !self.killing.has_swept(self.catalog.history.owed())
    }

    fn found(&mut self, step: history::Forgotten) {
        match step {
            history::Forgotten::Versions(dead) => {
                self.forgetting.versions += dead.iter().map(|span| span.len).sum::<u64>()
            }
            history::Forgotten::More => {}
            history::Forgotten::All => {
                self.committing.wants_index = true;
                self.forgetting.stage = Stage::Index;
            }
        }
    }
}
