//! A store that keeps every epoch of the disk, and can make any of them unreadable for ever.
//!
//! *Secure Deletion for a Versioning File System* (FAST 2005). A block that is written gets a new slot, where it
//! lies sealed; its stub is what makes it readable. Why the parts are what they are: decision 19.
//!
//! Invariants:
//! 1. A version counts once its entry in the log of stubs is durable, and its content was before. The index
//!    says what the log said up to a head, and the log is replayed on top of it.
//! 2. A head of the index holds what was logged before it, and nothing else.
//! 3. What hides a stub, in the log or in its home, is destroyed before the place is used for another one.
//! 4. A slot is taken again only once its stub is destroyed, and the durable index and log do not name it.
//!
//! | question | where |
//! | --- | --- |
//! | which epoch shows which version, and what a forget makes die | `index` |
//! | stubs, their homes, the keys that hide them, and their media | `stubs` |
//! | which slot a version gets; room on the host; memory (decision 30) | `space` |
//! | which stubs are destroyed, by which job | `forget` |
//! | what is asked of epochs; where two of them differ; what bytes on a medium are | `questions` |
//! | all of that as one state, which becomes durable at one instant | `catalog`, `committing` |
//! | what a start finds, also of a damaged index; how that is rebuilt; single wrong bytes | `opening` |

mod catalog;
mod committing;
mod forget;
mod index;
mod opening;
mod positions;
mod questions;
mod space;
mod stubs;
#[cfg(test)]
mod tests;

use super::{
    Backlog, Batch, Content, Destruction, Epochs, Geometry, Job, JobEnd, MapState, Mapped, Residue, Store,
    StoreStatus, WritePlan, Written,
};
use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Block, Epoch, Extent, Pos, Slot};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::media::sealing::{Context, Sealed, Sealing, SealingAt};
use crate::mutant::{self, Mutant};
use crate::store::versions::index::history::{Version, WallTime};
use crate::store::versions::index::span::{is_tombstone, slots_of};
pub use crate::store::versions::opening::mending::mend;
pub use crate::store::versions::opening::rebuilding::{Media as RebuildMedia, Rebuilt, Step, rebuild};
pub use crate::store::versions::space::room::ROOM_BYTES;
use crate::store::versions::stubs::homes::Reader;
use crate::store::versions::stubs::log::Stubs;
pub use crate::store::versions::stubs::root::{
    MAGIC as ROOT_MAGIC, ROOT_BYTES, RootError, format_root, halves,
};
pub use crate::store::versions::stubs::sessions::Sessions;
use crate::tree::{Absent, PAGE_BYTES};
use catalog::Catalog;
use committing::Committing;
pub use opening::{VersionsError, format_index};
use positions::{Missing, blocks, in_slot, outline};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use stubs::Entry;
pub use stubs::{Layout, StubsError, format_stubs};

/// The parameters of the store, besides its media.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Where things lie on the stub medium.
    pub layout: Layout,
    /// The sessions up to this opening, which is the last one; `None` if nothing can be sealed.
    pub sessions: Sessions,
}

/// The state of a disk that keeps versions. All sizes are bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VersionsStatus {
    /// The epoch that takes the changes that arrive.
    pub open_epoch: u64,
    /// How many epochs are kept.
    pub epochs: u64,
    /// Content of all versions, of the current state too.
    pub stored_bytes: u64,
    /// Content of versions that only kept epochs show.
    pub retired_bytes: u64,
    /// Content of versions that no epoch shows, and whose stubs are still to be destroyed.
    pub owed_bytes: u64,
    /// The index.
    pub index_bytes: u64,
    /// The part of the index that is in memory.
    pub index_resident_bytes: u64,
    /// How much of a half of the log of stubs is used, in percent.
    pub log_percent: u64,
    /// Why no stubs are destroyed until the next start; absent if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// A change that the index has not taken yet: a page that it needs is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// `block` has the content in the slot from the epoch on.
    Written(Block, Slot, Epoch),
    /// `block` has left the slot in the epoch, and is free.
    Freed(Block, Slot, Epoch),
    /// The epoch has closed.
    Closed(Epoch, WallTime),
    /// Nothing is left of what was owed in the slots from the first one up to the second.
    Destroyed(Slot, Slot),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Versions {
    size: u64,
    catalog: Catalog,
    /// The blocks that have content now.
    allocated: BlockSet,
    /// The slots of blocks that are being written, and the epoch that each write belongs to.
    writing: BTreeMap<Block, (Slot, Epoch)>,
    /// The epoch that takes the changes that arrive.
    open: Epoch,
    /// The epochs before this one have closed durably. The others are not shown: a crash would give their numbers to
    /// other epochs.
    undurable: Epoch,
    /// Changes that the index has not taken yet, in order; and what has to be read for the first one, or for a job.
    todo: VecDeque<Change>,
    stuck: Option<Missing>,
    committing: Committing,
    killing: forget::killing::Killing,
    forgetting: forget::forgetting::Forgetting,
    room: space::room::Room,
}

