//! The volume's side of the watcher. The watcher observes every change in order of arrival, and content
//! that is about to be replaced. The volume reads what the watcher asks for, and turns verdicts into
//! obligations once their evidence is durable.

mod kept_out;

use crate::base::buf::Buf;
use crate::base::units::{Addr, Extent, Millis};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::media::sealing::ContentError;
use crate::mutant::{self, Mutant};
use crate::owed::journal::Change;
use crate::owed::ledger::{Cause, Due};
use crate::request::{Op, Request};
use crate::store;
use crate::volume::Command;
use crate::volume::disk::Disk;
use crate::watch::{Agenda, Attached, Class, Content, Moment, Observation, Verdict, WaitsFor, Watcher};

/// The watcher, if there is one.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) watch: Option<Watch>,
    /// The watcher's view of the last stop, until a watcher takes it.
    view: Vec<u8>,
}

/// The watcher, and what is under way for it.
#[derive(Debug)]
pub(in crate::volume) struct Watch {
    pub(in crate::volume) watcher: Box<dyn Watcher>,
    /// How many clients are connected.
    clients: usize,
    /// Caching between the guest and the disk.
    attached: Attached,
    pub(in crate::volume) looks: usize,
    /// How many deaths of parts of blocks are under way.
    pub(in crate::volume) parts: usize,
    /// The number of the last own request.
    pub(in crate::volume) last_own: u64,
    pub(in crate::volume) proof: Proof,
    /// The rest of a verdict for which the ledger had no room.
    pub(in crate::volume) verdict: Vec<(Extent<Addr>, Verdict)>,
    /// Since when the deaths of the last batch of evidence are known.
    pub(in crate::volume) since: Millis,
    /// A new watcher begins once nothing is under way.
    pub(in crate::volume) begins_anew: bool,
}

/// The state of the batch of evidence.
#[derive(Debug, Default)]
pub(in crate::volume) enum Proof {
    #[default]
    None,
    /// The changes that had arrived have to be completed first.
    Awaits,
    /// The medium is being synced.
    Syncs,
}

impl Disk {
    /// The parts of `extent` that have data.
    pub(super) fn data_runs(&self, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
        extent.runs(|rest| self.store.first(store::Content::Own, rest))
    }

    /// The parts of `extent` that are discardable: they show data, and can be made to read as zeros.
    pub(super) fn discardable_runs(&self, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
        extent.runs(|rest| self.store.first(store::Content::Discardable, rest))
    }

    /// Whether one write is not enough to destroy content. Where dead content leaves at once, a write destroys nothing; where it dies
    /// with its key, no write does.
    pub(super) fn has_layers(&self) -> bool {
        let takes_more = self.config.policy.passes().len() > 1 || self.erases(MediumId::Data);
        self.dies_by_key() || takes_more && !self.dead_leave()
    }

    /// Makes the first part of `extent` without an obligation suspicious: it may have dead content, and is
    /// about to be written. Returns the rest of `extent`.
    pub(super) fn suspect_first(
        &mut self,
        extent: Extent<Addr>,
        out: &mut Vec<Command>,
    ) -> Option<Extent<Addr>> {
        let ledger = &self.state.ledger;
        let owed = ledger.within(extent).next().into_iter().chain(ledger.overwritten_within(extent).next());
        let owed = owed.map(|(owed, _)| owed).min_by_key(|owed| owed.start);
        let end = match owed {
            Some(owed) if owed.start == extent.start => owed.end(),
            owed => {
                let gap = Extent::between(extent.start.0, owed.map_or(extent.end(), |owed| owed.start.0));
                out.push(Command::Died(Cause::Generation, gap, Class::Sensitive));
                self.change(Change::Oblige(gap, Due::Suspicious, Cause::Generation));
                if self.leaves_older() {
                    // Else a crash could leave it written over, and not suspicious.
                    self.commits.undurable.note(gap);
                }
                self.state.counters.died(Cause::Generation, gap.len);
                gap.end()
            }
        };
        assert!(extent.start.0 < end && end <= extent.end(), "each step makes some bytes suspicious");
        (end < extent.end()).then(|| Extent::between(end, extent.end()))
    }

