//! The interface of the rule: each observation goes to the part of the rule that it is evidence
//! for.

use crate::formats::format::{Format, Kind, Reason};
use crate::mutant::{self, Mutant};
use crate::rules::marks::Marks;
use crate::rules::rule::{NOT_FOLLOWED, READ_BYTES_MAX, Rule, overlaid};
use crate::rules::rule_e::{RuleE, replay};
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{
    Agenda, Class, Content, Moment, Observation, Observer, Scope, Verdict, Waits, WaitsFor,
};
use roaring::RoaringBitmap;
use std::borrow::Cow;

impl RuleE {
    fn arrived(&mut self, at: Moment, extent: Extent<Addr>, content: Content<'_>) {
        self.clock.change(at.now);
        self.expire();
        self.survey.changed(at.now);
        match content {
            Content::Bytes(bytes) => self.written(at, extent, bytes),
            Content::Zeros => self.zeroed(extent),
        }
    }

    /// Requests of one client may come again, from another.
    fn clients_changed(&mut self, now: Millis) {
        self.tick(now);
        if !mutant::is(Mutant::EchoTrusted) {
            self.recent.extend(&self.live);
        }
    }

    fn overwriting(
        &mut self,
        extent: Extent<Addr>,
        content: Content<'_>,
        old_extent: Extent<Addr>,
        old: &[u8],
    ) {
        let Some(blocks) = self.grid.covered(old_extent) else { return };
        for (block, old) in blocks.zip(old.chunks_exact(self.format.block_bytes() as usize)) {
            let new = overlaid(self.grid.extent_of(block), old, extent, content);
            match self.format.kind(block) {
                Kind::Geometry => {
                    self.inodes_written(block, Kind::Geometry, old, &new);
                    self.geometry_written(block, old, &new);
                }
                Kind::Map if mutant::is(Mutant::MapHoldsNoPointers) => {}
                kind @ (Kind::Inodes | Kind::Map) => self.inodes_written(block, kind, old, &new),
                _ => {
                    self.pointers_written(block, old, &new);
                    self.follow_marks(|tree, marking| tree.written(marking, block, old, &new));
                }
            }
        }
    }

    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        let Some(content) = content else {
            self.broken = Some(Reason("metadata could not be read".into()));
            return;
        };
        let Some(blocks) = self.grid.covered(extent) else { return };
        for block in blocks {
            let Some((_, part)) = self.grid.part(block, extent, content, 0) else { return };
            match self.format.kind(block) {
                Kind::Map => {
                    self.map_reread(block, extent, content);
                    self.inodes_read(block, Kind::Map, part);
                }
                kind @ (Kind::Inodes | Kind::Geometry) => self.inodes_read(block, kind, part),
                _ => {
                    self.pointers_read(block, part);
                    self.follow_marks(|tree, marking| tree.seen(marking, block, part));
                }
            }
        }
        self.settle_content();
        self.condemn_unwritten(&RoaringBitmap::new());
    }

    pub(super) fn tick(&mut self, now: Millis) {
        self.clock.tick(now);
        self.expire_by_time();
    }

    fn cut(&mut self) {
        self.surveyed |= self.knows_names();
        // The absence of a name is evidence too, and may not be durable.
        if self.surveyed {
            self.deaths.cut();
        }
        if mutant::is(Mutant::VerdictBeforeProven) {
            self.proven();
        }
    }

    fn proven(&mut self) {
        let counts = self.asks_names() && !mutant::is(Mutant::NoSecondWitness);
        let none = RoaringBitmap::new();
        let named = match counts {
            true if self.heeds_unwritten() => self.unwritten.with_content(&self.names),
            true => Cow::Borrowed(&self.names.referenced),
            false => Cow::Borrowed(&none),
        };
        self.deaths.proven(&named);
    }
}

