//! Forgetting epochs, blocks in all epochs, what some epochs show of blocks, and sets of that: finding what dies, in steps, and knowing when all
//! of it is destroyed.

use crate::base::parts::Forget;
use crate::base::units::{Addr, Epoch, EpochRange, Extent, Part, Scope};
use crate::mutant::{self, Mutant};
use crate::store::versions::Versions;
use crate::store::versions::index::history;
use crate::store::versions::positions::page_place;
use crate::store::{ForgetStep, Mapped};
use crate::tree::Absent;
use std::collections::VecDeque;

/// What is to be forgotten, in order, and is not shown any more.
#[derive(Debug, Default)]
pub(in super::super) struct Forgetting {
    queue: VecDeque<Forget>,
    /// How far the first of them is.
    stage: Stage,
    /// How many versions have died with it.
    versions: u64,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begin,
    /// The search for versions that die with epochs, or that blocks have had.
    Search(history::Forget),
    SearchBlocks(history::ForgetBlocks),
    /// The same for the part of this number.
    SearchShown(usize, history::ForgetShown),
    /// The index has to say durably what was found.
    Index,
    /// The stubs have to be destroyed.
    Stubs,
    /// So many heads of the index have to be durable: the last one does not name what was destroyed any more.
    Slots(u64),
}

impl Stage {
    fn begin(forget: &Forget) -> Self {
        match forget.scope() {
            Scope::Epochs(epochs) => Self::Search(history::Forget::new(epochs.from, epochs.to)),
            Scope::Chain { epochs, blocks } => {
                Self::SearchBlocks(history::ForgetBlocks::new(blocks, epochs.to))
            }
            Scope::Shown(part) => Self::search(0, part),
            Scope::Set(_) => Self::search(0, *forget.parts().first().expect("a set has a part")),
        }
    }

    /// The search for what dies with this part, which has this number.
    fn search(n: usize, Part { epochs, blocks }: Part) -> Self {
        Self::SearchShown(n, history::ForgetShown::new(blocks, epochs))
    }
}

impl Forgetting {
    /// Whether `epoch` is to be forgotten as a whole.
    pub(in super::super) fn contains(&self, epoch: Epoch) -> bool {
        self.epochs_with(epoch).is_some()
    }

    /// The epochs with which `epoch` is to be forgotten, if it is.
    pub(in super::super) fn epochs_with(&self, epoch: Epoch) -> Option<EpochRange> {
        let mut all = self.queue.iter().filter_map(|forget| match forget.scope() {
            Scope::Epochs(epochs) => Some(epochs),
            Scope::Chain { .. } | Scope::Shown(_) | Scope::Set(_) => None,
        });
        all.find(|epochs| epochs.contains(epoch))
    }

    /// The parts of `extent` that `epoch` may have had, and does not show any more, until each version there has its tombstone.
    pub(in super::super) fn doomed(
        &self,
        epoch: Epoch,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = Extent<Addr>> {
        let parts = self.queue.iter().flat_map(move |forget| forget.overlapping(extent));
        parts
            .filter(move |part| part.epochs.contains(epoch))
            .filter_map(move |part| part.blocks.overlap(extent))
    }

    /// Whether what dies is being found: the half of the log is turned away from after that.
    pub(in super::super) fn is_searching(&self) -> bool {
        matches!(self.stage, Stage::Search(_) | Stage::SearchBlocks(_) | Stage::SearchShown(..))
    }

    /// Whether stubs are being destroyed that a receipt waits for.
    pub(in super::super) fn awaits_stubs(&self) -> bool {
        matches!(self.stage, Stage::Stubs)
    }
}

impl Versions {
    pub(in super::super) fn begin_forget(&mut self, forget: Forget) {
        if let Scope::Chain { epochs, blocks } = forget.scope() {
            self.catalog.history.gaps.note(blocks, epochs.to);
        }
        self.forgetting.queue.push_back(forget);
    }

    /// Takes a step of the first forget.
    pub(in super::super) fn step_forget(&mut self) -> ForgetStep {
        let Some(first) = self.forgetting.queue.front() else { return ForgetStep::Idle };
        let scope = first.scope();
        if self.forgetting.awaits_stubs() && self.has_stubs_left() {
            return ForgetStep::Waits;
        }
        match &mut self.forgetting.stage {
            Stage::Begin => {
                self.forgetting.versions = 0;
                self.forgetting.stage = Stage::begin(first);
                ForgetStep::More
            }
            Stage::Search(forget) => {
                let step = self.catalog.forget_step(|it| it.forget_step(forget));
                self.found(step)
            }
            Stage::SearchBlocks(forget) => {
                let step = self.catalog.forget_step(|it| it.forget_blocks_step(forget));
                self.found(step)
            }
            Stage::SearchShown(_, forget) => {
                let step = self.catalog.forget_step(|it| it.forget_shown_step(forget));
                self.found(step)
            }
            Stage::Index if self.committing.has_index_to_write() => ForgetStep::Waits,
            Stage::Index => {
                self.killing.begin_sweep();
                self.forgetting.stage = Stage::Stubs;
                ForgetStep::More
            }
            Stage::Stubs if self.catalog.slots.frees() => {
                self.committing.wants_index = true;
                let under_way = u64::from(self.committing.index.is_some());
                self.forgetting.stage = Stage::Slots(self.catalog.heads + under_way + 1);
                ForgetStep::Waits
            }
            Stage::Slots(heads) if self.catalog.heads < *heads => ForgetStep::Waits,
            Stage::Stubs | Stage::Slots(_) => {
                self.forgetting.queue.pop_front();
                self.forgetting.stage = Stage::Begin;
                ForgetStep::Done(scope, self.forgetting.versions)
            }
        }
    }

    /// Whether something is left of what has died.
    fn has_stubs_left(&self) -> bool {
        self.has_residue() || !self.killing.has_swept(self.catalog.history.owed())
    }

    fn found(&mut self, step: Result<history::Forgotten, Absent>) -> ForgetStep {
        assert!(self.forgetting.is_searching(), "what dies is found by a search");
        match step {
            Err(Absent(page)) => return ForgetStep::Missing(page_place(page)),
            Ok(history::Forgotten::Versions(dead)) => {
                self.forgetting.versions += dead.iter().map(|span| span.len).sum::<u64>();
            }
            Ok(history::Forgotten::More) => {}
            Ok(history::Forgotten::All) => self.found_all(),
        }
        ForgetStep::More
    }

    /// Goes on with the next part of a set, or else waits for the index: one for all parts.
    fn found_all(&mut self) {
        let Forgetting { queue, stage, .. } = &mut self.forgetting;
        let parts = queue.front().map_or(&[][..], |forget| forget.parts());
        let parts = &parts[..parts.len() - usize::from(mutant::is(Mutant::SkipPart) && parts.len() > 1)];
        let next = if let Stage::SearchShown(n, _) = stage { n.checked_add(1) } else { None };
        if let Some((n, part)) = next.and_then(|n| Some((n, *parts.get(n)?))) {
            *stage = Stage::search(n, part);
            return;
        }
        *stage = Stage::Index;
        self.committing.wants_index = true;
    }
}
