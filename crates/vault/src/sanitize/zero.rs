//! Zero: condemned slots are destroyed by the full policy, whoever condemned them.

use quietus_core::buf::Buf;
use quietus_core::erase::{
    Destroy, Foreground, Method, Point, Priority, Record, StepIo, Task, Verb, Work, Zeros,
};
use quietus_core::policy::Pattern;
use quietus_core::units::{Extent, Pos};

use crate::catalog::Change;
use crate::mutant::{self, Mutant};
use crate::vault::Vault;
use crate::{SlotNumber, VaultError};

/// Slots that share their syncs.
const SLOTS_A_TASK: usize = 16;
/// Works of the task that one step does.
const WORKS_A_STEP: usize = 8;
/// Bytes of one write.
const RUN_BYTES: u64 = 1 << 20;
const ALONE: Foreground = Foreground { is_due: true, is_at_work: false };

/// Slots that are being destroyed.
#[derive(Debug)]
pub(crate) struct Zeroing {
    task: Task<Extent<Pos>>,
    slots: Vec<SlotNumber>,
}

impl Vault<'_> {
    /// Destroys a part of what is condemned; true if nothing is.
    ///
    /// # Errors
    ///
    /// Those of the media.
    pub fn destroy_some(&mut self) -> Result<bool, VaultError> {
        self.pool.guard()?;
        let slots = self.catalog.table().condemned().iter().copied().take(SLOTS_A_TASK);
        let slots: Vec<SlotNumber> = slots.collect();
        if slots.is_empty() {
            return Ok(true);
        }
        let mut zeroing = self.zeroing.take().unwrap_or_else(|| self.zeroing(slots));
        for _ in 0..WORKS_A_STEP {
            let Some(work) = zeroing.task.next(ALONE) else { break };
            self.carry_out(work, &zeroing.slots)?;
            zeroing.task.done(Buf::new());
        }
        if !zeroing.task.is_over() {
            self.zeroing = Some(zeroing);
        }
        Ok(false)
    }

    fn zeroing(&self, slots: Vec<SlotNumber>) -> Zeroing {
        let residue = slots.iter().flat_map(|slot| self.pool.extent(*slot).pieces(RUN_BYTES)).collect();
        let method = Method::Destroy(Destroy {
            residue,
            at_once: 1,
            zeros: Zeros::AfterPasses,
            medium: Extent::default(),
            forget: Vec::new(),
            checkpoint: false,
            record: true,
        });
        Zeroing { task: Task::new(method, &self.policy, Priority::Urgent), slots }
    }

    fn carry_out(&mut self, work: Work<Extent<Pos>>, slots: &[SlotNumber]) -> Result<(), VaultError> {
        match work {
            Work::Io(StepIo { at, verb: Verb::Fill(pattern) }) => {
                at.into_iter().try_for_each(|extent| self.fill(extent, &pattern))
            }
            Work::Io(StepIo { verb: Verb::Sync, .. }) if mutant::is(Mutant::FreeBeforeSync) => Ok(()),
            Work::Io(StepIo { verb: Verb::Sync, .. }) => self.pool.sync(),
            Work::Point(Point::Record(Record::Erased)) => {
                let destroyed: Vec<_> = slots.iter().copied().map(Change::Destroyed).collect();
                self.catalog.commit(&destroyed)?;
                slots.iter().try_for_each(|slot| self.pool.release(*slot, 0))
            }
            Work::Io(_) | Work::Point(_) => unreachable!("destroying slots has passes, syncs and a record"),
        }
    }

    fn fill(&mut self, extent: Extent<Pos>, pattern: &Pattern) -> Result<(), VaultError> {
        let seed = self.seeds.draw();
        let bytes = self.scratch.pass(pattern, seed, extent.len as usize);
        self.pool.charge(extent.len);
        let written = self.pool.medium.overwrite(extent.start, bytes);
        self.pool.latch(written)
    }
}
