//! The choice of the next erase task, and of the bytes that it works on.

use crate::base::buf::Buf;
use crate::base::units::{Addr, Extent};
use crate::erase::{Method, Priority, RUNS_MAX, Rewrite};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::owed::journal::{Change, SLOT_BYTES, Slot};
use crate::owed::ledger::{Cause, Due, Obligation};
use crate::request::Op;
use crate::volume::bytes::slice;
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind};
use crate::volume::requests::Requests;
use crate::volume::watching::Watching;

/// Most obligations to look at in search of one that is ready.
const LOOKS_MAX: usize = 64;
/// The shred that a write waits for also takes dead bytes near that write, within a window of this many
/// runs, so that the writes behind it need not wait as well.
const DEMAND_RUNS: u64 = 2;

impl Disk {
    /// Joins suspicious extents that lie close together, by suspecting the bytes between them. So the
    /// ledger always has room; the price is more overwrites later.
    fn coarsen(&mut self) {
        let limit = self.commits.journal.shape().entries_max() / 2;
        let mut gap_bytes_max = self.config.run_bytes_max;
        while self.state.ledger.suspicious().len() > limit {
            let all: Vec<_> = self.state.ledger.all().map(|(extent, it)| (extent, it.due)).collect();
            let mut joined: Option<Extent<Addr>> = None;
            for (extent, due) in all {
                let next = Some(extent).filter(|_| due == Due::Suspicious);
                match (joined, next) {
                    (Some(last), Some(next)) if next.start.0 - last.end() <= gap_bytes_max => {
                        let both = Extent::between(last.start.0, next.end());
                        self.change(Change::Oblige(both, Due::Suspicious, Cause::ConservativeOverwrite));
                        joined = Some(both);
                    }
                    _ => joined = next,
                }
            }
            gap_bytes_max = gap_bytes_max.saturating_mul(2);
            if gap_bytes_max > self.store.geometry().size.saturating_mul(2) {
                return;
            }
        }
    }

    /// Pieces of these extents, as many as fit into the `left` staging slots.
    fn pieces_for_slots(
        &self,
        extents: impl Iterator<Item = Extent<Addr>>,
        left: &mut u64,
    ) -> Vec<Extent<Addr>> {
        let run_bytes = self.limits().run_bytes_max.next_multiple_of(SLOT_BYTES);
        let mut runs = Vec::new();
        for extent in extents {
            for run in extent.pieces(run_bytes.min((*left).max(1) * SLOT_BYTES)) {
                let need = run.len.div_ceil(SLOT_BYTES);
                if need > *left {
                    return runs;
                }
                *left -= need;
                runs.push(run);
            }
        }
        runs
    }
}

