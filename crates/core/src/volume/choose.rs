//! The choice of the next erase task, and of the bytes that it works on.

use super::Volume;
use super::bytes::slice;
use super::task::{EraseTask, Kind, Site};
use crate::buf::Buf;
use crate::erase::{Destroy, Method, Priority, RUNS_MAX, Rewrite, Zeros};
use crate::journal::{Change, SLOT_BYTES, Slot};
use crate::ledger::{Cause, Due, Obligation};
use crate::media::MediumId;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::request::Op;
use crate::units::{Addr, Extent, Millis};

/// Erase tasks begin, although guests are at work, when what is to be destroyed takes so many quarters of its room.
const FILLING_QUARTERS: u64 = 3;
/// Most obligations to look at in search of one that is ready.
const LOOKS_MAX: usize = 64;
/// The shred that a write waits for also takes dead bytes near that write, within a window of this many
/// runs, so that the writes behind it need not wait as well.
const DEMAND_RUNS: u64 = 2;

impl Volume {
    pub(super) fn choose(&mut self) -> Option<EraseTask> {
        if !self.may_owe_receipts() {
            return self.punch_task().or_else(|| self.job_task());
        }
        let (crowded, pauses) = (!self.has_room(), self.pause().is_some());
        if crowded {
            self.coarsen();
        }
        if (!crowded || pauses)
            && let Some(task) = self.demanded()
        {
            return Some(task);
        }
        if self.tasks_rest() || pauses {
            // A background task would give way to the waiting write at once, again and again.
            return if self.is_task_awaited() { None } else { self.punch_task().or_else(|| self.job_task()) };
        }
        let urgent = crowded || self.requests.wants_room();
        if !urgent && !self.may_go_on() {
            return self.punch_task().or_else(|| self.job_task());
        }
        let task = self.due();
        if task.is_none() && self.commits.undurable.is_empty() && !self.has_unasked() && self.has_seen_all() {
            self.schedule.all_due = false;
        }
        let task = task.map(|mut task| {
            if urgent {
                task.hurry();
            }
            task
        });
        task.or_else(|| self.punch_task()).or_else(|| self.job_task())
    }

    /// The next of the tasks that are due. Residue owed by place and by address take turns; when only the
    /// ledger fills, places come first, since no write waits for the task over them.
    fn due(&mut self) -> Option<EraseTask> {
        let by_place = self.erasing.takes_turns() || !self.is_due();
        let first = if by_place { self.destroy_owed() } else { None };
        first.or_else(|| self.swept()).or_else(|| self.destroy_owed())
    }

    /// Whether work that has been pending since `since` is due.
    pub(super) fn is_due_since(&self, since: Millis) -> bool {
        self.schedule.is_due_since(since, &self.config)
    }

    /// Whether work that has been pending since `since` is past its deadline.
    pub(super) fn is_overdue_since(&self, since: Millis) -> bool {
        self.schedule.is_overdue_since(since, &self.config)
    }

    /// Whether tasks may go on although nobody waits for them.
    pub(super) fn is_due(&mut self) -> bool {
        if self.schedule.halting {
            return false;
        }
        // A forget waits for what the journal owes of the versions that it has found.
        if self.is_due_since(self.schedule.now) || self.has_forgets() {
            return true;
        }
        if !self.is_overdue() {
            return false;
        }
        // The oldest obligation may be completed by now.
        self.state.ledger.review(self.schedule.now);
        self.is_overdue()
    }

    /// Whether tasks may go on although nobody waits for them, because they are due, or the ledger fills:
    /// a task that began only when the ledger is full would keep writes waiting for room.
    pub(super) fn may_go_on(&mut self) -> bool {
        self.is_due() || !self.schedule.halting && self.is_filling()
    }

    pub(super) fn is_filling(&self) -> bool {
        let entries = self.state.ledger.queued_len() + self.state.owed.len();
        let fills = |owed: u64, max: u64| owed > max / 4 * FILLING_QUARTERS;
        fills(entries as u64, self.commits.journal.shape().entries_max() as u64)
            || fills(self.state.owed.bytes(), self.owed_bytes_max())
    }

