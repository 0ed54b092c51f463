//! The knowledge of all versions: the index, the slots, and the log of stubs, as one state that
//! becomes durable together. Reads and writes nothing, and answers [`Absent`] where a page of the index is needed, or [`Missing`] where
//! cells of the root may be.

#[cfg(test)]
mod tests;

use super::positions::{Missing, outline};
use super::stubs::{Entry, HomePage, Layout, Sector};
use crate::base::blocks::BlockSet;
use crate::base::cell::{Cell, Cells};
use crate::base::units::{Block, Epoch, Extent, Pos, Slot};
use crate::base::zeros::is_zeros;
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::sealing::Sealing;
use crate::mutant::{self, Mutant};
use crate::store::Batch;
use crate::store::batch::joined;
use crate::store::versions::index::history::{CLUSTERS, Counts, Forgotten, History, WallTime};
use crate::store::versions::index::lingering::Lingering;
use crate::store::versions::space::limits::Limits;
use crate::store::versions::space::slots::Slots;
use crate::store::versions::stubs::homes::{Doomed, Homes, Reader, Stub};
use crate::store::versions::stubs::log::{Log, Turned};
use crate::store::versions::stubs::sessions::Sessions;
use crate::tree::{Absent, HEAD_BYTES, HEADS, Head, PAGE_BYTES, PageError, PageNo, head_fault};
use std::collections::BTreeSet;
use std::ops::Range;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) disk: [u8; 16],
    pub(super) layout: Layout,
    pub(super) history: History,
    pub(super) slots: Slots,
    pub(super) log: Log,
    pub(super) homes: Homes,
    pub(super) limits: Limits,
    /// A half of the log whose cell has to be destroyed before the half is used again, and the slots whose only stubs are in it.
    old_half: Option<(u8, BlockSet<Pos>)>,
    /// The epochs that still show content which has died.
    pub(super) lingering: Lingering,
    /// How many heads of the index were written: only then do slots that were given up become free.
    pub(super) heads: u64,
    /// The generation of the durable head.
    pub(super) generation: u64,
    /// The source of fresh cells.
    pub(super) cells: Cells,
}

/// A checkpoint of the index. Its parts, in their order: the last entries of the log before the head; homes of stubs, their cells, and
/// changed pages of the index, which are made batch by batch; the head. Each part has to be durable before the next.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct IndexCheckpoint {
    /// The last entries of the log. Their content is durable before they are written.
    pub(super) log: Option<(Place, Vec<u8>)>,
    /// The head; `None` once it was taken to be written.
    head: Option<(Place, Vec<u8>)>,
    /// The generation of the head.
    generation: u64,
    /// The slots whose stubs need a home, and how many of these were taken to be written.
    to_home: Vec<Slot>,
    taken: usize,
    /// The slots of versions that are owed, and whose homes may have the stub.
    at_home: Vec<Slot>,
    /// The half of the log that is not needed any more then, if it was used, and the slots whose only stubs are in it.
    old_half: (Option<u8>, BlockSet<Pos>),
}

impl IndexCheckpoint {
    /// The next slots whose stubs are brought home, to at most `pages_max` pages: all that go to each.
    fn take_slots(&mut self, layout: Layout, pages_max: usize) -> &[Slot] {
        let rest = &self.to_home[self.taken..];
        let pages = rest.chunk_by(|a, b| layout.page_of(*a) == layout.page_of(*b)).take(pages_max);
        let count = pages.map(<[Slot]>::len).sum();
        assert!(count > 0 || rest.is_empty(), "a batch has a page");
        self.taken += count;
        &rest[..count]
    }

    /// Whether all stubs were taken to be written.
    fn has_homed(&self) -> bool {
        assert!(self.taken <= self.to_home.len(), "no more stubs are taken than need a home");
        self.taken == self.to_home.len()
    }
}

/// The note in a head of the index: where the log goes on, and which sessions there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Note {
    pub(super) open: Epoch,
    /// The half of the log that goes on from here, and the number of the last sector before it.
    pub(super) half: u8,
    pub(super) sequence: u64,
    pub(super) counts: Counts,
    pub(super) sessions: Sessions,
}

