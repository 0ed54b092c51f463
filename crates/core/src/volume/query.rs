//! Questions that a volume answers at any time.

use crate::base::blocks::BlockSet;
use crate::base::parts::Forget;
use crate::base::units::{Addr, Extent, Millis, Pos, Scope};
use crate::owed::journal::FrameId;
use crate::owed::ledger::{Counters, Due, Obligation, is_zero};
use crate::owed::receipts::LogHead;
use crate::request::Liveness;
use crate::store::{Content, StoreStatus};
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::{Config, Volume};
use crate::watch::{Class, WaitsFor, WatchStatus, Watcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most runs to look at when waiting bytes are counted: meanwhile the guest waits too.
const WAITING_RUNS_MAX: usize = 1 << 16;
/// Most bytes in one such run, so that a look at a run has a limit.
const WAITING_RUN_BYTES_MAX: u64 = 256 << 20;

/// The state of a volume. All sizes are bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The size of the disk.
    pub size_bytes: u64,
    /// Blocks that have live data, or may have some.
    pub live_bytes: u64,
    /// Whether the search for holes after a crash is not over: some live blocks may have no data.
    pub holes_unknown: bool,
    /// The passes, by name.
    pub policy: String,
    /// Why the disk is latched, and the remedy; `None` while it is not.
    pub latched: Option<String>,
    /// The content to be destroyed.
    pub owed: OwedStatus,
    /// The requests that were not answered yet.
    pub requests: RequestsStatus,
    /// The counters since the disk was created.
    pub counters: Counters,
    /// The state of the watcher, unless detection is off.
    pub watch: Option<crate::watch::WatchStatus>,
    /// The state of the store.
    pub store: StoreStatus,
}

/// The content to be destroyed. All sizes are bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OwedStatus {
    /// Dead bytes that are still to be destroyed.
    pub queued_bytes: u64,
    /// Bytes that are still to be overwritten conservatively.
    pub conservative_bytes: u64,
    /// Suspicious bytes.
    pub suspicious_bytes: u64,
    /// Those of all these bytes that the medium would not erase: they are tried again after a while, and at the next start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remains_bytes: u64,
    /// How many entries the ledger has.
    pub entries: usize,
    /// How many entries the ledger may have, receipts included.
    pub entries_max: usize,
    /// Forgets under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgets: Vec<Scope>,
    /// Whether an erase task is under way.
    pub destroying: bool,
    /// Why destruction pauses, except where a write waits for it, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<String>,
}

/// The requests that were not answered yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RequestsStatus {
    /// How many requests are under way.
    pub running: usize,
    /// How many requests wait.
    pub waiting: usize,
}

/// Content that the watcher will call dead, or may call dead.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitingBytes {
    /// Bytes that have data, or may have some, by what they wait for.
    pub by_cause: BTreeMap<WaitsFor, u64>,
    /// Whether there were too many runs to count, so that more bytes may wait.
    pub at_least: bool,
}

impl Disk {
    /// The liveness at the start of `extent`, and where it may end.
    fn liveness_at(&self, extent: Extent<Addr>) -> (u64, Liveness) {
        let owed = self.state.ledger.within(extent).next();
        if let Some((found, it)) = owed.filter(|(found, _)| found.start == extent.start) {
            let liveness = if it.is_dead() { Liveness::Queued } else { Liveness::Suspicious };
            return (found.end(), liveness);
        }
        let end = owed.map_or(extent.end(), |(found, _)| found.start.0);
        match self.store.first(Content::Visible, Extent::between(extent.start.0, end)) {
            Some(run) if run.start == extent.start => (run.end(), Liveness::Live),
            Some(run) => (run.start.0, Liveness::Dead),
            None => (end, Liveness::Dead),
        }
    }

    /// Whether something is queued, other than what a medium would not erase just now.
    pub(super) fn has_queued(&self) -> bool {
        (self.state.ledger.has_queued() || !self.state.owed.is_empty()) && !self.all_remains()
    }

    /// A time that no obligation is older than; `None` if no obligation calls for an erase task.
    pub(super) fn oldest(&self) -> Option<Millis> {
        self.state.ledger.oldest().into_iter().chain(self.state.owed.oldest()).min()
    }

    /// Whether nothing waits for a commit, and at a stop for a checkpoint. A latched volume makes neither any more.
    fn has_committed(&self) -> bool {
        !self.commits.journal.has_pending() && (!self.schedule.stopping || self.is_checkpointed())
    }
}

impl Erasing {
    fn owed_status(&self, disk: &Disk) -> OwedStatus {
        let (ledger, owed) = (&disk.state.ledger, &disk.state.owed);
        OwedStatus {
            queued_bytes: ledger.dead().bytes() + owed.bytes() + ledger.overwritten_bytes(),
            conservative_bytes: ledger.conservative().bytes(),
            suspicious_bytes: ledger.suspicious().bytes(),
            remains_bytes: disk.remaining_bytes(),
            entries: ledger.len() + owed.len(),
            entries_max: disk.commits.journal.shape().entries_max(),
            forgets: disk.state.forgets.iter().map(Forget::scope).collect(),
            destroying: self.task.is_some(),
            pauses: disk.pause().or(disk.shortage()).map(str::to_string),
        }
    }

