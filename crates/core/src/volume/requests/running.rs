//! The requests that have begun: by number, and by the bytes that they touch.

use crate::base::buf::Buf;
use crate::base::extents::{ExtentMap, Value};
use crate::base::numbers::Numbered;
use crate::base::parts::Forget;
use crate::base::units::{Addr, Epoch, Extent};
use crate::media::places::Places;
use crate::owed::ledger::{Cause, Due};
use crate::request::{Op, Request};
use crate::volume::origin::Origin;

/// A request that has begun.
#[derive(Debug)]
pub(in crate::volume) struct Running {
    pub(in crate::volume) extent: Extent<Addr>,
    /// Whether later changes of the same bytes wait for this request.
    pub(in crate::volume) is_ordered: bool,
    pub(in crate::volume) stage: Stage,
    /// The parts that were dead when the request began, and read as zeros. They matter to reads alone.
    pub(in crate::volume) masks: Vec<Extent<Addr>>,
    /// The payload to hand back.
    pub(in crate::volume) buf: Buf,
    /// The read under way, if the store may use its places again meanwhile.
    pub(in crate::volume) reading: Option<Box<Reading>>,
}

/// How far a request has come.
#[derive(Debug)]
pub(in crate::volume) enum Stage {
    /// Old content is being read for the watcher: `seen` now, then `rest`, from its end.
    ReadForInference { request: Request, old_extent: Extent<Addr>, rest: Vec<Extent<Addr>> },
    /// The only I/O operation of the request is under way.
    Io,
    /// A block of which the request changes a part gets a place of its own: the block is read, then
    /// written there.
    CopyUp { request: Request, block: Extent<Addr>, is_read: bool },
    /// Blocks of which the request changes a part are being read.
    Merge(Merge),
    /// The rest of blocks of which a part dies is being written.
    Remain(Remainder),
    /// The write is under way; what it fills with zeros is dead after it.
    Write { deaths: Option<Deaths>, durable: bool },
    /// The write has ended, over dead bytes, and a note of that is being written.
    Note { deaths: Option<Deaths>, durable: bool, number: u64, generation: u64 },
    /// A checkpoint is awaited; then these parts get their obligation, if there are any.
    Checkpoint(Option<Deaths>),
    /// These parts are still to be given an obligation.
    Oblige(Deaths),
    /// `gap` is being zeroed, so that it has space; the gaps of `rest` follow.
    Provide { gap: Extent<Addr>, rest: Extent<Addr> },
    /// The commit with the last change of the request is awaited.
    Commit,
    /// The request closes an epoch, some of whose changes have not ended.
    Close,
    /// A checkpoint is awaited with the ends of these epochs, which are then to be forgotten, or with what the current
    /// state shows instead of the blocks to forget.
    Forget(Forget),
    /// A checkpoint is awaited with the end of this epoch.
    Closed(Epoch),
}

/// Blocks that are read because a request changes a part of each.
#[derive(Debug)]
pub(in crate::volume) struct Merge {
    pub(in crate::volume) request: Request,
    /// The blocks that are still to be read; the last one is being read.
    pub(in crate::volume) unread: Vec<Extent<Addr>>,
    pub(in crate::volume) read: Vec<(Extent<Addr>, Buf)>,
}

/// The rest of blocks of which a request makes a part die.
#[derive(Debug)]
pub(in crate::volume) struct Remainder {
    pub(in crate::volume) request: Request,
    /// The blocks that are still to be written; the last one is being written.
    pub(in crate::volume) unwritten: Vec<(Extent<Addr>, Vec<u8>)>,
    pub(in crate::volume) has_written: bool,
    /// The blocks that die as a whole, if any do.
    pub(in crate::volume) deaths: Option<Deaths>,
}

/// A read under way.
#[derive(Debug)]
pub(in crate::volume) struct Reading {
    /// The operation that reads the same content again.
    pub(in crate::volume) op: Op,
    pub(in crate::volume) extent: Extent<Addr>,
    pub(in crate::volume) at: Places,
    /// When it began: how many erase tasks had begun, or writes under fresh keys, and [`Mapped::reuses`](crate::store::Mapped::reuses).
    pub(in crate::volume) tasks: u64,
    pub(in crate::volume) reuses: Option<u64>,
}

/// Parts that are to be given an obligation, at least one.
#[derive(Debug)]
pub(in crate::volume) struct Deaths {
    pub(in crate::volume) rest: Vec<Extent<Addr>>,
    pub(in crate::volume) due: Due,
    pub(in crate::volume) cause: Cause,
}

impl Deaths {
    /// The deaths of the parts `rest`; `None` if there are no parts.
    pub(in crate::volume) fn of(rest: Vec<Extent<Addr>>, due: Due, cause: Cause) -> Option<Self> {
        (!rest.is_empty()).then_some(Self { rest, due, cause })
    }

    /// The deaths of blocks of zeros that were written; `None` if there are none.
    pub(in crate::volume) fn zeros(rest: Vec<Extent<Addr>>) -> Option<Self> {
        Self::of(rest, Due::Shred { no_hole: false }, Cause::ZeroBlock)
    }
}

