//! The erase task under way: what it is for, which requests it excludes, and what the volume does
//! at its points.
//!
//! How bytes are destroyed, in which steps, is known to [`crate::erase`] alone. Here a step meets the
//! store, the journal, and the requests.

mod failing;

use super::bytes::slice;
use super::checkpoints::Waiter;
use super::{Command, Done, Purpose, Receipt, Volume, io::IoOp};
use crate::erase::{Foreground, Method, Point, Priority, Record, StepIo, Task, Verb, Work};
use crate::extents::ExtentMap;
use crate::journal::{Change, Crc, SLOT_BYTES, Slot};
use crate::ledger::{Cause, Due, Obligation};
use crate::media::MediumId;
use crate::place::{Place, Places};
use crate::request::{Buf, Op, Request};
use crate::store::{Job, JobEnd};
use crate::units::{Addr, Extent};

/// An erase task under way.
#[derive(Debug)]
pub(super) struct Act {
    kind: Kind,
    pub(super) runs: Vec<Extent<Addr>>,
    /// The same bytes, to find out whether some are among them.
    area: ExtentMap<Addr, ()>,
    task: Task<Site>,
    /// The commit that a record of the task is in.
    recording: Option<u64>,
}

/// The purpose of an erase task.
#[derive(Debug)]
pub(super) enum Kind {
    /// To destroy content that has died.
    Shred,
    /// To destroy what lies below, and put content there: what was read, after
    /// which the bytes are suspicious, or what is about to be written.
    Keep { suspicious: bool },
    /// To give back the space of what was destroyed.
    GiveBack,
    /// A background job of the store.
    Job(Job),
    /// To destroy what is owed at these places. The runs are the addresses that it was, and
    /// each died for one of these causes.
    Repay { places: Vec<Place>, causes: Vec<Cause> },
}

/// Where a step of an erase task does its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Site {
    /// Where this is: the store knows.
    Run(Extent<Addr>),
    /// Here.
    Place(Place),
}

impl Site {
    /// All of a medium.
    pub(super) fn all_of(on: MediumId) -> Self {
        Self::Place(Place::all_of(on))
    }

    pub(super) fn runs(runs: &[Extent<Addr>]) -> Vec<Self> {
        runs.iter().copied().map(Self::Run).collect()
    }

    /// Extents of the data medium.
    pub(super) fn data(extents: impl IntoIterator<Item = Extent<crate::units::Pos>>) -> Vec<Self> {
        extents.into_iter().map(|extent| Self::Place(Place { on: MediumId::Data, extent })).collect()
    }
}

impl Act {
    pub(super) fn new(kind: Kind, runs: Vec<Extent<Addr>>, task: Task<Site>) -> Self {
        let mut area = ExtentMap::default();
        runs.iter().for_each(|run| area.insert(*run, ()));
        Self { kind, runs, area, task, recording: None }
    }

    /// Whether `request` has to wait for its end.
    pub(super) fn excludes(&self, request: &Request) -> bool {
        let concerns = match self.kind {
            Kind::Shred | Kind::GiveBack => {
                matches!(request.op, Op::Write(_) | Op::Zero { no_hole: true, .. })
            }
            Kind::Keep { .. } | Kind::Job(_) => request.op != Op::Flush,
            Kind::Repay { .. } => false,
        };
        concerns && self.area.overlaps(request.extent)
    }

    /// Whether it overwrites content of `extent` that will be put back.
    pub(super) fn hides(&self, extent: Extent<Addr>) -> bool {
        matches!(self.kind, Kind::Keep { .. }) && self.area.overlaps(extent)
    }

    /// Whether it is about bytes of `extent` where they lie now.
    pub(super) fn is_at(&self, extent: Extent<Addr>) -> bool {
        !matches!(self.kind, Kind::Repay { .. }) && self.area.overlaps(extent)
    }

    /// Whether nothing is destroyed by it.
    pub(super) fn gives_back(&self) -> bool {
        matches!(self.kind, Kind::GiveBack)
    }

    /// Somebody waits for it.
    pub(super) fn hurry(&mut self) {
        self.task.hurry();
    }

