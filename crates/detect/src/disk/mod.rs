//! Watches a disk: the file system on it, or one in each of its partitions.
//!
//! 1. Each region is watched on its own, and knows nothing of the others: it observes the events
//!    within it, by addresses from its own first byte.
//! 2. Nothing is called dead while the regions are uncertain.
//! 3. A region that stays the same keeps all its knowledge, whatever becomes of the others.
//! 4. Where a file system was watched, another is not searched for before its head is written: the
//!    guest may still use the old regions.
//!
//! | question | where |
//! | --- | --- |
//! | which file system is watched | `watch` |
//! | partition tables, and the regions of a disk | `partition`, `plan` |

mod basis;
mod part;
pub mod partition;
pub(crate) mod plan;
mod search;
mod view;
pub(crate) mod watch;

use crate::disk::plan::Plan;
use crate::disk::watch::Watch;
use crate::formats::format::Prober;
use crate::rules::options::Options;
use basis::Basis;
use part::Part;
use quietus_core::base::units::{Addr, Extent, Millis};
use quietus_core::watch::{
    Agenda, Class, Content, Moment, Observation, Observer, PartStatus, Scope, Verdict, Waits, WaitsFor,
    WatchStatus, Watcher,
};
use search::Search;
use std::collections::VecDeque;

/// Time without a change of the table, in milliseconds, before a search for the regions begins.
const QUIET_MS: u64 = 500;

/// Watches one disk, whatever is or will be on it.
#[derive(Debug)]
pub struct Disk {
    disk_bytes: u64,
    options: Options,
    probers: Vec<Prober>,
    /// Time of the next search for the regions.
    search_at: Option<Millis>,
    search: Option<Search>,
    /// Evidence for the present regions.
    basis: Option<Basis>,
    /// Reason why there is no basis.
    blank: String,
    /// Watched regions, sorted by start; disjoint.
    parts: Vec<Part>,
    /// What regions with a file system have left, and no region has taken since.
    left: Vec<Extent<Addr>>,
    /// Reads under way, and who asked for each.
    asked: VecDeque<(Asker, Extent<Addr>)>,
    next_id: u64,
    /// Index of the part that comes first next time.
    turn: usize,
    /// Nothing has been written since the disk was opened.
    untouched: bool,
    /// Views of the regions from the last stop.
    views: Vec<(Extent<Addr>, Vec<u8>)>,
}

/// The parts of `extent` that are not in `taken`.
fn without(extent: Extent<Addr>, taken: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
    let before = (extent.start.0, extent.end().min(taken.start.0));
    let after = (extent.start.0.max(taken.end()), extent.end());
    [before, after].into_iter().filter(|(from, to)| from < to).map(|(from, to)| Extent::between(from, to))
}

fn stated(state: String) -> WatchStatus {
    WatchStatus { state, ..WatchStatus::default() }
}

/// The requester of a read, by its number: the search or a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asker(u64);

impl Disk {
    /// Creates a watch over a disk of `disk_bytes`, and its partitions, for the file systems of
    /// `probers`.
    #[must_use]
    pub fn new(disk_bytes: u64, probers: Vec<Prober>, options: Options) -> Self {
        Self {
            disk_bytes,
            options,
            probers,
            search_at: Some(Millis(0)),
            search: None,
            basis: None,
            blank: "the disk was not searched yet".into(),
            parts: Vec::new(),
            left: Vec::new(),
            asked: VecDeque::new(),
            next_id: 0,
            turn: 0,
            untouched: true,
            views: Vec::new(),
        }
    }

    fn new_id(&mut self) -> Asker {
        self.next_id += 1;
        Asker(self.next_id)
    }

    /// Schedules a search for the regions once the disk is quiet.
    fn look_later(&mut self, now: Millis) {
        self.search = None;
        self.search_at = Some(Millis(now.0 + QUIET_MS));
    }

    /// Whether the regions are uncertain (invariant 2).
    fn is_uncertain(&self) -> bool {
        self.search_at.is_some() || self.search.is_some()
    }

    fn begin_search(&mut self) {
        self.search_at = None;
        self.search = Some(Search::new(self.new_id()));
        self.go_on_looking();
    }

    fn go_on_looking(&mut self) {
        let Some(search) = &mut self.search else { return };
        match search.go_on(self.disk_bytes, &self.probers) {
            search::Step::Reads => {}
            search::Step::Found(plan) => self.found(plan),
            search::Step::Fails(why) => self.fail(&why),
        }
    }

    fn fail(&mut self, why: &str) {
        (self.search, self.basis) = (None, None);
        self.blank = why.into();
        self.parts.clear();
    }

