//! The rules of retention, carried out by a server whose clock the test sets.

use crate::versions::judge::{ask, made};
use quietus::disk::keys::Source;
use quietus::disk::{DiskDir, VersionsOptions};
use quietus::engine::export::carry_out;
use quietus::epochs::{self, Timer, Versioned};
use quietus::front::control::{
    self, Answer, Call, Closed, Control, Forgotten, Held, Released, StatusAnswer, Versions,
};
use quietus::open_disk::{Clock, OpenDisk, Reading};
use quietus_core::base::units::Extent;
use quietus_core::request::{Op, Request};
use quietus_seal::Seal;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
/// How often the server carries out the rules.
const OFTEN: Duration = Duration::from_millis(5);

/// A disk whose epochs of more than two days expire, and the clock of its host.
struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
    hands: Arc<Mutex<Reading>>,
}

/// A server of the disk, until it is dropped.
struct Served {
    disk: Arc<OpenDisk>,
    _control: Control,
    _timers: Vec<Timer>,
}

impl Bench {
    fn new() -> Self {
        Self::closing("manual")
    }

    /// A disk whose epochs close at this end.
    fn closing(end: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let versions = VersionsOptions {
            seal: Some(Seal::None),
            epoch: Some(end.parse().expect("an end of epochs")),
            retention: Some("all 2d".parse().expect("a rule")),
            ..VersionsOptions::default()
        };
        let path = made(dir.path(), 1 << 20, versions);
        let hands = Arc::new(Mutex::new(Reading { wall_ms: 1000 * DAY, elapsed: Duration::ZERO }));
        Self { _dir: dir, path, hands }
    }

    fn serve(&self) -> Served {
        self.serve_with(OFTEN)
    }

    /// Serves the disk; the rules are carried out every so often.
    fn serve_with(&self, every: Duration) -> Served {
        let mut dir = DiskDir::open(&self.path).expect("it opens");
        dir.unlock(&Source::default()).expect("the disk has no keys");
        let config = dir.config().expect("a policy");
        let mut disk = OpenDisk::start_with(dir, config, None, true, &mut |_, _| true).expect("it starts");
        let hands = Arc::clone(&self.hands);
        disk.clock = Clock::of(move || *hands.lock().expect("no thread panics"));
        let disk = Arc::new(disk);
        let timers = epochs::timers(&disk, every).expect("threads");
        let control = control::serve(Arc::clone(&disk)).expect("a socket");
        Served { disk, _control: control, _timers: timers }
    }

    /// Time goes by.
    fn pass(&self, ms: u64) {
        let mut hands = self.hands.lock().expect("no thread panics");
        hands.elapsed += Duration::from_millis(ms);
        hands.wall_ms += ms;
    }

    /// Sets the clock.
    fn set(&self, change: impl Fn(u64) -> u64) {
        let mut hands = self.hands.lock().expect("no thread panics");
        hands.wall_ms = change(hands.wall_ms);
    }

    fn ask<T: Answer>(&self, call: &Call) -> T {
        control::ask(&self.path, call, None, &mut |_, _| true).expect("an answer")
    }

    fn close(&self, name: Option<&str>, confirm_clock: bool) {
        let _: Closed = self.ask(&Call::Epoch { name: name.map(Into::into), confirm_clock });
    }

    fn kept(&self) -> Vec<u64> {
        let Versions { versions, .. } = self.ask(&Call::Versions { from: 0, unique: false });
        versions.iter().map(|it| it.epoch).collect()
    }

    /// Why no rule is carried out.
    fn stopped(&self) -> Option<String> {
        self.ask::<StatusAnswer>(&Call::Status).epochs.and_then(|it| it.stopped)
    }

    fn wait_until(&self, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed().as_secs() < 60, "{:?}", self.ask::<StatusAnswer>(&Call::Status));
            std::thread::sleep(OFTEN);
        }
    }
}

impl Served {
    fn write(&self, byte: u8) {
        ask(&self.disk, Op::Write(vec![byte; 4096].into()), 0, 1);
    }

    fn trim(&self) {
        ask(&self.disk, Op::Trim, 0, 1);
    }

    fn stop(self) {
        let Self { disk, _control: control, _timers: timers } = self;
        drop((control, timers));
        disk.close(true, |_| true);
    }
}

/// Three epochs, a day apart.
fn three_days(bench: &Bench, served: &Served) {
    for day in 1..=3 {
        served.write(day);
        bench.close(None, false);
        bench.pass(DAY);
    }
}

#[test]
fn a_server_that_never_runs_for_long_forgets_when_it_starts() {
    let bench = Bench::new();
    let served = bench.serve_with(Duration::from_secs(3600));
    three_days(&bench, &served);
    let oldest = bench.kept()[0];
    served.stop();
    let served = bench.serve_with(Duration::from_secs(3600));
    bench.wait_until(|| !bench.kept().contains(&oldest));
    served.stop();
}

