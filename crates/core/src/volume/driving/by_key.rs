//! The choice of the next erase task where content dies with its keys: blocks that need a fresh key, then a purge of all that is gone or
//! owed, then what the purge has paid for.

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::erase::Priority;
use crate::owed::ledger::Obligation;
use crate::request::Op;
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Patches};
use crate::volume::requests::Requests;
use crate::volume::requests::waiting::Waiting;
use crate::volume::watching::Watching;
use std::collections::BTreeSet;

/// The blocks of one task that puts blocks under fresh keys, by their numbers.
type Blocks = BTreeSet<u64>;

impl Disk {
    /// The blocks that the obligation `it` of `run` has put under fresh keys. A block that is gone as a whole needs no fresh key.
    fn to_restage(&self, run: Extent<Addr>, it: &Obligation) -> Vec<Extent<Addr>> {
        let geometry = self.store.geometry();
        match it.is_dead() {
            true if it.due.is_plain() => Vec::new(),
            true => geometry.edges(run).filter(|edge| !self.is_gone(*edge)).collect(),
            false => geometry.together(run).pieces(BLOCK_BYTES).collect(),
        }
    }

    fn addresses(&self, blocks: Blocks) -> Vec<Extent<Addr>> {
        let size = self.store.geometry().size;
        let whole = |block: u64| Extent::between(block * BLOCK_BYTES, ((block + 1) * BLOCK_BYTES).min(size));
        blocks.into_iter().map(whole).collect()
    }

    fn slots(&self) -> usize {
        self.commits.journal.shape().slots as usize
    }
}

impl Requests {
    /// Whether `block` may get a fresh key now: what is owed there is durable, and no request is concerned with it.
    fn may_restage(&self, disk: &Disk, block: Extent<Addr>) -> bool {
        !disk.commits.undurable.overlaps(block)
            && !disk.overwriting.under_way.overlaps(block)
            && !self.is_busy(block)
    }

    /// Adds the blocks of `run`, which has the obligation `it`, that may get fresh keys now. Returns whether that was one at least.
    fn take_blocks(&self, disk: &Disk, (run, it): (Extent<Addr>, &Obligation), blocks: &mut Blocks) -> bool {
        self.take_ready(disk, disk.to_restage(run, it).into_iter(), blocks)
    }

    /// Adds those of `found` that may get fresh keys now, as many as there is room for. Returns whether that was one at least.
    fn take_ready(
        &self,
        disk: &Disk,
        found: impl Iterator<Item = Extent<Addr>>,
        blocks: &mut Blocks,
    ) -> bool {
        let before = blocks.len();
        for block in found {
            let has_room =
                blocks.len() < disk.slots() && disk.store.keyed().is_some_and(|it| it.has_room(block));
            if !has_room {
                break;
            }
            if self.may_restage(disk, block) {
                blocks.insert(block.start.0 / BLOCK_BYTES);
            }
        }
        blocks.len() > before
    }

    /// The task that puts blocks under fresh keys for the writes that wait for that, with what these write.
    fn restage_then_write(
        &mut self,
        disk: &mut Disk,
        erasing: &Erasing,
        watching: &Watching,
    ) -> Option<EraseTask> {
        let (mut blocks, mut patches, mut unseen) = (Blocks::new(), Patches::new(), Vec::new());
        for waiting in self.waiting.demands().take(disk.slots()) {
            let request = &waiting.request;
            let Op::Write(data) = &request.op else { continue };
            if !watching.needs(waiting).is_empty() {
                // Meanwhile the watcher wants to see the content that is about to go.
                unseen.push(waiting.id);
                continue;
            }
            let mut takes = false;
            for (run, it) in disk.state.ledger.within(request.extent) {
                takes |= self.take_blocks(disk, (run, it), &mut blocks);
            }
            for run in erasing.kept_from_overwriting(disk, request.extent) {
                let whole = disk.store.geometry().together(run);
                takes |= self.take_ready(disk, whole.pieces(BLOCK_BYTES), &mut blocks);
            }
            if takes {
                patches.push((request.extent, data.clone()));
            }
        }
        unseen.into_iter().for_each(|id| self.waiting.retry(id));
        (!blocks.is_empty()).then(|| disk.restage(disk.addresses(blocks), patches, erasing.holes_unknown()))
    }