    /// Where `extent` is read, whose dead parts are `masks`. These are read nowhere: their places may be
    /// destroyed, and cut off, meanwhile.
    pub(super) fn readable(&self, extent: Extent<Addr>, masks: &[Extent<Addr>]) -> Places {
        if masks.is_empty() || mutant::is(Mutant::UnmaskedRead) {
            return self.store.locate(extent);
        }
        let (mut places, mut from) = (Vec::<Places>::new(), extent.start.0);
        for mask in masks {
            if from < mask.start.0 {
                places.push(self.store.locate(Extent::between(from, mask.start.0)));
            }
            places.push(Place { on: MediumId::Nowhere, extent: Extent::new(0, mask.len) }.into());
            from = mask.end();
        }
        if from < extent.end() {
            places.push(self.store.locate(Extent::between(from, extent.end())));
        }
        places.into_iter().collect()
    }

    /// The parts of `extent` that are dead, and read as zeros.
    pub(super) fn masks(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let dead = self.state.ledger.dead().within(extent);
        dead.map(|(extent, _)| extent).collect()
    }
}

impl Watching {
    /// Lets `watcher` infer deaths from now on.
    pub(super) fn watch(&mut self, disk: &Disk, mut watcher: Box<dyn Watcher>) {
        let view = std::mem::take(&mut self.view);
        if !view.is_empty() {
            watcher.restore(view);
        }
        let watching = Watch {
            watcher,
            clients: 0,
            attached: Attached::Direct,
            looks: 0,
            parts: 0,
            last_own: 0,
            proof: Proof::None,
            verdict: Vec::new(),
            since: disk.schedule.now,
            begins_anew: false,
        };
        self.watch = (!disk.config.read_only).then_some(watching);
    }

    /// Notes that `more` clients are connected.
    pub(super) fn connected(&mut self, disk: &Disk, more: isize) {
        if let Some(watching) = &mut self.watch {
            watching.clients = watching.clients.saturating_add_signed(more);
        }
        self.tell_watcher(disk, Observation::Clients);
    }

    /// Passes `observation` to the watcher, if there is one.
    pub(in crate::volume) fn tell_watcher(&mut self, disk: &Disk, observation: Observation<'_>) {
        if let Some(watching) = &mut self.watch {
            watching.tell(disk.schedule.now, observation);
        }
    }

    /// The guest is attached so from now on.
    pub(super) fn attached(&mut self, disk: &Disk, attached: Attached) {
        if let Some(watching) = &mut self.watch {
            watching.attached = attached;
        }
        self.tell_watcher(disk, Observation::Attached);
    }

    /// Whether a free of the guest is ignored, because only the watcher is trusted.
    pub(super) fn distrusts(&self, disk: &Disk, request: &Request) -> bool {
        request.op == Op::Trim
            && !disk.config.trust_discard
            && self.watch.as_ref().is_some_and(|it| it.watcher.watches(request.extent))
    }

    /// Lets the watcher observe that `request` arrives. Returns the bytes that may be dead and have to be
    /// destroyed before they are written over.
    pub(super) fn observe(&mut self, disk: &Disk, request: &Request) -> Vec<Extent<Addr>> {
        let (layers, extent) = (disk.has_layers(), request.extent);
        let Some(watching) = &mut self.watch else { return Vec::new() };
        let Some(content) = content(&request.op) else {
            if matches!(request.op, Op::Read | Op::Cache) {
                watching.tell(disk.schedule.now, Observation::Read(extent));
            }
            return Vec::new();
        };
        // With a policy of one pass, the write itself is enough.
        let mut reused = if layers { watching.watcher.take_suspicious(extent) } else { Vec::new() };
        watching.tell(disk.schedule.now, Observation::Arrived { extent, content });
        reused.extend(watching.take_back(extent));
        if !matches!(request.op, Op::Write(_)) || !layers {
            return Vec::new();
        }
        reused.into_iter().flat_map(|part| disk.data_runs(part)).collect()
    }

