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
use super::sealing::Waiter;
use super::{Command, Done, Purpose, Receipt, Volume, io::IoOp};
use crate::extents::ExtentMap;
use crate::journal::{Change, Crc, SLOT_BYTES, Slot};
use crate::ledger::{Cause, Due, Obligation};
use crate::media::MediumId;
use crate::medium::{MediumError, MediumErrorKind};
use crate::mutant::{self, Mutant};
use crate::place::{Place, Places};
use crate::policy::{Pattern, Seed};
use crate::request::{Buf, Op, Request};
use crate::store::{Chore, JobEnd, Store};
use crate::units::{Addr, Extent};

/// Runs over which a pass is under way at once.
const FILLS_MAX: usize = 4;
/// The same while a guest is at work: it shares the medium, and its processors.
const FILLS_AT_WORK_MAX: usize = 1;
/// Longest hole that is made at once: a host file system keeps others out of
/// the file meanwhile.
const HOLE_BYTES_MAX: u64 = 2 << 20;
/// Blocks of content that moves, read and written at once.
const MOVES_AT_ONCE: usize = 64;

/// An act under way.
#[derive(Debug)]
pub(super) struct Act {
    kind: Kind,
    pub(super) runs: Vec<Extent<Addr>>,
    /// The same bytes, to find out whether some are among them.
    area: ExtentMap<Addr, ()>,
    /// The same bytes as holes, with neighbours as one.
    spans: Vec<Extent<Addr>>,
    /// Content to put back, a buffer a run.
    contents: Vec<Buf>,
    /// What is left to do, the next one last.
    steps: Vec<Step>,
    /// What is owed by place: first `fills` places that get passes, then others.
    places: Vec<Place>,
    fills: usize,
    /// Why what was owed by place died, for each run.
    causes: Vec<Cause>,
    /// The place that comes next in the present step.
    next: usize,
    /// Acts of input or output of the present step that have not ended.
    under_way: usize,
    /// The commit that the act waits for.
    recording: Option<u64>,
    /// It does not give way to requests.
    pub(super) urgent: bool,
    /// What it tidies up, if it does.
    chore: Option<Chore>,
    /// There was no space for it: it is given up.
    is_futile: bool,
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
    /// Tidy up where nobody's content lies.
    Tidy,
    /// Destroy what is owed by place; the runs are the addresses that it was.
    Repay,
}

/// One step of an act.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
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
    /// Forget where each run was: it reads as zeros.
    Void,
    /// Make durable where content is.
    Seal,
    /// Write the content to its new place.
    Copy,
    /// Note that content is there now.
    Rebind,
    /// Cut the medium off.
    Shrink,
    /// Read a part of the map.
    Search,
}

impl Act {
    /// Whether `request` has to wait for its end.
    pub(super) fn excludes(&self, request: &Request) -> bool {
        let concerns = match self.kind {
            Kind::Shred | Kind::GiveBack => {
                matches!(request.op, Op::Write(_) | Op::Zero { no_hole: true, .. })
            }
            Kind::Keep { .. } | Kind::Tidy => request.op != Op::Flush,
            Kind::Repay => false,
        };
        concerns && self.area.overlaps(request.extent)
    }

    /// Whether it overwrites content of `extent` that will be put back.
    pub(super) fn hides(&self, extent: Extent<Addr>) -> bool {
        matches!(self.kind, Kind::Keep { .. }) && self.area.overlaps(extent)
    }

    /// Whether it is about bytes of `extent` where they lie now.
    pub(super) fn is_at(&self, extent: Extent<Addr>) -> bool {
        self.kind != Kind::Repay && self.area.overlaps(extent)
    }

    /// Whether it is given up when a write waits for another one.
    fn gives_way(&self) -> bool {
        let must_end = matches!(self.chore, Some(Chore::Move { .. } | Chore::Shrink(_)));
        !matches!(self.kind, Kind::Keep { .. }) && !self.urgent && !must_end
    }