    /// The pieces of content that go into the slots, in the order of those.
    fn slots(&self) -> impl Iterator<Item = (Extent<Addr>, &[u8])> {
        self.runs.iter().zip(self.task.contents()).flat_map(|(run, content)| {
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

impl Volume {
    /// An erase task, to be done by `method`, that is about `runs`.
    pub(super) fn act(
        &self,
        kind: Kind,
        runs: Vec<Extent<Addr>>,
        method: Method<Site>,
        priority: Priority,
    ) -> Act {
        Act::new(kind, runs, Task::new(method, &self.config.policy, priority))
    }

    pub(super) fn drive_act(&mut self, out: &mut Vec<Command>) {
        if self.config.read_only {
            return;
        }
        let is_in_the_way = self.requests.waiting.demands().next().is_some();
        let should_end = self.erasing.act.as_ref().is_some_and(|act| act.task.should_end(is_in_the_way));
        if should_end || self.erasing.act.as_ref().is_some_and(Act::gives_back) && !self.may_give_back() {
            if !self.erasing.act.as_ref().is_some_and(|act| act.task.is_at_rest()) {
                return;
            }
            if let Some(Act { kind: Kind::Job(job), .. }) = self.end_act() {
                self.store.background_done(&job, JobEnd::GivenUp);
            }
            self.settle(out);
        }
        if self.erasing.act.is_none() {
            self.erasing.act = self.choose();
            self.settle(out);
        }
        self.step(out);
    }

    /// The act under way is over, or is given up: what it kept from beginning is
    /// tried again.
    fn end_act(&mut self) -> Option<Act> {
        let act = self.erasing.act.take()?;
        self.requests.waiting.act_ended(&act.runs);
        Some(act)
    }

    /// Begins as much of the present step as may be under way at once.
    fn step(&mut self, out: &mut Vec<Command>) {
        let foreground = Foreground { is_due: self.is_due(), is_at_work: self.is_at_work() };
        while let Some(act) = &self.erasing.act {
            let sites = act.task.next_sites(foreground).to_vec();
            let is_shred = matches!(act.kind, Kind::Shred);
            let is_known = |site: Site| match site {
                Site::Run(run) => self.has_map(run, out) && (!is_shred || self.has_map_space(run, out)),
                Site::Place(_) => true,
            };
            if !sites.into_iter().all(is_known) {
                return;
            }
            match self.erasing.act.as_mut().and_then(|act| act.task.next(foreground)) {
                Some(Work::Io(io)) => self.begin_io(io, out),
                Some(Work::Point(point)) => self.pass_point(point, out),
                None => return,
            }
        }
    }

    fn begin_io(&mut self, StepIo { at, verb }: StepIo<Site>, out: &mut Vec<Command>) {
        let seed = self.erasing.seeds.draw();
        let at: Places = at.into_iter().flat_map(|site| self.places_of(site)).collect();
        let op = match verb {
            Verb::Read => IoOp::Read,
            Verb::Write(data) => IoOp::Write { data, durable: false },
            Verb::Save => {
                let data = self.erasing.act.as_ref().map(Act::slot_bytes).unwrap_or_default();
                IoOp::Write { data: data.into(), durable: true }
            }
            Verb::Fill(pattern) => {
                // The slots hold copies, and count as nothing of the disk's own.
                let is_content = at.first().on != MediumId::Journal;
                self.state.counters.passed_bytes += if is_content { at.bytes() } else { 0 };
                IoOp::Fill { pattern, seed }
            }
            Verb::Punch => IoOp::Punch,
            Verb::Sync => IoOp::Sync,
            Verb::Shrink => IoOp::Shrink,
        };
        self.io(Purpose::Act, at, op, out);
    }

    fn places_of(&self, site: Site) -> Vec<Place> {
        match site {
            Site::Run(run) => self.store.locate(run).iter().collect(),
            Site::Place(place) => vec![place],
        }
    }

    fn pass_point(&mut self, point: Point<Site>, out: &mut Vec<Command>) {
        match point {
            Point::Forget(Site::Run(run)) => self.store.unmap(run),
            Point::Rebind { from: Site::Run(content), to: Site::Place(to) } => {
                self.store.rebind(content, to.extent);
            }
            Point::Forget(_) | Point::Rebind { .. } => unreachable!("the map is by address"),
            Point::Checkpoint => return self.want_checkpoint(Waiter::Act, out),
            Point::Record(Record::Saved) => return self.record_held(),
            Point::Record(Record::Restored) => return self.record(&[Change::Release]),
            Point::Record(Record::Erased) => return self.record_met(),
        }
        self.act_done(Buf::new());
    }

    fn record_held(&mut self) {
        let act = self.erasing.act.as_ref().expect("a record is of an act");
        let held = act
            .slots()
            .enumerate()
            .map(|(n, (extent, content))| Change::Hold(Slot(n as u32), extent, Crc(crc32c::crc32c(content))));
        self.record(&held.collect::<Vec<_>>());
    }

    /// The obligations of the act's runs are met: invariant 4 was kept by the
    /// steps before.
    fn record_met(&mut self) {
        let mut changes = self.changes_met();
        let act = self.erasing.act.as_ref().expect("a record is of an act");
        let runs = act.runs.clone();
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        match act.kind {
            Kind::Repay { .. } => self.state.counters.destroyed_bytes += bytes,
            Kind::Shred => {
                self.state.counters.destroyed_bytes += bytes;
                runs.into_iter().for_each(|run| self.shredded(run));
            }
            Kind::GiveBack | Kind::Job(_) => unreachable!("it meets no obligation"),
            Kind::Keep { suspicious } => {
                runs.iter().for_each(|run| self.erasing.layers.rewritten(*run, suspicious));
                self.state.counters.scoured_bytes += bytes;
                changes.push(Change::Clean);
            }
        }
        self.record(&changes);
    }

    fn shredded(&mut self, run: Extent<Addr>) {
        self.erasing.layers.forget(run);
        let dead = |it: &Obligation| it.due == Due::Shred { no_hole: false };
        // With no_hole the zeros are data, and stay.
        if self.store.geometry().overwrites_in_place && self.state.ledger.within(run).all(|(_, it)| dead(it))
        {
            self.destroyed(run);
        }
    }

    fn record(&mut self, changes: &[Change]) {
        let mut seq = 0;
        for change in changes {
            seq = self.change(*change);
        }
        if let Some(act) = &mut self.erasing.act {
            act.recording = Some(seq);
        }
    }

    /// Work of the act has ended, with what it read. Ends an act that is over, if nobody has to be
    /// told.
    pub(super) fn act_done(&mut self, read: Buf) {
        let Some(act) = &mut self.erasing.act else { return };
        act.task.done(read);
        if !act.task.is_over() {
            return;
        }
        let Some(act) = self.end_act() else { return };
        match act.kind {
            Kind::Job(job) => {
                let read = act.task.contents().first().map_or(&[][..], |read| read);
                self.store.background_done(&job, JobEnd::Done(read));
            }
            _ => self.gave_back(&act.runs),
        }
    }

    pub(super) fn act_committed(&mut self, seq: u64, out: &mut Vec<Command>) {
        let Some(act) =
            self.erasing.act.as_mut().filter(|act| act.recording.is_some_and(|waits| waits <= seq))
        else {
            return;
        };
        act.recording = None;
        act.task.done(Buf::new());
        if act.task.is_over()
            && let Some(act) = self.end_act()
        {
            if let Kind::Repay { places, .. } = act.kind {
                self.repaid(&places);
            }
        }
        self.give_receipts(out);
    }

    /// The changes that meet the obligations of the act, neighbours as one.
    fn changes_met(&self) -> Vec<Change> {
        let act = self.erasing.act.as_ref().expect("a record is of an act");
        let passes = self.config.policy.passes().len();
        let done = match act.kind {
            Kind::Keep { .. } => Done::Scoured,
            _ if passes == 0 && !self.store.geometry().overwrites_in_place => Done::Freed,
            _ => Done::Shredded,
        };
        let passes = u16::try_from(passes).unwrap_or(u16::MAX);
        if let Kind::Repay { places, causes } = &act.kind {
            let receipt = |(run, cause): (&Extent<Addr>, &Cause)| {
                Change::Receipt(Receipt { act: done, cause: *cause, passes, extent: *run })
            };
            let paid = places.iter().map(|place| Change::Paid(*place));
            return act.runs.iter().zip(causes).map(receipt).chain(paid).collect();
        }
        let mut changes: Vec<_> = act.area.iter().map(|(run, ())| Change::Meet(run, done, passes)).collect();
        if matches!(act.kind, Kind::Keep { suspicious: true }) {
            changes
                .extend(act.area.iter().map(|(run, ())| Change::Oblige(run, Due::Suspicious, Cause::Scour)));
        }
        changes
    }
}
