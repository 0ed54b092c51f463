//! Which act is next, and what it consists of.

use super::Volume;
use super::act::{Act, Kind, Step};
use super::bytes::{slice, windows};
use crate::journal::{Change, SLOT_BYTES};
use crate::ledger::{Cause, Due, Obligation};
use crate::mutant::{self, Mutant};
use crate::policy::Pattern;
use crate::request::{Buf, Op};
use crate::units::{Addr, Extent, Millis};

/// Most runs in one act.
const RUNS_MAX: usize = 4096;
/// Most obligations that are looked at for one that is ready.
const LOOKS_MAX: usize = 64;
/// A write that waits for its bytes takes this many runs with it, so that those
/// behind it need not wait as well.
const DEMAND_RUNS: u64 = 2;

impl Volume {
    pub(super) fn choose(&mut self) -> Option<Act> {
        if !self.may_owe_receipts() {
            return self.space_act().or_else(|| self.tidy_act());
        }
        let crowded = !self.has_room();
        if crowded {
            self.coarsen();
        } else if let Some(act) = self.demanded() {
            return Some(act);
        }
        let urgent = crowded || self.wants_room();
        if !urgent && !self.is_due() {
            return self.space_act().or_else(|| self.tidy_act());
        }
        let act = self.due();
        if act.is_none() && self.undurable.is_empty() && !self.has_unasked() && self.has_seen_all() {
            self.all_due = false;
        }
        let act = act.map(|mut act| {
            act.urgent |= urgent;
            act
        });
        act.or_else(|| self.space_act()).or_else(|| self.tidy_act())
    }

    /// The next act of those that are due: by address and by place in turn.
    fn due(&mut self) -> Option<Act> {
        self.repays_next = !self.repays_next;
        let first = if self.repays_next { self.repay() } else { None };
        first.or_else(|| self.swept()).or_else(|| self.repay())
    }

    /// Whether it is time for what has been pending since `since`.
    pub(super) fn is_due_since(&self, since: Millis) -> bool {
        let idle = self.now.since(self.last_request) >= self.config.idle_after_ms;
        !self.halting && (self.all_due || idle || self.is_overdue_since(since))
    }

    /// Whether what has been pending since `since` waits for nothing any more.
    pub(super) fn is_overdue_since(&self, since: Millis) -> bool {
        self.now.since(since) >= self.config.deadline_ms
    }

    /// Whether acts may go on although nobody waits for them.
    pub(super) fn is_due(&mut self) -> bool {
        if self.halting {
            return false;
        }
        if self.is_due_since(self.now) {
            return true;
        }
        if !self.is_overdue() {
            return false;
        }
        // What was that old may have been met.
        self.state.ledger.review(self.now);
        self.is_overdue()
    }

    fn is_overdue(&self) -> bool {
        self.oldest().is_some_and(|since| self.is_overdue_since(since))
    }