impl Note {
    /// The note of `head`; `None` if it makes no sense.
    pub(super) fn of(head: &Head) -> Option<Self> {
        match head.generation {
            0 => {
                let (counts, sessions) = (Counts::default(), Sessions::default());
                Some(Self { open: Epoch(1), half: 0, sequence: 0, counts, sessions })
            }
            _ => Self::from_bytes(&head.note),
        }
    }

    /// The head after `head`, which notes these sessions, and nothing else that is new.
    pub(super) fn head_with(self, head: &Head, sessions: Sessions) -> Head {
        let note = Self { sessions, ..self }.to_bytes();
        Head { generation: head.generation + 1, roots: head.roots.clone(), note }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Counts { changed: [open, before], retired, owed } = self.counts;
        let numbers = [self.open.0, self.sequence, open, before, retired, owed];
        let bytes: Vec<u8> = numbers
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .chain([self.half])
            .chain(self.sessions.to_bytes())
            .collect();
        assert_eq!(Self::from_bytes(&bytes), Some(self), "a note is read as it was written");
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = crate::base::fields::Fields(bytes);
        let (open, sequence) = (Epoch(fields.u64()?), fields.u64()?);
        let changed = [fields.u64()?, fields.u64()?];
        let counts = Counts { changed, retired: fields.u64()?, owed: fields.u64()? };
        let [half] = fields.array()?;
        let sessions = Sessions::from_fields(&mut fields)?;
        (half < 2 && open.0 > 0).then_some(Self { open, half, sequence, counts, sessions })
    }
}

impl Catalog {
    /// The store of a disk of `blocks` blocks that `head` names; `None` if what the head notes makes no sense. What
    /// follows: [`Catalog::reach`], then [`Catalog::replay`].
    pub(super) fn open(
        disk: [u8; 16],
        blocks: u64,
        layout: Layout,
        head: &Head,
        (sessions, (halves, cells)): (Sessions, ([Cell; 2], Cells)),
    ) -> Option<Self> {
        let Note { open, half, sequence, counts, .. } = Note::of(head)?;
        let root = head.roots.get(CLUSTERS).copied().unwrap_or_default();
        let mut catalog = Self {
            disk,
            layout,
            history: History::open(disk, head, open, counts),
            slots: Slots::new(layout.cluster_slots(), blocks, (CLUSTERS as u8, root)),
            log: Log::new(layout, half, sequence, (sessions, halves)),
            homes: Homes::new(layout),
            limits: Limits::of(64 << 20),
            heads: 0,
            generation: head.generation,
            // Before the first checkpoint of the index nothing was in the other half.
            old_half: Some((1 - half, BlockSet::default())).filter(|_| !head.roots.is_empty()),
            lingering: Lingering::default(),
            cells,
        };
        catalog.limit(64 << 20);
        Some(catalog)
    }

    /// Looks at all of the index that has to be known before anything else.
    pub(super) fn reach(&mut self) -> Result<(), Absent> {
        while self.slots.find(&self.history.pages)? {}
        let clusters = &self.slots.table;
        self.history.reach(|pages, used| clusters.reach(pages, used))
    }

    /// The fault of a page of the index that was read from its medium, in words.
    pub(super) fn page_fault(&self, at: Pos, bytes: &[u8]) -> Option<String> {
        let page = PageNo((at.0 / PAGE_BYTES as u64) as u32);
        if page.0 >= HEADS {
            return self.history.pages.fault(page, bytes).map(|fault| fault.to_string());
        }
        head_fault(&bytes[..HEAD_BYTES.min(bytes.len())], self.disk)
    }

