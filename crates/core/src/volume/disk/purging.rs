//! Content that dies with its keys ([`Keyed`](crate::store::Keyed)): what a purge pays for, and how a dead block is written meanwhile.
//!
//! A block is *gone* when all of it is dead, and sensitive; what has no data there dies along. Gone blocks die in a purge. A block that is
//! not gone, of which a part is dead, is put under a fresh key first ([`restaging`](crate::volume::erasing::restaging)); its old key is
//! owed from then on, at its place.
//!
//! Invariants:
//! 1. A write over a gone block writes all of it, under a key of its own, and waits for nothing. No other write is over bytes of a
//!    sensitive death.
//! 2. Such a block stays dead in the journal until a checkpoint has made its content and its key durable. Then one frame says that its old
//!    key is owed, and the address is not.
//! 3. A purge pays for what was dead or owed when it began, unless that was written, or owed again, since; and for no old key of a block
//!    that is written over then.

use crate::base::blocks::BlockSet;
use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Millis};
use crate::media::MediumId;
use crate::media::cipher::SECTOR_BYTES;
use crate::media::place::Place;
use crate::owed::journal::Change;
use crate::owed::ledger::Cause;
use crate::owed::receipts::Done;
use crate::store::{Backlog, Content, Destruction};
use crate::volume::disk::Disk;

/// The last purge, and the one under way.
#[derive(Debug, Default)]
pub(in crate::volume) struct Purging {
    /// The dead bytes that it pays for.
    dead: ExtentMap<Addr, ()>,
    /// The blocks whose old keys it pays for.
    owed: ExtentMap<Addr, ()>,
    is_under_way: bool,
    /// Number of writes so far that went under fresh keys.
    pub(in crate::volume) renewed: u64,
}

impl Purging {
    /// The dead bytes whose keys are destroyed.
    pub(in crate::volume) fn paid_dead(&self) -> impl Iterator<Item = Extent<Addr>> + '_ {
        self.dead.iter().filter(|_| !self.is_under_way).map(|(run, ())| run)
    }

    /// The blocks that are owed by key, and whose old keys are destroyed.
    pub(in crate::volume) fn paid_owed(&self) -> impl Iterator<Item = Extent<Addr>> + '_ {
        self.owed.iter().filter(|_| !self.is_under_way).map(|(run, ())| run)
    }

    /// Notes what follows from `change`.
    pub(in crate::volume) fn changed(&mut self, change: Change) {
        match change {
            Change::Complete(run, ..) | Change::Clear(run) => self.dead.remove(run),
            Change::Owe(place, ..) | Change::ClearPlace(place) => self.owed.remove(at_address(place)),
            _ => {}
        }
    }
}

/// Where blocks lie that have a fixed place.
pub(in crate::volume) fn at_place(blocks: Extent<Addr>) -> Place {
    Place { on: MediumId::Data, extent: Extent::new(blocks.start.0, blocks.len) }
}

/// What the blocks of `run` held before, under their old keys or elsewhere on the medium, is owed at the places of these blocks.
pub(in crate::volume) fn owe_before(run: Extent<Addr>, cause: Cause) -> Change {
    let blocks = whole_blocks(run);
    Change::Owe(at_place(blocks), blocks.start, cause)
}

/// The blocks that `run` touches. The last one may end behind the disk.
fn whole_blocks(run: Extent<Addr>) -> Extent<Addr> {
    Extent::between(run.start.0 / BLOCK_BYTES * BLOCK_BYTES, run.end().next_multiple_of(BLOCK_BYTES))
}

fn at_address(place: Place) -> Extent<Addr> {
    Extent::new(place.extent.start.0, place.extent.len)
}

impl Disk {
    /// Whether content dies with its keys.
    pub(in crate::volume) fn dies_by_key(&self) -> bool {
        self.store.destruction() == Destruction::Rekeyed
    }

    /// Whether a purge is under way.
    pub(in crate::volume) fn is_purging(&self) -> bool {
        self.store.keyed().is_some_and(|it| it.is_purging())
    }

    /// Whether `extent` begins or ends in the midst of a sector, which cannot be zeroed in part: it is ciphertext.
    pub(in crate::volume) fn cuts_sector(&self, extent: Extent<Addr>) -> bool {
        let (start, end) = (extent.start.0, extent.end());
        let is_whole = |at: u64| at.is_multiple_of(SECTOR_BYTES) || at == self.store.geometry().size;
        self.dies_by_key() && !(is_whole(start) && is_whole(end))
    }

    /// Why the purge under way cannot go on, nor any other: what waits for one would wait for ever.
    pub(in crate::volume) fn why_purges_stopped(&self) -> Option<String> {
        let is_stopped = self.is_purging() && self.store.backlog(true) == Backlog::Nothing;
        is_stopped.then(|| self.store.status().trouble()).flatten()
    }

    /// Until when nothing dies by key, because a purge has left a key that its medium would not destroy just now.
    pub(in crate::volume) fn purge_rests_until(&self) -> Millis {
        let rests = self.is_purging() && self.jobs_remain();
        if rests { self.remaining.until } else { Millis(0) }
    }

    /// Whether all of `block` is dead, and sensitive.
    pub(in crate::volume) fn is_gone(&self, block: Extent<Addr>) -> bool {
        let dead = self.state.ledger.dead();
        dead.gaps(block).is_empty() && dead.within(block).all(|(_, it)| !it.due.is_plain())
    }

