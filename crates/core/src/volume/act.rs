//! The acts: how bytes die, step by step.
//!
//! An act is a list of steps over some runs of the disk. One step is under way
//! at a time: it ends when it is done for every run, and only then the next
//! begins. A pass is under way over several runs at once, because a medium that
//! is given one write after the other rests in between.
//!
//! An act can be given up before its last step: what was not finished is still
//! owed, and more passes than due do no harm.

use super::bytes::{slice, windows};
use super::{Command, Done, Purpose, Receipt, Target, Volume, io::IoOp};
use crate::extents::ExtentMap;
use crate::journal::{Change, Crc, SLOT_BYTES, Slot};
use crate::ledger::{Cause, Due, Obligation};
use crate::mutant::{self, Mutant};
use crate::policy::{Pattern, Seed};
use crate::request::{Buf, Op, Request};
use crate::store::Store;
use crate::units::{Addr, Extent, Millis};

/// Most runs in one act.
const RUNS_MAX: usize = 4096;
/// A write that waits for its bytes takes this many runs with it, so that those
/// behind it need not wait as well.
const DEMAND_RUNS: u64 = 2;
/// Runs over which a pass is under way at once.
const FILLS_MAX: usize = 4;
/// The same while a guest is at work: it shares the medium, and its processors.
const FILLS_AT_WORK_MAX: usize = 1;
/// Longest hole that is made at once: a host file system keeps others out of
/// the file meanwhile.
const HOLE_BYTES_MAX: u64 = 2 << 20;

/// An act under way.
#[derive(Debug)]
pub(super) struct Act {
    kind: Kind,
    runs: Vec<Extent<Addr>>,
    /// The same bytes as holes, with neighbours as one.
    spans: Vec<Extent<Addr>>,
    /// Content to put back, a buffer a run.
    contents: Vec<Buf>,
    /// What is left to do, the next one last.
    steps: Vec<Step>,
    /// The place that comes next in the present step.
    next: usize,
    /// Acts of input or output of the present step that have not ended.
    under_way: usize,
    /// The commit that the act waits for.
    recording: Option<u64>,
    /// It does not give way to requests.
    urgent: bool,
}

/// The kinds of act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Destroy the content too.
    Shred,
    /// Destroy what lies below, and put content there: what was read, after
    /// which the bytes are suspicious, or what is about to be written.
    Keep { suspicious: bool },
    /// Give back the space of what was destroyed.
    GiveBack,
}

/// One step of an act.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// Read the content of each run.
    Read,
    /// Copy all content to the slots.
    Log,
    /// Overwrite each run.
    Fill(Pattern),
    /// Give the space of each run back.
    Punch,
    /// Put the content of each run back.
    Restore,
    /// Make all this durable.
    Sync,
    /// Overwrite the slots.
    FillSlots(Pattern),
    /// Make that durable.
    SyncJournal,
    /// Note in the journal that the content is in the slots.
    Held,
    /// Note that it is back in its place.
    Released,
    /// Note that the obligation is met.
    Met,
}

impl Act {
    /// Whether `request` has to wait for its end.
    pub(super) fn excludes(&self, request: &Request) -> bool {
        let concerns = match self.kind {
            Kind::Shred | Kind::GiveBack => {
                matches!(request.op, Op::Write(_) | Op::Zero { no_hole: true, .. })
            }
            Kind::Keep { .. } => request.op != Op::Flush,
        };
        concerns && self.runs.iter().any(|run| run.overlaps(request.extent))
    }

    /// Whether it overwrites content of `extent` that will be put back.
    pub(super) fn hides(&self, extent: Extent<Addr>) -> bool {
        matches!(self.kind, Kind::Keep { .. }) && self.runs.iter().any(|run| run.overlaps(extent))
    }

    /// Whether it is given up when a write waits for another one.
    fn gives_way(&self) -> bool {
        !matches!(self.kind, Kind::Keep { .. }) && !self.urgent
    }

    fn is_at_rest(&self) -> bool {
        self.under_way == 0 && self.recording.is_none()
    }

