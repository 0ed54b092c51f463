//! The volume's questions and news about epochs.

use crate::base::blocks::BlockSet;
use crate::base::parts::Forget;
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, Extent, Part, Scope};
use crate::media::place::Place;
use crate::media::places::Places;
use crate::request::{AsOf, EPOCHS_MAX, KeptEpoch, Question, Reply};
use crate::store::versions::index::history::WallTime;
use crate::store::versions::index::weighing;
use crate::store::versions::positions::{Missing, page_place};
use crate::store::versions::stubs::Entry;
use crate::store::versions::{Change, Versions};
use crate::store::{Epochs, ForgetStep, Gone, Incomparable, Shared};
use crate::tree::Absent;

/// Most blocks to look at for a gap in one answer.
const GAP_LOOKS_MAX: usize = 4096;

impl Epochs for Versions {
    fn open(&self) -> Epoch {
        self.open
    }

    fn has_changed(&self) -> bool {
        self.catalog.history.has_changed() || !self.todo.is_empty()
    }

    fn can_close(&self) -> bool {
        let log = &self.catalog.log;
        let writing = self.writing.len().div_ceil(self.catalog.layout.per_sector()) as u64;
        // The entry begins a sector, and so does what follows in the next epoch.
        log.sectors() + writing + 2 < log.sectors_max()
    }

    fn note_death(&mut self, extent: Extent<Addr>, epoch: Epoch) {
        self.catalog.lingering.note(extent, epoch);
    }

    fn close(&mut self, when: u64) {
        let closed = self.open;
        assert!(
            self.writing.values().all(|(_, epoch)| *epoch > closed),
            "the writes of an epoch end before it does"
        );
        assert!(when > 0, "an epoch without a time counts as not closed");
        assert!(self.undurable <= closed, "an epoch closes once");
        self.open = Epoch(closed.0 + 1);
        self.catalog.log.push(closed, Entry::Closed { when });
        self.change(Change::Closed(closed, WallTime(when)));
    }

    fn missing(&self, extent: Extent<Addr>, epoch: Epoch) -> Option<Place> {
        let kept = match self.catalog.history.kept_at_or_after(epoch) {
            Err(Absent(page)) => Some(page_place(page)),
            Ok(_) => None,
        };
        kept.or_else(|| self.missing_at(extent, epoch, false))
    }

    fn locate(&self, extent: Extent<Addr>, epoch: Epoch) -> Result<Places, Gone> {
        if !self.is_kept(epoch).expect("nothing is missing") {
            return Err(Gone::Epoch);
        }
        match self.gaps_of(epoch, extent).next() {
            Some(gap) => Err(Gone::Blocks(gap)),
            None => self.places(extent, epoch, false).map_err(Gone::Blocks),
        }
    }

    fn find_shared(&self, extent: Extent<Addr>, scope: Scope, looks_max: usize) -> Result<Shared, Place> {
        let found = match scope {
            Scope::Chain { epochs, .. } => self.find_shared_block(extent, epochs.to, looks_max),
            Scope::Shown(Part { epochs, .. }) => self.find_shown_elsewhere(extent, epochs, looks_max),
            Scope::Epochs(_) | Scope::Set(_) => {
                unreachable!("what is looked at is of single extents, and a set's parts one by one")
            }
        };
        found.map_err(|Missing(place)| place)
    }

    fn compare(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
        looks_max: usize,
    ) -> Result<(BlockSet, u64), Incomparable> {
        self.compare_states(extent, states, looks_max)
    }

    fn answer(&self, question: &Question) -> Result<Reply, Place> {
        self.answered(question).map_err(|Missing(place)| place)
    }

    fn forget(&mut self, forget: Forget) {
        self.begin_forget(forget);
    }

    fn forget_step(&mut self) -> ForgetStep {
        self.step_forget()
    }
}

impl Versions {
    fn answered(&self, question: &Question) -> Result<Reply, Missing> {
        Ok(match question {
            Question::Epochs(from) => Reply::Epochs(self.list_epochs(*from, Some)?),
            Question::ShowingDead(from) => {
                Reply::Epochs(self.list_epochs(*from, |epoch| self.catalog.lingering.first(epoch))?)
            }
            Question::Weigh(weighing) => {
                Reply::Weighed(Box::new(self.catalog.history.weigh(*weighing, weighing::PAGES_MAX)?))
            }
            Question::Stubs(at, bytes) => Reply::Judged(Box::new(self.judge_stubs(*at, bytes)?)),
            Question::Cells(at, bytes) => Reply::Judged(Box::new(self.judge_cells(*at, bytes)?)),
            Question::Page(at, bytes) => Reply::Page(self.catalog.page_fault(*at, bytes)),
            Question::FirstGap(epoch, from) => {
                let (gap, next) = self.find_gap(*epoch, *from, GAP_LOOKS_MAX)?;
                Reply::Gap(gap, next)
            }
            Question::Lives(lives) => Reply::Changes(Box::new(self.list_changes(lives)?)),
            Question::Versions(block, born) => Reply::Versions(Box::new(self.list_versions(*block, *born)?)),
        })
    }

    /// The kept epochs from `from` on, as many as a reply has: those of which `next`, asked for the first wanted epoch from one on,
    /// says that one itself.
    fn list_epochs(
        &self,
        from: Epoch,
        next: impl Fn(Epoch) -> Option<Epoch>,
    ) -> Result<Vec<KeptEpoch>, Absent> {
        let (mut found, mut from) = (Vec::new(), from);
        while found.len() < EPOCHS_MAX
            && let Some(wanted) = next(from)
            && let Some((epoch, end)) = self.catalog.history.kept_at_or_after(wanted)?
            && epoch < self.shown_before()
        {
            if next(epoch) == Some(epoch) && !self.forgetting.contains(epoch) {
                let (closed_ms, changed_bytes) = (end.when.0, end.changed * BLOCK_BYTES);
                found.push(KeptEpoch { epoch, closed_ms, changed_bytes });
            }
            from = Epoch(epoch.0 + 1);
        }
        Ok(found)
    }
}
