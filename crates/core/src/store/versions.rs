//! A store that keeps every epoch of the disk, and can make any of them unreadable for ever.
//!
//! *Secure Deletion for a Versioning File System* (FAST 2005). A block that is written gets a new slot, where it
//! lies sealed; its stub is what makes it readable. Why the parts are what they are: decision 19.
//!
//! Invariants:
//! 1. A version counts once its entry in the log of stubs is durable, and its content was before. The index
//!    says what the log said up to a head, and the log is replayed on top of it.
//! 2. A head of the index holds what was logged before it, and nothing else.
//! 3. A stub is written to its place in the log and to its home, each once. Before the place is used for another
//!    one, what lay there is destroyed.
//! 4. A slot is taken again only once its stub is destroyed, and the durable index and log do not name it.

mod deaths;
mod history;
mod key;
mod log;
mod slots;
mod stubs;
#[cfg(test)]
mod tests;

use crate::media::MediumId;
use crate::place::Place;
use crate::sealing::{Block, Session, Slot, home_bytes};
use crate::tree::{Absent, Head, PAGE_BYTES};
use crate::units::{Epoch, Extent, Pos};
use history::{CLUSTERS, Forget, Forgotten, History, Version, WallTime};
use log::{Log, Turned};
use slots::Slots;
use std::collections::BTreeSet;
use stubs::{Entry, Layout, Sector};

/// See the module's documentation.
#[derive(Debug)]
struct Versions {
    disk: [u8; 16],
    layout: Layout,
    history: History,
    slots: Slots,
    log: Log,
    /// Half a log that has to be destroyed before it is used again, and the slots whose only stubs are in it.
    old_half: Option<(Extent<Pos>, BTreeSet<Slot>)>,
}

/// The parts of a checkpoint of the index, in their order: each part has to be durable before the next.
#[derive(Clone, PartialEq, Eq, Debug)]
struct IndexCheckpoint {
    /// The last entries of the log before the head. Their content is durable before they are written.
    log: Option<(Place, Vec<u8>)>,
    /// The changed pages of the index, and the homes of stubs.
    writes: Vec<(Place, Vec<u8>)>,
    /// The head.
    head: (Place, Vec<u8>),
    /// The slots whose stubs have their home then.
    homed: Vec<Slot>,
    /// The half of the log that is not needed any more then, and the slots whose only stubs are in it.
    old_half: (Extent<Pos>, BTreeSet<Slot>),
}

/// The note in a head of the index: where the log goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Note {
    open: Epoch,
    /// The half of the log that goes on from here, and the number of the last sector before it.
    half: u8,
    sequence: u64,
}

impl Note {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.open.0.to_le_bytes().to_vec();
        bytes.extend(self.sequence.to_le_bytes());
        bytes.push(self.half);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = crate::fields::Fields(bytes);
        let (open, sequence) = (Epoch(fields.u64()?), fields.u64()?);
        let [half] = fields.array()?;
        (half < 2 && open.0 > 0).then_some(Self { open, half, sequence })
    }
}

impl Versions {
    /// The store of a disk of `blocks` blocks that `head` names; none if what the head notes makes no sense. What
    /// follows: [`Versions::reach`], then [`Versions::replay`].
    fn open(disk: [u8; 16], blocks: u64, layout: Layout, head: &Head, session: Session) -> Option<Self> {
        let Note { open, half, sequence } = match head.generation {
            0 => Note { open: Epoch(1), half: 0, sequence: 0 },
            _ => Note::from_bytes(&head.note)?,
        };
        let root = head.roots.get(CLUSTERS).copied().unwrap_or_default();
        Some(Self {
            disk,
            layout,
            history: History::open(disk, head, open),
            slots: Slots::new(layout.per_page(), blocks, (CLUSTERS as u8, root)),
            log: Log::new(layout, half, sequence, session),
            old_half: Some((layout.half(1 - half), BTreeSet::new())).filter(|_| head.generation > 0),
        })
    }

    /// Looks at all of the index that has to be known before anything else.
    fn reach(&mut self) -> Result<(), Absent> {
        while self.slots.find(&self.history.pages)? {}
        let slots = &self.slots;
        self.history.reach(|pages, used| slots.reach(pages, used))
    }