    fn is_at_rest(&self) -> bool {
        self.under_way == 0 && self.recording.is_none()
    }

    /// Whether one more place of the present step may begin.
    fn may_go_on(&self, fills_max: usize) -> bool {
        let Some(step) = self.steps.last() else { return false };
        let max = if step.is_fill() { fills_max } else { 1 };
        self.recording.is_none() && !self.is_futile && self.under_way < max && self.next < self.count(step)
    }

    /// A place is done; the step is, when it was the last.
    fn place_done(&mut self) {
        if self.steps.last().is_some_and(|step| self.next == self.count(step)) && self.is_at_rest() {
            self.steps.pop();
            self.next = 0;
        }
    }
}

impl Volume {
    pub(super) fn drive_act(&mut self, out: &mut Vec<Command>) {
        if self.config.read_only {
            return;
        }
        let hindered =
            self.waiting.demands().next().is_some() && self.act.as_ref().is_some_and(Act::gives_way);
        let futile = self.act.as_ref().is_some_and(|act| act.is_futile);
        if hindered || futile || self.act.as_ref().is_some_and(Act::gives_back) && !self.may_give_back() {
            if !self.act.as_ref().is_some_and(Act::is_at_rest) {
                return;
            }
            if let Some(chore) = self.end_act().and_then(Act::into_chore) {
                self.store.background_done(&chore, JobEnd::GivenUp);
            }
            self.settle(out);
        }
        if self.act.is_none() {
            self.act = self.choose();
            self.settle(out);
        }
        self.step(out);
    }

    /// The act under way is over, or is given up: what it kept from beginning is
    /// tried again.
    fn end_act(&mut self) -> Option<Act> {
        let act = self.act.take()?;
        self.waiting.act_ended(&act.runs);
        Some(act)
    }

    /// Begins as much of the present step as may be under way at once.
    fn step(&mut self, out: &mut Vec<Command>) {
        let due =
            self.is_due() || self.act.as_ref().is_some_and(|act| act.gives_back() || act.chore.is_some());
        let at_work = self.is_at_work();
        while let Some(act) = &self.act {
            let fills_max = if at_work && !act.urgent { FILLS_AT_WORK_MAX } else { FILLS_MAX };
            let may = act.may_go_on(fills_max) && (act.urgent || due);
            let (true, Some(step)) = (may, act.steps.last().cloned()) else { return };
            let place = act.next;
            let needed = act.runs_at(&step, place).to_vec();
            if !needed.into_iter().all(|run| self.has_map(run, out)) {
                return;
            }
            if let Some(act) = &mut self.act {
                act.next += 1;
            }
            self.begin_step(step, place, out);
        }
    }

    fn begin_step(&mut self, step: Step, place: usize, out: &mut Vec<Command>) {
        match step {
            Step::Held => return self.record_held(),
            Step::Released => return self.record(&[Change::Release]),
            Step::Met => return self.record_met(),
            Step::Void | Step::Rebind => return self.change_map(&step, place),
            _ => {}
        }
        if let Some(act) = &mut self.act {
            act.under_way += 1;
        }
        if step == Step::Seal {
            return self.seal(Waiter::Act, out);
        }
        let (at, op) = self.step_io(step, place);
        self.io(Purpose::Act, at, op, out);
    }

    fn change_map(&mut self, step: &Step, place: usize) {
        let Some(act) = &mut self.act else { return };
        match (&act.chore, step) {
            (Some(Chore::Move { contents, to }), Step::Rebind) => {
                self.store.rebind(contents[place], to[place])
            }
            _ => self.store.unmap(act.runs[place]),
        }
        act.place_done();
    }