    fn task_wakeup(&self, disk: &Disk) -> Option<Millis> {
        let never = disk.latched.is_some() || disk.config.read_only || !self.has_unasked(disk);
        let asleep = never || disk.pause().is_some();
        let idle = disk.schedule.idle_at(&disk.config);
        let oldest = disk.oldest();
        let deadline = oldest.map(|since| Millis(since.0.saturating_add(disk.config.deadline_ms)));
        let others = deadline.into_iter().chain(self.space_wakeup(disk));
        // While a purge is under way, nothing else is destroyed.
        let purge = if disk.is_purging() { self.jobs.not_before } else { Millis(0) };
        let first = others.fold(idle, Millis::min).max(disk.purge_rests_until()).max(purge);
        let first = disk.overwritten_wakeup().into_iter().fold(first, Millis::min).max(disk.shortage_ends());
        (!asleep).then_some(if self.has_only_jobs(disk) { first.max(self.jobs.not_before) } else { first })
    }

    /// Whether nothing is left of versions that no epoch shows, or nothing more will be destroyed of them before the next start.
    fn owes_no_versions(&self, disk: &Disk) -> bool {
        if disk.store.epochs().is_none() {
            return true;
        }
        let status = disk.store.status();
        let has_left = status.residue_bytes() > 0 || self.has_forgets(disk) || disk.store.has_residue();
        status.trouble().is_some() || !has_left || disk.jobs_remain()
    }
}

impl Volume {
    /// How many bytes wait for a verdict.
    #[must_use]
    pub fn waiting_bytes(&self) -> WaitingBytes {
        let mut waiting = WaitingBytes::default();
        let pieces = self.watching.waiting_runs().flat_map(|(cause, extent)| {
            extent.pieces(WAITING_RUN_BYTES_MAX).map(move |piece| (cause, piece))
        });
        // A piece counts as a look even if it has no data.
        let looks = pieces.flat_map(|(cause, piece)| {
            self.disk.discardable_runs(piece).map(|run| run.len).chain([0]).map(move |bytes| (cause, bytes))
        });
        for (n, (cause, bytes)) in looks.enumerate() {
            let counted = waiting.by_cause.entry(cause).or_default();
            if n == WAITING_RUNS_MAX {
                waiting.at_least = true;
                break;
            }
            *counted += bytes;
        }
        waiting
    }

