//! Writes to dead blocks where content has no fixed place: they get another place, and wait for nothing.
//! Where a store destroys them once they have left ([`Destruction::OnceLeft`]), they leave even without a write.
//!
//! Invariants:
//! 1. One frame of the journal says both that the old place is owed and that the
//!    address owes nothing any more. That frame is durable before the map that names
//!    the new place. Otherwise a crash could leave both the new content and the death
//!    of its address.
//! 2. A place that is owed is completed when it has its passes and the durable map
//!    does not name it. The place is used again only once the journal does not name
//!    it either. Otherwise a start after a crash would destroy new content.
//! 3. An address leaves its place only while no request reads there, and no job moves it.
//! 4. Without a write, an address leaves its place only once the durable store says that the content is there:
//!    a start after a crash would not know the place, and would show the content before it.

use crate::erase::{Destroy, Method, Priority, RUNS_MAX, Zeros};
use crate::extents::ExtentMap;
use crate::journal::Change;
use crate::ledger::Cause;
use crate::media::MediumId;
use crate::owed::OwedContent;
use crate::place::Place;
use crate::store::{Content, Destruction, Residue};
use crate::units::{Addr, BLOCK_BYTES, Extent, Pos};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind, Site};
use crate::volume::requests::Requests;
use crate::volume::{Command, Volume};

/// One part in this many of the disk's size may be owed by place. This limits how far the medium can grow
/// by writes that do not wait.
const OWED_SHARE: u64 = 4;
/// Most dead blocks that leave their places in one event.
const LEAVES_MAX: usize = 1024;
/// Entries of the ledger that a block that leaves its place may need: the rest of its run, and its place.
const ENTRIES_NEEDED: usize = 2;
/// Most places to look at in search of one that is ready.
const LOOKS_MAX: usize = 64;

impl Disk {
    /// Whether dead blocks leave their places at once, without a write.
    pub(in crate::volume) fn dead_leave(&self) -> bool {
        self.store.destruction() == Destruction::OnceLeft
    }

    /// How many bytes may be owed by place.
    pub(in crate::volume) fn owed_bytes_max(&self) -> u64 {
        self.store.geometry().size / OWED_SHARE
    }

    /// Whether `blocks` are dead as a whole, and each has a place.
    fn is_all_dead(&self, blocks: Extent<Addr>) -> bool {
        let dead: u64 = self.state.ledger.dead().within(blocks).map(|(dead, _)| dead.len).sum();
        dead == blocks.len && blocks.pieces(BLOCK_BYTES).all(|block| self.lies_somewhere(block))
    }

    /// Whether the content of `block`, dead or not, has a place.
    fn lies_somewhere(&self, block: Extent<Addr>) -> bool {
        self.store.first(Content::Visible, block).is_some()
    }

    /// Makes the dead blocks within `extent`, which is about to be written, leave their places.
    pub(in crate::volume) fn leave_places(&mut self, extent: Extent<Addr>) {
        if self.store.same_place() {
            return;
        }
        let geometry = self.store.geometry();
        let dead = self.state.ledger.dead().within(extent);
        let dead: Vec<_> = dead.map(|(part, it)| (geometry.together(part), it.cause)).collect();
        for (whole, cause) in &dead {
            for block in whole.pieces(BLOCK_BYTES) {
                self.leave_place(block, *cause);
            }
        }
        for (whole, _) in dead {
            self.commits.left_seq = self.change(Change::Clear(whole));
        }
    }

    fn leave_place(&mut self, block: Extent<Addr>, cause: Cause) {
        if !self.state.ledger.dead().overlaps(block) || !self.lies_somewhere(block) {
            return;
        }
        let epoch = self.open_epoch();
        let left = self.store.mapped_mut().map(|it| it.leave(block, epoch));
        for place in left.unwrap_or_default() {
            self.change(Change::Owe(place, block.start, cause));
            self.commits.undurable.note_place(place);
        }
    }

    /// The addresses of `places`, each once: a block can be owed both in a slot and in the base, where the
    /// durable map may still show it.
    fn once_each(&self, places: &[Place], addresses: &[(Extent<Addr>, Cause)]) -> Vec<(Extent<Addr>, Cause)> {
        let (mut slots, mut died) = (ExtentMap::default(), Vec::new());
        for (place, (address, cause)) in places.iter().zip(addresses) {
            let run = Extent::between(address.start.0, address.end().min(self.store.geometry().size));
            if place.on == MediumId::Base {
                died.extend(slots.gaps(run).into_iter().map(|gap| (gap, *cause)));
            } else {
                slots.insert(run, ());
                died.push((run, *cause));
            }
        }
        died
    }

    /// Frees `places`: the journal says durably that nothing is owed there any more.
    pub(in crate::volume) fn owed_destroyed(&mut self, places: &[Place]) {
        let data = places.iter().filter(|it| it.on == MediumId::Data).map(|it| it.extent);
        let data: Vec<Extent<Pos>> = data.collect();
        if let Some(mapped) = self.store.mapped_mut().filter(|_| !data.is_empty()) {
            mapped.reclaim(&data);
        }
    }
}