    /// Notes what `block` is from `epoch` on: the content in `slot`, or zeros. The log has, or gets, the same. Returns
    /// the slot of the version that is owed now, if one is; `keeps` says whether that slot must not be taken again
    /// although nothing has its stub any more.
    pub(super) fn note(
        &mut self,
        block: Block,
        slot: Option<Slot>,
        epoch: Epoch,
        keeps: impl Fn(Slot) -> bool,
    ) -> Result<Option<Slot>, Absent> {
        self.cut_before(epoch)?;
        let is_of_now = (epoch.0..=epoch.0 + 1).contains(&self.history.open_epoch().0);
        assert!(is_of_now, "a change belongs to the open epoch, or to the one before");
        self.note_lingering(block, epoch)?;
        let log = &self.log;
        let vanishes = |slot| log.is_in_memory(slot) && !keeps(slot);
        let Some(dead) = self.history.write(block, slot, epoch, vanishes)? else { return Ok(None) };
        if self.log.forget(dead.slot) && !keeps(dead.slot) {
            self.slots.free(dead.slot, dead.block);
            return Ok(None);
        }
        Ok(Some(dead.slot))
    }

    /// Notes which epochs go on to show what `block` shows, if that dies in `epoch`.
    fn note_lingering(&mut self, block: Block, epoch: Epoch) -> Result<(), Absent> {
        if self.lingering.awaits(outline(block), epoch) {
            let born = self.history.shown(block, epoch)?.map(|version| version.born);
            self.lingering.taken(outline(block), epoch, born);
        }
        Ok(())
    }

    /// Opens `epoch`, whose first change comes. The entry of the epoch before follows in the log when all its changes have
    /// ended.
    fn cut_before(&mut self, epoch: Epoch) -> Result<(), Absent> {
        while epoch > self.history.open_epoch() {
            self.history.close(WallTime(0))?;
        }
        Ok(())
    }

    /// Closes `epoch`, which is the open one or the one before: it is kept from now on. The log has, or gets, the same.
    pub(super) fn close(&mut self, epoch: Epoch, when: WallTime) -> Result<(), Absent> {
        let is_of_now = (epoch.0..=epoch.0 + 1).contains(&self.history.open_epoch().0);
        assert!(is_of_now, "the open epoch closes, or the one before");
        self.history.close_again(epoch, when)?;
        self.lingering.closed(epoch);
        Ok(())
    }

    /// Takes the next step of a forget. What that finds is owed.
    pub(super) fn forget_step(
        &mut self,
        step: impl FnOnce(&mut History) -> Result<Forgotten, Absent>,
    ) -> Result<Forgotten, Absent> {
        let found = step(&mut self.history)?;
        if let Forgotten::Versions(dead) = &found {
            dead.iter().for_each(|span| self.log.owe_durable(&span.slots()));
        }
        Ok(found)
    }

    /// The pages of these slots, whose stubs are at home and are to die, each with the slots whose stubs stay; `is_gone` says
    /// of which slots nothing is left.
    pub(super) fn doomed(&self, dying: &BTreeSet<Slot>, is_gone: impl Fn(Slot) -> bool) -> Doomed {
        let stay = |page| {
            let at_home = self.slots.used_in(self.layout.slots_of(page)).filter(|slot| !self.log.has(*slot));
            at_home.filter(|slot| !dying.contains(slot) && !is_gone(*slot)).collect()
        };
        let pages: BTreeSet<_> = dying.iter().map(|slot| self.layout.page_of(*slot)).collect();
        pages.into_iter().map(|page| (page, stay(page))).collect()
    }

    /// Whether a page of homes has a stub that is not owed, by the index or by the journal (`left`), and that the log has not.
    pub(super) fn has_home_of_its_own(&self, page: HomePage, left: &BTreeSet<Slot>) -> Result<bool, Absent> {
        let slots = self.layout.slots_of(page);
        let mut own: BTreeSet<_> = self.slots.used_in(slots.clone()).collect();
        own.retain(|slot| !self.log.has(*slot) && !left.contains(slot));
        let mut from = slots.start;
        while let Some(owed) = self.history.owed_from(from)?.filter(|owed| owed.first.slot < slots.end) {
            owed.each().for_each(|dead| _ = own.remove(&dead.slot));
            from = owed.slots().end;
        }
        Ok(!own.is_empty())
    }