    /// The task that puts blocks under fresh keys of which a part is dead, or below which something may be.
    fn restage_due(&self, disk: &mut Disk, holes_unknown: bool) -> Option<EraseTask> {
        let mut blocks = Blocks::new();
        let whole = Extent::new(0, disk.store.geometry().size);
        for entry in disk.state.ledger.queued_within(whole) {
            if blocks.len() == disk.slots() {
                break;
            }
            self.take_blocks(disk, entry, &mut blocks);
        }
        (!blocks.is_empty()).then(|| disk.restage(disk.addresses(blocks), Patches::new(), holes_unknown))
    }

    /// The dead bytes that a purge may end now: all that is left of their blocks, durably dead, and read by no request. A block is taken
    /// as a whole or not at all: one of which a part is dead and stays ciphertext has no sector of zeros beside that.
    fn gone(&self, disk: &Disk) -> ExtentMap<Addr, ()> {
        let (mut gone, mut left, geometry) = (ExtentMap::default(), Vec::new(), disk.store.geometry());
        let sensitive = disk.state.ledger.dead().iter().filter(|(_, it)| !it.due.is_plain());
        for (run, _) in sensitive {
            if disk.commits.undurable.overlaps(run) || self.running.reads(run) {
                left.extend(geometry.edges(run));
                continue;
            }
            for edge in
                geometry.edges(run).filter(|edge| disk.is_gone(*edge) && self.may_restage(disk, *edge))
            {
                gone.insert(edge.overlap(run).expect("an edge of a run has a part of it"), ());
            }
            let to =
                if run.end() == geometry.size { run.end() } else { run.end() / BLOCK_BYTES * BLOCK_BYTES };
            let from = run.start.0.next_multiple_of(BLOCK_BYTES);
            if from >= to {
                continue;
            }
            let inner = Extent::between(from, to);
            for part in disk.overwriting.under_way.gaps(inner) {
                assert!(part == geometry.together(part), "what is written over gone blocks is whole blocks");
                gone.insert(part, ());
            }
        }
        left.into_iter().for_each(|edge| gone.remove(edge));
        gone
    }

    /// The first plain dead bytes that are ready to be given back, as many as one task takes.
    fn plain_task(&self, disk: &Disk, erasing: &Erasing) -> Option<EraseTask> {
        let mut plain = disk.state.ledger.dead().iter().filter(|(_, it)| it.due.is_plain());
        let (first, it) = plain.find(|(run, it)| self.is_ready(disk, *run, it))?;
        let rest = Extent::between(first.start.0, disk.store.geometry().size);
        let runs = self.gather(disk, rest, it.due);
        (!runs.is_empty()).then(|| erasing.zeroed(disk, runs, it.due, Priority::Due))
    }
}

impl Erasing {
    /// The task that the first write waits for. If it waits for a purge, that begins.
    pub(super) fn demanded_by_key(
        &mut self,
        disk: &mut Disk,
        requests: &mut Requests,
        watching: &Watching,
    ) -> Option<EraseTask> {
        requests.waiting.demands().next()?;
        let task = requests.restage_then_write(disk, self, watching);
        if task.is_some() || disk.is_purging() {
            return task;
        }
        let mut paid = self.paid(disk);
        if let Some(task) = &mut paid {
            task.steps.hurry();
            return paid;
        }
        // What has just died is written over as soon as the journal knows of that.
        let dies = |it: &Waiting| disk.commits.undurable.overlaps(disk.with_gone(it.request.extent));
        if !requests.waiting.demands().all(dies) {
            let gone = requests.gone(disk);
            disk.begin_purge(gone);
        }
        None
    }

    /// The next task that is due. If it is a purge, that begins.
    pub(super) fn due_by_key(&mut self, disk: &mut Disk, requests: &Requests) -> Option<EraseTask> {
        if disk.is_purging() {
            // The purge may lack space, and plain content that died may give some back.
            return self.jobs.rest(disk.schedule.now).then(|| requests.plain_task(disk, self)).flatten();
        }
        let task = self.paid(disk).or_else(|| requests.plain_task(disk, self));
        let task = task.or_else(|| requests.restage_due(disk, self.holes_unknown()));
        if task.is_none() {
            let gone = requests.gone(disk);
            disk.begin_purge(gone);
        }
        task
    }
}