impl Erasing {
    /// The erase task that destroys content owed by place, if some is ready.
    pub(in crate::volume) fn destroy_owed(&self, disk: &Disk) -> Option<EraseTask> {
        let mapped = disk.store.mapped()?;
        let owed = || disk.state.owed.iter();
        let is_ready = |place: Place| !disk.commits.undurable.has(place);
        if !owed().take(LOOKS_MAX).any(|(place, _)| is_ready(place)) {
            return None;
        }
        let run_bytes = disk.limits().run_bytes_max.next_multiple_of(BLOCK_BYTES);
        let ready = owed().take(RUNS_MAX).filter(|(place, _)| is_ready(*place));
        let residue = ready.flat_map(|(place, content)| {
            let pieces = place.extent.pieces(run_bytes).map(move |extent| Place { extent, ..place });
            let residue = pieces.flat_map(|piece| mapped.residue(piece));
            residue.map(move |it| (content, it))
        });
        let residue = residue.filter(|(_, it)| !disk.remaining.has_any(&it.at));
        let mut residue = residue.take(RUNS_MAX).peekable();
        // A version that is kept has a receipt of its own, and so has what is plain.
        let kind = |(content, it): &(&OwedContent, Residue)| (it.is_kept, content.is_plain);
        let (are_kept, are_plain) = residue.peek().map(kind).unwrap_or_default();
        let alike = residue.filter(|it| kind(it) == (are_kept, are_plain));
        let (mut places, mut addresses, mut sites) = (Vec::new(), Vec::new(), Vec::new());
        for (content, it) in disk.limits().batch(alike, |(_, it)| it.part.extent.len) {
            places.push(it.part);
            addresses.push((content.address(it.part.extent), content.cause));
            sites.extend(it.at);
        }
        // Several parts may be destroyed at one place.
        sites.dedup();
        let zeros = match (are_plain, self.capabilities.punch) {
            (false, _) => Zeros::AfterPasses,
            (true, true) => {
                let at: Vec<_> = sites.iter().map(|place: &Place| place.extent).collect();
                Zeros::Holes(Site::data(disk.limits().holes(&at)))
            }
            (true, false) => Zeros::Always,
        };
        let (runs, causes) = joined(disk.once_each(&places, &addresses)).into_iter().unzip();
        let method = Destroy {
            at_once: disk.limits().at_once(sites.iter().map(|place| place.extent)),
            medium: Site::medium_of(&sites),
            residue: sites.into_iter().map(Site::Place).collect(),
            zeros,
            forget: Vec::new(),
            checkpoint: true,
            record: true,
        };
        let kind = Kind::DestroyOwed { places, causes, are_kept, are_plain };
        Some(disk.erase_task(kind, runs, Method::Destroy(method), Priority::Due))
            .filter(|task| !task.runs.is_empty())
    }
}

impl Requests {
    /// Whether a write of `extent` can get another place than the dead content there.
    pub(in crate::volume) fn can_leave(&self, disk: &Disk, erasing: &Erasing, extent: Extent<Addr>) -> bool {
        let geometry = disk.store.geometry();
        let whole = geometry.together(extent);
        let is_at_rest = || !erasing.is_at(whole) && !self.running.reads(whole);
        let has_room = || {
            let entries = usize::try_from(2 * whole.len.div_ceil(BLOCK_BYTES)).unwrap_or(usize::MAX);
            let bytes = disk.state.owed.bytes() + whole.len;
            let has_room = bytes <= disk.owed_bytes_max() && disk.has_room_for(entries);
            has_room && disk.store.mapped().is_some_and(|it| it.can_leave(whole))
        };
        let mut owing = disk.state.ledger.within(extent).map(|(part, _)| geometry.together(part));
        // Where the dead leave at once, they leave without a write, or waits for something itself.
        !disk.dead_leave() && is_at_rest() && has_room() && owing.all(|part| disk.is_all_dead(part))
    }
}

impl Volume {
    /// Makes dead blocks leave their places, where only what has left can be destroyed. A close waits for that: no byte of the
    /// ledger may have died in an epoch that is not the open one. Uses also the entries that are reserved for erase
    /// tasks: nothing else would make room in a ledger that is full of dead addresses.
    pub(in crate::volume) fn leave_dead(&mut self, out: &mut Vec<Command>) {
        if !self.disk.dead_leave() || self.disk.config.read_only {
            return;
        }
        let dead = self.disk.state.ledger.dead().iter();
        let blocks = dead.flat_map(|(run, it)| run.pieces(BLOCK_BYTES).map(|block| (block, it.cause)));
        let mut left = ExtentMap::<Addr, ()>::default();
        let mut wants_checkpoint = false;
        for (block, cause) in blocks.take(LEAVES_MAX).collect::<Vec<_>>() {
            if self.requests.running.reads(block) || self.erasing.is_at(block) || self.disk.must_wait(block) {
                continue;
            }
            if !self.disk.store.is_durable(block) {
                wants_checkpoint = true;
                continue;
            }
            let has_room =
                self.disk.entries() + ENTRIES_NEEDED <= self.disk.commits.journal.shape().entries_max();
            if !has_room
                || !self.disk.store.mapped().is_some_and(|it| it.can_leave(block))
                || !self.disk.has_map(block, out)
                || !self.disk.has_map_space(block, out)
            {
                break;
            }
            self.disk.leave_place(block, cause);
            left.insert(block, ());
        }
        for (run, ()) in left.iter() {
            self.disk.commits.left_seq = self.disk.change(Change::Clear(run));
            self.requests.waiting.obligations_ended(run);
        }
        if !left.is_empty() {
            self.on_requests(out, |requests, others| requests.settle(others));
        }
        if wants_checkpoint && self.disk.checkpoints.is_empty() {
            self.disk.want_checkpoint(Waiter::Nothing, out);
        }
    }
}

/// These deaths by address, neighbours of one cause as one: what is destroyed at once needs no receipt for each block.
fn joined(mut died: Vec<(Extent<Addr>, Cause)>) -> Vec<(Extent<Addr>, Cause)> {
    died.sort_by_key(|(run, _)| run.start);
    let mut joined: Vec<(Extent<Addr>, Cause)> = Vec::new();
    for (run, cause) in died {
        match joined.last_mut() {
            Some((last, its)) if last.end() == run.start.0 && *its == cause => last.len += run.len,
            _ => joined.push((run, cause)),
        }
    }
    joined
}
