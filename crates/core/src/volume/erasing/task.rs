//! The erase task under way: what it is for, which requests it excludes, and what the volume does
//! at its points.
//!
//! Only [`crate::erase`] knows the steps that destroy bytes. This module connects those steps with the
//! store, the journal, and the requests.

use crate::base::buf::Buf;
use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, Extent};
use crate::erase::policy::Policy;
use crate::erase::{Means, Method, Priority, StepIo, Task, Verb};
use crate::media::MediumId;
use crate::media::medium::Keep;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::mutant::{self, Mutant};
use crate::owed::journal::{Change, Crc, SLOT_BYTES, Slot};
use crate::owed::ledger::{Cause, Due, Obligation};
use crate::request::{Op, Request};
use crate::volume::bytes::slice;
use crate::volume::disk::Disk;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::{Command, Done, Purpose, Receipt, io::IoOp};

/// The content that writes are about to put into blocks, by what they write.
pub(in crate::volume) type Patches = Vec<(Extent<Addr>, Buf)>;

/// An erase task under way.
#[derive(Debug)]
pub(in crate::volume) struct EraseTask {
    pub(in crate::volume) kind: Kind,
    /// The bytes that the task is about, by address.
    pub(in crate::volume) runs: Vec<Extent<Addr>>,
    /// The same bytes as a map, for overlap checks.
    area: ExtentMap<Addr, ()>,
    pub(in crate::volume) steps: Task<Site>,
    /// The number of the commit that the task waits for.
    pub(in crate::volume) recording: Option<u64>,
    /// Whether the passes were given up over content that is put back: some of what lay below may be left.
    pub(in crate::volume) is_spared: bool,
    /// The places of a job that a medium would not erase.
    pub(in crate::volume) remains: Vec<Place>,
    /// Whether each site is overwritten on its own.
    pub(in crate::volume) is_careful: bool,
}

/// The purpose of an erase task.
#[derive(Debug)]
pub(in crate::volume) enum Kind {
    /// Destroy content that has died.
    Shred,
    /// Give back the space of plain content that has died.
    Free,
    /// Destroy what lies below, then put content there: the content that was read, which is suspicious
    /// from then on, or the content that a request is about to write.
    Rewrite { suspicious: bool },
    /// Put blocks under fresh keys, with what `patches` are about to write; once they are `staged`, the checksum of each.
    Restage { patches: Patches, staged: Vec<Crc>, logging: Option<(Places, Vec<u8>)> },
    /// Give back the space of destroyed content.
    GiveBack,
    /// A background job of the store.
    Job,
    /// One that is never given up ([`Job::Turn`](crate::store::Job::Turn)).
    Turn,
    /// Destroy what is owed at these places. The runs are the addresses that named them, and each run died for the cause at its index.
    DestroyOwed { places: Vec<Place>, causes: Vec<Cause>, what: Placed },
}

/// What is owed at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum Placed {
    /// The content there.
    Content,
    /// The same, which a kept epoch shows: it is not destroyed yet.
    Kept,
    /// The same, which is plain: it is only freed.
    Plain,
    /// What lay there before, elsewhere on the medium by now.
    Older,
}

impl EraseTask {
    pub(in crate::volume) fn new(kind: Kind, runs: Vec<Extent<Addr>>, steps: Task<Site>) -> Self {
        let mut area = ExtentMap::default();
        runs.iter().for_each(|run| area.insert(*run, ()));
        // Of what is owed by place, an address may have left several places.
        let are_apart = area.bytes() == runs.iter().map(|run| run.len).sum::<u64>();
        assert!(are_apart || matches!(kind, Kind::DestroyOwed { .. }), "a task takes each byte once");
        let (recording, is_spared, is_careful, remains) = (None, false, false, Vec::new());
        Self { kind, runs, area, steps, recording, is_spared, remains, is_careful }
    }

    /// Whether `request` has to wait for the end of the task.
    pub(in crate::volume) fn excludes(&self, request: &Request) -> bool {
        let concerns = match self.kind {
            Kind::Shred | Kind::Free | Kind::GiveBack => {
                matches!(request.op, Op::Write(_) | Op::Zero { no_hole: true, .. })
            }
            Kind::Rewrite { .. } | Kind::Restage { .. } | Kind::Job | Kind::Turn => request.op != Op::Flush,
            // What such a write replaces would be owed anew, and the record of this task would end that.
            Kind::DestroyOwed { what: Placed::Older, .. } => {
                matches!(request.op, Op::Write(_)) && !mutant::is(Mutant::WriteDuringErase)
            }
            Kind::DestroyOwed { .. } => false,
        };
        concerns && self.area.overlaps(request.extent)
    }