#[test]
fn a_server_forgets_what_is_too_old_but_for_what_has_a_name_or_is_held() {
    let bench = Bench::new();
    let served = bench.serve();
    for (day, name) in [(1, None), (2, Some("release")), (3, None), (4, None)] {
        served.write(day);
        bench.close(name, false);
        bench.pass(HOUR);
    }
    let held =
        json!({"call": "hold", "name": "case", "epochs": {"from": "3"}, "who": "legal", "why": "subpoena"});
    let _: Held = bench.ask(&serde_json::from_value(held).expect("a call"));
    assert_eq!(bench.kept(), [1, 2, 3, 4]);
    bench.pass(2 * DAY - 4 * HOUR + 1);
    bench.wait_until(|| bench.kept() == [2, 3, 4]);
    bench.pass(3 * HOUR);
    bench.wait_until(|| bench.kept() == [2, 3]);
    let _: Released = bench.ask(&Call::Release { name: "case".into() });
    bench.wait_until(|| bench.kept() == [2]);
    assert_eq!(bench.stopped(), None);
    served.stop();
    let log = std::fs::read_to_string(bench.path.join("audit.jsonl")).expect("the log");
    for epoch in [1, 3, 4] {
        let line = format!(r#""event":"forgets","from":{epoch},"to":{epoch},"by_rule":true"#);
        assert!(log.contains(&line), "{line}: {log}");
    }
}

#[test]
fn a_clock_that_leaps_stops_the_rules_until_an_operator_confirms_it_whatever_starts_in_between() {
    let bench = Bench::new();
    let served = bench.serve();
    three_days(&bench, &served);
    bench.wait_until(|| bench.kept() == [2, 3]);
    bench.set(|now| now + 30 * DAY);
    bench.wait_until(|| bench.stopped().is_some());
    let stopped = bench.stopped().expect("it stopped");
    assert!(stopped.contains("leapt by 2592000 s") && stopped.contains("--confirm-clock"), "{stopped}");
    // An epoch that closes by the wrong clock is no confirmation, and no start is one.
    served.write(9);
    bench.close(None, false);
    assert_eq!((bench.stopped(), bench.kept()), (Some(stopped.clone()), vec![2, 3, 4]));
    served.stop();
    let served = bench.serve();
    bench.pass(HOUR);
    assert_eq!((bench.stopped(), bench.kept()), (Some(stopped), vec![2, 3, 4]));
    bench.close(None, true);
    assert_eq!(bench.stopped(), None);
    bench.wait_until(|| bench.kept().first() == Some(&4));
    served.stop();
}

#[test]
fn a_clock_that_was_set_unobserved_is_noticed_before_any_epoch_closes() {
    for (change, why) in
        [(-(5 * DAY as i64), "behind the last epoch"), (400 * DAY as i64, "the last epoch is 401 days old")]
    {
        let bench = Bench::new();
        let served = bench.serve();
        three_days(&bench, &served);
        bench.wait_until(|| bench.kept() == [2, 3]);
        served.stop();
        bench.set(|now| now.saturating_add_signed(change));
        let served = bench.serve();
        served.write(9);
        bench.close(None, false);
        let stopped = bench.stopped().expect("it stopped");
        assert!(stopped.contains(why), "{stopped}");
        assert_eq!(bench.kept(), [2, 3, 4]);
        // Set right, and confirmed: what closed meanwhile is not older than it is, and the rest goes on.
        bench.set(|now| now.saturating_add_signed(-change));
        bench.close(None, true);
        assert_eq!((bench.stopped(), bench.kept()), (None, vec![2, 3, 4]));
        bench.pass(DAY);
        bench.wait_until(|| !bench.kept().contains(&2));
        assert_eq!(bench.stopped(), None);
        served.stop();
    }
}

#[test]
fn a_clock_that_leapt_is_noticed_before_a_flush_closes_an_epoch() {
    let bench = Bench::closing("flush");
    // No rule looks at the clock meanwhile.
    let served = bench.serve_with(Duration::from_secs(3600));
    let guest = Versioned::new(Arc::clone(&served.disk));
    let flush = || {
        let flush = Request { op: Op::Flush, extent: Extent::new(0, 0), fua: false };
        carry_out(&guest, flush).expect("it is durable");
    };
    served.write(1);
    flush();
    bench.wait_until(|| bench.kept() == [1]);
    assert_eq!(served.disk.names.doubt(), None);
    bench.set(|now| now + 30 * DAY);
    served.write(2);
    flush();
    let doubt = served.disk.names.doubt().expect("the clock is in doubt");
    assert!(doubt.after == 1 && doubt.why.contains("leapt by 2592000 s"), "{doubt:?}");
    drop(guest);
    served.stop();
}

#[test]
fn the_first_close_after_a_start_makes_an_epoch_only_if_something_has_changed() {
    let bench = Bench::new();
    let served = bench.serve();
    served.write(1);
    bench.close(None, false);
    served.stop();
    for change in [false, true, false] {
        // Of epochs that close at the same time a rule keeps one.
        bench.pass(HOUR);
        let served = bench.serve();
        let before = bench.kept();
        bench.close(None, false);
        assert_eq!(bench.kept(), before, "nothing has changed");
        if change {
            served.write(2);
            served.trim();
        }
        served.stop();
        let served = bench.serve();
        bench.close(None, false);
        assert_eq!(
            bench.kept().len(),
            before.len() + usize::from(change),
            "what changed before the stop counts"
        );
        served.stop();
    }
}

#[test]
fn a_forget_by_date_after_the_clock_ran_back_leaves_what_closed_later() {
    let bench = Bench::new();
    // No rule is carried out meanwhile.
    let served = bench.serve_with(Duration::from_secs(3600));
    three_days(&bench, &served);
    assert_eq!(bench.kept(), [1, 2, 3]);
    bench.set(|_| 1000 * DAY + HOUR);
    served.write(9);
    bench.close(None, false);
    let date = UNIX_EPOCH + Duration::from_millis(1000 * DAY + 2 * HOUR);
    let date = humantime::format_rfc3339_seconds(date).to_string();
    let forget = json!({"call": "forget", "epochs": {"from": "first", "to": date}, "wait": true});
    let forgotten: Forgotten = bench.ask(&serde_json::from_value(forget).expect("a call"));
    assert_eq!((forgotten.from, forgotten.to), (1, 1));
    assert_eq!(bench.kept(), [2, 3, 4]);
    served.stop();
}