impl Versions {
    /// The place of `part` of a block, whose content is that of `version`, if it has any.
    fn place_version(
        &self,
        stubs: &mut Stubs<'_>,
        (block, part): (Block, Extent<Addr>),
        version: Option<Version>,
    ) -> (Place, Option<Sealed>) {
        let Some(Version { born, slot }) = version else {
            return (Place { on: MediumId::Nowhere, extent: Extent::new(0, part.len) }, None);
        };
        let sealing = match stubs.of(slot) {
            Some((session, Entry::Version { number, stub, .. })) => {
                SealingAt::Known(Sealing { session, number: *number, stub: stub[..].into() })
            }
            _ => self.catalog.homes.sealing(slot).expect("nothing is missing"),
        };
        let sealed = Sealed { context: Context { block, born, slot }, sealing };
        let from = slot.0 * BLOCK_BYTES + part.start.0 % BLOCK_BYTES;
        (Place { on: MediumId::Data, extent: Extent::new(from, part.len) }, Some(sealed))
    }

    /// The places of `extent` as `epoch` shows it.
    ///
    /// # Errors
    /// The first block of which it does not show the version any more.
    ///
    /// # Panics
    /// If something is missing.
    fn places(&self, extent: Extent<Addr>, epoch: Epoch, is_current: bool) -> Result<Places, Extent<Addr>> {
        let (mut shown, mut stubs) = (self.catalog.history.shown_by(epoch), self.catalog.log.stubs());
        let mut gone = None;
        let place = |(block, part): (Block, Extent<Addr>)| {
            let is_free = is_current && !self.allocated.contains(block.0);
            let version = if is_free { Ok(None) } else { shown.of(block) };
            let version = version.expect("nothing is missing");
            let content = version.filter(|it| !is_tombstone(it.slot));
            if content != version && !mutant::is(Mutant::HideTombstone) {
                gone.get_or_insert(outline(block));
            }
            self.place_version(&mut stubs, (block, part), content)
        };
        let places = Places::of(blocks(extent).map(place));
        assert_eq!(places.bytes(), extent.len, "each byte lies somewhere, once");
        gone.map_or(Ok(places), Err)
    }

    /// The epochs before this one can be shown, if they are kept.
    fn shown_before(&self) -> Epoch {
        if mutant::is(Mutant::ShowUndurable) { self.open } else { self.undurable }
    }

    /// The place that has to be read first, to know what `epoch` shows in `extent` and how that was sealed.
    fn missing_at(&self, extent: Extent<Addr>, epoch: Epoch, is_current: bool) -> Option<Place> {
        let Catalog { history, homes, log, .. } = &self.catalog;
        if self.stuck.is_none() && history.pages.is_whole() && homes.pages.is_whole() {
            return None;
        }
        let (mut shown, mut stubs) = (history.shown_by(epoch), log.stubs());
        let mut find = |block| -> Result<(), Missing> {
            match shown.of(block)? {
                Some(Version { slot, .. }) if !is_tombstone(slot) && stubs.of(slot).is_none() => {
                    homes.sealing(slot).map(drop)
                }
                _ => Ok(()),
            }
        };
        let mut blocks = blocks(extent).filter(|(block, _)| !is_current || self.allocated.contains(block.0));
        let missing = || blocks.find_map(|(block, _)| find(block).err());
        self.stuck.or_else(missing).map(|Missing(place)| place)
    }

    /// Makes a change: at once, or once the pages that it needs are in memory.
    fn change(&mut self, change: Change) {
        self.todo.push_back(change);
        self.take_changes();
    }

    /// Has the index take the changes that it can.
    fn take_changes(&mut self) {
        self.stuck = None;
        while let Some(change) = self.todo.front().copied() {
            if let Err(absent) = self.take(change) {
                self.stuck = Some(absent.into());
                return;
            }
            self.todo.pop_front();
        }
    }