    /// Whether the task overwrites content of `extent` that it will put back.
    pub(in crate::volume) fn hides(&self, extent: Extent<Addr>) -> bool {
        matches!(self.kind, Kind::Rewrite { .. } | Kind::Restage { .. }) && self.area.overlaps(extent)
    }

    /// Whether the task works on bytes of `extent` where they lie now.
    pub(in crate::volume) fn is_at(&self, extent: Extent<Addr>) -> bool {
        !matches!(self.kind, Kind::DestroyOwed { .. }) && self.area.overlaps(extent)
    }

    /// The parts of `extent` that the task is not giving back as plain.
    pub(in crate::volume) fn not_being_freed(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        if matches!(self.kind, Kind::Free) { self.area.gaps(extent) } else { vec![extent] }
    }

    /// Whether the task gives space back, and destroys nothing.
    pub(in crate::volume) fn gives_back(&self) -> bool {
        matches!(self.kind, Kind::GiveBack)
    }

    /// The pieces of content to stage, one for each slot, in the order of the slots.
    fn slots(&self) -> impl Iterator<Item = (Extent<Addr>, &[u8])> {
        self.runs.iter().zip(self.steps.contents()).flat_map(|(run, content)| {
            run.pieces(SLOT_BYTES).map(|piece| (piece, slice(content, *run, piece)))
        })
    }

    /// The bytes of all slots that the task stages content in.
    fn slot_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(
            self.runs.len() == self.steps.contents().len(),
            "each run has its content before it is staged"
        );
        for (_, content) in self.slots() {
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(SLOT_BYTES as usize), 0);
        }
        bytes
    }
}

impl Disk {
    /// An erase task that works on `runs` by `method`.
    pub(in crate::volume) fn erase_task(
        &self,
        kind: Kind,
        runs: Vec<Extent<Addr>>,
        method: Method<Site>,
        priority: Priority,
    ) -> EraseTask {
        let is_careful = self.limits().one_by_one;
        let is_plain = matches!(kind, Kind::Free | Kind::DestroyOwed { what: Placed::Plain, .. });
        // Where keys die, only they are destroyed, as the store asks for it.
        let is_content = self.dies_by_key() && !matches!(kind, Kind::Job | Kind::Turn);
        let on = method.destroys_on().and_then(|site| site.place()).map(|place| place.on);
        let none = Policy::none();
        let means = match kind {
            _ if is_plain || is_content => Means::Passes(&none),
            _ if !on.is_some_and(|on| self.erases(on)) => Means::Passes(&self.config.policy),
            Kind::Rewrite { .. } | Kind::DestroyOwed { what: Placed::Older, .. } => {
                Means::Erase { keep: Keep::Present, one_by_one: is_careful }
            }
            _ => Means::Erase { keep: Keep::Nothing, one_by_one: is_careful },
        };
        let task = EraseTask::new(kind, runs, Task::new(method, means, priority));
        EraseTask { is_careful, ..task }
    }

    /// Whether content is gone once a medium has erased it, or what hides it.
    fn destroys_by_erasing(&self) -> bool {
        let has_root = self.capabilities.get(MediumId::Root).is_some();
        self.erases(if has_root { MediumId::Root } else { MediumId::Data })
    }

    /// The passes that a receipt tells of.
    pub(in crate::volume) fn passes(&self) -> u16 {
        let passes = if self.destroys_by_erasing() { 0 } else { self.config.policy.passes().len() };
        u16::try_from(passes).unwrap_or(u16::MAX)
    }

    /// Whether only the medium `on` itself destroys what was written to it, and it is to do so.
    pub(in crate::volume) fn erases(&self, on: MediumId) -> bool {
        let wants_any = !self.config.policy.passes().is_empty();
        wants_any && self.capabilities.get(on).is_some_and(|it| it.erases)
    }

    fn places_of(&self, site: Site) -> Places {
        match site {
            Site::Run(run) => self.store.locate(run),
            Site::Place(place) => place.into(),
        }
    }
}