    /// The version of `block` that `epoch` shows.
    fn shown(&self, block: Block, epoch: Epoch) -> Result<Option<Version>, Absent> {
        self.history.shown(block, epoch)
    }

    /// The stub of the version in `slot`, if it has no home yet; else its home is where it lies.
    fn stub(&self, slot: Slot) -> Option<(Session, &Entry)> {
        self.log.stub(slot)
    }

    /// Takes a slot for new content of `block`.
    fn begin_write(&mut self, block: Block) -> Slot {
        self.slots.take(block)
    }

    /// Gives a slot back whose content was not written.
    fn cancel_write(&mut self, block: Block, slot: Slot) {
        self.slots.free(slot, block);
    }

    /// Notes that new content of `block` lies in `slot`, sealed under this number, with this stub.
    fn end_write(
        &mut self,
        (block, slot): (Block, Slot),
        epoch: Epoch,
        (number, stub): (u32, Vec<u8>),
    ) -> Result<(), Absent> {
        self.note(block, Some(slot), epoch)?;
        self.log.push(epoch, Entry::Version { block, slot, number, stub });
        Ok(())
    }

    /// Frees `block`: it reads as zeros from `epoch` on.
    fn free(&mut self, block: Block, epoch: Epoch) -> Result<(), Absent> {
        self.note(block, None, epoch)?;
        self.log.push(epoch, Entry::Freed { block, blocks: 1 });
        Ok(())
    }

    fn note(&mut self, block: Block, slot: Option<Slot>, epoch: Epoch) -> Result<(), Absent> {
        let owed = self.history.write(block, slot, epoch)?;
        if let Some(dead) = owed
            && self.log.forget(dead.slot)
        {
            // Nothing has the stub any more.
            self.history.completed(dead.slot)?;
            self.slots.free(dead.slot, dead.block);
        }
        Ok(())
    }

    /// The epoch that takes the writes that arrive.
    fn open_epoch(&self) -> Epoch {
        self.history.open_epoch()
    }

    /// Closes the open epoch: it is kept from now on.
    fn close(&mut self, when: WallTime) -> Result<Epoch, Absent> {
        let closed = self.history.close(when)?;
        self.log.push(closed, Entry::Closed { when: when.0 });
        Ok(closed)
    }

    /// Takes the next step of a forget.
    fn forget_step(&mut self, forget: &mut Forget) -> Result<Forgotten, Absent> {
        let step = self.history.forget_step(forget)?;
        if let Forgotten::Version(dead) = step {
            // Epochs that are forgotten were durable before; so was the stub.
            let is_gone = self.log.forget(dead.slot);
            assert!(!is_gone, "what a kept epoch shows is durable");
        }
        Ok(step)
    }

    /// The next commit: what has to be written and durable, after the content, so that all is durable that has
    /// ended by now.
    fn commit(&mut self) -> Option<(Place, Vec<u8>)> {
        self.log.commit()
    }

    /// The next version whose stub is to be destroyed, from `slot` on, and where that may lie. Whoever destroys it
    /// commits first: what has replaced the version must not be lost.
    fn owed_from(&self, slot: Slot) -> Result<Option<(Slot, Vec<Place>)>, Absent> {
        let found = self.history.owed_from(slot)?;
        Ok(found.map(|dead| (dead.slot, self.log.places(dead.slot))))
    }

    /// Notes that the stub in `slot` is destroyed.
    fn destroyed(&mut self, slot: Slot) -> Result<(), Absent> {
        let Some(dead) = self.history.owed_from(slot)?.filter(|dead| dead.slot == slot) else {
            return Ok(());
        };
        self.history.completed(slot)?;
        self.log.settle(slot);
        self.slots.free_later(slot, dead.block);
        Ok(())
    }

    /// Half a log that is to be destroyed.
    fn old_half(&self) -> Option<Extent<Pos>> {
        self.old_half.as_ref().map(|(half, _)| *half)
    }

    /// Notes that the old half of the log is destroyed, and so what was owed there.
    fn old_half_destroyed(&mut self) -> Result<(), Absent> {
        while let Some((_, dying)) = &self.old_half
            && let Some(slot) = dying.first().copied()
        {
            self.destroyed(slot)?;
            if let Some((_, dying)) = &mut self.old_half {
                dying.remove(&slot);
            }
        }
        self.old_half = None;
        Ok(())
    }