    /// Runs of `extent` with the class of their present content; `None` without a watcher. Bytes whose death the watcher has
    /// handed out, and which have no obligation yet, are sensitive.
    pub(super) fn classes(&self, extent: Extent<Addr>) -> Option<Vec<(Extent<Addr>, Class)>> {
        let watching = self.watch.as_ref()?;
        let mut classes = watching.watcher.classes(extent);
        let handed_out = watching.verdict.iter().filter_map(|(run, _)| run.overlap(extent));
        classes.extend(handed_out.map(|part| (part, Class::Sensitive)));
        Some(classes)
    }

    /// The runs that wait for a verdict, or for room in the ledger.
    pub(super) fn waiting_runs(&self) -> impl Iterator<Item = (WaitsFor, Extent<Addr>)> {
        self.watch.iter().flat_map(|it| {
            let dead = it.verdict.iter().filter(|(_, verdict)| *verdict == Verdict::Dead);
            it.watcher.waiting().chain(dead.map(|(extent, _)| (WaitsFor::Proof, *extent)))
        })
    }

    pub(super) fn overwriting(
        &mut self,
        disk: &Disk,
        request: &Request,
        old_extent: Extent<Addr>,
        old: &[u8],
    ) {
        assert!(old.len() as u64 == old_extent.len, "old content is shown as a whole");
        if let Some(content) = content(&request.op) {
            self.tell_watcher(
                disk,
                Observation::Overwriting { extent: request.extent, content, old_extent, old },
            );
        }
    }

    /// Tells the watcher that its knowledge of `extent` may be wrong from now on.
    pub(super) fn blind(&mut self, disk: &Disk, extent: Extent<Addr>) {
        self.tell_watcher(disk, Observation::Given { extent, content: None });
    }

    /// Tells the watcher that a change of `extent`, which it was told of, was refused.
    pub(super) fn tell_of_refusal(&mut self, disk: &Disk, extent: Extent<Addr>, was_shown: bool) {
        self.tell_watcher(disk, Observation::Refused { extent, was_shown });
    }

    /// Hands the watcher the result of a read that it asked for.
    pub(super) fn looked(&mut self, disk: &Disk, extent: Extent<Addr>, result: &Result<Buf, ContentError>) {
        if let Some(watching) = &mut self.watch {
            assert!(watching.looks > 0, "a look ends once");
            let is_whole = result.as_ref().is_ok_and(|content| content.len() as u64 == extent.len);
            assert!(is_whole || result.is_err(), "content that was asked for is shown as a whole");
            watching.looks -= 1;
        }
        self.tell_watcher(disk, Observation::Given { extent, content: result.as_deref().ok() });
    }

    pub(super) fn proof_done(&mut self, disk: &Disk) {
        if let Some(watching) = &mut self.watch {
            assert!(matches!(watching.proof, Proof::Syncs), "a checkpoint ends the proof that asked for it");
            watching.proof = Proof::None;
        }
        self.tell_watcher(disk, Observation::Proven);
    }

    /// Notes that the death of a part of a block has ended.
    pub(super) fn own_death_done(&mut self) {
        if let Some(watching) = &mut self.watch {
            assert!(watching.parts > 0, "a death of the watcher's own ends once");
            watching.parts -= 1;
        }
    }