    /// Whether one more place of the present step may begin.
    fn may_go_on(&self, fills_max: usize) -> bool {
        let Some(step) = self.steps.last() else { return false };
        let max = if step.is_fill() { fills_max } else { 1 };
        self.recording.is_none() && self.under_way < max && self.next < self.places(step).len()
    }

    /// A place is done; the step is, when it was the last.
    fn place_done(&mut self) {
        if self.steps.last().is_some_and(|step| self.next == self.places(step).len()) && self.is_at_rest() {
            self.steps.pop();
            self.next = 0;
        }
    }
}

impl<S: Store> Volume<S> {
    pub(super) fn drive_act(&mut self, out: &mut Vec<Command>) {
        if self.config.read_only {
            return;
        }
        let hindered = self.first_demand().is_some() && self.act.as_ref().is_some_and(Act::gives_way);
        if hindered || self.act.as_ref().is_some_and(Act::gives_back) && !self.may_give_back() {
            if !self.act.as_ref().is_some_and(Act::is_at_rest) {
                return;
            }
            self.act = None;
            self.settle(out);
        }
        if self.act.is_none() {
            self.act = self.choose();
        }
        self.step(out);
    }

    fn choose(&mut self) -> Option<Act> {
        let crowded = !self.has_room();
        if crowded {
            self.coarsen();
        } else if let Some(act) = self.first_demand().and_then(|request| self.demanded(request)) {
            return Some(act);
        }
        let urgent = crowded || self.wants_room();
        if !urgent && !self.is_due() {
            return self.space_act();
        }
        let act = self.swept(self.sweep).or_else(|| self.swept(0));
        if let Some(act) = &act {
            self.sweep = act.runs.last().map_or(0, |run| run.end());
        } else if self.undurable.is_empty() && !self.has_unasked() && self.has_seen_all() {
            self.all_due = false;
        }
        act.map(|act| Act { urgent: act.urgent || urgent, ..act }).or_else(|| self.space_act())
    }

    /// Whether it is time for what has been pending since `since`.
    pub(super) fn is_due_since(&self, since: Millis) -> bool {
        let idle = self.now.since(self.last_request) >= self.config.idle_after_ms;
        !self.halting && (self.all_due || idle || self.now.since(since) >= self.config.deadline_ms)
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
        // The hint may be older than what is left.
        let queued = self.state.ledger.iter().filter(|(_, it)| it.is_queued());
        self.oldest = queued.map(|(_, it)| it.since).min();
        self.is_overdue()
    }

    fn is_overdue(&self) -> bool {
        self.oldest.is_some_and(|since| self.now.since(since) >= self.config.deadline_ms)
    }

    /// Makes one of suspicious extents that lie close together, by suspecting
    /// what is between them: that costs overwrites later, and room in the
    /// ledger never runs out.
    fn coarsen(&mut self) {
        let limit = self.journal.shape().entries_max() / 2;
        let mut gap_bytes_max = self.config.run_bytes_max;
        let suspicious = |it: &Obligation| it.due == Due::Suspicious;
        while self.state.ledger.iter().filter(|(_, it)| suspicious(it)).count() > limit {
            let all: Vec<_> = self.state.ledger.iter().map(|(extent, it)| (extent, *it)).collect();
            for pair in all.windows(2) {
                let gap = Extent::<Addr>::between(pair[0].0.end(), pair[1].0.start.0);
                if suspicious(&pair[0].1) && suspicious(&pair[1].1) && gap.len <= gap_bytes_max {
                    self.change(Change::Oblige(gap, Due::Suspicious, Cause::Scour));
                }
            }
            gap_bytes_max = gap_bytes_max.saturating_mul(2);
            if gap_bytes_max > self.store.size().saturating_mul(2) {
                return;
            }
        }
    }

    /// The act that `request`, a write, waits for.
    fn demanded(&self, request: &Request) -> Option<Act> {
        let window = self.config.run_bytes_max * DEMAND_RUNS;
        let from = request.extent.start.0 / window * window;
        let to = request.extent.end().next_multiple_of(window).min(self.store.size());
        let dead = self.state.ledger.within(request.extent).find(|(_, it)| it.is_dead());
        if let Some((_, it)) = dead {
            let runs = self.gather(Extent::between(from, to), it.due, self.config.batch_bytes_max);
            return self.shred(runs, it.due, true);
        }
        self.shred_then_write()
    }