    /// Makes one of suspicious extents that lie close together, by suspecting
    /// what is between them: that costs overwrites later, and room in the
    /// ledger never runs out.
    fn coarsen(&mut self) {
        let limit = self.journal.shape().entries_max() / 2;
        let mut gap_bytes_max = self.config.run_bytes_max;
        while self.state.ledger.suspicious().len() > limit {
            let all: Vec<_> = self.state.ledger.iter().map(|(extent, it)| (extent, it.due)).collect();
            let mut joined: Option<Extent<Addr>> = None;
            for (extent, due) in all {
                let next = Some(extent).filter(|_| due == Due::Suspicious);
                match (joined, next) {
                    (Some(last), Some(next)) if next.start.0 - last.end() <= gap_bytes_max => {
                        let both = Extent::between(last.start.0, next.end());
                        self.change(Change::Oblige(both, Due::Suspicious, Cause::Scour));
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

    /// The act that the first write waits for.
    fn demanded(&mut self) -> Option<Act> {
        let extent = self.waiting.demands().next()?.request.extent;
        let window = self.config.run_bytes_max * DEMAND_RUNS;
        let from = extent.start.0 / window * window;
        let to = extent.end().next_multiple_of(window).min(self.store.geometry().size);
        let dead = self.state.ledger.dead().within(extent).next();
        let Some((first, it)) = dead.map(|(first, it)| (first, *it)) else { return self.shred_then_write() };
        if !self.is_ready(first, &it) {
            return None;
        }
        let runs = self.gather(Extent::between(from, to), it.due, self.config.batch_bytes_max);
        self.shred(runs, it.due, true)
    }

    /// Destroys what is suspicious before all writes that wait for that, as far
    /// as the slots go, so that they share the syncs.
    fn shred_then_write(&mut self) -> Option<Act> {
        let slots = self.journal.shape().slots;
        let mut left = u64::from(slots);
        let (mut runs, mut contents, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
        for waiting in self.waiting.demands().take(slots as usize) {
            let request = &waiting.request;
            let owed = || self.state.ledger.within(request.extent);
            let Op::Write(data) = &request.op else { continue };
            if !waiting.seen && !self.needs(request).is_empty() {
                // The watcher wants to see by now what is about to go.
                unseen.push(waiting.id);
            } else if !owed().any(|(run, it)| it.is_dead() || self.is_busy(run)) {
                let taken = self.pieces_for_slots(owed(), &mut left);
                contents.extend(taken.iter().map(|run| slice(data, request.extent, *run).to_vec().into()));
                runs.extend(taken);
            }
        }
        unseen.into_iter().for_each(|id| self.waiting.retry(id));
        self.keep(runs, Some(contents))
    }

    /// The first act that is due from where the last one ended, with as much of
    /// its kind as shares its syncs.
    fn swept(&mut self) -> Option<Act> {
        let (first, it) = self.first_ready()?;
        let rest = Extent::between(first.start.0, self.store.geometry().size);
        let act = match it.due {
            Due::Shred { .. } => {
                self.shred(self.gather(rest, it.due, self.config.batch_bytes_max), it.due, false)
            }
            Due::Scour => {
                let scour = self.state.ledger.scour().within(rest).take(RUNS_MAX);
                let ready = scour.filter(|(extent, it)| self.is_ready(*extent, it));
                let mut left = u64::from(self.journal.shape().slots);
                self.keep(self.pieces_for_slots(ready, &mut left), None)
            }
            Due::Suspicious => None,
        };
        self.sweep = act.as_ref().and_then(|act| act.runs.last()).map_or(self.sweep, |run| run.end());
        act
    }

    /// The first obligation, from where the last act ended, that an act may begin
    /// for. What is not ready waits for the end of something that is under way;
    /// so a look at some is enough, and at the others another time.
    fn first_ready(&mut self) -> Option<(Extent<Addr>, Obligation)> {
        let mut left = LOOKS_MAX;
        for from in [self.sweep, 0] {
            // Not from within a block that can only die as a whole.
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
                self.sweep = end;
                return found;
            }
        }
        None
    }

    /// Whether the act that `it` calls for may begin: its evidence is durable,
    /// and nobody is reading what would change under him.
    fn is_ready(&self, extent: Extent<Addr>, it: &Obligation) -> bool {
        let durable = mutant::is(Mutant::ActBeforeCommit) || !self.undurable.overlaps(extent);
        let busy = if it.is_dead() { self.running.reads(extent) } else { self.is_busy(extent) };
        it.is_queued() && durable && !busy
    }

    /// Runs within `extent` for which `due` is ready, of `bytes_max` in all.
    fn gather(&self, extent: Extent<Addr>, due: Due, bytes_max: u64) -> Vec<Extent<Addr>> {
        let mut left = bytes_max;
        let dead = self.state.ledger.dead().within(extent).take(RUNS_MAX);
        let ready = dead.filter(|(extent, it)| it.due == due && self.is_ready(*extent, it));
        let runs = ready.flat_map(|(extent, _)| windows(extent, self.config.run_bytes_max));
        let take = runs.take(RUNS_MAX).take_while(|run| {
            let fits = left > 0;
            left = left.saturating_sub(run.len);
            fits
        });
        take.collect()
    }

    /// As many of these extents, cut to pieces, as the slots that are left can
    /// hold.
    fn pieces_for_slots<'a>(
        &self,
        extents: impl Iterator<Item = (Extent<Addr>, &'a Obligation)>,
        left: &mut u64,
    ) -> Vec<Extent<Addr>> {
        let run_bytes = self.config.run_bytes_max.next_multiple_of(SLOT_BYTES);
        let mut runs = Vec::new();
        for (extent, _) in extents {
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

    fn shred(&self, runs: Vec<Extent<Addr>>, due: Due, urgent: bool) -> Option<Act> {
        let no_hole = due == (Due::Shred { no_hole: true });
        let policy = &self.config.policy;
        let mut steps = Vec::new();
        self.pass_steps(&mut steps, Step::Fill, &Step::Sync);
        let fixed = self.store.geometry().overwrites_in_place;
        // A block that is only freed needs no zeros; the part of one does.
        let is_whole = |run: &Extent<Addr>| *run == self.store.geometry().together(*run);
        if !policy.leaves_zeros() && (fixed || !policy.passes().is_empty() || !runs.iter().all(is_whole)) {
            let hole = fixed && self.capabilities.punch && !no_hole;
            let zeros = if hole { Step::Punch } else { Step::Fill(Pattern::zeros()) };
            steps.extend([zeros, Step::Sync]);
        }
        if mutant::is(Mutant::ReceiptBeforeSync) {
            let last_sync = steps.iter().rposition(|step| *step == Step::Sync);
            steps.remove(last_sync.expect("each pass has a sync"));
        }
        if !fixed {
            steps.push(Step::Void);
            if !mutant::is(Mutant::MeetUnsealed) {
                steps.push(Step::Seal);
            }
        }
        steps.push(Step::Met);
        Act::new(Kind::Shred, runs, Vec::new(), steps, urgent)
    }

    fn keep(&self, runs: Vec<Extent<Addr>>, contents: Option<Vec<Buf>>) -> Option<Act> {
        if runs.iter().any(|run| self.is_busy(*run)) {
            return None;
        }
        let suspicious = contents.is_none();
        let mut steps = Vec::new();
        if suspicious {
            steps.push(Step::Read);
        }
        if !mutant::is(Mutant::KeepNothing) {
            steps.extend([Step::Log, Step::Held]);
        }
        self.pass_steps(&mut steps, Step::Fill, &Step::Sync);
        steps.extend([Step::Restore, Step::Sync, Step::Released]);
        if !mutant::is(Mutant::KeepSlots) {
            self.pass_steps(&mut steps, Step::FillSlots, &Step::SyncJournal);
        }
        steps.push(Step::Met);
        Act::new(Kind::Keep { suspicious }, runs, contents.unwrap_or_default(), steps, true)
    }

    pub(super) fn pass_steps(&self, steps: &mut Vec<Step>, pass: fn(Pattern) -> Step, sync: &Step) {
        let passes = self.config.policy.passes();
        for (n, pattern) in passes.iter().enumerate() {
            steps.push(pass(pattern.clone()));
            if n + 1 == passes.len() || !mutant::is(Mutant::FoldPasses) {
                steps.push(sync.clone());
            }
        }
    }
}
