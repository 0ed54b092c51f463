//! The knowledge of all versions: the index, the slots, and the log of stubs, as one state that
//! becomes durable together. Reads and writes nothing, and answers [`Absent`] where a page of the index is needed.

#[cfg(test)]
mod tests;

use super::history::{CLUSTERS, Counts, Forget, ForgetBlocks, Forgotten, History, Version, WallTime};
use super::homes::{Doomed, Homes, Stub};
use super::lingering::Lingering;
use super::log::{Log, Turned};
use super::positions::outline;
use super::sessions::Sessions;
use super::slots::Slots;
use super::stubs::{Entry, HomePage, Layout, Sector};
use crate::blocks::BlockSet;
use crate::cell::{Cell, Cells};
use crate::media::MediumId;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::sealing::Sealing;
use crate::store::Phase;
use crate::tree::{Absent, HEAD_BYTES, HEADS, Head, PAGE_BYTES, PageNo, head_fault};
use crate::units::{Block, Epoch, Extent, Pos, Slot};
use std::collections::BTreeSet;
use std::ops::Range;

/// Most bytes of the index, or of homes of stubs, that are written with one operation.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) disk: [u8; 16],
    pub(super) layout: Layout,
    pub(super) history: History,
    pub(super) slots: Slots,
    pub(super) log: Log,
    pub(super) homes: Homes,
    /// A half of the log whose cell has to be destroyed before the half is used again, and the slots whose only stubs are in it.
    old_half: Option<(u8, BlockSet<Pos>)>,
    /// The epochs that still show content which has died.
    pub(super) lingering: Lingering,
    /// How many heads of the index were written: only then do slots that were given up become free.
    pub(super) heads: u64,
    /// The source of fresh cells.
    cells: Cells,
}

/// The parts of a checkpoint of the index, in their order: each part has to be durable before the next.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct IndexCheckpoint {
    /// The last entries of the log before the head. Their content is durable before they are written.
    pub(super) log: Option<(Place, Vec<u8>)>,
    /// The homes of stubs and their cells, and the changed pages of the index.
    pub(super) writes: Vec<(Place, Vec<u8>)>,
    /// The head.
    pub(super) head: (Place, Vec<u8>),
    /// The slots whose stubs have their home then, if anywhere.
    homed: Vec<Slot>,
    /// The half of the log that is not needed any more then, if it was used, and the slots whose only stubs are in it.
    old_half: (Option<u8>, BlockSet<Pos>),
}

/// The nature of the bytes that a start took for the next sector of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Replayed {
    /// A sector, after which another may come.
    Sector,
    /// The end of the log.
    End,
    /// The sector with this number, whose stubs are hidden under another cell.
    OtherCell(u64),
}

impl IndexCheckpoint {
    /// Takes the writes that come before the head, as few operations: each is an event, and homes of stubs come by the
    /// ten thousand.
    pub(super) fn take_writes(&mut self) -> Phase {
        let mut phase = Phase::new();
        for (place, bytes) in std::mem::take(&mut self.writes) {
            match phase.last_mut() {
                Some((places, content))
                    if places.first().on == place.on && content.len() + bytes.len() <= WRITE_BYTES_MAX =>
                {
                    places.push(place);
                    content.extend(bytes);
                }
                _ => phase.push((place.into(), bytes)),
            }
        }
        phase
    }
}

/// The note in a head of the index: where the log goes on, and which sessions there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Note {
    open: Epoch,
    /// The half of the log that goes on from here, and the number of the last sector before it.
    half: u8,
    sequence: u64,
    counts: Counts,
    pub(super) sessions: Sessions,
}

impl Note {
    /// The note of `head`; none if it makes no sense.
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

    fn to_bytes(self) -> Vec<u8> {
        let Counts { changed: [open, before], retired, owed } = self.counts;
        let numbers = [self.open.0, self.sequence, open, before, retired, owed];
        numbers
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .chain([self.half])
            .chain(self.sessions.to_bytes())
            .collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = crate::fields::Fields(bytes);
        let (open, sequence) = (Epoch(fields.u64()?), fields.u64()?);
        let changed = [fields.u64()?, fields.u64()?];
        let counts = Counts { changed, retired: fields.u64()?, owed: fields.u64()? };
        let [half] = fields.array()?;
        let sessions = Sessions::from_fields(&mut fields)?;
        (half < 2 && open.0 > 0).then_some(Self { open, half, sequence, counts, sessions })
    }
}