    /// The parts without data of `block`, of which something is dead and sensitive, if nothing of it is alive. They die, too: else they would
    /// show what is written there under a key that a crash forgets.
    pub(in crate::volume) fn dies_with(&self, block: Extent<Addr>) -> Vec<Extent<Addr>> {
        let dead = self.state.ledger.dead();
        let mut within = dead.within(block).peekable();
        let is_sensitive = within.peek().is_some() && within.all(|(_, it)| !it.due.is_plain());
        let gaps = if is_sensitive { dead.gaps(block) } else { Vec::new() };
        let has_data = |gap: &Extent<Addr>| self.store.first(Content::Own, *gap).is_some();
        if gaps.iter().any(has_data) { Vec::new() } else { gaps }
    }

    /// `extent` with the rest of the blocks at its ends, where those are gone.
    pub(in crate::volume) fn with_gone(&self, extent: Extent<Addr>) -> Extent<Addr> {
        if !self.dies_by_key() || self.state.ledger.dead().is_empty() {
            return extent;
        }
        let gone = self.store.geometry().edges(extent).filter(|edge| self.is_gone(*edge));
        gone.fold(extent, |all, edge| {
            Extent::between(all.start.0.min(edge.start.0), all.end().max(edge.end()))
        })
    }

    /// Whether each block of `extent` that lost sensitive content is gone, and may get another key. `extent` is
    /// [with](Disk::with_gone) the gone blocks at its ends.
    pub(in crate::volume) fn can_renew(&self, extent: Extent<Addr>) -> bool {
        let Some(keyed) = self.store.keyed() else { return false };
        let geometry = self.store.geometry();
        let mut runs = self.state.ledger.dead().within(extent).filter(|(_, it)| !it.due.is_plain());
        runs.all(|(run, _)| geometry.edges(run).all(|edge| self.is_gone(edge)))
            && keyed.has_room(geometry.together(extent))
    }

    /// Gives the gone blocks of `extent`, which is about to be written, other keys. Returns what has to be written.
    pub(in crate::volume) fn renew(&mut self, extent: Extent<Addr>) -> Extent<Addr> {
        if !self.dies_by_key() {
            return extent;
        }
        let (extent, geometry) = (self.with_gone(extent), self.store.geometry());
        let mut blocks = ExtentMap::<Addr, ()>::default();
        let sensitive = self.state.ledger.dead().within(extent).filter(|(_, it)| !it.due.is_plain());
        sensitive.for_each(|(run, _)| blocks.insert(geometry.together(run), ()));
        self.purging.renewed += u64::from(!blocks.is_empty());
        for (run, ()) in blocks.iter() {
            assert!(run.overlap(extent) == Some(run), "a block that gets another key is written as a whole");
            self.purging.dead.remove(run);
            if let Some(keyed) = self.store.keyed_mut() {
                keyed.renew(run);
            }
        }
        extent
    }

    /// Completes the obligations within `run`, which was written over and is durable: what was sensitive is owed, where it is now.
    pub(in crate::volume) fn owe_overwritten(&mut self, run: Extent<Addr>) -> u64 {
        let owed: Vec<_> = self.state.ledger.overwritten_within(run).map(|(part, it)| (part, *it)).collect();
        let mut seq = 0;
        for (part, it) in owed {
            if it.due.is_plain() {
                seq = self.change(Change::Complete(part, Done::Plain, 0));
                self.state.counters.plain_bytes += part.len;
                continue;
            }
            self.change(owe_before(part, it.cause));
            seq = self.change(Change::Clear(part));
        }
        assert!(seq > 0, "something was written over");
        seq
    }

    /// Has the journal know how far the keys are.
    pub(in crate::volume) fn note_keys(&mut self) {
        if let Some(position) = self.store.keyed().map(|it| it.position())
            && self.state.keys < Some(position)
        {
            self.change(Change::Keys(position));
        }
    }

    /// The blocks whose old keys a purge of the `dead` bytes ends, of those that are durably owed. A block that is dead, or was written
    /// over, is one of them only if it is in the batch: its last key is out of use, so that the next tree has the one before.
    fn owed_keys(&self, dead: &ExtentMap<Addr, ()>) -> ExtentMap<Addr, ()> {
        let ledger = &self.state.ledger;
        let mut owed = ExtentMap::default();
        let durably = self.state.owed.iter().filter(|(place, _)| !self.commits.undurable.has(*place));
        durably.for_each(|(place, _)| owed.insert(at_address(place), ()));
        let others = ledger.dead().iter().flat_map(|(run, _)| dead.gaps(run));
        let others = others.chain(ledger.overwritten().map(|(run, _)| run));
        others.for_each(|run| owed.remove(whole_blocks(run)));
        owed
    }

    /// Begins a purge of these `dead` bytes, all that is left of their blocks, and of all old keys that it ends; but no purge that ends
    /// neither.
    pub(in crate::volume) fn begin_purge(&mut self, dead: ExtentMap<Addr, ()>) {
        assert!(!self.is_purging(), "one purge at a time");
        let geometry = self.store.geometry();
        let mut blocks = BlockSet::default();
        dead.iter().for_each(|(run, ())| blocks.insert(geometry.together(run)));
        let owed = self.owed_keys(&dead);
        if dead.is_empty() && owed.is_empty() {
            return;
        }
        self.purging = Purging { dead, owed, is_under_way: true, ..self.purging };
        let keyed = self.store.keyed_mut().expect("what dies by key has one");
        keyed.begin_purge(blocks);
    }

    /// Notes that the purge under way has ended. Whether it has.
    pub(in crate::volume) fn end_purge(&mut self) -> bool {
        let has_ended = self.purging.is_under_way && !self.is_purging();
        if has_ended {
            self.purging.is_under_way = false;
            self.note_keys();
        }
        has_ended
    }
}