    /// Adopts the regions of `plan` (invariant 3).
    fn found(&mut self, plan: Plan) {
        let mut old = std::mem::take(&mut self.parts);
        self.left.extend(old.iter().filter(|part| part.is_watching()).map(|part| part.extent));
        let table = plan.table.iter().flat_map(|table| &table.pieces).copied();
        for taken in plan.regions.iter().map(|it| it.extent).chain(table) {
            self.left = self.left.iter().flat_map(|it| without(*it, taken)).collect();
        }
        let regions: Vec<_> = plan.regions.iter().filter(|it| it.refused.is_none()).cloned().collect();
        for region in regions {
            // A part that is kept waits for the reads that it asked for.
            let kept = old.iter().position(|part| part.extent == region.extent);
            let part = match kept {
                Some(index) => old.swap_remove(index),
                None => Part {
                    id: self.new_id(),
                    extent: region.extent,
                    watch: self.new_watch(region.extent, &old),
                },
            };
            self.parts.push(part);
        }
        self.basis = self.search.take().map(|search| Basis::new(self.disk_bytes, plan, &search.contents));
    }

    /// A watch over `extent`, while the parts in `old` are being dropped (invariant 4).
    fn new_watch(&mut self, extent: Extent<Addr>, old: &[Part]) -> Watch {
        let watch = Watch::new(extent.len, self.probers.clone(), self.options);
        let is_rival = |part: &Part| {
            part.extent.start != extent.start && part.extent.overlaps(extent) && part.is_watching()
        };
        if old.iter().any(is_rival) {
            return watch.once_written();
        }
        if !self.untouched {
            return watch.late();
        }
        self.resumed(watch, extent)
    }

    fn resumed(&mut self, mut watch: Watch, extent: Extent<Addr>) -> Watch {
        if let Some(index) = self.views.iter().position(|(of, _)| *of == extent) {
            watch.restore(self.views.swap_remove(index).1);
        }
        watch
    }

    /// Whether the regions may change once `extent` has this content.
    fn may_change(&mut self, extent: Extent<Addr>, content: Content<'_>) -> bool {
        if let Some(search) = &self.search {
            return search.depends_on(extent);
        }
        match &mut self.basis {
            Some(basis) => basis.written(extent, content),
            None => Basis::is_outside(self.disk_bytes, &[], extent),
        }
    }

    fn touched(&self, extent: Extent<Addr>) -> std::ops::Range<usize> {
        let first = self.parts.partition_point(|part| part.extent.end() <= extent.start.0);
        let end = self.parts.partition_point(|part| part.extent.start.0 < extent.end());
        first..end.max(first)
    }

    fn take_asker(&mut self, extent: Extent<Addr>) -> Option<Asker> {
        let index = self.asked.iter().position(|(_, asked)| *asked == extent)?;
        self.asked.remove(index).map(|(asker, _)| asker)
    }

    /// Hands content to `asker`, who wanted it.
    fn answer(&mut self, at: Moment, asker: Asker, extent: Extent<Addr>, content: &[u8]) {
        if let Some(search) = self.search.as_mut().filter(|search| search.id == asker) {
            search.given(extent, content);
            return self.go_on_looking();
        }
        if let Some(part) = self.parts.iter_mut().find(|part| part.id == asker) {
            part.observe(at, Observation::Given { extent, content: Some(content) });
        }
    }

    /// Whether the regions depend on `extent`, a change of which was refused.
    fn depends_on(&self, extent: Extent<Addr>) -> bool {
        self.search.as_ref().is_some_and(|search| search.depends_on(extent))
            || self.basis.as_ref().is_some_and(|basis| basis.depends_on(extent))
    }

    /// A read of `extent` failed, on which the regions may depend.
    fn blind(&mut self, now: Millis, extent: Extent<Addr>) {
        if self.search.as_ref().is_some_and(|search| search.depends_on(extent)) {
            self.fail("the disk could not be read");
        } else if self.basis.as_ref().is_some_and(|basis| basis.depends_on(extent)) {
            self.look_later(now);
        }
    }

    /// Passes an observation to the parts that it concerns (invariant 1).
    fn pass_on(&mut self, at: Moment, observation: Observation<'_>) {
        let concerned = observation.place().map_or(0..self.parts.len(), |extent| self.touched(extent));
        self.parts[concerned].iter_mut().for_each(|part| part.observe(at, observation));
    }