    /// Tells the index of all slots that changed. Comes right before [`Versions::begin_checkpoint`].
    fn prepare_checkpoint(&mut self) -> Result<(), Absent> {
        while self.slots.tell(&mut self.history.pages)? {}
        Ok(())
    }

    /// Begins a checkpoint of the index: all that has ended by now, and nothing that follows.
    ///
    /// # Panics
    /// If the other half of the log is not destroyed, or the index was not told of all slots.
    fn begin_checkpoint(&mut self) -> IndexCheckpoint {
        assert!(self.old_half.is_none(), "a half of the log is empty before it is used again");
        let log = self.log.commit();
        let Turned { used, to_home, dying } = self.log.turn();
        let mut writes: Vec<_> = to_home.iter().filter_map(|slot| self.home_of(*slot)).collect();
        let page = |at, len| Place { on: MediumId::Map, extent: Extent::new(at, len) };
        let pages = self.history.pages.take_writes(usize::MAX);
        writes.extend(pages.into_iter().map(|(at, bytes)| (page(at, PAGE_BYTES as u64), bytes)));
        let generation = self.history.pages.begin_head();
        self.slots.begin_head();
        let (half, sequence) = self.log.position();
        let mut roots = self.history.roots();
        roots.push(self.slots.root());
        let head =
            Head { generation, roots, note: Note { open: self.open_epoch(), half, sequence }.to_bytes() };
        let bytes = head.to_bytes(self.disk);
        let head = (page(head.position(), bytes.len() as u64), bytes);
        IndexCheckpoint { log, writes, head, homed: to_home, old_half: (used, dying) }
    }

    /// The write that gives a stub its home.
    fn home_of(&self, slot: Slot) -> Option<(Place, Vec<u8>)> {
        let (session, Entry::Version { block, number, stub, .. }) = self.log.stub(slot)? else { return None };
        let place = Place { on: MediumId::Stubs, extent: self.layout.home(slot) };
        Some((place, home_bytes(*block, session, *number, stub)))
    }

    /// Ends a checkpoint: its head is durable.
    fn end_checkpoint(&mut self, checkpoint: &IndexCheckpoint) {
        self.history.pages.end_head();
        self.slots.end_head();
        checkpoint.homed.iter().for_each(|slot| self.log.settle(*slot));
        self.old_half = Some(checkpoint.old_half.clone()).filter(|(half, _)| !half.is_empty());
    }

    /// Where a start reads the log on: the place of the next sector.
    fn next_sector(&self) -> Option<Place> {
        self.log.next_sector().map(|extent| Place { on: MediumId::Stubs, extent })
    }

    /// Takes the next sector of the log, as a start read it; whether it was one, after which another may come.
    fn replay(&mut self, at: Pos, bytes: &[u8]) -> Result<bool, Absent> {
        let Some(sector) = self.layout.parse_sector(bytes) else { return Ok(false) };
        let (_, last) = self.log.position();
        if sector.sequence != last + 1 {
            return Ok(false);
        }
        for entry in &sector.entries {
            self.replay_entry(&sector, entry)?;
        }
        self.log.replay(at, &sector);
        Ok(true)
    }

    fn replay_entry(&mut self, sector: &Sector, entry: &Entry) -> Result<(), Absent> {
        while sector.epoch > self.open_epoch() {
            self.history.close(WallTime(0))?;
        }
        match entry {
            Entry::Version { block, slot, .. } => {
                let is_new = self.history.shown(*block, sector.epoch)?.is_none_or(|it| it.slot != *slot);
                if is_new {
                    self.history.write(*block, Some(*slot), sector.epoch)?;
                    self.slots.taken(*slot, *block);
                }
            }
            Entry::Freed { block, blocks } => {
                for block in block.0..block.0 + blocks {
                    self.history.write(Block(block), None, sector.epoch)?;
                }
            }
            Entry::Closed { when } => self.history.close_again(sector.epoch, WallTime(*when))?,
        }
        Ok(())
    }
}
