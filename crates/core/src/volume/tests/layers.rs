//! When a conservative overwrite would destroy nothing.

use super::*;
use crate::owed::journal::SECTOR_BYTES;
use crate::watch::{
    Agenda, Attached, Class, Content, Moment, Observation, Observer, Scope, Verdict, Waits, WaitsFor,
    WatchStatus, Watcher,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The verdicts to come.
#[derive(Clone, Debug, Default)]
struct Verdicts {
    /// What lies below so many bytes from the start on may be dead.
    below_bytes: Arc<AtomicU64>,
    /// The first of the bytes that are dead, and how many there are.
    dead: (Arc<AtomicU64>, Arc<AtomicU64>),
}

/// The news for a watcher.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Reads of the guest.
    reads: Arc<AtomicU64>,
    clients: Arc<AtomicU64>,
    /// For how long a cache holds writes back, in milliseconds.
    hold_ms: Arc<AtomicU64>,
    /// Changes.
    pub(super) arrivals: Arc<AtomicU64>,
    /// The first byte of each extent that was shown, the last one lowest.
    pub(super) shown: Arc<AtomicU64>,
    /// The last byte of a change that was refused.
    refused_to: Arc<AtomicU64>,
    /// Answers to the watcher's reads, and proofs.
    pub(super) answers: Arc<AtomicU64>,
}

/// A watcher that sees nothing, and says what a test wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Puppet {
    pub(super) told: Told,
    verdicts: Verdicts,
    /// The runs that wait for a verdict.
    waits: Vec<(WaitsFor, Extent<Addr>)>,
    /// Whatever is written over may be dead.
    suspects_all: Arc<AtomicBool>,
    /// When it will look again, in milliseconds; 0: never.
    looks_again_ms: Arc<AtomicU64>,
    /// The watcher wants to see the first block before it is changed.
    sees_first: Arc<AtomicBool>,
    /// The watcher wants to see these extents before any change.
    pub(super) needs: Vec<Extent<Addr>>,
    /// The watcher wants to read the first block, once.
    pub(super) asks: Arc<AtomicBool>,
    /// The watcher has evidence to be made durable, once.
    pub(super) has_evidence: Arc<AtomicBool>,
    /// Whether each sector is plain; no sectors if marks are not followed. Zeros that arrive have no owner, and are plain.
    plain: Arc<[AtomicBool]>,
}

impl Observer for Puppet {
    fn observe(&mut self, at: Moment, observation: Observation<'_>) {
        if let Observation::Arrived { extent, content: Content::Zeros } = observation {
            self.is_plain(extent, true);
        }
        match observation {
            Observation::Arrived { .. } => drop(self.told.arrivals.fetch_add(1, Relaxed)),
            Observation::Clients => self.told.clients.store(at.clients as u64, Relaxed),
            Observation::Attached => self.told.hold_ms.store(at.attached.hold_ms(), Relaxed),
            Observation::Read(_) => drop(self.told.reads.fetch_add(1, Relaxed)),
            Observation::Refused { extent, .. } => {
                self.told.refused_to.fetch_max(extent.end(), Relaxed);
            }
            Observation::Overwriting { old, .. } => {
                self.told.shown.store(self.told.shown.load(Relaxed) << 8 | u64::from(old[0]), Relaxed);
            }
            Observation::Cut => self.has_evidence.store(false, Relaxed),
            Observation::Given { .. } | Observation::Proven => drop(self.told.answers.fetch_add(1, Relaxed)),
            _ => {}
        }
    }
    fn needs(&self, _: Extent<Addr>) -> Vec<Extent<Addr>> {
        if self.sees_first.load(Relaxed) { vec![Extent::new(0, 4096)] } else { self.needs.clone() }
    }
    fn wants(&mut self) -> Option<Extent<Addr>> {
        self.asks.swap(false, Relaxed).then(|| Extent::new(0, 4096))
    }
    fn agenda(&self) -> Agenda {
        let wakes_at = Some(self.looks_again_ms.load(Relaxed)).filter(|at| *at > 0).map(Millis);
        let has_found = self.verdicts.dead.1.load(Relaxed) > 0;
        let is_working = self.verdicts.below_bytes.load(Relaxed) > 0 || wakes_at.is_some() || has_found;
        let unproven_since = self.has_evidence.load(Relaxed).then_some(Millis(0));
        let is_working = is_working || self.asks.load(Relaxed) || unproven_since.is_some();
        Agenda { unproven_since, wakes_at, is_working }
    }
    fn verdict(&mut self, _: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        let dead = Extent::new(self.verdicts.dead.0.load(Relaxed), self.verdicts.dead.1.swap(0, Relaxed));
        if !dead.is_empty() {
            return Some((dead, Verdict::Dead));
        }
        let extent = Extent::new(0, self.verdicts.below_bytes.swap(0, Relaxed));
        (!extent.is_empty()).then_some((extent, Verdict::ConservativeOverwrite))
    }
    fn waiting(&self) -> Waits<'_> {
        Box::new(self.waits.iter().copied())
    }
    fn classes(&self, extent: Extent<Addr>) -> Vec<(Extent<Addr>, Class)> {
        if self.plain.is_empty() {
            return vec![(extent, Class::Sensitive)];
        }
        let class = |sector: &Extent<Addr>| {
            let is_plain = self.plain[(sector.start.0 / SECTOR_BYTES) as usize].load(Relaxed);
            if is_plain { Class::Plain } else { Class::Unsettled }
        };
        extent.pieces(SECTOR_BYTES).map(|sector| (sector, class(&sector))).collect()
    }
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        if self.suspects_all.load(Relaxed) { vec![extent] } else { Vec::new() }
    }
    fn view(&self) -> Option<Vec<u8>> {
        Some(vec![1])
    }
}

