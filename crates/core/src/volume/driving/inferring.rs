//! What is inferred: the reads of the watcher, its evidence, and its verdicts.

use crate::base::units::{Addr, Extent};
use crate::mutant::{self, Mutant};
use crate::owed::ledger::{Cause, Due};
use crate::request::{Op, Request};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::Erasing;
use crate::volume::origin::Origin;
use crate::volume::requests::Requests;
use crate::volume::watching::{Proof, Watching};
use crate::volume::{Command, Volume};
use crate::watch::{Observation, Scope, Verdict};

/// Most verdicts that become obligations in one event.
const VERDICTS_MAX: usize = 1024;
/// Most reads for the watcher that are under way at once.
const LOOKS_MAX: usize = 8;
/// Most deaths of parts of blocks that are under way at once.
const PARTS_MAX: usize = 8;

impl Watching {
    /// Makes the evidence durable: waits for the changes that had arrived, then syncs the medium, or shares a sync of the guest's.
    fn prove(&mut self, disk: &mut Disk, requests: &mut Requests, out: &mut Vec<Command>) {
        self.cut(disk, requests);
        let Some(watching) = &mut self.watch else { return };
        if matches!(watching.proof, Proof::Awaits) && requests.order.is_cut_complete() {
            watching.proof = Proof::Syncs;
            disk.share_checkpoint(Waiter::Proof);
        }
        if disk.is_evidence_due(watching.since) || watching.begins_anew {
            disk.want_shared_checkpoint(out);
        }
    }

    /// Begins a batch of evidence, if one is due and none is under way.
    fn cut(&mut self, disk: &Disk, requests: &mut Requests) {
        let watching = self.watch.as_ref().filter(|it| matches!(it.proof, Proof::None));
        let since = watching.and_then(|it| it.watcher.agenda().unproven_since);
        let Some(since) = since.filter(|since| disk.takes_deaths(*since)) else { return };
        if let Some(watching) = &mut self.watch {
            watching.since = since;
            watching.tell(disk.schedule.now, Observation::Cut);
            watching.proof = Proof::Awaits;
            requests.order.cut();
        }
    }

    /// Whether deaths may be inferred now: not while an epoch closes, to which they do not belong.
    fn may_infer(&self, requests: &Requests) -> bool {
        requests.closes.is_empty() && self.watch.as_ref().is_some_and(|it| it.parts < PARTS_MAX)
    }

    fn next_verdict(
        &mut self,
        disk: &Disk,
        erasing: &Erasing,
        requests: &Requests,
    ) -> Option<(Extent<Addr>, Verdict)> {
        let (layers, all) = (disk.has_layers(), disk.schedule.all_due);
        let watching = self.watch.as_mut()?;
        let (order, erasing) = (&requests.order, erasing);
        // The end of a task that hides content would overwrite the new obligation.
        let is_busy = |extent: Extent<Addr>| {
            erasing.hides(extent) && !mutant::is(Mutant::DieDuringOverwrite) || order.overlaps(extent)
        };
        let next = watching.verdict.pop_if(|(extent, _)| !is_busy(*extent));
        next.or_else(|| watching.watcher.verdict(Scope { layers, all, is_busy: &is_busy }))
    }

    /// Lets a new watcher begin that is awaited, if nothing is under way.
    pub(super) fn begin_anew(&mut self, disk: &Disk, requests: &Requests) {
        if !self.is_watcher_awaited(disk) || !requests.order.is_empty() {
            return;
        }
        if let Some(watching) = self.watch.as_mut().filter(|it| it.is_at_rest()) {
            watching.watcher = watching.watcher.anew();
            watching.verdict.clear();
            watching.begins_anew = false;
        }
    }
}

impl Volume {
    /// Does what can be done now for the watcher: reads, evidence, verdicts.
    pub(in crate::volume) fn drive_watching(&mut self, out: &mut Vec<Command>) {
        if self.watching.watch.is_none() || self.disk.schedule.halting {
            return;
        }
        self.watching.begin_anew(&self.disk, &self.requests);
        self.watching.tell_watcher(&self.disk, Observation::Tick);
        self.begin_looks(out);
        self.watching.prove(&mut self.disk, &mut self.requests, out);
        self.take_verdicts(out);
    }

    fn begin_looks(&mut self, out: &mut Vec<Command>) {
        while let Some(watching) = &mut self.watching.watch
            && watching.looks < LOOKS_MAX
            && let Some(extent) = watching.watcher.wants()
        {
            watching.looks += 1;
            watching.last_own += 1;
            let id = Origin::Own(watching.last_own);
            let request = Request { op: Op::ReadForInference, extent, fua: false };
            self.on_requests(out, |requests, others| requests.admit(others, id, request, Vec::new()));
        }
    }

    /// Makes obligations of verdicts, when that is due and the ledger has room.
    fn take_verdicts(&mut self, out: &mut Vec<Command>) {
        let since = self.watching.watch.as_ref().map_or(self.disk.schedule.now, |it| it.since);
        // While destruction pauses, the room is left to deaths that a guest waits for.
        if self.erasing.holes_unknown() || !self.disk.takes_deaths(since) || self.disk.pause().is_some() {
            return;
        }
        for _ in 0..VERDICTS_MAX {
            if !self.disk.has_room() || !self.watching.may_infer(&self.requests) {
                return;
            }
            let Some((extent, verdict)) =
                self.watching.next_verdict(&self.disk, &self.erasing, &self.requests)
            else {
                break;
            };
            assert!(!extent.is_empty(), "a verdict is on some bytes");
            let rest = match verdict {
                Verdict::Dead => self.infer(extent, out),
                // Content has nothing below where each write gets another place.
                Verdict::ConservativeOverwrite if self.disk.dead_leave() => None,
                Verdict::ConservativeOverwrite => self.erasing.oblige_below(&mut self.disk, extent, out),
            };
            assert!(rest.is_none_or(|rest| rest.len < extent.len), "a verdict is carried out part by part");
            if let (Some(watching), Some(rest)) = (&mut self.watching.watch, rest) {
                watching.verdict.push((rest, verdict));
            }
        }
    }

    /// Gives the first part of `extent`, which has died, its obligation. Returns the rest. Parts of blocks that
    /// cannot die alone are purged, as a guest would do it.
    fn infer(&mut self, extent: Extent<Addr>, out: &mut Vec<Command>) -> Option<Extent<Addr>> {
        let edge = self.disk.store.geometry().merged(extent, true).next();
        self.requests.closes.note_change();
        self.requests.note_death(&mut self.disk, extent);
        let (Some(part), Some(watching)) = (edge.and_then(|it| it.overlap(extent)), &mut self.watching.watch)
        else {
            let due = Due::Shred { no_hole: false };
            return self.erasing.oblige_first(&mut self.disk, extent, due, Cause::Map, out);
        };
        watching.parts += 1;
        assert!(watching.parts <= PARTS_MAX, "a limit of the watcher's own deaths is under way");
        watching.last_own += 1;
        let (id, request) =
            (Origin::Own(watching.last_own), Request { op: Op::Purge, extent: part, fua: false });
        self.requests.enter(&self.disk, id, &request);
        self.on_requests(out, |requests, others| requests.go_on(others, id, request));
        let rest = if part.start == extent.start {
            Extent::between(part.end(), extent.end())
        } else {
            Extent::between(extent.start.0, part.start.0)
        };
        Some(rest).filter(|it| !it.is_empty())
    }
}
