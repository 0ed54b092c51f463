//! The requests that have begun: by number, and by the bytes that they touch.

use crate::buf::Buf;
use crate::extents::{ExtentMap, Value};
use crate::ledger::{Cause, Due};
use crate::places::Places;
use crate::request::{Op, Request, RequestId};
use crate::units::{Addr, Epoch, Extent, Scope};
use std::collections::HashMap;

/// A request that has begun.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) extent: Extent<Addr>,
    /// Whether later changes of the same bytes wait for this request.
    pub(super) is_ordered: bool,
    pub(super) stage: Stage,
    /// The parts that were dead when the request began, and read as zeros.
    pub(super) masks: Vec<Extent<Addr>>,
    /// The payload to hand back.
    pub(super) buf: Buf,
    /// The read under way, if the store may use its places again meanwhile.
    pub(super) reading: Option<Box<Reading>>,
}

/// How far a request has come.
#[derive(Debug)]
pub(super) enum Stage {
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
    /// The write is under way; the parts `zeros` are zeros, and dead after it.
    Write { zeros: Vec<Extent<Addr>>, durable: bool },
    /// The write has ended, over dead bytes, and a note of that is being written.
    Note { zeros: Vec<Extent<Addr>>, durable: bool, number: u64, generation: u64 },
    /// A checkpoint is awaited; then these parts get their obligation.
    Checkpoint(Deaths),
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
    Forget(Scope),
    /// A checkpoint is awaited with the end of this epoch.
    Closed(Epoch),
}

/// Blocks that are read because a request changes a part of each.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) request: Request,
    /// The blocks that are still to be read; the last one is being read.
    pub(super) unread: Vec<Extent<Addr>>,
    pub(super) read: Vec<(Extent<Addr>, Buf)>,
}

/// The rest of blocks of which a request makes a part die.
#[derive(Debug)]
pub(super) struct Remainder {
    pub(super) request: Request,
    /// The blocks that are still to be written; the last one is being written.
    pub(super) unwritten: Vec<(Extent<Addr>, Vec<u8>)>,
    pub(super) has_written: bool,
    /// The blocks that die as a whole.
    pub(super) deaths: Deaths,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct Reading {
    /// The operation that reads the same content again.
    pub(super) op: Op,
    pub(super) extent: Extent<Addr>,
    pub(super) at: Places,
    /// When it began: how many erase tasks had begun, and [`Mapped::reuses`](crate::store::Mapped::reuses).
    pub(super) tasks: u64,
    pub(super) reuses: Option<u64>,
}

/// Parts that are to be given an obligation.
#[derive(Debug)]
pub(super) struct Deaths {
    pub(super) rest: Vec<Extent<Addr>>,
    pub(super) due: Due,
    pub(super) cause: Cause,
}

impl Deaths {
    /// The deaths of blocks of zeros that were written.
    pub(super) fn zeros(rest: Vec<Extent<Addr>>) -> Self {
        Self { rest, due: Due::Shred { no_hole: false }, cause: Cause::ZeroBlock }
    }
}

/// The requests that have begun.
#[derive(Debug, Default)]
pub(super) struct Table {
    all: HashMap<RequestId, Running>,
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
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn insert(&mut self, id: RequestId, running: Running) {
        if running.is_ordered {
            self.changing.insert(running.extent, ());
        } else {
            running.exposed().for_each(|part| self.count(part, 1));
        }
        self.all.insert(id, running);
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Running> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> &mut Running {
        self.all.get_mut(&id).expect("a request runs until it is finished")
    }

    pub(super) fn take(&mut self, id: RequestId) -> Running {
        let running = self.all.remove(&id).expect("a request is finished once");
        if running.is_ordered {
            self.changing.remove(running.extent);
        } else {
            running.exposed().for_each(|part| self.count(part, -1));
        }
        running
    }

    /// `id` touches its bytes no more, though it has not been answered.
    pub(super) fn retire(&mut self, id: RequestId) {
        let running = self.get_mut(id);
        if std::mem::replace(&mut running.is_ordered, false) {
            running.masks = vec![running.extent];
            let extent = running.extent;
            self.changing.remove(extent);
        }
    }

    /// The requests whose stage `is_it`.
    pub(super) fn in_stage(&self, is_it: impl Fn(&Stage) -> bool) -> Vec<RequestId> {
        self.all.iter().filter(|(_, it)| is_it(&it.stage)).map(|(id, _)| *id).collect()
    }

    /// Whether a request changes bytes of `extent`, or reads some that were not dead when it began.
    pub(super) fn touches(&self, extent: Extent<Addr>) -> bool {
        self.changing.overlaps(extent) || self.reads(extent)
    }

    /// Whether a request reads bytes of `extent` that were not dead when it began.
    pub(super) fn reads(&self, extent: Extent<Addr>) -> bool {
        self.exposed.overlaps(extent)
    }

    /// Notes that `more` reads are under way over `extent`.
    fn count(&mut self, extent: Extent<Addr>, more: i32) {
        let mut parts: Vec<_> = self.exposed.gaps(extent).into_iter().map(|gap| (gap, 0)).collect();
        parts.extend(self.exposed.within(extent).map(|(part, it)| (part, it.0)));
        for (part, readers) in parts {
            match readers.saturating_add_signed(more) {
                0 => self.exposed.remove(part),
                readers => self.exposed.insert(part, Readers(readers)),
            }
        }
    }
}

impl Running {
    /// The parts that the request reads and that were not dead when it began.
    fn exposed(&self) -> impl Iterator<Item = Extent<Addr>> + use<> {
        let mut from = self.extent.start.0;
        let ends = self.masks.iter().map(|mask| (mask.start.0, mask.end()));
        let ends: Vec<_> = ends.chain([(self.extent.end(), self.extent.end())]).collect();
        ends.into_iter().filter_map(move |(to, next)| {
            let part = Extent::between(from, to);
            from = next;
            (!part.is_empty()).then_some(part)
        })
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
        table.insert(RequestId(1), read(0, 100, &[(10, 20)]));
        assert!(!table.reads(Extent::new(10, 20)) && table.reads(Extent::new(9, 2)));
        table.insert(RequestId(2), read(15, 5, &[]));
        assert!(table.reads(Extent::new(10, 20)));
        table.take(RequestId(2));
        assert!(!table.reads(Extent::new(10, 20)));
        table.take(RequestId(1));
        assert!(!table.touches(Extent::new(0, 100)) && table.exposed.is_empty());
    }
}