impl Puppet {
    /// One that follows marks: nothing is plain until [`Puppet::is_plain`] says so.
    pub(super) fn with_marks() -> Self {
        let plain = (0..SIZE / SECTOR_BYTES).map(|_| AtomicBool::default()).collect();
        Self { plain, ..Self::default() }
    }

    /// The present content of `extent` is plain, or is not, if marks are followed.
    pub(super) fn is_plain(&self, extent: Extent<Addr>, is: bool) {
        for sector in extent.pieces(SECTOR_BYTES).filter(|_| !self.plain.is_empty()) {
            self.plain[(sector.start.0 / SECTOR_BYTES) as usize].store(is, Relaxed);
        }
    }

    pub(super) fn finds_dead(&self, extent: Extent<Addr>) {
        self.verdicts.dead.0.store(extent.start.0, Relaxed);
        self.verdicts.dead.1.store(extent.len, Relaxed);
    }

    pub(super) fn below_may_be_dead(&self, bytes: u64) {
        self.verdicts.below_bytes.store(bytes, Relaxed);
    }
}

impl Watcher for Puppet {
    fn restore(&mut self, _: Vec<u8>) {}
    fn watches(&self, _: Extent<Addr>) -> bool {
        true
    }
    fn status(&self) -> WatchStatus {
        WatchStatus::default()
    }
    fn anew(&self) -> Box<dyn Watcher> {
        Box::new(Self { told: self.told.clone(), ..Self::default() })
    }
}

fn watched() -> (Bench, Puppet) {
    let (mut bench, puppet) = (Bench::new("purge-2"), Puppet::default());
    bench.volume.watch(Box::new(puppet.clone()));
    (bench, puppet)
}

impl Bench {
    /// Says that what lies below the first bytes may be dead; how many are
    /// overwritten for that.
    fn rewritten_below(&mut self, puppet: &Puppet, bytes: u64) -> u64 {
        let before = self.volume.status().counters.rewritten_bytes;
        puppet.verdicts.below_bytes.store(bytes, Relaxed);
        self.idle();
        assert_eq!(self.liveness()[0], (bytes, Liveness::Suspicious));
        self.volume.status().counters.rewritten_bytes - before
    }
}

#[test]
fn the_watcher_is_told_how_many_clients_there_are() {
    let (mut bench, puppet) = watched();
    for (event, clients) in [(Event::Connected, 1), (Event::Connected, 2), (Event::Disconnected, 1)] {
        bench.tell(event);
        assert_eq!(puppet.told.clients.load(Relaxed), clients);
    }
}

#[test]
fn a_write_whose_old_content_was_read_is_refused_once_the_disk_has_latched() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 4096);
    puppet.sees_first.store(true, Relaxed);
    let write = bench.ask(Op::Write(vec![8; 4096].into()), 0, 4096);
    assert_eq!(under_way(&bench), "-", "the old content is read first");
    bench.tell(Event::Failed(MediumError { kind: MediumErrorKind::Io, message: "gone".into() }));
    bench.settle();
    assert!(matches!(bench.replies[&write], Err(Refusal::Latched(_))), "{:?}", bench.replies[&write]);
    assert_eq!(bench.reads(0, 4096), [7; 4096]);
}