impl Erasing {
    pub(in crate::volume) fn begin_io(
        &mut self,
        disk: &mut Disk,
        StepIo { at, verb }: StepIo<Site>,
        out: &mut Vec<Command>,
    ) {
        let may_write = disk.latched.is_none() && !disk.config.read_only;
        assert!(may_write, "no erase task works on a disk that is latched or read-only");
        assert!(self.task.is_some(), "an operation of an erase task is of the task under way");
        let part = self.task.as_ref().map_or(0, |task| task.steps.last_part());
        let seed = self.seeds.draw();
        if let Some((at, op)) = self.keyed_io(disk, &verb) {
            return disk.io(Purpose::Task(part), at, op, out);
        }
        let at: Places = at.into_iter().map(|site| disk.places_of(site)).collect();
        let op = match verb {
            Verb::Reserve => IoOp::Reserve,
            Verb::Read => IoOp::Read,
            Verb::Write(data) => IoOp::Write { data, durable: false },
            Verb::Log(_) => unreachable!("only what dies by key has a log of keys"),
            Verb::Save => {
                let data = self.task.as_ref().map(EraseTask::slot_bytes).unwrap_or_default();
                assert!(
                    data.len() as u64 == at.bytes(),
                    "all content that is about to be overwritten is staged"
                );
                let shape = disk.commits.journal.shape();
                let is_in_slots = at.first().extent.end() <= shape.slot(Slot(shape.slots)).0;
                assert!(is_in_slots, "what is staged leaves the notes of the journal alone");
                IoOp::Write { data: data.into(), durable: true }
            }
            Verb::Fill(pattern) => {
                // The slots hold copies: passes over them are not passes over the disk's content.
                let is_content = at.first().on != MediumId::Journal;
                disk.state.counters.passed_bytes += if is_content { at.bytes() } else { 0 };
                IoOp::Fill { pattern, seed }
            }
            Verb::Erase(keep) => IoOp::Erase(keep),
            Verb::Punch => IoOp::Punch,
            Verb::Sync => IoOp::Sync,
            Verb::Shrink => IoOp::Shrink,
        };
        disk.io(Purpose::Task(part), at, op, out);
    }

    pub(in crate::volume) fn record_staged(&mut self, disk: &mut Disk) {
        let task = self.task.as_ref().expect("a record is of a task");
        let staged = task.slots().enumerate().map(|(n, (extent, content))| {
            Change::Stage(Slot(n as u32), extent, Crc(crc32c::crc32c(content)))
        });
        let staged: Vec<_> = staged.collect();
        let slots = disk.commits.journal.shape().slots as usize;
        assert!(staged.len() <= slots, "a task stages no more than the slots take");
        assert!(disk.state.slots.staged.is_empty(), "what was staged last is back in its place");
        self.record(disk, &staged);
    }

    /// Records that content is in its place. Some passes may be missing below what a request was about to write there.
    pub(in crate::volume) fn record_restored(&mut self, disk: &mut Disk) {
        let task = self.task.as_ref().expect("a record is of a task");
        assert!(!disk.state.slots.staged.is_empty(), "content was staged before it was overwritten");
        let has_old_below = task.is_spared && matches!(task.kind, Kind::Rewrite { suspicious: false });
        let below =
            task.area.iter().filter(|_| has_old_below).map(|(run, ())| {
                Change::Oblige(run, Due::ConservativeOverwrite, Cause::ConservativeOverwrite)
            });
        let changes: Vec<_> = below.chain([Change::Release]).collect();
        self.record(disk, &changes);
    }

    /// Records that the obligations of the task's runs are completed. The steps before this one kept
    /// invariant 4.
    pub(in crate::volume) fn record_met(&mut self, disk: &mut Disk) {
        assert!(disk.state.slots.staged.is_empty(), "content is back before its copy counts as destroyed");
        let mut changes = self.completing_changes(disk);
        let task = self.task.as_ref().expect("a record is of a task");
        if task.is_spared {
            return self.record(disk, &[Change::Clean]);
        }
        let runs = task.runs.clone();
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        match task.kind {
            Kind::DestroyOwed { what: Placed::Kept, .. } => {}
            Kind::DestroyOwed { what: Placed::Plain, .. } => disk.state.counters.plain_bytes += bytes,
            Kind::Free => {
                disk.state.counters.plain_bytes += bytes;
                runs.iter().for_each(|run| self.shredded(disk, *run));
                self.gave_back(&runs);
            }
            Kind::DestroyOwed { .. } => disk.state.counters.destroyed_bytes += bytes,
            Kind::Shred => {
                disk.state.counters.destroyed_bytes += bytes;
                runs.into_iter().for_each(|run| self.shredded(disk, run));
            }
            Kind::Restage { .. } => changes = vec![Change::Clean],
            Kind::GiveBack | Kind::Job | Kind::Turn => unreachable!("the task completes no obligation"),
            Kind::Rewrite { suspicious } => {
                runs.iter().for_each(|run| self.layers.rewritten(*run, suspicious));
                disk.state.counters.rewritten_bytes += bytes;
                changes.push(Change::Clean);
            }
        }
        self.record(disk, &changes);
    }