    fn take(&mut self, change: Change) -> Result<(), Absent> {
        match change {
            Change::Written(block, slot, epoch) => {
                let replaced = self.catalog.note(block, Some(slot), epoch, |_| false)?;
                if mutant::is(Mutant::StubOverStub) {
                    self.todo.extend(replaced.map(|slot| Change::Destroyed(slot, Slot(slot.0 + 1))));
                } else {
                    replaced.into_iter().for_each(|slot| self.killing.replaced(slot));
                }
                Ok(())
            }
            Change::Freed(block, left, epoch) => {
                let owed = self.catalog.note(block, None, epoch, |_| true)?;
                self.killing.decided(left, owed.is_some());
                Ok(())
            }
            Change::Closed(epoch, when) => self.catalog.close(epoch, when),
            Change::Destroyed(from, to) => self.catalog.destroyed(&(from..to)),
        }
    }

    /// Frees `block` as of `epoch`; returns the slot that it had.
    fn free(&mut self, block: Block, epoch: Epoch) -> Option<Slot> {
        if !self.allocated.contains(block.0) {
            return None;
        }
        let shown = self.catalog.history.shown(block, epoch).expect("nothing is missing")?;
        self.allocated.remove(outline(block));
        self.catalog.log.push(epoch, Entry::Freed { block, blocks: 1 });
        self.killing.leaves(shown.slot);
        self.change(Change::Freed(block, shown.slot, epoch));
        Some(shown.slot)
    }

    /// Whether there is memory for the stubs of the writes under way, and for `more`. A write that is alone always fits.
    fn has_stub_room(&self, more: usize) -> bool {
        let taken = self.catalog.log.len() + self.writing.len();
        taken == 0 || taken + more <= self.catalog.limits.stubs
    }

    /// Whether the log has room for another commit, beside the writes under way and `more`.
    fn has_log_room(&self, more: usize) -> bool {
        let per_sector = self.catalog.layout.per_sector();
        let more = (self.writing.len() + more).div_ceil(per_sector) as u64;
        // Changes that free blocks or close epochs must always find room.
        let reserve = self.catalog.log.sectors_max() / 8;
        self.catalog.log.sectors() + more + reserve < self.catalog.log.sectors_max()
    }

    /// Whether the index is to be written with the next commit.
    fn is_index_due(&self) -> bool {
        let log = &self.catalog.log;
        self.committing.wants_index
            || log.sectors() > log.sectors_max() / 2
            || log.len() > self.catalog.limits.many_stubs()
            || self.catalog.history.pages.unwritten() > self.catalog.limits.changed
            || self.is_index_cramped()
    }

    /// Whether something has to end before the index can be written.
    fn must_index_wait(&self) -> bool {
        !self.todo.is_empty() || self.catalog.old_half().is_some() || !self.catalog.homes.may_bring()
    }

    /// Whether nothing is left to commit, and the durable index still names slots of which nothing is left.
    fn has_only_slots_to_free(&self) -> bool {
        let has_commit = self.catalog.log.pending() > 0 || self.committing.again.is_some();
        self.catalog.slots.frees() && !has_commit && !self.must_index_wait() && self.stuck.is_none()
    }

    /// Whether the index can be written now.
    fn may_write_index(&mut self) -> bool {
        if self.must_index_wait() || self.committing.again.is_some() {
            return false;
        }
        match self.catalog.prepare_checkpoint() {
            Ok(()) => true,
            Err(missing) => {
                self.stuck = Some(missing);
                false
            }
        }
    }
}