    /// Takes the pages of homes that were to be read before they get other cells; whether they are under their cells.
    pub(super) fn prepare_homes(&mut self, read: &[u8]) -> Result<(), Place> {
        self.homes.prepare(read, &mut self.cells)
    }

    /// Notes that the stubs in `slots` are destroyed. If a page is absent, that is noted of some, and the rest is to be told
    /// again.
    pub(super) fn destroyed(&mut self, slots: &Range<Slot>) -> Result<(), Absent> {
        while let Some(span) = self.history.completed(slots)? {
            self.log.settle_all(&span.slots());
            self.slots.free_later(span);
        }
        Ok(())
    }

    /// The half of the log whose cell is to be destroyed.
    pub(super) fn old_half(&self) -> Option<u8> {
        self.old_half.as_ref().map(|(half, _)| *half)
    }

    /// Notes that the cell of the old half is destroyed, and that the half has another one. Returns the slots of which no
    /// stub is left by that.
    pub(super) fn old_half_renewed(&mut self, cell: Cell) -> BlockSet<Pos> {
        let Some((half, dying)) = self.old_half.take() else { return BlockSet::default() };
        if !mutant::is(Mutant::KeepCell) {
            self.log.renewed(half, cell);
        }
        // The stubs of some may have been destroyed one by one before.
        self.log.settle_half(&dying)
    }

    /// Tells the index of all slots that changed, and holds the cells of the pages that stubs will be brought to. Comes right before
    /// [`Catalog::begin_checkpoint`].
    pub(super) fn prepare_checkpoint(&mut self) -> Result<(), Missing> {
        while self.slots.tell(&mut self.history.pages)? {}
        let Self { layout, log, homes, .. } = self;
        homes.hold_all(|from| log.homeless(layout.slots_of(from).start..).map(|slot| layout.page_of(slot)))
    }