    fn shredded(&mut self, disk: &mut Disk, run: Extent<Addr>) {
        self.layers.forget(run);
        let dead = |it: &Obligation| it.is_dead() && !it.due.keeps_space();
        // With `no_hole` the zeros are data, and stay.
        if disk.store.same_place() && disk.state.ledger.within(run).all(|(_, it)| dead(it)) {
            self.destroyed(disk, run);
        }
    }

    pub(in crate::volume) fn record(&mut self, disk: &mut Disk, changes: &[Change]) {
        assert!(!changes.is_empty(), "a record has a change, whose commit the task goes on with");
        let (mut seq, next) = (0, disk.commits.journal.position().seq + 1);
        for change in changes {
            seq = disk.change(*change);
        }
        assert!(seq == next, "a record is of one commit, and so takes place at one instant");
        if let Some(task) = &mut self.task {
            assert!(task.recording.is_none(), "a task waits for one commit at a time");
            assert!(!task.steps.is_at_rest(), "a record is a step under way");
            task.recording = Some(seq);
        }
    }

    /// The changes that complete the obligations of the task, one for adjacent runs.
    fn completing_changes(&self, disk: &Disk) -> Vec<Change> {
        let task = self.task.as_ref().expect("a record is of a task");
        let (passes, erases) = (disk.passes(), disk.destroys_by_erasing());
        let done = match task.kind {
            Kind::Rewrite { .. } => Done::Rewritten,
            Kind::DestroyOwed { what: Placed::Kept, .. } => Done::Retired,
            Kind::Free | Kind::DestroyOwed { what: Placed::Plain, .. } => Done::Plain,
            _ if disk.dies_by_key() => Done::Rekeyed,
            _ if erases => Done::Erased,
            _ if passes == 0 && !disk.store.same_place() => Done::Freed,
            _ => Done::Shredded,
        };
        let passes = if done == Done::Plain { 0 } else { passes };
        if let Kind::DestroyOwed { places, causes, .. } = &task.kind {
            assert!(causes.len() == task.runs.len(), "each address that was owed gets its receipt");
            let receipt = |(run, cause): (&Extent<Addr>, &Cause)| {
                Change::Receipt(Receipt { act: done, cause: *cause, passes, extent: *run, forgot: None })
            };
            let cleared = places.iter().map(|place| Change::ClearPlace(*place));
            return task.runs.iter().zip(causes).map(receipt).chain(cleared).collect();
        }
        let mut changes: Vec<_> =
            task.area.iter().map(|(run, ())| Change::Complete(run, done, passes)).collect();
        if matches!(task.kind, Kind::Rewrite { suspicious: true }) {
            changes.extend(
                task.area
                    .iter()
                    .map(|(run, ())| Change::Oblige(run, Due::Suspicious, Cause::ConservativeOverwrite)),
            );
        }
        changes
    }

    /// Lets the task under way go on that lacked space for its present step, once it has rested.
    pub(in crate::volume) fn retry_task(&mut self, disk: &Disk) {
        if !disk.tasks_rest()
            && let Some(task) = &mut self.task
        {
            task.steps.retry();
        }
    }

    /// When the task under way goes on that lacked space for its present step, if there is one.
    pub(in crate::volume) fn retry_wakeup(&self, disk: &Disk) -> Option<crate::base::units::Millis> {
        let rests = self.task.as_ref().is_some_and(|task| task.steps.is_resting());
        rests.then_some(disk.schedule.shortage.tasks)
    }

    /// Drops the task under way: the medium failed. A task that keeps content stays, because that content
    /// may be in the staging slots only: its bytes stay closed.
    pub(in crate::volume) fn abandon_task(&mut self) {
        self.task.take_if(|task| !matches!(task.kind, Kind::Rewrite { .. } | Kind::Restage { .. }));
    }
}