    /// Destroys what is suspicious before all writes that wait for that, as far
    /// as the slots go, so that they share the syncs.
    fn shred_then_write(&self) -> Option<Act> {
        let mut left = u64::from(self.journal.shape().slots);
        let (mut runs, mut contents) = (Vec::new(), Vec::new());
        for request in self.demands() {
            let owed = || self.state.ledger.within(request.extent);
            let Op::Write(data) = &request.op else { continue };
            if owed().any(|(_, it)| it.is_dead()) || owed().any(|(run, _)| self.is_busy(run)) {
                continue;
            }
            let taken = self.pieces_for_slots(owed(), &mut left);
            contents.extend(taken.iter().map(|run| slice(data, request.extent, *run).to_vec()));
            runs.extend(taken);
        }
        self.keep(runs, Some(contents))
    }

    /// The first act that is due from `from` on, with as much of its kind as
    /// shares its syncs.
    fn swept(&self, from: u64) -> Option<Act> {
        let rest = Extent::between(from.min(self.store.size()), self.store.size());
        let mut ready = self.state.ledger.within(rest).filter(|(extent, it)| self.is_ready(*extent, it));
        let (first, it) = ready.next()?;
        match it.due {
            Due::Shred { .. } => {
                let rest = Extent::between(first.start.0, rest.end());
                self.shred(self.gather(rest, it.due, self.config.batch_bytes_max), it.due, false)
            }
            Due::Scour => {
                let scour = ready.filter(|(_, it)| it.due == Due::Scour);
                let mut left = u64::from(self.journal.shape().slots);
                self.keep(self.pieces_for_slots(std::iter::once((first, it)).chain(scour), &mut left), None)
            }
            Due::Suspicious => None,
        }
    }

    /// Whether the act that `it` calls for may begin: its evidence is durable,
    /// and nobody is reading what would change under him.
    fn is_ready(&self, extent: Extent<Addr>, it: &Obligation) -> bool {
        let durable = mutant::is(Mutant::ActBeforeCommit)
            || !self.undurable.iter().any(|(_, fresh)| fresh.overlaps(extent));
        let busy = if it.is_dead() { self.is_exposed(extent) } else { self.is_busy(extent) };
        it.is_queued() && durable && !busy
    }