impl Store for Versions {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            block_bytes: BLOCK_BYTES,
            write_bytes: BLOCK_BYTES,
            death_bytes: BLOCK_BYTES,
        }
    }

    fn destruction(&self) -> Destruction {
        Destruction::OnceLeft
    }

    fn status(&self) -> StoreStatus {
        let (history, log) = (&self.catalog.history, &self.catalog.log);
        StoreStatus::Versions(VersionsStatus {
            open_epoch: self.open.0,
            epochs: history.kept(),
            stored_bytes: self.catalog.slots.used() * BLOCK_BYTES,
            retired_bytes: history.retired() * BLOCK_BYTES,
            owed_bytes: history.owed() * BLOCK_BYTES,
            index_bytes: history.pages.bytes(),
            index_resident_bytes: (history.pages.in_memory() * PAGE_BYTES) as u64,
            log_percent: log.sectors() * 100 / log.sectors_max().max(1),
            stopped: self.killing.stopped.clone(),
        })
    }

    fn allocated_bytes(&self) -> u64 {
        self.allocated.len() * BLOCK_BYTES
    }

    fn view(&self) -> Vec<u8> {
        let (_, sequence) = self.catalog.log.position();
        opening::view(sequence, self.catalog.generation, &self.catalog.lingering, &self.allocated)
    }

    fn first(&self, _: Content, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        self.allocated.first_run(extent)
    }

    fn locate(&self, extent: Extent<Addr>) -> Places {
        let places = self.places(extent, Epoch(index::key::NUMBER_MAX), true);
        places.expect("no version of the current state was forgotten")
    }

    fn begin_write(&mut self, extent: Extent<Addr>, epoch: Epoch) -> WritePlan {
        assert!(extent.end() <= self.size, "a write lies on the disk");
        assert!(self.geometry().merged(extent, false).next().is_none(), "whole blocks are written");
        assert!(
            epoch == self.open || epoch.0 == self.open.0 + 1,
            "a write belongs to an epoch that has not closed"
        );
        let more = blocks(extent).count();
        if !self.has_log_room(more) || !self.has_stub_room(more) {
            // However few stubs there are: the write may be a large one.
            self.committing.wants_index |= self.catalog.log.len() > 0 && self.committing.index.is_none();
            return WritePlan::AwaitJob;
        }
        let place = |(block, _)| {
            let slot = self.catalog.slots.take(block);
            self.killing.taken(slot);
            let before = self.writing.insert(block, (slot, epoch));
            assert!(before.is_none(), "one write of a block at a time");
            let context = Context { block, born: epoch, slot };
            (in_slot(slot), Some(Sealed { context, sealing: SealingAt::ToCome }))
        };
        WritePlan::To(Places::of(blocks(extent).map(place)))
    }

    fn unmap(&mut self, extent: Extent<Addr>) {
        for (block, _) in blocks(extent) {
            self.free(block, self.open);
        }
    }

    fn mapped(&self) -> Option<&dyn Mapped> {
        Some(self)
    }

    fn mapped_mut(&mut self) -> Option<&mut dyn Mapped> {
        Some(self)
    }

    fn epochs(&self) -> Option<&dyn Epochs> {
        Some(self)
    }

    fn epochs_mut(&mut self) -> Option<&mut dyn Epochs> {
        Some(self)
    }
}

impl Mapped for Versions {
    fn missing(&self, extent: Extent<Addr>) -> Option<Place> {
        self.missing_at(extent, Epoch(index::key::NUMBER_MAX), true)
    }

    fn loaded(&mut self, place: Place, bytes: &[u8]) -> Result<(), String> {
        self.catalog.loaded(place, bytes, Reader::Request)?;
        self.take_changes();
        Ok(())
    }

    fn end_write(&mut self, extent: Extent<Addr>, written: Written) {
        let Written::There(sealings) = written else {
            for (block, _) in blocks(extent) {
                if let Some((slot, _)) = self.writing.remove(&block) {
                    self.catalog.slots.free(slot, block);
                }
            }
            return;
        };
        assert_eq!(sealings.len(), blocks(extent).count(), "each block that was written was sealed");
        for ((block, _), Sealing { session, number, stub }) in blocks(extent).zip(sealings) {
            assert_eq!(session, self.catalog.log.sessions().newest(), "the log notes who has sealed");
            let Some((slot, epoch)) = self.writing.remove(&block) else { continue };
            assert!(epoch >= self.open, "an epoch closes when its writes have ended");
            self.allocated.insert(outline(block));
            self.committing.fresh.insert(block);
            self.catalog.slots.written(slot, block);
            self.catalog.log.push(epoch, Entry::Version { block, slot, number, stub: stub.to_vec() });
            self.change(Change::Written(block, slot, epoch));
        }
    }

    fn leave(&mut self, block: Extent<Addr>, epoch: Epoch) -> Vec<Place> {
        assert_eq!(epoch, self.open, "what has died in an epoch leaves before that closes");
        assert!(block.len <= BLOCK_BYTES, "one block leaves");
        let freed = blocks(block).filter_map(|(block, _)| {
            let slot = self.free(block, epoch)?;
            Some(in_slot(slot))
        });
        freed.collect()
    }

    fn owed_durably(&mut self, places: &[Extent<Pos>]) {
        places.iter().for_each(|place| self.killing.named(slots_of(*place)));
    }

    fn reclaim(&mut self, places: &[Extent<Pos>]) {
        places.iter().for_each(|place| self.reclaim_slots(*place));
    }

    fn can_leave(&self, blocks: Extent<Addr>) -> bool {
        let runs = self.allocated.runs_within(blocks).count();
        self.has_log_room(runs)
    }

    fn residue(&self, place: Place) -> Vec<Residue> {
        self.killing.residue(place)
    }

    fn lacks_space(&self, extent: Extent<Addr>, dies: bool) -> Option<Place> {
        let homes =
            || if dies { None } else { self.lacks_homes(extent).or_else(|| self.lacks_cells(extent)) };
        self.lacks_pages(extent, dies).or_else(homes)
    }

    fn reserved(&mut self, place: Place) {
        self.note_room(place);
    }