impl Requests {
    /// Destroys the suspicious bytes below all writes that wait for that, as many as the staging slots can
    /// take, so that those writes share the syncs.
    fn shred_then_write(&mut self, disk: &Disk, watching: &Watching) -> Option<EraseTask> {
        let slots = disk.commits.journal.shape().slots;
        let mut left = u64::from(slots);
        let (mut runs, mut contents, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
        for waiting in self.waiting.demands().take(slots as usize) {
            let request = &waiting.request;
            let owed = || disk.state.ledger.within(request.extent);
            let Op::Write(data) = &request.op else { continue };
            if !watching.needs(waiting).is_empty() {
                // Meanwhile the watcher wants to see the content that is about to go.
                unseen.push(waiting.id);
            } else if !owed().any(|(run, it)| it.is_dead() || self.is_busy(run)) {
                let taken = disk.pieces_for_slots(owed().map(|(run, _)| run), &mut left);
                contents.extend(taken.iter().map(|run| slice(data, request.extent, *run).to_vec().into()));
                runs.extend(taken);
            }
        }
        unseen.into_iter().for_each(|id| self.waiting.retry(id));
        self.keep(disk, runs, Some(contents))
    }

    /// Whether the task that `it` calls for may begin: the obligation is durable, and no request uses bytes
    /// that the task would change.
    pub(super) fn is_ready(&self, disk: &Disk, extent: Extent<Addr>, it: &Obligation) -> bool {
        let durable = mutant::is(Mutant::TaskBeforeCommit) || !disk.commits.undurable.overlaps(extent);
        let busy = if it.is_dead() { self.running.reads(extent) } else { self.is_busy(extent) };
        it.is_queued() && durable && !busy && !disk.remaining.covers(extent)
    }

    /// The runs within `extent` that are ready for `due`, as many as one task takes.
    pub(super) fn gather(&self, disk: &Disk, extent: Extent<Addr>, due: Due) -> Vec<Extent<Addr>> {
        let dead = disk.state.ledger.dead().within(extent).take(RUNS_MAX);
        let ready = dead.filter(|(extent, it)| it.due == due && self.is_ready(disk, *extent, it));
        let erasable = ready.flat_map(|(extent, _)| disk.remaining.runs.gaps(extent));
        let free = erasable.flat_map(|part| disk.overwriting.under_way.gaps(part));
        let mut runs = disk.limits().runs(free);
        runs.retain(|run| !disk.must_wait(*run));
        runs
    }

    fn keep(&self, disk: &Disk, runs: Vec<Extent<Addr>>, contents: Option<Vec<Buf>>) -> Option<EraseTask> {
        if runs.is_empty() || runs.iter().any(|run| self.is_busy(*run)) {
            return None;
        }
        let suspicious = contents.is_none();
        let slot_bytes: u64 = runs.iter().map(|run| run.len.next_multiple_of(SLOT_BYTES)).sum();
        let shape = disk.commits.journal.shape();
        assert!(slot_bytes <= u64::from(shape.slots) * SLOT_BYTES, "what a task stages fits into the slots");
        let slots = Extent::new(shape.slot(Slot(0)).0, slot_bytes);
        let method = Rewrite {
            sites: Site::runs(&runs),
            contents,
            medium: Site::all_of(MediumId::Data),
            staging: Site::Place(Place { on: MediumId::Journal, extent: slots }),
            staging_medium: Site::all_of(MediumId::Journal),
        };
        Some(disk.erase_task(Kind::Rewrite { suspicious }, runs, Method::Rewrite(method), Priority::Urgent))
    }
}

impl Erasing {
    pub(in crate::volume) fn choose(
        &mut self,
        disk: &mut Disk,
        requests: &mut Requests,
        watching: &Watching,
    ) -> Option<EraseTask> {
        assert!(self.task.is_none(), "one erase task at a time");
        if !disk.may_owe_receipts() {
            return self.punch_task(disk).or_else(|| self.job_task(disk, requests));
        }
        let (crowded, pauses) = (!disk.has_room(), disk.pause().is_some());
        if crowded {
            disk.coarsen();
        }
        if (!crowded || pauses)
            && let Some(task) = self.demanded(disk, requests, watching)
        {
            return Some(task);
        }
        if disk.tasks_rest() || pauses {
            // A background task would give way to the waiting write at once, again and again.
            return if requests.is_task_awaited(disk) {
                None
            } else {
                self.punch_task(disk).or_else(|| self.job_task(disk, requests))
            };
        }
        let urgent = crowded || requests.wants_room();
        if !urgent && !self.may_go_on(disk) {
            return self.punch_task(disk).or_else(|| self.job_task(disk, requests));
        }
        let task = self.due(disk, requests);
        if task.is_none()
            && disk.commits.undurable.is_empty()
            && !self.has_unasked(disk)
            && watching.has_seen_all()
        {
            disk.schedule.all_due = false;
        }
        let task = task.map(|mut task| {
            if urgent {
                task.steps.hurry();
            }
            task
        });
        task.or_else(|| self.punch_task(disk)).or_else(|| self.job_task(disk, requests))
    }