    fn is_overdue(&self) -> bool {
        self.oldest().is_some_and(|since| self.is_overdue_since(since))
    }

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

    /// Whether a write waits for an erase task. Where dead blocks leave their places at once, none does.
    pub(super) fn is_task_awaited(&self) -> bool {
        !self.dead_leave() && self.requests.waiting.demands().next().is_some()
    }

    /// The task that the first write waits for.
    fn demanded(&mut self) -> Option<EraseTask> {
        let extent = self.requests.waiting.demands().next()?.request.extent;
        let window = self.config.run_bytes_max * DEMAND_RUNS;
        let from = extent.start.0 / window * window;
        let to = extent.end().next_multiple_of(window).min(self.store.geometry().size);
        let dead = self.state.ledger.dead().within(extent).next();
        let Some((first, it)) = dead.map(|(first, it)| (first, *it)) else { return self.shred_then_write() };
        if !self.is_ready(first, &it) {
            return None;
        }
        let runs = self.gather(Extent::between(from, to), it.due);
        self.shred(runs, it.due, Priority::Urgent)
    }

    /// Destroys the suspicious bytes below all writes that wait for that, as many as the staging slots can
    /// take, so that those writes share the syncs.
    fn shred_then_write(&mut self) -> Option<EraseTask> {
        let slots = self.commits.journal.shape().slots;
        let mut left = u64::from(slots);
        let (mut runs, mut contents, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
        for waiting in self.requests.waiting.demands().take(slots as usize) {
            let request = &waiting.request;
            let owed = || self.state.ledger.within(request.extent);
            let Op::Write(data) = &request.op else { continue };
            if !self.needs(waiting).is_empty() {
                // Meanwhile the watcher wants to see the content that is about to go.
                unseen.push(waiting.id);
            } else if !owed().any(|(run, it)| it.is_dead() || self.is_busy(run)) {
                let taken = self.pieces_for_slots(owed().map(|(run, _)| run), &mut left);
                contents.extend(taken.iter().map(|run| slice(data, request.extent, *run).to_vec().into()));
                runs.extend(taken);
            }
        }
        unseen.into_iter().for_each(|id| self.requests.waiting.retry(id));
        self.keep(runs, Some(contents))
    }

    /// The next task in the sweep over the disk, with as many obligations of the same kind as share its
    /// syncs. The sweep goes on where the last task ended.
    fn swept(&mut self) -> Option<EraseTask> {
        let (first, it) = self.first_ready()?;
        let rest = Extent::between(first.start.0, self.store.geometry().size);
        let task = match it.due {
            Due::Shred { .. } | Due::Free { .. } => {
                self.shred(self.gather(rest, it.due), it.due, Priority::Due)
            }
            Due::ConservativeOverwrite => {
                let conservative = self.state.ledger.conservative().within(rest).take(RUNS_MAX);
                let ready = conservative.filter(|(extent, it)| self.is_ready(*extent, it));
                let erasable = ready.flat_map(|(extent, _)| self.erasing.remaining.gaps(extent));
                let mut left = u64::from(self.commits.journal.shape().slots);
                self.keep(self.pieces_for_slots(erasable, &mut left), None)
            }
            Due::Suspicious => None,
        };
        self.erasing.sweep =
            task.as_ref().and_then(|task| task.runs.last()).map_or(self.erasing.sweep, |run| run.end());
        task
    }

    /// The first obligation, from where the last task ended, that a task may begin for. An obligation that
    /// is not ready waits for the end of something that is under way; so one call looks at a few, and the
    /// next call at others.
    fn first_ready(&mut self) -> Option<(Extent<Addr>, Obligation)> {
        let mut left = LOOKS_MAX;
        for from in [self.erasing.sweep, 0] {
            // A block that can only die as a whole is taken from its start.
            let from = self.store.geometry().together(Extent::new(from, 1)).start.0;
            let rest = Extent::between(from.min(self.store.geometry().size), self.store.geometry().size);
            let mut looked = self.state.ledger.queued_within(rest).take(left);
            let mut end = from;
            let found = looked.find(|(extent, it)| {
                (end, left) = (extent.end(), left - 1);
                self.is_ready(*extent, it)
            });
            let found = found.map(|(extent, it)| (extent, *it));
            drop(looked);
            if found.is_some() || left == 0 {
                self.erasing.sweep = end;
                return found;
            }
        }
        None
    }

    /// Whether the task that `it` calls for may begin: the obligation is durable, and no request uses bytes
    /// that the task would change.
    fn is_ready(&self, extent: Extent<Addr>, it: &Obligation) -> bool {
        let durable = mutant::is(Mutant::TaskBeforeCommit) || !self.commits.undurable.overlaps(extent);
        let busy = if it.is_dead() { self.requests.running.reads(extent) } else { self.is_busy(extent) };
        it.is_queued() && durable && !busy && !self.erasing.remaining.covers(extent)
    }

    /// The runs within `extent` that are ready for `due`, as many as one task takes.
    fn gather(&self, extent: Extent<Addr>, due: Due) -> Vec<Extent<Addr>> {
        let dead = self.state.ledger.dead().within(extent).take(RUNS_MAX);
        let ready = dead.filter(|(extent, it)| it.due == due && self.is_ready(*extent, it));
        let erasable = ready.flat_map(|(extent, _)| self.erasing.remaining.gaps(extent));
        let free = erasable.flat_map(|part| self.erasing.overwriting.gaps(part));
        let mut runs = self.limits().runs(free);
        runs.retain(|run| !self.must_wait(*run));
        runs
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

    fn shred(&self, runs: Vec<Extent<Addr>>, due: Due, priority: Priority) -> Option<EraseTask> {
        let fixed = self.store.same_place();
        // A block that is freed as a whole needs no zeros; a part of one does.
        let is_whole = |run: &Extent<Addr>| *run == self.store.geometry().together(*run);
        let is_plain = due.is_plain();
        let zeros = if (fixed || is_plain) && self.erasing.capabilities.punch && !due.keeps_space() {
            Zeros::Holes(Site::runs(&self.limits().holes(&runs)))
        } else if fixed || is_plain || !runs.iter().all(is_whole) {
            Zeros::Always
        } else {
            Zeros::AfterPasses
        };
        let method = Destroy {
            residue: Site::runs(&runs),
            at_once: self.limits().at_once(runs.iter().copied()),
            zeros,
            medium: Site::all_of(MediumId::Data),
            forget: if fixed { Vec::new() } else { Site::runs(&runs) },
            checkpoint: !fixed,
            record: true,
        };
        // Where dead blocks leave their places at once, they are destroyed there.
        let is_any = !runs.is_empty() && !self.dead_leave();
        let kind = if is_plain { Kind::Free } else { Kind::Shred };
        is_any.then(|| self.erase_task(kind, runs, Method::Destroy(method), priority))
    }

    fn keep(&self, runs: Vec<Extent<Addr>>, contents: Option<Vec<Buf>>) -> Option<EraseTask> {
        if runs.is_empty() || runs.iter().any(|run| self.is_busy(*run)) {
            return None;
        }
        let suspicious = contents.is_none();
        let slot_bytes = runs.iter().map(|run| run.len.next_multiple_of(SLOT_BYTES)).sum();
        let slots = Extent::new(self.commits.journal.shape().slot(Slot(0)).0, slot_bytes);
        let method = Rewrite {
            sites: Site::runs(&runs),
            contents,
            medium: Site::all_of(MediumId::Data),
            staging: Site::Place(Place { on: MediumId::Journal, extent: slots }),
            staging_medium: Site::all_of(MediumId::Journal),
        };
        Some(self.erase_task(Kind::Rewrite { suspicious }, runs, Method::Rewrite(method), Priority::Urgent))
    }
}