    fn map_state(&self) -> MapState {
        let is_long = self.catalog.log.pending() > self.catalog.limits.pending();
        if self.is_index_due() && !self.must_index_wait() || is_long {
            MapState::Due
        } else if self.catalog.log.pending() > 0 || self.committing.is_open() {
            MapState::Behind
        } else if self.committing.wants_index {
            MapState::Waits
        } else if self.has_only_slots_to_free() {
            MapState::Behind
        } else {
            MapState::Durable
        }
    }

    fn is_durable(&self, extent: Extent<Addr>) -> bool {
        !blocks(extent).any(|(block, _)| self.committing.has(block))
    }

    fn begin_checkpoint(&mut self, short: bool) -> bool {
        self.committing.begin(self.open);
        self.killing.begin_commit();
        let is_wanted = self.is_index_due() || self.has_only_slots_to_free();
        if !short && is_wanted && self.may_write_index() {
            assert!(self.todo.is_empty(), "a head has all that was logged before it");
            self.committing.wants_index = false;
            let index = self.catalog.begin_checkpoint();
            self.committing.log.clone_from(&index.log);
            self.committing.index = Some(index);
            return true;
        }
        let commit = match (self.committing.again.take(), self.catalog.log.commit()) {
            (Some((mut place, mut bytes)), Some((more, others))) => {
                assert!(
                    place.on == more.on && place.extent.end() == more.extent.start.0,
                    "a commit follows the last"
                );
                place.extent.len += more.extent.len;
                bytes.extend(others);
                Some((place, bytes))
            }
            (again, commit) => again.or(commit),
        };
        self.committing.again.clone_from(&commit);
        self.committing.log = commit;
        self.committing.log.is_some()
    }

    fn next_batch(&mut self) -> Option<Batch> {
        assert!(self.committing.is_under_way, "a batch is of the commit under way");
        if let Some((place, bytes)) = self.committing.log.take() {
            return Some(Batch::phase(vec![(place.into(), bytes)]));
        }
        self.catalog.next_batch(self.committing.index.as_mut()?, self.catalog.limits.batch)
    }

    fn end_checkpoint(&mut self) {
        let committing = std::mem::take(&mut self.committing);
        assert!(committing.is_under_way && committing.log.is_none(), "a checkpoint that was written ends");
        assert!(committing.open >= self.undurable, "an epoch that has closed durably stays closed");
        self.undurable = committing.open;
        assert!(self.undurable <= self.open, "only epochs that have closed are closed durably");
        self.catalog.log.confirm();
        (self.committing.wants_index, self.committing.fresh) = (committing.wants_index, committing.fresh);
        self.killing.end_commit();
        if let Some(index) = committing.index {
            self.catalog.end_checkpoint(&index);
            self.catalog.history.pages.evict(self.catalog.limits.pages);
        }
    }

    fn abort_checkpoint(&mut self) -> bool {
        self.committing.abort();
        self.killing.abort_commit();
        let Some(index) = self.committing.index.take() else { return false };
        self.catalog.abort_checkpoint();
        assert!(self.committing.again.is_none(), "the index is not written after a commit that was given up");
        self.committing.again = index.log;
        self.committing.wants_index = true;
        true
    }

    fn backlog(&self, all: bool) -> Backlog {
        self.job_backlog(all)
    }

    fn has_residue(&self) -> bool {
        let Catalog { log, homes, .. } = &self.catalog;
        self.catalog.old_half().is_some() || log.is_stained() || homes.has_stale()
    }

    fn reuses(&self) -> Option<u64> {
        (self.catalog.layout.stub_bytes == 0).then_some(self.catalog.heads)
    }

    fn background(&mut self, _: bool) -> Option<Job> {
        assert!(self.killing.job.doing.is_none(), "one background job at a time");
        let (doing, job) = self.next_job()?;
        self.killing.job.doing = Some(doing);
        Some(job)
    }

    fn rebind(&mut self, _: Extent<Addr>, _: Extent<Pos>) {
        unreachable!("no job of this store moves content")
    }

    fn background_done(&mut self, end: JobEnd<'_>) {
        self.job_done(end);
    }

    fn unallocated(&self) -> Option<BlockSet<Pos>> {
        // Where stubs are what dies, their content may stay anywhere.
        (self.catalog.layout.stub_bytes == 0).then(|| {
            let (mut free, slots) = (BlockSet::default(), &self.catalog.slots);
            for (from, to) in slots.free_runs(slots.len()) {
                free.insert(Extent::between(from * BLOCK_BYTES, to * BLOCK_BYTES));
            }
            free
        })
    }
}