impl Catalog {
    /// The store of a disk of `blocks` blocks that `head` names; none if what the head notes makes no sense. What
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
        Some(Self {
            disk,
            layout,
            history: History::open(disk, head, open, counts),
            slots: Slots::new(layout.cluster_slots(), blocks, (CLUSTERS as u8, root)),
            log: Log::new(layout, half, sequence, (sessions, halves)),
            homes: Homes::new(layout),
            heads: 0,
            // Before the first checkpoint of the index nothing was in the other half.
            old_half: Some((1 - half, BlockSet::default())).filter(|_| !head.roots.is_empty()),
            lingering: Lingering::default(),
            cells,
        })
    }

    /// Looks at all of the index that has to be known before anything else.
    pub(super) fn reach(&mut self) -> Result<(), Absent> {
        while self.slots.find(&self.history.pages)? {}
        let slots = &self.slots;
        self.history.reach(|pages, used| slots.reach(pages, used))
    }

    /// The fault of a page of the index that was read from its medium, in words.
    pub(super) fn page_fault(&self, at: Pos, bytes: &[u8]) -> String {
        let page = PageNo((at.0 / PAGE_BYTES as u64) as u32);
        if page.0 >= HEADS {
            return self.history.pages.fault(page, bytes).map_or_else(String::new, |fault| fault.to_string());
        }
        head_fault(&bytes[..HEAD_BYTES.min(bytes.len())], self.disk).unwrap_or_default()
    }

    /// The version of `block` that `epoch` shows.
    pub(super) fn shown(&self, block: Block, epoch: Epoch) -> Result<Option<Version>, Absent> {
        self.history.shown(block, epoch)
    }

    /// Takes a slot for new content of `block`.
    pub(super) fn begin_write(&mut self, block: Block) -> Slot {
        self.slots.take(block)
    }

    /// Notes that the content for which `slot` was taken is there.
    pub(super) fn end_write(&mut self, block: Block, slot: Slot) {
        self.slots.written(slot, block);
    }

    /// Gives a slot back whose content was not written.
    pub(super) fn cancel_write(&mut self, block: Block, slot: Slot) {
        self.slots.free(slot, block);
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
            let born = self.shown(block, epoch)?.map(|version| version.born);
            self.lingering.taken(outline(block), epoch, born);
        }
        Ok(())
    }

    /// Opens `epoch`, whose first change comes. The entry of the epoch before follows in the log when all its changes have
    /// ended.
    fn cut_before(&mut self, epoch: Epoch) -> Result<(), Absent> {
        while epoch > self.open_epoch() {
            self.history.close(WallTime(0))?;
        }
        Ok(())
    }

    /// The epoch that takes the writes that arrive.
    pub(super) fn open_epoch(&self) -> Epoch {
        self.history.open_epoch()
    }

    /// Closes `epoch`, which is the open one or the one before: it is kept from now on. The log has, or gets, the same.
    pub(super) fn close(&mut self, epoch: Epoch, when: WallTime) -> Result<(), Absent> {
        self.history.close_again(epoch, when)?;
        self.lingering.closed(epoch);
        Ok(())
    }

    /// Takes the next step of a forget.
    pub(super) fn forget_step(&mut self, forget: &mut Forget) -> Result<Forgotten, Absent> {
        let step = self.history.forget_step(forget)?;
        self.owe(&step);
        Ok(step)
    }

    /// Takes the next step of a forget of blocks.
    pub(super) fn forget_blocks_step(&mut self, forget: &mut ForgetBlocks) -> Result<Forgotten, Absent> {
        let step = self.history.forget_blocks_step(forget)?;
        self.owe(&step);
        Ok(step)
    }

    /// Notes that what a step of a forget found is owed.
    fn owe(&mut self, step: &Forgotten) {
        if let Forgotten::Versions(dead) = step {
            dead.iter().for_each(|span| self.log.owe_durable(&span.slots()));
        }
    }

    /// The next commit: what has to be written and durable, after the content, so that all is durable that has
    /// ended by now.
    pub(super) fn commit(&mut self) -> Option<(Place, Vec<u8>)> {
        self.log.commit()
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

    /// A fresh cell for the half of the log that is not in use.
    pub(super) fn draw_cell(&mut self) -> Vec<u8> {
        self.cells.draw().to_bytes()
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

    /// Tells the index of all slots that changed. Comes right before [`Catalog::begin_checkpoint`].
    pub(super) fn prepare_checkpoint(&mut self) -> Result<(), Absent> {
        while self.slots.tell(&mut self.history.pages)? {}
        Ok(())
    }

    /// Begins a checkpoint of the index: all that has ended by now, and nothing that follows.
    ///
    /// # Panics
    /// If the other half of the log is not destroyed, or the index was not told of all slots.
    pub(super) fn begin_checkpoint(&mut self) -> IndexCheckpoint {
        assert!(self.old_half.is_none(), "a half of the log is empty before it is used again");
        let log = self.log.commit();
        let Turned { half: old, is_used, to_home, at_home, dying } = self.log.turn();
        let stubs: Vec<Stub> = to_home.iter().filter_map(|slot| self.stub(*slot)).collect();
        let mut writes = self.homes.bring(&stubs, &mut self.cells);
        let page = |at, len| Place { on: MediumId::Map, extent: Extent::new(at, len) };
        let pages = self.history.pages.take_writes(usize::MAX);
        writes.extend(pages.into_iter().map(|(at, bytes)| (page(at, PAGE_BYTES as u64), bytes)));
        let generation = self.history.pages.begin_head();
        self.slots.begin_head();
        let (half, sequence) = self.log.position();
        let mut roots = self.history.roots();
        roots.push(self.slots.root());
        let (open, counts, sessions) = (self.open_epoch(), self.history.counts(), self.log.sessions());
        let note = Note { open, half, sequence, counts, sessions };
        let head = Head { generation, roots, note: note.to_bytes() };
        let bytes = head.to_bytes(self.disk);
        let head = (page(head.position(), bytes.len() as u64), bytes);
        let homed = [to_home, at_home].concat();
        if mutant::is(Mutant::KillLogEarly) && is_used {
            self.old_half = Some((old, dying.clone()));
        }
        IndexCheckpoint { log, writes, head, homed, old_half: (is_used.then_some(old), dying) }
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
        self.history.pages.end_head();
        self.slots.end_head();
        self.heads += 1;
        self.log.end_turn(&checkpoint.homed);
        self.homes.brought();
        let (half, dying) = &checkpoint.old_half;
        self.old_half = half.filter(|_| !mutant::is(Mutant::KeepLog)).map(|half| (half, dying.clone()));
    }

    /// Gives up a checkpoint, of which perhaps some writes were carried out. The next one does what it was for.
    pub(super) fn abort_checkpoint(&mut self) {
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
        bytes.iter().any(|byte| *byte != 0) && !is_old()
    }

    /// Takes the next sector of the log, as a start read it. `done` counts its entries that were taken: when a page was
    /// absent, those are not taken again, since what frees a block would undo a later entry that writes it.
    pub(super) fn replay(&mut self, at: Pos, bytes: &[u8], done: &mut usize) -> Result<Replayed, Absent> {
        let (_, last) = self.log.position();
        let next = self.layout.parse_sector(bytes).filter(|sector| sector.sequence == last + 1);
        let Some(mut sector) = next else { return Ok(Replayed::End) };
        if !self.log.reveal(&mut sector) {
            return Ok(Replayed::OtherCell(sector.sequence));
        }
        let skipped = usize::from(mutant::is(Mutant::SkipReplay) && sector.entries.len() > 1);
        for entry in &sector.entries[*done..sector.entries.len() - skipped] {
            self.replay_entry(&sector, entry)?;
            *done += 1;
        }
        self.log.replay(at, &sector);
        Ok(Replayed::Sector)
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

    fn replay_change(&mut self, block: Block, slot: Option<Slot>, epoch: Epoch) -> Result<(), Absent> {
        let dead = self.history.write(block, slot, epoch, |_| false)?;
        dead.into_iter().for_each(|dead| self.log.owes(dead.slot));
        Ok(())
    }
}