    /// Bounds the memory for what can be read again.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.limits = Limits::of(bytes);
        self.homes.pages.keep_at_most(self.limits.cells);
    }

    /// Takes a page of the index, or cells of the root, which were read.
    ///
    /// # Errors
    /// Why the bytes cannot be that.
    pub(super) fn loaded(&mut self, place: Place, bytes: &[u8], by: Reader) -> Result<(), String> {
        assert_eq!(place.extent.len, bytes.len() as u64, "all of the place was read");
        assert!(matches!(place.on, MediumId::Map | MediumId::Root), "the index and the root are read");
        if place.on == MediumId::Root {
            return self.homes.pages.loaded(place, bytes, by).map_err(|error| error.to_string());
        }
        let page = PageNo((place.extent.start.0 / PAGE_BYTES as u64) as u32);
        self.page_loaded(page, bytes).map_err(|error| error.to_string())
    }

    /// Takes a page of the index, for which others make room.
    ///
    /// # Errors
    /// The bytes are not that page.
    pub(super) fn page_loaded(&mut self, page: PageNo, bytes: &[u8]) -> Result<(), PageError> {
        let (pages, most) = (&mut self.history.pages, self.limits.pages);
        if pages.in_memory() >= most {
            pages.evict(most - most / 16);
        }
        pages.loaded(page, bytes)
    }

    /// Begins a checkpoint of the index: all that has ended by now, and nothing that follows.
    ///
    /// # Panics
    /// If the other half of the log is not destroyed, or the index was not told of all slots.
    pub(super) fn begin_checkpoint(&mut self) -> IndexCheckpoint {
        assert!(self.old_half.is_none(), "a half of the log is empty before it is used again");
        let log = self.log.commit();
        let Turned { half: old, is_used, to_home, at_home, dying } = self.log.turn();
        let generation = self.history.pages.begin_head();
        let is_newer = generation > self.generation && !(generation - self.generation).is_multiple_of(2);
        assert!(is_newer, "a head follows the durable one, and lies in the other place");
        self.slots.begin_head();
        let (half, sequence) = self.log.position();
        let roots = self.history.roots(self.slots.table.root());
        let (open, counts, sessions) =
            (self.history.open_epoch(), self.history.counts(), self.log.sessions());
        let note = Note { open, half, sequence, counts, sessions };
        let head = Head { generation, roots, note: note.to_bytes() };
        let bytes = head.to_bytes(self.disk);
        let head = Some((in_index(head.position(), bytes.len()), bytes));
        if mutant::is(Mutant::KillLogEarly) && is_used {
            self.old_half = Some((old, dying.clone()));
        }
        let old_half = (is_used.then_some(old), dying);
        IndexCheckpoint { log, head, generation, to_home, taken: 0, at_home, old_half }
    }

    /// The next writes of a checkpoint after those of the log: at most `pages_max` pages of homes of stubs, or of the index, or
    /// the head.
    pub(super) fn next_batch(&mut self, checkpoint: &mut IndexCheckpoint, pages_max: usize) -> Option<Batch> {
        assert!(pages_max > 0, "a batch has a page");
        let mut writes = Vec::new();
        // Versions may have died since the checkpoint began, and nothing be left of all those that a batch was to bring home.
        while writes.is_empty() && !checkpoint.has_homed() {
            let slots = checkpoint.take_slots(self.layout, pages_max);
            let stubs: Vec<Stub> = slots.iter().filter_map(|slot| self.stub(*slot)).collect();
            writes = self.homes.bring(&stubs, &mut self.cells);
        }
        if writes.is_empty() {
            let pages = self.history.pages.take_due(pages_max);
            writes = pages.into_iter().map(|(at, bytes)| (in_index(at, PAGE_BYTES), bytes)).collect();
        }
        let is_all = checkpoint.has_homed() && self.history.pages.due() == 0;
        if writes.is_empty() {
            assert!(is_all, "the head comes last");
            let (place, bytes) = checkpoint.head.take()?;
            return Some(Batch::phase(vec![(place.into(), bytes)]));
        }
        Some(Batch { writes: joined(writes), ends_phase: is_all })
    }

    /// The stub of a version that has no home yet.
    fn stub(&self, slot: Slot) -> Option<Stub> {
        let (born, session, Entry::Version { block, number, stub, .. }) = self.log.stub(slot)? else {
            return None;
        };
        let sealing = Sealing { session, number: *number, stub: stub[..].into() };
        Some(Stub { slot, block: *block, born, sealing })
    }

    /// Ends a checkpoint: its head is durable.
    pub(super) fn end_checkpoint(&mut self, checkpoint: &IndexCheckpoint) {
        assert!(
            checkpoint.has_homed() && checkpoint.head.is_none(),
            "a checkpoint ends when all of it was written"
        );
        assert!(checkpoint.generation > self.generation, "generations only grow");
        self.history.pages.end_head();
        self.slots.end_head();
        self.heads += 1;
        self.generation = checkpoint.generation;
        self.log.end_turn(&[&checkpoint.to_home, &checkpoint.at_home]);
        self.homes.brought();
        let (half, dying) = &checkpoint.old_half;
        let is_free = self.old_half.is_none() || mutant::is(Mutant::KillLogEarly);
        assert!(is_free, "one half at a time waits for the end of its cell");
        assert!(*half != Some(self.log.position().0), "the log goes on in the other half");
        self.old_half = half.filter(|_| !mutant::is(Mutant::KeepLog)).map(|half| (half, dying.clone()));
    }

    /// Gives up a checkpoint, of which perhaps some writes were carried out. The next one does what it was for.
    pub(super) fn abort_checkpoint(&mut self) {
        let is_kept = self.old_half.is_none() || mutant::is(Mutant::KillLogEarly);
        assert!(is_kept, "the log goes back to a half that keeps its cell");
        self.history.pages.abort_head();
        self.slots.abort_head();
        self.log.turn_back();
        self.homes.gave_up();
        if mutant::is(Mutant::KillLogEarly) {
            self.old_half = None;
        }
    }

    /// The half of the log that commits go to.
    pub(super) fn current_half(&self) -> Extent<Pos> {
        self.layout.half(self.log.position().0)
    }

    /// Where a start reads the log on: the place of the next sector.
    pub(super) fn next_sector(&self) -> Option<Place> {
        self.log.next_sector().map(|extent| Place { on: MediumId::Stubs, extent })
    }

    /// The number of a sector of `half` that follows all that was replayed, if these bytes are one under the cell of that half;
    /// and up to which number all were durable before it.
    pub(super) fn follows(&self, half: u8, bytes: &[u8]) -> Option<(u64, u64)> {
        let (_, last) = self.log.position();
        let sector = self.layout.parse_sector(bytes).filter(|it| it.sequence > last)?;
        self.log.is_under_cell(half, &sector).then_some((sector.sequence, sector.after))
    }

    /// Whether a sector of the current half was left by commits that are not durable as a whole, behind the last one that
    /// is: neither zeros, nor from an earlier use of the half.
    pub(super) fn is_torn(&self, bytes: &[u8]) -> bool {
        let (_, last) = self.log.position();
        let is_old = || self.layout.parse_sector(bytes).is_some_and(|sector| sector.sequence <= last);
        !is_zeros(bytes) && !is_old()
    }

    /// Takes the next sector of the log, as a start read it. `done` counts its entries that were taken: when a page was
    /// absent, those are not taken again, since what frees a block would undo a later entry that writes it.
    pub(super) fn replay(&mut self, at: Pos, sector: &Sector, done: &mut usize) -> Result<(), Absent> {
        let skipped = usize::from(mutant::is(Mutant::SkipReplay) && sector.entries.len() > 1);
        for entry in &sector.entries[*done..sector.entries.len() - skipped] {
            self.replay_entry(sector, entry)?;
            *done += 1;
        }
        self.log.replay(at, sector);
        Ok(())
    }

    /// The next sector of the log in these bytes, and whether its stubs can be revealed.
    pub(super) fn sector_to_read(&self, bytes: &[u8]) -> Option<(Sector, bool)> {
        let (_, last) = self.log.position();
        let mut sector = self.layout.parse_sector(bytes).filter(|sector| sector.sequence == last + 1)?;
        let is_open = self.log.reveal(&mut sector);
        Some((sector, is_open))
    }

    fn replay_entry(&mut self, sector: &Sector, entry: &Entry) -> Result<(), Absent> {
        self.cut_before(sector.epoch)?;
        match entry {
            Entry::Version { block, slot, .. } => {
                let is_new = self.history.shown(*block, sector.epoch)?.is_none_or(|it| it.slot != *slot);
                if is_new {
                    self.replay_change(*block, Some(*slot), sector.epoch)?;
                    self.slots.taken(*slot, *block);
                }
            }
            Entry::Freed { block, blocks } => {
                for block in block.0..block.0 + blocks {
                    self.replay_change(Block(block), None, sector.epoch)?;
                }
            }
            Entry::Closed { when } => self.history.close_again(sector.epoch, WallTime(*when))?,
        }
        Ok(())
    }

    /// Takes an entry of the log for what epochs show, and for nothing else: a start does that only to read.
    pub(super) fn replay_shown(&mut self, epoch: Epoch, entry: &Entry) -> Result<(), Absent> {
        self.cut_before(epoch)?;
        match entry {
            Entry::Version { block, slot, .. } => self.history.show(*block, Some(*slot), epoch),
            Entry::Freed { block, blocks } => {
                (block.0..block.0 + blocks).try_for_each(|block| self.history.show(Block(block), None, epoch))
            }
            Entry::Closed { when } => self.history.close_again(epoch, WallTime(*when)),
        }
    }

    fn replay_change(&mut self, block: Block, slot: Option<Slot>, epoch: Epoch) -> Result<(), Absent> {
        let dead = self.history.write(block, slot, epoch, |_| false)?;
        dead.into_iter().for_each(|dead| self.log.owes(dead.slot));
        Ok(())
    }
}

/// A part of the index.
fn in_index(at: u64, len: usize) -> Place {
    assert!(
        at.is_multiple_of(PAGE_BYTES as u64) && len <= PAGE_BYTES,
        "a page, or the head in one, is written"
    );
    Place { on: MediumId::Map, extent: Extent::new(at, len as u64) }
}