impl Observer for RuleE {
    fn observe(&mut self, at: Moment, observation: Observation<'_>) {
        match observation {
            Observation::Arrived { extent, content } => self.arrived(at, extent, content),
            Observation::Overwriting { extent, content, old_extent, old } => {
                self.overwriting(extent, content, old_extent, old);
            }
            Observation::Refused { extent, was_shown } => self.refused(at.now, extent, was_shown),
            Observation::Given { extent, content } => self.given(extent, content),
            Observation::Read(extent) => self.may_be_opened(extent),
            Observation::Clients => self.clients_changed(at.now),
            Observation::Attached => self.attached_so(at),
            Observation::Tick => self.tick(at.now),
            Observation::Cut => self.cut(),
            Observation::Proven => self.proven(),
            Observation::Stopping => {}
        }
    }

    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let Some(blocks) = self.grid.touched(extent) else { return Vec::new() };
        let mut needed = self.names.pointers_within(blocks.clone());
        needed.extend(self.sources.range(blocks.clone()));
        needed.extend(self.classes.iter().flat_map(|marks| marks.tree.sources_within(blocks.clone())));
        self.grid.runs(needed)
    }

    fn wants(&mut self) -> Option<Extent<Addr>> {
        let most = READ_BYTES_MAX / u64::from(self.format.block_bytes());
        let read = self.names.next_read(most as usize).map(|run| self.grid.extent_of_run(&run));
        let read = read.or_else(|| {
            let run = self.classes.as_mut()?.next_read(most as u32)?;
            Some(self.grid.extent_of_run(&run))
        });
        read.or_else(|| self.survey.next_read())
    }

    fn agenda(&self) -> Agenda {
        let waits = !self.unknown.is_empty() && self.asks_names();
        let is_idle = self.survey.is_idle() && (waits || self.deaths.is_idle()) && self.names.are_read();
        let is_idle = is_idle && !self.classes.as_ref().is_some_and(Marks::is_reading);
        Agenda {
            unproven_since: self.deaths.since.filter(|_| self.surveyed || self.knows_names()),
            wakes_at: self.survey.begins_at(),
            is_working: !is_idle,
        }
    }

    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        if self.is_broken() {
            return None;
        }
        if !scope.layers {
            self.suspicious.clear();
            self.deaths.forgive_all();
        }
        if let Some(marks) = &mut self.classes {
            marks.classes.has_layers = scope.layers;
        }
        let known = self.knows_names();
        let bytes = u64::from(self.format.block_bytes());
        let (run, verdict) = self.deaths.next(known, scope, bytes)?;
        self.suspicious.remove_range(run.clone());
        if verdict == Verdict::Dead {
            self.unwritten.hollow.remove_range(run.clone());
        }
        match (&mut self.classes, verdict) {
            (Some(marks), Verdict::Dead) => marks.classes.handed_out(run.clone()),
            (Some(marks), Verdict::ConservativeOverwrite) => marks.below_destroyed(run.clone()),
            (None, _) => {}
        }
        if verdict == Verdict::ConservativeOverwrite && scope.all {
            // The owner of the block may not have written it yet.
            self.suspicious.insert_range(run.clone());
        }
        Some((self.grid.extent_of_run(&run), verdict))
    }

    fn waiting(&self) -> Waits<'_> {
        let unnamed = if self.knows_names() { WaitsFor::Proof } else { WaitsFor::Names };
        let mut runs = Vec::new();
        let empty = &self.unwritten.empty & &self.unwritten.named & &self.live;
        for (cause, blocks) in [(WaitsFor::Settling, self.unconfirmed.all()), (WaitsFor::Content, empty)] {
            let plain = self.plain(&blocks);
            runs.extend(self.grid.all_runs(&(blocks - plain)).map(|run| (cause, run)));
        }
        Box::new(self.deaths.waiting(self.grid, unnamed).chain(runs))
    }

    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let Some(blocks) = self.grid.touched(extent) else { return Vec::new() };
        let mut found = self.may_be_dead(blocks);
        let plain = self.plain(&found);
        self.suspicious -= &plain;
        self.deaths.forgive_these(&plain);
        found -= plain;
        if found.is_empty() {
            return Vec::new();
        }
        self.figures.reused += found.len();
        if let Some(whole) = self.grid.covered(extent) {
            self.deaths.forgive(whole.clone());
            self.taken(&found, whole);
        }
        self.grid.suspect(&mut self.suspicious, &found, extent)
    }

    fn classes(&self, extent: Extent<Addr>) -> Vec<(Extent<Addr>, Class)> {
        match self.classes.as_ref().filter(|_| !self.is_broken()) {
            Some(marks) => self.grid.classes(extent, |block| marks.class(block)),
            None => vec![(extent, Class::Sensitive)],
        }
    }

    fn view(&self) -> Option<Vec<u8>> {
        self.known()
    }
}

impl Rule for RuleE {
    fn format(&self) -> &dyn Format {
        &*self.format
    }

    fn is_in_use(&self) -> bool {
        self.in_use
    }

    fn has_changed(&self) -> bool {
        self.changed
    }

    fn broken(&self) -> Option<&Reason> {
        self.broken.as_ref()
    }

    fn hindrance(&self) -> Option<String> {
        if self.may_be_replayed() {
            return Some(replay::MAY_BE_REPLAYED.into());
        }
        self.unknown_why.as_ref().filter(|_| !self.unknown.is_empty()).map(ToString::to_string)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.format.figures();
        figures.extend([
            ("live", self.live.len()),
            ("named by pointers", self.names.referenced.len()),
            ("pointer blocks", self.names.pointers.len() as u64),
            ("suspicious", self.suspicious.len()),
            ("unconfirmed", self.unconfirmed.len()),
            ("dead, evidence not durable yet", self.deaths.unproven()),
            ("dead, still named", self.deaths.referenced.len()),
            ("shown free", self.figures.freed),
            ("shown free soon after a write", self.figures.unconfirmed),
            ("unlinked while allocated", self.figures.unlinked),
            ("orphan writes", self.figures.orphans),
            ("written while suspicious", self.figures.reused),
            ("pointers of uncertain type", self.figures.guessed),
            ("dead below unwritten extents", self.figures.unwritten),
        ]);
        figures.extend(self.classes.iter().flat_map(Marks::figures));
        figures
    }

    fn marks(&self) -> Result<&'static str, &'static str> {
        self.classes.as_ref().map_or(Err(NOT_FOLLOWED), Marks::note)
    }

    fn progress(&self) -> Option<(u64, u64)> {
        self.survey.progress()
    }

    fn resume(&mut self, view: &[u8]) -> bool {
        self.resumed(view).is_some()
    }
}
