//! What the volume asks and tells of epochs.

use super::history::WallTime;
use super::stubs::Entry;
use super::{Change, Versions, page_place, weighing};
use crate::blocks::BlockSet;
use crate::place::{Place, Places};
use crate::request::{AsOf, KeptEpoch, Question, UniqueAt, Weighing};
use crate::store::{Epochs, ForgetStep, Incomparable};
use crate::tree::Absent;
use crate::units::{Addr, BLOCK_BYTES, Epoch, EpochRange, Extent};

impl Epochs for Versions {
    fn open(&self) -> Epoch {
        self.open
    }

    fn has_changed(&self) -> bool {
        let [open, _] = self.catalog.history.changed();
        open > 0 || !self.todo.is_empty()
    }

    fn can_close(&self) -> bool {
        let log = &self.catalog.log;
        let writing = self.writing.len().div_ceil(self.catalog.layout.per_sector()) as u64;
        // The entry begins a sector, and so does what follows in the next epoch.
        log.sectors() + writing + 2 < log.sectors_max()
    }

    fn close(&mut self, when: u64) {
        let closed = self.open;
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

    fn locate(&self, extent: Extent<Addr>, epoch: Epoch) -> Option<Places> {
        self.is_kept(epoch).expect("nothing is missing").then(|| self.places(extent, epoch, false))
    }

    fn list(&self, from: Epoch, most: usize) -> Result<Vec<KeptEpoch>, Place> {
        let (mut found, mut from) = (Vec::new(), from);
        while found.len() < most {
            let next = self.catalog.history.kept_at_or_after(from);
            let Some((epoch, end)) = next.map_err(|Absent(page)| page_place(page))? else { break };
            if epoch >= self.shown_before() {
                break;
            }
            if !self.forgetting.contains(epoch) {
                let (closed_ms, changed_bytes) = (end.when.0, end.changed * BLOCK_BYTES);
                found.push(KeptEpoch { epoch, closed_ms, changed_bytes });
            }
            from = Epoch(epoch.0 + 1);
        }
        Ok(found)
    }

    fn compare(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
        looks_max: usize,
    ) -> Result<(BlockSet, u64), Incomparable> {
        self.compare_states(extent, states, looks_max)
    }

    fn count_unique(&self, epoch: Epoch, from: UniqueAt) -> Result<(u64, Option<UniqueAt>), Incomparable> {
        self.count_unique_blocks(epoch, from)
    }

    fn weigh(&self, weighing: Weighing) -> Result<Weighing, Place> {
        self.catalog.history.weigh(weighing, weighing::LOOKS_MAX).map_err(|Absent(page)| page_place(page))
    }

    fn answer(&self, question: &Question) -> Result<Vec<u8>, Place> {
        let answer = match question {
            Question::Stubs(at, bytes) => self.judge_stubs(*at, bytes).map(|it| it.to_bytes()),
            Question::Cells(at, bytes) => Ok(self.judge_cells(*at, bytes).to_bytes()),
            Question::Page(at, bytes) => Ok(self.catalog.page_fault(*at, bytes).into_bytes()),
            Question::Versions(block, born) => self.list_versions(*block, *born).map(|it| it.to_bytes()),
        };
        answer.map_err(|Absent(page)| page_place(page))
    }

    fn forget(&mut self, epochs: EpochRange) {
        self.begin_forget(epochs);
    }

    fn forget_step(&mut self) -> ForgetStep {
        self.step_forget()
    }
}