    /// Calls `take` on each part, starting with another part each time, until it returns something.
    fn round_robin<T>(&mut self, mut take: impl FnMut(&mut Part) -> Option<T>) -> Option<T> {
        for _ in 0..self.parts.len() {
            self.turn = (self.turn + 1) % self.parts.len();
            let taken = take(&mut self.parts[self.turn]);
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// The status of a disk with this `basis`.
    fn decided(&self, basis: &Basis) -> WatchStatus {
        let plan = &basis.plan;
        match (&plan.table, self.parts.first()) {
            (None, Some(part)) => part.watch.status(),
            (None, None) => stated(plan.why_none()),
            (Some(_), _) => {
                let parts: Vec<_> = plan.regions.iter().filter_map(|it| self.part_status(it)).collect();
                let state = if self.is_uncertain() {
                    "the partition table is being changed".into()
                } else {
                    plan.summary(self.parts.iter().filter(|part| part.is_watching()).count())
                };
                let searches = parts.iter().filter_map(|part| part.watch.progress);
                let progress = searches.reduce(|(done, of), (more, of_more)| (done + more, of + of_more));
                WatchStatus { progress, parts, ..stated(state) }
            }
        }
    }

    fn part_status(&self, region: &crate::disk::plan::Region) -> Option<PartStatus> {
        let part = self.parts.iter().find(|part| part.extent == region.extent);
        let watch = match (&region.refused, part) {
            (Some(why), _) => stated(why.to_string()),
            (None, part) => part?.watch.status(),
        };
        let Extent { start, len } = region.extent;
        Some(PartStatus { number: region.number?, start_bytes: start.0, len_bytes: len, watch })
    }
}

impl Observer for Disk {
    fn observe(&mut self, at: Moment, observation: Observation<'_>) {
        match observation {
            Observation::Arrived { extent, content } => {
                self.untouched = false;
                if self.may_change(extent, content) {
                    self.look_later(at.now);
                }
            }
            Observation::Given { extent, content } => {
                let asker = self.take_asker(extent);
                match (asker, content) {
                    (Some(asker), Some(content)) => return self.answer(at, asker, extent, content),
                    (None, Some(_)) => return,
                    (_, None) => self.blind(at.now, extent),
                }
            }
            Observation::Refused { extent, .. } if self.depends_on(extent) => self.look_later(at.now),
            Observation::Tick if self.search_at.is_some_and(|search_at| search_at <= at.now) => {
                self.begin_search()
            }
            Observation::Refused { .. }
            | Observation::Overwriting { .. }
            | Observation::Read(_)
            | Observation::Clients
            | Observation::Attached
            | Observation::Tick
            | Observation::Cut
            | Observation::Proven
            | Observation::Stopping => {}
        }
        self.pass_on(at, observation);
    }

    fn needs(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let parts = self.parts[self.touched(extent)].iter();
        let needed = parts.filter_map(|part| Some((part, part.watch.needs(part.inner(extent)?))));
        needed.flat_map(|(part, needed)| needed.into_iter().map(|it| part.outer(it))).collect()
    }

    fn wants(&mut self) -> Option<Extent<Addr>> {
        let search = self.search.as_mut().and_then(|search| Some((search.id, search.queue.pop_front()?)));
        let next = search.or_else(|| {
            self.round_robin(|part| {
                let wanted = part.watch.wants()?;
                Some((part.id, part.outer(wanted)))
            })
        })?;
        self.asked.push_back(next);
        Some(next.1)
    }

    fn agenda(&self) -> Agenda {
        let own = Agenda { unproven_since: None, wakes_at: self.search_at, is_working: self.is_uncertain() };
        self.parts.iter().map(|part| part.watch.agenda()).fold(own, Agenda::and)
    }

    fn verdict(&mut self, scope: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        if self.is_uncertain() {
            return None;
        }
        self.round_robin(|part| part.verdict(scope))
    }

    fn waiting(&self) -> Waits<'_> {
        let left = self.left.iter().map(|extent| (WaitsFor::Owner, *extent));
        Box::new(self.parts.iter().flat_map(Part::waiting).chain(left))
    }

    fn classes(&self, extent: Extent<Addr>) -> Vec<(Extent<Addr>, Class)> {
        if self.is_uncertain() {
            return vec![(extent, Class::Sensitive)];
        }
        let (mut runs, mut at) = (Vec::new(), extent.start.0);
        let gap = |from, to| (from < to).then(|| (Extent::between(from, to), Class::Sensitive));
        for part in &self.parts[self.touched(extent)] {
            let Some(inner) = part.inner(extent) else { continue };
            runs.extend(gap(at, part.outer(inner).start.0));
            let known = part.watch.classes(inner).into_iter();
            runs.extend(known.map(|(run, class)| (part.outer(run), class)));
            at = part.outer(inner).end();
        }
        runs.extend(gap(at, extent.end()));
        runs
    }

    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut taken = Vec::new();
        for index in self.touched(extent) {
            let part = &mut self.parts[index];
            if let Some(inner) = part.inner(extent) {
                let found = part.watch.take_suspicious(inner);
                taken.extend(found.into_iter().map(|it| part.outer(it)));
            }
        }
        taken
    }

    fn view(&self) -> Option<Vec<u8>> {
        let views = self.parts.iter().filter_map(|part| Some((part.extent, part.watch.view()?)));
        let views: Vec<_> = views.filter(|_| !self.is_uncertain()).collect();
        (!views.is_empty()).then(|| view::join(&views))
    }
}

impl Watcher for Disk {
    fn anew(&self) -> Box<dyn Watcher> {
        Box::new(Self::new(self.disk_bytes, self.probers.clone(), self.options))
    }

    fn restore(&mut self, view: Vec<u8>) {
        self.views = view::split(&view).unwrap_or_default();
    }

    fn watches(&self, extent: Extent<Addr>) -> bool {
        self.parts[self.touched(extent)].iter().any(Part::is_watching)
    }

    fn status(&self) -> WatchStatus {
        match &self.basis {
            Some(basis) => self.decided(basis),
            None if self.search.is_some() => stated("looking for partitions and file systems".into()),
            None => stated(self.blank.clone()),
        }
    }
}