#[test]
fn the_watcher_is_told_how_the_guest_is_attached() {
    let (mut bench, puppet) = watched();
    for (attached, hold_ms) in [(Attached::Cached { hold_ms: 7 }, 7), (Attached::Direct, 0)] {
        bench.tell(Event::Attached(attached));
        assert_eq!(puppet.told.hold_ms.load(Relaxed), hold_ms);
    }
}

/// How much of `waits` is counted; in the order of the causes.
fn counted(bench: &mut Bench, waits: Vec<(WaitsFor, Extent<Addr>)>) -> (Vec<(WaitsFor, u64)>, bool) {
    bench.volume.watch(Box::new(Puppet { waits, ..Puppet::default() }));
    let WaitingBytes { by_cause, at_least } = bench.volume.waiting_bytes();
    (by_cause.into_iter().collect(), at_least)
}

#[test]
fn of_what_waits_only_what_holds_data_is_counted() {
    let mut bench = Bench::new("purge-2");
    bench.write(4096, 7, 4096);
    bench.write(65536, 7, 8192);
    bench.write(SIZE / 2, 7, 4096);
    let waits = vec![
        (WaitsFor::Proof, Extent::new(0, SIZE / 2)),
        (WaitsFor::Names, Extent::new(SIZE / 2 + 4096, SIZE / 4)),
        (WaitsFor::Settling, Extent::new(SIZE / 2, 4096)),
    ];
    let expected = vec![(WaitsFor::Proof, 12288), (WaitsFor::Names, 0), (WaitsFor::Settling, 4096)];
    assert_eq!(counted(&mut bench, waits), (expected, false));
}

#[test]
fn what_waits_is_counted_up_to_a_limit() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 4096);
    let (held, empty) = (Extent::new(0, 4096), Extent::new(8192, 4096));
    // Each run is a look at its data, and one at the rest.
    for (runs, at_least) in [(1 << 15, false), ((1 << 15) + 1, true)] {
        let expected = vec![(WaitsFor::Commits, 4096 << 15)];
        assert_eq!(counted(&mut bench, vec![(WaitsFor::Commits, held); runs]), (expected, at_least));
    }
    let expected = vec![(WaitsFor::Proof, 0)];
    assert_eq!(counted(&mut bench, vec![(WaitsFor::Proof, empty); (1 << 16) + 1]), (expected, true));
}

#[test]
fn below_the_first_content_nothing_is_overwritten() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 4096);
    assert_eq!(bench.rewritten_below(&puppet, 4096), 0);
    assert_eq!(bench.reads(0, 4096), [7; 4096]);
    bench.write(0, 8, 4096);
    assert_eq!(bench.volume.status().counters.rewritten_bytes, 4096, "the first content was not destroyed");
    assert_eq!(bench.reads(0, 4096), [8; 4096]);
}

#[test]
fn below_the_second_content_the_first_is_overwritten() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 4096);
    bench.write(1024, 8, 1024);
    assert_eq!(bench.rewritten_below(&puppet, 4096), 1024, "nothing lies below the rest");
    assert_eq!(bench.rewritten_below(&puppet, 4096), 0, "it has been done");
    assert_eq!(bench.reads(0, 4096), [vec![7; 1024], vec![8; 1024], vec![7; 2048]].concat());
}

#[test]
fn below_what_was_written_after_a_destruction_lies_nothing_until_one_more_write() {
    for (more, below) in [(0, 0), (1, 4096)] {
        let (mut bench, puppet) = watched();
        bench.write(0, 7, 4096);
        puppet.suspects_all.store(true, Relaxed);
        bench.write(0, 8, 4096);
        assert_eq!(bench.volume.status().counters.rewritten_bytes, 4096);
        puppet.suspects_all.store(false, Relaxed);
        (0..more).for_each(|_| bench.write(0, 9, 4096));
        assert_eq!(bench.rewritten_below(&puppet, 4096), below, "{more} writes more");
    }
}