/// The requests that have begun.
#[derive(Debug, Default)]
pub(in crate::volume) struct Table {
    all: Numbered<Origin, Running>,
    /// The bytes that ordered requests touch; no two share any.
    changing: ExtentMap<Addr, ()>,
    /// How many of the other requests read each byte that was not dead when they began.
    exposed: ExtentMap<Addr, Readers>,
}

/// A number of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Readers(u32);

impl Value for Readers {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self == next).then_some(*self)
    }
}

impl Table {
    pub(in crate::volume) fn len(&self) -> usize {
        self.all.len()
    }

    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(in crate::volume) fn insert(&mut self, id: Origin, running: Running) {
        if running.is_ordered {
            let before = self.changing.bytes();
            self.changing.insert(running.extent, ());
            let after = self.changing.bytes();
            assert!(after == before + running.extent.len, "no two changes under way share bytes");
        } else {
            running.exposed().into_iter().for_each(|part| self.count(part, 1));
        }
        assert!(self.all.insert(id, running).is_none(), "a request runs once");
    }

    pub(in crate::volume) fn get(&self, id: Origin) -> Option<&Running> {
        self.all.get(&id)
    }

    pub(in crate::volume) fn get_mut(&mut self, id: Origin) -> &mut Running {
        self.all.get_mut(&id).expect("a request runs until it is finished")
    }

    pub(in crate::volume) fn take(&mut self, id: Origin) -> Running {
        let running = self.all.remove(&id).expect("a request is finished once");
        if running.is_ordered {
            let before = self.changing.bytes();
            self.changing.remove(running.extent);
            let after = self.changing.bytes();
            assert!(before == after + running.extent.len, "a change has all its bytes until it ends");
        } else {
            running.exposed().into_iter().for_each(|part| self.count(part, -1));
        }
        running
    }

    /// `id` touches its bytes no more, though it has not been answered.
    pub(in crate::volume) fn retire(&mut self, id: Origin) {
        let running = self.get_mut(id);
        if std::mem::replace(&mut running.is_ordered, false) {
            running.masks = vec![running.extent];
            let extent = running.extent;
            let before = self.changing.bytes();
            self.changing.remove(extent);
            assert!(
                before == self.changing.bytes() + extent.len,
                "a change has all its bytes until it retires"
            );
        }
    }

    /// The requests whose stage `is_it`.
    pub(in crate::volume) fn in_stage(&self, is_it: impl Fn(&Stage) -> bool) -> Vec<Origin> {
        self.all.iter().filter(|(_, it)| is_it(&it.stage)).map(|(id, _)| *id).collect()
    }

    /// Whether a request changes bytes of `extent`, or reads some that were not dead when it began.
    pub(in crate::volume) fn touches(&self, extent: Extent<Addr>) -> bool {
        self.changing.overlaps(extent) || self.reads(extent)
    }

    /// Whether a request reads bytes of `extent` that were not dead when it began.
    pub(in crate::volume) fn reads(&self, extent: Extent<Addr>) -> bool {
        self.exposed.overlaps(extent)
    }

    /// Notes that `more` reads are under way over `extent`.
    fn count(&mut self, extent: Extent<Addr>, more: i32) {
        let mut parts: Vec<_> = self.exposed.gaps(extent).into_iter().map(|gap| (gap, 0)).collect();
        parts.extend(self.exposed.within(extent).map(|(part, it)| (part, it.0)));
        for (part, readers) in parts {
            // A reader that is not counted would not keep erase tasks off what it reads.
            assert!(more > 0 || readers > 0, "a reader was counted until it ends");
            match readers.saturating_add_signed(more) {
                0 => self.exposed.remove(part),
                readers => self.exposed.insert(part, Readers(readers)),
            }
        }
    }
}

impl Running {
    /// The parts that the request reads and that were not dead when it began.
    fn exposed(&self) -> Vec<Extent<Addr>> {
        self.extent.without(self.masks.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(start: u64, len: u64, masks: &[(u64, u64)]) -> Running {
        let masks = masks.iter().map(|(start, len)| Extent::new(*start, *len)).collect();
        let extent = Extent::new(start, len);
        let (stage, buf) = (Stage::Io, Buf::new());
        Running { extent, is_ordered: false, stage, masks, buf, reading: None }
    }

    #[test]
    fn bytes_are_exposed_until_the_last_read_that_they_were_not_dead_for_has_ended() {
        let mut table = Table::default();
        table.insert(Origin::Own(1), read(0, 100, &[(10, 20)]));
        assert!(!table.reads(Extent::new(10, 20)) && table.reads(Extent::new(9, 2)));
        table.insert(Origin::Own(2), read(15, 5, &[]));
        assert!(table.reads(Extent::new(10, 20)));
        table.take(Origin::Own(2));
        assert!(!table.reads(Extent::new(10, 20)));
        table.take(Origin::Own(1));
        assert!(!table.touches(Extent::new(0, 100)) && table.exposed.is_empty());
    }
}