    /// When there is something to do for the watcher, if nothing else happens.
    pub(super) fn watch_wakeup(&self, disk: &Disk) -> Option<Millis> {
        let watching = self.watch.as_ref()?;
        let idle = disk.schedule.idle_at(&disk.config);
        let idle = if disk.schedule.all_due { disk.schedule.now } else { idle };
        let agenda = watching.watcher.agenda();
        let Agenda { unproven_since, wakes_at, .. } = agenda;
        let unproven_since = unproven_since.or(disk.checkpoints.is_shared().then_some(watching.since));
        let deadline = unproven_since.map(|since| Millis(since.0.saturating_add(disk.config.deadline_ms)));
        // Once the disk is idle, pending work waits for the time that the watcher has named, if any.
        let waits = wakes_at.is_some() && idle <= disk.schedule.now;
        let pending = watching.looks == 0 && !waits && !watching.is_idle(agenda);
        let proof = deadline.map(|deadline| deadline.min(idle)).or_else(|| pending.then_some(idle));
        // No time ends the wait for changes that had arrived: their requests may wait for work that rests.
        let proof = proof.filter(|_| !matches!(watching.proof, Proof::Awaits));
        proof.into_iter().chain(wakes_at).min()
    }

    /// Whether nothing more follows from what was observed, unless time passes.
    pub(super) fn has_seen_all(&self) -> bool {
        self.watch.as_ref().is_none_or(|it| it.is_idle(it.watcher.agenda()))
    }

    /// The view that the watcher gets back after a clean stop. Empty while a verdict is not carried out,
    /// which the view would not contain.
    pub(super) fn watch_view(&self) -> Vec<u8> {
        let watching = self.watch.as_ref().filter(|it| it.verdict.is_empty());
        watching.and_then(|it| it.watcher.view()).unwrap_or_default()
    }

    /// No watcher yet; the first one gets the `view` of the last stop.
    pub(super) fn new(view: Vec<u8>) -> Self {
        Self { watch: None, view }
    }
}

impl Watch {
    fn is_idle(&self, agenda: Agenda) -> bool {
        self.looks == 0
            && matches!(self.proof, Proof::None)
            && self.verdict.is_empty()
            && !agenda.is_working
            && !self.begins_anew
    }

    pub(in crate::volume) fn tell(&mut self, now: Millis, observation: Observation<'_>) {
        self.watcher.observe(Moment { now, clients: self.clients, attached: self.attached }, observation);
    }

    /// Takes back verdicts on `extent` that were not carried out, because it changes. Returns its parts.
    fn take_back(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut taken = Vec::new();
        let before = self.verdict.iter().map(|(run, _)| run.len).sum::<u64>();
        for (run, verdict) in std::mem::take(&mut self.verdict) {
            let Some(part) = run.overlap(extent) else {
                self.verdict.push((run, verdict));
                continue;
            };
            taken.push(part);
            let rest = [(run.start.0, part.start.0), (part.end(), run.end())];
            let rest = rest.map(|(from, to)| Extent::between(from, to));
            self.verdict.extend(rest.into_iter().filter(|it| !it.is_empty()).map(|it| (it, verdict)));
        }
        let kept = self.verdict.iter().map(|(run, _)| *run);
        let after = kept.chain(taken.iter().copied()).map(|run| run.len).sum::<u64>();
        assert!(after == before, "a verdict is kept, or taken back, for each of its bytes");
        taken
    }
}

/// The content that `op` replaces the present one with, if it does.
pub(in crate::volume) fn content(op: &Op) -> Option<Content<'_>> {
    match op {
        Op::Write(bytes) => Some(Content::Bytes(bytes)),
        Op::Trim | Op::Zero { .. } | Op::Purge => Some(Content::Zeros),
        Op::Read
        | Op::Copy
        | Op::ReadForInference
        | Op::ReadPast(_)
        | Op::Compare(_)
        | Op::Ask(_)
        | Op::Cache
        | Op::Flush
        | Op::CloseEpoch { .. }
        | Op::Forget(_)
        | Op::ForgetSet(_)
        | Op::ConservativeOverwrite => None,
    }
}
