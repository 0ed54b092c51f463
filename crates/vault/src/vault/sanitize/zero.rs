//! Zero: all condemned slots are destroyed by the full policy.

use quietus_core::base::buf::Buf;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::erase::policy::Pattern;
use quietus_core::erase::{
    Destroy, Foreground, Method, Point, Priority, Record, StepIo, Task, Verb, Work, Zeros, windows,
};

use crate::catalog::Change;
use crate::mutant::{self, Mutant};
use crate::vault::Vault;
use crate::{SlotNumber, VaultError};

/// Bytes of the slots that share their syncs.
const BYTES_A_TASK: u64 = 64 << 20;
/// Longest write, for which puts wait: a window that a host overwrites around its cache.
const RUN_BYTES: u64 = 2 << 20;
const ALONE: Foreground = Foreground { is_due: true, is_at_work: false };

/// Slots that are being destroyed.
#[derive(Debug)]
pub(crate) struct Zeroing {
    task: Task<Extent<Pos>>,
    slots: Vec<SlotNumber>,
}

impl Vault<'_> {
    /// Destroys some of the condemned slots; true if there are no more.
    ///
    /// # Errors
    ///
    /// The errors of the media.
    pub fn destroy_some(&mut self) -> Result<bool, VaultError> {
        self.pool.guard()?;
        if self.catalog.table().condemned().is_empty() {
            return Ok(true);
        }
        let mut zeroing = self.zeroing.take().unwrap_or_else(|| self.zeroing());
        if let Some(work) = zeroing.task.next(ALONE) {
            self.carry_out(work, &zeroing)?;
            zeroing.task.done(Buf::new());
        }
        if !zeroing.task.is_over() {
            self.zeroing = Some(zeroing);
        }
        Ok(false)
    }

    fn zeroing(&self) -> Zeroing {
        let condemned = self.catalog.table().condemned().iter().copied();
        let slots: Vec<SlotNumber> = condemned.take(self.slots_a_batch(BYTES_A_TASK)).collect();
        // A slot without space on the medium has no content, and writing there would take space.
        let extents = self.pool.extents(&slots).into_iter();
        let extents: Vec<_> = extents.flat_map(|extent| self.pool.medium.allocated(extent)).collect();
        let method = Method::Destroy(Destroy {
            residue: extents.into_iter().flat_map(|extent| windows(extent, RUN_BYTES)).collect(),
            at_once: 1,
            zeros: Zeros::AfterPasses,
            medium: Extent::default(),
            forget: Vec::new(),
            checkpoint: false,
            record: true,
        });
        Zeroing { task: Task::new(method, &self.policy, Priority::Urgent), slots }
    }

    fn carry_out(&mut self, work: Work<Extent<Pos>>, zeroing: &Zeroing) -> Result<(), VaultError> {
        match work {
            Work::Io(StepIo { at, verb: Verb::Fill(pattern) }) => {
                at.into_iter().try_for_each(|extent| self.fill(extent, &pattern))
            }
            Work::Io(StepIo { verb: Verb::Sync, .. }) if mutant::is(Mutant::FreeBeforeSync) => Ok(()),
            Work::Io(StepIo { verb: Verb::Sync, .. }) => self.pool.sync(),
            Work::Point(Point::Record(Record::Erased)) => {
                let destroyed: Vec<_> = zeroing.slots.iter().copied().map(Change::Destroyed).collect();
                self.catalog.commit(&destroyed)?;
                let freed = self.pool.extents(&zeroing.slots);
                freed.into_iter().try_for_each(|extent| self.pool.release(extent))?;
                // Only as far as the host has the space. A lack shows when it is needed.
                let _ = self.allocate_reserve(self.reserved());
                Ok(())
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