    /// The next of the tasks that are due. Residue owed by place and by address take turns; when only the
    /// ledger fills, places come first, since no write waits for the task over them.
    fn due(&mut self, disk: &mut Disk, requests: &Requests) -> Option<EraseTask> {
        if disk.dies_by_key() {
            return self.due_by_key(disk, requests);
        }
        let by_place = self.takes_turns() || !self.is_due(disk);
        let is_busy = |extent| requests.is_busy(extent);
        let first = if by_place { self.destroy_owed(disk, is_busy) } else { None };
        first.or_else(|| self.swept(disk, requests)).or_else(|| self.destroy_owed(disk, is_busy))
    }

    /// The task that the first write waits for.
    fn demanded(
        &mut self,
        disk: &mut Disk,
        requests: &mut Requests,
        watching: &Watching,
    ) -> Option<EraseTask> {
        if disk.dies_by_key() {
            return self.demanded_by_key(disk, requests, watching);
        }
        let extent = requests.waiting.demands().next()?.request.extent;
        if disk.leaves_older() && disk.commits.undurable.overlaps(extent) {
            // The write begins once the journal knows what it goes over.
            return None;
        }
        let window = disk.config.run_bytes_max * DEMAND_RUNS;
        let from = extent.start.0 / window * window;
        let to = extent.end().next_multiple_of(window).min(disk.store.geometry().size);
        let dead = disk.state.ledger.dead().within(extent).next();
        let Some((first, it)) = dead.map(|(first, it)| (first, *it)) else {
            return requests.shred_then_write(disk, watching);
        };
        if !requests.is_ready(disk, first, &it) {
            return None;
        }
        let runs = requests.gather(disk, Extent::between(from, to), it.due);
        self.shred(disk, runs, it.due, Priority::Urgent)
    }

    /// The next task in the sweep over the disk, with as many obligations of the same kind as share its
    /// syncs. The sweep goes on where the last task ended.
    fn swept(&mut self, disk: &Disk, requests: &Requests) -> Option<EraseTask> {
        let (first, it) = self.first_ready(disk, requests)?;
        let rest = Extent::between(first.start.0, disk.store.geometry().size);
        let task = match it.due {
            Due::Shred { .. } | Due::Free { .. } => {
                self.shred(disk, requests.gather(disk, rest, it.due), it.due, Priority::Due)
            }
            Due::ConservativeOverwrite => {
                let conservative = disk.state.ledger.conservative().within(rest).take(RUNS_MAX);
                let ready = conservative.filter(|(extent, it)| requests.is_ready(disk, *extent, it));
                let erasable = ready.flat_map(|(extent, _)| disk.remaining.runs.gaps(extent));
                let mut left = u64::from(disk.commits.journal.shape().slots);
                requests.keep(disk, disk.pieces_for_slots(erasable, &mut left), None)
            }
            Due::Suspicious => None,
        };
        self.sweep = task.as_ref().and_then(|task| task.runs.last()).map_or(self.sweep, |run| run.end());
        task
    }

    /// The first obligation, from where the last task ended, that a task may begin for. An obligation that
    /// is not ready waits for the end of something that is under way; so one call looks at a few, and the
    /// next call at others.
    fn first_ready(&mut self, disk: &Disk, requests: &Requests) -> Option<(Extent<Addr>, Obligation)> {
        let mut left = LOOKS_MAX;
        assert!(self.sweep <= disk.store.geometry().size, "the sweep stays on the disk");
        for from in [self.sweep, 0] {
            // A block that can only die as a whole is taken from its start.
            let from = disk.store.geometry().together(Extent::new(from, 1)).start.0;
            let rest = Extent::between(from.min(disk.store.geometry().size), disk.store.geometry().size);
            let mut looked = disk.state.ledger.queued_within(rest).take(left);
            let mut end = from;
            let found = looked.find(|(extent, it)| {
                (end, left) = (extent.end(), left - 1);
                requests.is_ready(disk, *extent, it)
            });
            let found = found.map(|(extent, it)| (extent, *it));
            drop(looked);
            if found.is_some() || left == 0 {
                self.sweep = end;
                return found;
            }
        }
        None
    }
}