    fn step_io(&mut self, step: Step, index: usize) -> (Places, IoOp) {
        let seed = self.seed();
        let act = self.act.as_ref().expect("a step is of an act");
        let at = act.at(&step, index, &*self.store);
        let slots = |len| Place {
            on: MediumId::Journal,
            extent: Extent::new(self.journal.shape().slot(Slot(0)).0, len),
        };
        match step {
            Step::Read | Step::Search => (at, IoOp::Read),
            Step::Fill(pattern) => {
                self.state.counters.passed_bytes += at.bytes();
                (at, IoOp::Fill { pattern, seed })
            }
            Step::Punch => (at, IoOp::Punch),
            Step::Shrink => (at, IoOp::Shrink),
            Step::Restore | Step::Copy => {
                let data = act.contents[index].clone();
                (at, IoOp::Write { data, durable: false })
            }
            Step::Log => {
                let data = act.slot_bytes();
                (slots(data.len() as u64).into(), IoOp::Write { data: data.into(), durable: true })
            }
            Step::FillSlots(pattern) => {
                (slots(act.slot_bytes().len() as u64).into(), IoOp::Fill { pattern, seed })
            }
            Step::SyncJournal => (Place::all_of(MediumId::Journal).into(), IoOp::Sync),
            Step::Sync => (Place::all_of(MediumId::Data).into(), IoOp::Sync),
            Step::Held | Step::Released | Step::Met | Step::Void | Step::Rebind | Step::Seal => {
                unreachable!("these are no input or output")
            }
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
        let (kind, runs, in_place) = (act.kind, act.runs.clone(), self.store.geometry().overwrites_in_place);
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        let mut changes = self.changes_met();
        match kind {
            Kind::Repay => self.state.counters.destroyed_bytes += bytes,
            Kind::Shred => {
                runs.iter().for_each(|run| self.uncover(*run, kind));
                self.state.counters.destroyed_bytes += bytes;
                let dead = |it: &Obligation| it.due == Due::Shred { no_hole: false };
                for run in runs {
                    // With no_hole the zeros are data, and stay.
                    if in_place && self.state.ledger.within(run).all(|(_, it)| dead(it)) {
                        self.destroyed(run);
                    }
                }
            }
            Kind::GiveBack | Kind::Tidy => unreachable!("it meets no obligation"),
            Kind::Keep { .. } => {
                runs.iter().for_each(|run| self.uncover(*run, kind));
                self.state.counters.scoured_bytes += bytes;
                changes.push(Change::Clean);
            }
        }
        self.record(&changes);
        if mutant::is(Mutant::ReceiptBeforeCommit) {
            self.receipts_durable();
        }
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
        if matches!(act.steps.last(), Some(Step::Read | Step::Search)) {
            act.contents.push(buf);
        }
        act.place_done();
        self.end_unrecorded();
    }

    /// Where content is is durable.
    pub(super) fn act_sealed(&mut self) {
        let Some(act) = &mut self.act else { return };
        act.under_way -= 1;
        act.place_done();
        self.end_unrecorded();
    }

    /// Ends an act that is over, if nobody has to be told.
    fn end_unrecorded(&mut self) {
        if self.act.as_ref().is_none_or(|act| !act.steps.is_empty()) {
            return;
        }
        let Some(act) = self.end_act() else { return };
        let read = act.contents.first().map_or(&[][..], |read| read);
        match act.chore {
            None => self.gave_back(&act.runs),
            Some(chore) => self.store.background_done(&chore, JobEnd::Done(read)),
        }
    }

    /// Tidying up is no reason to stop when there is no space for it, or when
    /// what is to move cannot be read.
    pub(super) fn act_failed(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let is_harmless = |act: &Act| {
            let reads = matches!(act.steps.last(), Some(Step::Read | Step::Search));
            act.chore.is_some() && (reads || error.kind == MediumErrorKind::NoSpace)
        };
        match &mut self.act {
            Some(act) if is_harmless(act) => {
                act.under_way -= 1;
                act.is_futile = true;
                self.put_off_chores();
            }
            _ => self.latch(&format!("destroying: {error}"), out),
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
            && let Some(act) = self.end_act()
        {
            self.repaid(&act.places);
            self.receipts_durable();
        }
        self.give_receipts(out);
    }

    /// The changes that meet the obligations of the act, neighbours as one.
    fn changes_met(&self) -> Vec<Change> {
        let act = self.act.as_ref().expect("a step is of an act");
        let passes = self.config.policy.passes().len();
        let done = match act.kind {
            Kind::Keep { .. } => Done::Scoured,
            _ if passes == 0 && !self.store.geometry().overwrites_in_place => Done::Freed,
            _ => Done::Shredded,
        };
        let passes = u16::try_from(passes).unwrap_or(u16::MAX);
        if act.kind == Kind::Repay {
            let receipt = |(run, cause): (&Extent<Addr>, &Cause)| {
                Change::Receipt(Receipt { act: done, cause: *cause, passes, extent: *run })
            };
            let paid = act.places.iter().map(|place| Change::Paid(*place));
            return act.runs.iter().zip(&act.causes).map(receipt).chain(paid).collect();
        }
        let mut changes: Vec<_> = act.area.iter().map(|(run, ())| Change::Meet(run, done, passes)).collect();
        if act.kind == (Kind::Keep { suspicious: true }) {
            changes
                .extend(act.area.iter().map(|(run, ())| Change::Oblige(run, Due::Suspicious, Cause::Scour)));
        }
        changes
    }

    /// The medium failed. Kept content may be in the slots only: those bytes
    /// stay closed.
    pub(super) fn abandon_act(&mut self) {
        self.act.take_if(|act| !matches!(act.kind, Kind::Keep { .. }));
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
    pub(super) fn new(
        kind: Kind,
        runs: Vec<Extent<Addr>>,
        contents: Vec<Buf>,
        mut steps: Vec<Step>,
        urgent: bool,
    ) -> Option<Self> {
        steps.reverse();
        let mut area = ExtentMap::default();
        runs.iter().for_each(|run| area.insert(*run, ()));
        let spans = area.iter().flat_map(|(span, ())| windows(span, HOLE_BYTES_MAX)).collect();
        let act = Self {
            kind,
            runs,
            area,
            spans,
            contents,
            steps,
            places: Vec::new(),
            causes: Vec::new(),
            fills: 0,
            next: 0,
            under_way: 0,
            recording: None,
            urgent,
            chore: None,
            is_futile: false,
        };
        (!act.runs.is_empty() || kind == Kind::Tidy).then_some(act)
    }

    /// Does `chore`; what is destroyed gets `passes`.
    pub(super) fn tidy(chore: Chore, passes: Vec<Step>) -> Option<Self> {
        let (runs, steps) = match &chore {
            Chore::Destroy(_) => (Vec::new(), passes),
            Chore::Punch(_) => (Vec::new(), vec![Step::Punch]),
            Chore::Shrink(_) => (Vec::new(), vec![Step::Shrink]),
            Chore::Search(_) => (Vec::new(), vec![Step::Search]),
            Chore::Move { contents, .. } => {
                (contents.clone(), vec![Step::Read, Step::Copy, Step::Sync, Step::Rebind, Step::Seal])
            }
        };
        let act = Self::new(Kind::Tidy, runs, Vec::new(), steps, false)?;
        Some(Self { chore: Some(chore), ..act })
    }

    /// Destroys what is owed at `places`, those in slots first; it was at the addresses of
    /// `died`, and died for these causes.
    pub(super) fn repay(
        died: Vec<(Extent<Addr>, Cause)>,
        places: Vec<Place>,
        steps: Vec<Step>,
    ) -> Option<Self> {
        let (runs, causes) = died.into_iter().unzip();
        let act = Self::new(Kind::Repay, runs, Vec::new(), steps, false)?;
        let fills = places.partition_point(|place| place.on == MediumId::Data);
        Some(Self { places, fills, causes, ..act })
    }

    /// Gives back the space of `runs`.
    pub(super) fn give_back(runs: Vec<Extent<Addr>>) -> Option<Self> {
        Self::new(Kind::GiveBack, runs, Vec::new(), vec![Step::Punch], false)
    }

    /// Whether content moves by it that `is_busy`.
    pub(super) fn moves_any(&self, is_busy: impl Fn(Extent<Addr>) -> bool) -> bool {
        matches!(self.chore, Some(Chore::Move { .. })) && self.runs.iter().any(|run| is_busy(*run))
    }

    /// What it tidies up, given up.
    pub(super) fn into_chore(self) -> Option<Chore> {
        self.chore
    }

    /// Whether nothing is destroyed by it.
    pub(super) fn gives_back(&self) -> bool {
        self.kind == Kind::GiveBack
    }

    /// At how many places a step is done. What is done once, for all runs, has
    /// one place.
    fn count(&self, step: &Step) -> usize {
        match (&self.chore, step) {
            (Some(Chore::Destroy(slots)), Step::Fill(_)) | (Some(Chore::Punch(slots)), Step::Punch) => {
                slots.len()
            }
            (Some(Chore::Move { .. }), Step::Read | Step::Copy) => self.runs.len().div_ceil(MOVES_AT_ONCE),
            (_, Step::Fill(_)) if self.kind == Kind::Repay => self.fills,
            (_, Step::Punch) => self.spans.len(),
            (_, Step::Read | Step::Fill(_) | Step::Restore | Step::Void | Step::Rebind) => self.runs.len(),
            _ => 1,
        }
    }

    /// The runs whose place has to be known for a step at one of its places.
    fn runs_at(&self, step: &Step, index: usize) -> &[Extent<Addr>] {
        let is_move = matches!(self.chore, Some(Chore::Move { .. }));
        match step {
            Step::Read if is_move => chunk(&self.runs, index),
            Step::Fill(_) if self.chore.is_some() || self.kind == Kind::Repay => &[],
            Step::Read | Step::Fill(_) | Step::Restore | Step::Void | Step::Rebind => {
                &self.runs[index..=index]
            }
            Step::Punch if self.chore.is_none() => &self.spans[index..=index],
            _ => &[],
        }
    }

    /// Where a step does its input or output at one of its places.
    fn at(&self, step: &Step, index: usize, store: &dyn Store) -> Places {
        let data = |extent: &Extent<_>| Place { on: MediumId::Data, extent: *extent };
        match (&self.chore, step) {
            (Some(Chore::Destroy(slots) | Chore::Punch(slots)), Step::Fill(_) | Step::Punch) => {
                data(&slots[index]).into()
            }
            (_, Step::Fill(_)) if self.kind == Kind::Repay => self.places[index].into(),
            (Some(Chore::Shrink(to)), Step::Shrink) => data(&Extent::new(to.0, 0)).into(),
            (Some(Chore::Search(part)), Step::Search) => Place { on: MediumId::Map, extent: *part }.into(),
            (Some(Chore::Move { to, .. }), Step::Copy) => chunk(to, index).iter().map(data).collect(),
            _ => match self.runs_at(step, index) {
                [] => Place::all_of(MediumId::Nowhere).into(),
                runs => runs.iter().flat_map(|run| store.locate(*run).iter().collect::<Vec<_>>()).collect(),
            },
        }
    }

    /// The pieces of content that go into the slots, in the order of those.
    fn slots(&self) -> impl Iterator<Item = (Extent<Addr>, &[u8])> {
        self.runs.iter().zip(&self.contents).flat_map(|(run, content)| {
            run.pieces(SLOT_BYTES).map(|piece| (piece, slice(content, *run, piece)))
        })
    }

    /// The bytes of all slots that the act takes.
    fn slot_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (_, content) in self.slots() {
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(SLOT_BYTES as usize), 0);
        }
        bytes
    }
}

/// What of `all` is moved with place number `index`.
fn chunk<T>(all: &[T], index: usize) -> &[T] {
    let from = index * MOVES_AT_ONCE;
    &all[from..all.len().min(from + MOVES_AT_ONCE)]
}