    /// The state of the volume.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            size_bytes: self.disk.store.geometry().size,
            live_bytes: self
                .disk
                .store
                .allocated_bytes()
                .saturating_sub(self.disk.state.ledger.dead().bytes()),
            holes_unknown: self.erasing.holes_unknown(),
            policy: self.disk.config.policy.to_string(),
            latched: self.disk.latched.clone(),
            owed: self.erasing.owed_status(&self.disk),
            requests: RequestsStatus {
                running: self.requests.running.len(),
                waiting: self.requests.waiting.len(),
            },
            counters: self.disk.state.counters,
            watch: self.watch_status(),
            store: self.disk.store.status(),
        }
    }

    /// Whether `scope` is still to be forgotten: for ever, if the disk is latched.
    #[must_use]
    pub fn is_forgetting(&self, scope: &Scope) -> bool {
        self.disk.latched.is_some() || self.disk.state.forgets.iter().any(|it| it.scope() == *scope)
    }

    /// The liveness of `extent`, from its start on: at most `runs_max` runs, each with its length in bytes
    /// and another liveness than the one before.
    #[must_use]
    pub fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)> {
        let mut runs: Vec<(u64, Liveness)> = Vec::new();
        let mut from = extent.start.0;
        while from < extent.end() {
            let (end, liveness) = self.disk.liveness_at(Extent::between(from, extent.end()));
            assert!(from < end && end <= extent.end(), "each look goes on, within the extent");
            let full = runs.len() == runs_max;
            match runs.last_mut() {
                Some((len, last)) if *last == liveness => *len += end - from,
                _ if full => break,
                _ => runs.push((end - from, liveness)),
            }
            from = end;
        }
        runs
    }

    /// The first run within `extent` that has data of its own, or may have some ([`Content::Own`]).
    #[must_use]
    pub fn first_allocated(&self, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        self.disk.store.first(Content::Own, extent)
    }

    /// The unallocated space of the data medium that was erased; `None` where content has a fixed place.
    #[must_use]
    pub fn unallocated(&self) -> Option<BlockSet<Pos>> {
        self.disk.store.mapped()?.unallocated()
    }

    /// The obligations, each with its address. Those whose address has another place by now come last.
    pub fn obligations(&self) -> impl Iterator<Item = (Extent<Addr>, Obligation)> {
        let size = self.disk.store.geometry().size;
        let owed = self.disk.state.owed.iter().map(move |(place, content)| {
            let address = content.address(place.extent);
            let no_hole = false;
            let due = if content.is_plain { Due::Free { no_hole } } else { Due::Shred { no_hole } };
            let it = Obligation { due, cause: content.cause, since: content.since };
            (Extent::between(address.start.0, address.end().min(size)), it)
        });
        let ledger = &self.disk.state.ledger;
        // A write does not destroy what dies by key: the old key is owed until a purge.
        let overwritten = ledger.overwritten().filter(|_| self.disk.dies_by_key());
        ledger.iter().chain(overwritten).map(|(extent, it)| (extent, *it)).chain(owed)
    }

    /// The end of the audit log, as the journal knows it.
    #[must_use]
    pub fn log_head(&self) -> LogHead {
        self.disk.state.log
    }

    /// How many receipts the audit log does not have yet.
    #[must_use]
    pub fn receipts_waiting(&self) -> usize {
        self.disk.state.receipts.len()
    }

    /// Whether the open epoch has a change, so that a close makes an epoch of it.
    #[must_use]
    pub fn has_open_epoch_changed(&self) -> bool {
        self.requests.closes.has_changed()
    }

    /// Lets `watcher` infer deaths from now on.
    pub fn watch(&mut self, watcher: Box<dyn Watcher>) {
        self.watching.watch(&self.disk, watcher);
    }

    /// The state of the watcher, if there is one.
    #[must_use]
    pub fn watch_status(&self) -> Option<WatchStatus> {
        self.watching.watch.as_ref().map(|it| it.watcher.status())
    }

    /// Whether a new watcher is about to begin.
    #[must_use]
    pub fn is_watcher_awaited(&self) -> bool {
        self.watching.is_watcher_awaited(&self.disk)
    }

    /// Runs of `extent` with the class of their present content; `None` without a watcher. Bytes whose death the watcher
    /// has handed out, and which have no obligation yet, are sensitive.
    #[must_use]
    pub fn classes(&self, extent: Extent<Addr>) -> Option<Vec<(Extent<Addr>, Class)>> {
        self.watching.classes(extent)
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.disk.config
    }

    /// Changes the configuration, from the next erase task on.
    pub fn reconfigure(&mut self, config: Config) {
        self.disk.config = config;
    }

    /// When the volume wants an [`Event::Tick`](crate::volume::Event::Tick), if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Millis> {
        let watch = self
            .watching
            .watch_wakeup(&self.disk)
            .filter(|_| self.disk.latched.is_none() && self.disk.pause().is_none());
        let watch = watch.map(|at| {
            if self.disk.checkpoints.awaits_space() { at.max(self.disk.shortage_ends()) } else { at }
        });
        let can_oblige = !self.requests.obliging.is_empty() && self.disk.has_room();
        let oblige = (can_oblige || self.forgets_go_on()).then_some(self.disk.schedule.now);
        watch
            .into_iter()
            .chain(self.erasing.task_wakeup(&self.disk))
            .chain(self.erasing.retry_wakeup(&self.disk))
            .chain(self.disk.remains_wakeup())
            .chain(oblige)
            .min()
    }

    /// Whether everything due by [`Event::ShredNow`](crate::volume::Event::ShredNow) has been destroyed, or never
    /// will be.
    #[must_use]
    pub fn owes_nothing_due(&self) -> bool {
        let never = self.disk.latched.is_some() || self.disk.config.read_only;
        never
            || !self.disk.schedule.all_due
            || (self.erasing.destroys_nothing()
                && !self.disk.has_queued()
                && self.erasing.owes_no_versions(&self.disk)
                && self.disk.is_overwritten_met()
                && self.watching.has_seen_all())
    }

    /// Whether no background job is left, or none will ever be done.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        let never = self.disk.latched.is_some() || self.disk.config.read_only;
        never || (self.erasing.task.is_none() && !self.disk.has_jobs())
    }

    /// Whether the search for holes is not over: some blocks may have no data.
    #[must_use]
    pub fn holes_unknown(&self) -> bool {
        self.erasing.holes_unknown()
    }

    /// Whether no request, erase task or commit is under way. A task may have paused, to go on later.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.disk.outstanding.is_empty()
            && self.requests.is_empty()
            && (self.disk.latched.is_some() || self.disk.has_committed())
    }

    /// Whether the volume is at rest, and no work is left that it could do unasked.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let never = self.disk.latched.is_some() || self.disk.config.read_only;
        self.is_at_rest() && (never || !self.erasing.has_unasked(&self.disk) && self.watching.has_seen_all())
    }

    /// The checkpoint that a clean stop keeps. Valid only if nothing is written to the journal after it.
    #[must_use]
    pub fn checkpoint(&self) -> Option<crate::volume::open::Checkpoint> {
        let known = self.erasing.fresh.is_none() && self.disk.latched.is_none() && self.is_at_rest();
        let FrameId { generation, seq } = self.disk.commits.journal.position();
        let is_durable = self.disk.commits.durable == FrameId { generation, seq };
        assert!(!known || is_durable, "a stop is clean once the journal's last frame is durable");
        known.then(|| crate::volume::open::Checkpoint {
            generation,
            seq,
            store: self.disk.store.view(),
            watch: self.watching.watch_view(),
        })
    }
}