    /// Runs within `extent` for which `due` is ready, of `bytes_max` in all.
    fn gather(&self, extent: Extent<Addr>, due: Due, bytes_max: u64) -> Vec<Extent<Addr>> {
        let mut left = bytes_max;
        let ready = self
            .state
            .ledger
            .within(extent)
            .filter(|(extent, it)| it.due == due && self.is_ready(*extent, it));
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
        let passes = self.config.policy.passes();
        let leaves_zeros = passes.last().is_some_and(Pattern::is_zeros);
        let mut steps = Vec::new();
        self.pass_steps(&mut steps, Step::Fill, &Step::Sync);
        if !leaves_zeros {
            let hole = self.capabilities.punch && !no_hole;
            let zeros = if hole { Step::Punch } else { Step::Fill(Pattern::zeros()) };
            steps.extend([zeros, Step::Sync]);
        }
        if mutant::is(Mutant::ReceiptBeforeSync) {
            let last_sync = steps.iter().rposition(|step| *step == Step::Sync);
            steps.remove(last_sync.expect("each pass has a sync"));
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

    fn pass_steps(&self, steps: &mut Vec<Step>, pass: fn(Pattern) -> Step, sync: &Step) {
        let passes = self.config.policy.passes();
        for (n, pattern) in passes.iter().enumerate() {
            steps.push(pass(pattern.clone()));
            if n + 1 == passes.len() || !mutant::is(Mutant::FoldPasses) {
                steps.push(sync.clone());
            }
        }
    }

    /// Begins as much of the present step as may be under way at once.
    fn step(&mut self, out: &mut Vec<Command>) {
        let due = self.is_due() || self.act.as_ref().is_some_and(Act::gives_back);
        let at_work = self.is_at_work();
        while let Some(act) = &mut self.act {
            let fills_max = if at_work && !act.urgent { FILLS_AT_WORK_MAX } else { FILLS_MAX };
            let may = act.may_go_on(fills_max) && (act.urgent || due);
            let (true, Some(step)) = (may, act.steps.last().cloned()) else { return };
            let place = act.next;
            act.next += 1;
            self.begin_step(step, place, out);
        }
    }

    fn begin_step(&mut self, step: Step, place: usize, out: &mut Vec<Command>) {
        match step {
            Step::Held => self.record_held(),
            Step::Released => self.record(&[Change::Release]),
            Step::Met => self.record_met(),
            step => {
                let (target, at, op) = self.step_io(step, place);
                if let Some(act) = &mut self.act {
                    act.under_way += 1;
                }
                self.io(Purpose::Act, target, at, op, out);
            }
        }
    }

    fn step_io(&mut self, step: Step, index: usize) -> (Target, u64, IoOp) {
        let seed = self.seed();
        let act = self.act.as_ref().expect("a step is of an act");
        let place = self.store.place(act.places(&step)[index]);
        let slots = self.journal.shape().slot(Slot(0)).0;
        match step {
            Step::Read => (Target::Data, place.start.0, IoOp::Read { len: place.len }),
            Step::Fill(pattern) => {
                self.state.counters.passed_bytes += place.len;
                (Target::Data, place.start.0, IoOp::Fill { len: place.len, pattern, seed })
            }
            Step::Punch => (Target::Data, place.start.0, IoOp::Punch { len: place.len }),
            Step::Restore => {
                let data = act.contents[index].clone();
                (Target::Data, place.start.0, IoOp::Write { data, durable: false })
            }
            Step::Log => {
                let data = act.slot_bytes();
                (Target::Journal, slots, IoOp::Write { data, durable: true })
            }
            Step::FillSlots(pattern) => {
                let len = act.slot_bytes().len() as u64;
                (Target::Journal, slots, IoOp::Fill { len, pattern, seed })
            }
            Step::SyncJournal => (Target::Journal, 0, IoOp::Sync),
            Step::Sync => (Target::Data, 0, IoOp::Sync),
            Step::Held | Step::Released | Step::Met => unreachable!("these are no input or output"),
        }
    }

    fn seed(&mut self) -> Seed {
        self.nonce += 1;
        Seed { entropy: self.entropy, nonce: self.nonce }
    }

    fn record_held(&mut self) {
        let act = self.act.as_ref().expect("a step is of an act");
        let held = act
            .slots()
            .enumerate()
            .map(|(n, (extent, content))| Change::Hold(Slot(n as u32), extent, Crc(crc32c::crc32c(content))));
        self.record(&held.collect::<Vec<_>>());
    }

    /// The obligations of the act's runs are met: invariant 4 was kept by the
    /// steps before.
    fn record_met(&mut self) {
        let act = self.act.as_ref().expect("a step is of an act");
        let (kind, runs) = (act.kind, act.runs.clone());
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        let mut changes: Vec<Change> = runs.iter().map(|run| met(kind, *run)).collect();
        runs.iter().for_each(|run| self.uncover(*run, kind));
        match kind {
            Kind::Shred => {
                self.state.counters.destroyed_bytes += bytes;
                let dead = |it: &Obligation| it.due == Due::Shred { no_hole: false };
                for run in runs {
                    // With no_hole the zeros are data, and stay.
                    if self.state.ledger.within(run).all(|(_, it)| dead(it)) {
                        self.destroyed(run);
                    }
                }
            }
            Kind::GiveBack => unreachable!("space that is given back was destroyed before"),
            Kind::Keep { .. } => {
                self.state.counters.scoured_bytes += bytes;
                changes.push(Change::Clean);
            }
        }
        self.state.counters.receipts += 1;
        self.record(&changes);
    }

    fn record(&mut self, changes: &[Change]) {
        let mut seq = 0;
        for change in changes {
            seq = self.change(*change);
        }
        if let Some(act) = &mut self.act {
            act.recording = Some(seq);
        }
    }

    pub(super) fn act_io_done(&mut self, buf: Buf) {
        let Some(act) = &mut self.act else { return };
        act.under_way -= 1;
        if act.steps.last() == Some(&Step::Read) {
            act.contents.push(buf);
        }
        act.place_done();
        if act.steps.is_empty()
            && let Some(act) = self.act.take()
        {
            self.gave_back(&act.runs);
        }
    }

    pub(super) fn act_committed(&mut self, seq: u64, out: &mut Vec<Command>) {
        let Some(act) = &mut self.act else { return };
        if act.recording.is_none_or(|waits| waits > seq) {
            return;
        }
        act.recording = None;
        act.place_done();
        if act.steps.is_empty()
            && let Some(act) = self.act.take()
        {
            out.push(Command::Receipt(self.receipt(act)));
        }
    }

    fn receipt(&self, act: Act) -> Receipt {
        let done = if matches!(act.kind, Kind::Keep { .. }) { Done::Scoured } else { Done::Shredded };
        Receipt { act: done, extents: act.runs, passes: self.config.policy.passes().len() }
    }

    /// The medium failed. Kept content may be in the slots only: those bytes
    /// stay closed.
    pub(super) fn abandon_act(&mut self) {
        self.act.take_if(|act| !matches!(act.kind, Kind::Keep { .. }));
    }
}

fn met(kind: Kind, run: Extent<Addr>) -> Change {
    match kind {
        Kind::Keep { suspicious: true } => Change::Oblige(run, Due::Suspicious, Cause::Scour),
        Kind::Keep { suspicious: false } | Kind::Shred | Kind::GiveBack => Change::Clear(run),
    }
}

impl Step {
    /// Whether it is under way at several places at once. What is read is kept
    /// in order, and holes in one file wait for one another anyway.
    fn is_fill(&self) -> bool {
        matches!(self, Self::Fill(_))
    }
}

impl Act {
    fn new(
        kind: Kind,
        runs: Vec<Extent<Addr>>,
        contents: Vec<Buf>,
        mut steps: Vec<Step>,
        urgent: bool,
    ) -> Option<Self> {
        steps.reverse();
        let mut spans = ExtentMap::default();
        runs.iter().for_each(|run| spans.insert(*run, ()));
        let spans = spans.iter().flat_map(|(span, ())| windows(span, HOLE_BYTES_MAX)).collect();
        let act = Self { kind, runs, spans, contents, steps, next: 0, under_way: 0, recording: None, urgent };
        (!act.runs.is_empty()).then_some(act)
    }

    /// Gives back the space of `runs`.
    pub(super) fn give_back(runs: Vec<Extent<Addr>>) -> Option<Self> {
        Self::new(Kind::GiveBack, runs, Vec::new(), vec![Step::Punch], false)
    }

    /// Whether nothing is destroyed by it.
    pub(super) fn gives_back(&self) -> bool {
        self.kind == Kind::GiveBack
    }

    /// Where a step is done. What is done once, for all runs, has one place.
    fn places(&self, step: &Step) -> &[Extent<Addr>] {
        match step {
            Step::Punch => &self.spans,
            Step::Read | Step::Fill(_) | Step::Restore => &self.runs,
            _ => &self.runs[..1],
        }
    }

    /// The pieces of content that go into the slots, in the order of those.
    fn slots(&self) -> impl Iterator<Item = (Extent<Addr>, &[u8])> {
        self.runs.iter().zip(&self.contents).flat_map(|(run, content)| {
            run.pieces(SLOT_BYTES).map(|piece| (piece, slice(content, *run, piece)))
        })
    }

    /// The bytes of all slots that the act takes.
    fn slot_bytes(&self) -> Buf {
        let mut bytes = Buf::new();
        for (_, content) in self.slots() {
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(SLOT_BYTES as usize), 0);
        }
        bytes
    }
}