#[test]
fn below_what_was_written_after_a_write_that_was_refused_amid_its_passes_lies_that_write() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 4096);
    bench.write(65536, 7, 65536);
    puppet.suspects_all.store(true, Relaxed);
    // The staging slots hold a half of it.
    let write = bench.ask(Op::Write(vec![8; 131_072].into()), 0, 131_072);
    while bench.volume.status().counters.rewritten_bytes == 0 {
        assert!(bench.step());
    }
    bench.data.starved.set(true);
    bench.settle();
    assert!(matches!(bench.replies.remove(&write), Some(Err(Refusal::NoSpace(_)))));
    bench.data.starved.set(false);
    puppet.suspects_all.store(false, Relaxed);
    bench.now += 60_000;
    bench.write(0, 9, 4096);
    assert_eq!(bench.rewritten_below(&puppet, 4096), 4096);
}

#[test]
fn below_what_was_written_after_a_shred_lies_nothing() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 4096);
    bench.write(0, 8, 4096);
    bench.done(Op::Trim, 0, 4096).unwrap();
    bench.idle();
    bench.write(0, 9, 4096);
    assert_eq!(bench.rewritten_below(&puppet, 4096), 0);
}

#[test]
fn the_first_write_next_to_data_in_the_same_block_waits_for_nothing() {
    let (mut bench, puppet) = watched();
    puppet.suspects_all.store(true, Relaxed);
    bench.write(0, 7, 1024);
    bench.write(1024, 8, 3072);
    assert!(bench.receipts.is_empty(), "nothing had been there");
    bench.write(1024, 9, 1024);
    assert_eq!(bench.receipts[0].extent, Extent::new(1024, 1024));
}

#[test]
fn who_waits_for_a_time_is_not_asked_again_and_again_before() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 4096);
    puppet.looks_again_ms.store(2000, Relaxed);
    assert_eq!(bench.volume.next_wakeup(), Some(Millis(250)), "when the disk is idle");
    bench.idle();
    assert_eq!(bench.volume.next_wakeup(), Some(Millis(2000)));
}

#[test]
fn a_copy_is_nothing_that_the_guest_did() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 8192);
    bench.done(Op::Trim, 4096, 4096).unwrap();
    bench.now = 200;
    assert_eq!(bench.done(Op::Copy, 0, 8192), Ok([[7; 4096], [0; 4096]].concat().into()));
    assert_eq!((puppet.told.reads.load(Relaxed), bench.volume.next_wakeup()), (0, Some(Millis(250))));
    bench.reads(0, 8192);
    assert_eq!((puppet.told.reads.load(Relaxed), bench.volume.next_wakeup()), (1, Some(Millis(450))));
}

#[test]
fn of_what_is_refused_the_watcher_hears_nothing() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 8192);
    let refused = [
        (Op::Zero { no_hole: true, fast: true }, 0, 4096),
        (Op::Zero { no_hole: false, fast: true }, SIZE, 4096),
        (Op::Trim, SIZE - 4096, 8192),
        (Op::Write(vec![1; 3].into()), 0, 4096),
    ];
    for (op, start, len) in refused {
        assert!(bench.done(op.clone(), start, len).is_err(), "{op:?}");
        assert_eq!(puppet.told.arrivals.load(Relaxed), 1, "{op:?}");
    }
}

#[test]
fn of_a_change_that_fails_before_it_begins_the_watcher_hears_all_the_same() {
    let (mut bench, puppet) = watched();
    bench.write(0, 7, 16384);
    puppet.sees_first.store(true, Relaxed);
    bench.data.blind.set(true);
    assert!(matches!(bench.done(Op::Trim, 0, 16384), Err(Refusal::Io(_))));
    assert_eq!(
        puppet.told.refused_to.load(Relaxed),
        16384,
        "some of what did not change is taken for changed"
    );
}

#[test]
fn a_ledger_full_of_what_is_suspicious_makes_room_for_a_death() {
    let (mut bench, puppet) = watched();
    for start in (0..SIZE).step_by(1024) {
        bench.write(start, 7, 512);
    }
    puppet.verdicts.below_bytes.store(SIZE, Relaxed);
    bench.idle();
    let trim = bench.ask(Op::Trim, 512, 1024);
    bench.settle();
    bench.idle();
    assert!(bench.replies.remove(&trim).is_some_and(|it| it.is_ok()), "{:?}", bench.volume.status());
    let status = bench.volume.status();
    assert!(status.owed.entries <= status.owed.entries_max / 2 + 1, "{status:?}");
}
