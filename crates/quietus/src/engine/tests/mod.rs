//! The engine above real files.

mod following;
mod meddling;
mod recording;

use super::*;
use crate::disk::CreateOptions;
use crate::engine::export::{Export, Sink};
use quietus_core::base::buf::Buf;
use quietus_core::request::{Liveness, Refusal, Reply};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc;

const SIZE: u64 = 16 << 20;

struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Bench {
    fn new() -> Self {
        Self::of(SIZE)
    }

    fn of(size: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("disk");
        let options = CreateOptions {
            size: Some(size),
            policy: "purge-2".into(),
            idle_after_ms: 20,
            deadline_ms: 1000,
            ..CreateOptions::default()
        };
        DiskDir::create(&path, &options).expect("a disk");
        Self { _dir: dir, path }
    }

    fn open(&self) -> (DiskDir, Engine) {
        let dir = DiskDir::open(&self.path).expect("no other process has it open");
        let engine = Engine::start("disk", &dir, dir.config().expect("a policy"), None, &mut |_, _| true)
            .expect("it starts");
        (dir, engine)
    }
}

/// A new disk, and its engine.
fn opened() -> (Bench, DiskDir, Engine) {
    let bench = Bench::new();
    let (dir, engine) = bench.open();
    (bench, dir, engine)
}

struct Channel(mpsc::Sender<(u64, Outcome)>);

impl Sink for Channel {
    fn reply(&self, cookie: u64, outcome: Outcome) {
        let _ = self.0.send((cookie, outcome));
    }
}

fn ask(engine: &Engine, op: Op, start: u64, len: u64) -> Result<Buf, Refusal> {
    let (sender, outcome) = mpsc::channel();
    let reply = ReplyTo { sink: Arc::new(Channel(sender)), cookie: 7 };
    engine.submit(Request { op, extent: Extent::new(start, len), fua: false }, reply);
    let (cookie, outcome) = outcome.recv().expect("an outcome");
    assert_eq!(cookie, 7);
    outcome.map(Reply::into_buf)
}

#[test]
fn guests_go_on_while_a_wait_tells_of_its_progress() {
    let (_bench, _dir, engine) = opened();
    let is_told = std::cell::Cell::new(false);
    let tell = |_: &Status| {
        ask(&engine, Op::Write(vec![7; 4096].into()), 0, 4096).expect("a write");
        is_told.set(true);
        true
    };
    assert!(engine.wait_until(|_| is_told.get(), tell));
}

#[test]
fn what_dies_is_destroyed_without_anybody_asking() {
    let (bench, _dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; 1 << 20].into()), 0, 1 << 20).expect("a write");
    ask(&engine, Op::Trim, 0, 1 << 19).expect("a trim");
    assert!(engine.wait_until_drained(|_| true));
    assert_eq!(engine.status().counters.destroyed_bytes, 1 << 19);
    let medium = std::fs::read(bench.path.join("data")).expect("the medium");
    assert_eq!(medium.iter().filter(|byte| **byte != 0).count(), 1 << 19);
    assert_eq!(ask(&engine, Op::Read, 0, 1 << 20).expect("a read")[(1 << 19) - 1..][..2], [0, 7]);
}

#[test]
fn a_clean_stop_keeps_what_is_known_and_a_crash_finds_it_out_again() {
    let (bench, dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; 65536].into()), 65536, 65536).expect("a write");
    let checkpoint = engine.stop(true, |_| true).expect("it came to rest");
    dir.save_view(&checkpoint).expect("room");
    drop((dir, engine));

    let (dir, engine) = bench.open();
    assert!(!engine.status().holes_unknown);
    assert_eq!(engine.liveness(Extent::new(0, SIZE), 9)[0], (65536, Liveness::Dead));
    // No stop: as if it had been killed.
    drop((dir, engine));

    let (_dir, engine) = bench.open();
    while engine.status().holes_unknown {
        std::thread::yield_now();
    }
    assert_eq!(engine.liveness(Extent::new(0, SIZE), 9)[1], (65536, Liveness::Live));
}

#[test]
fn space_that_a_stop_in_a_hurry_left_is_given_back_by_the_next_start() {
    let (bench, dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; 8 << 20].into()), 0, 8 << 20).expect("a write");
    ask(&engine, Op::Trim, 1 << 20, 6 << 20).expect("a trim");
    engine.shred_now();
    assert!(engine.wait_until_destroyed(|_| true));
    let checkpoint = engine.stop(false, |_| true).expect("it came to rest");
    dir.save_view(&checkpoint).expect("room");
    drop((dir, engine));

    let (_dir, engine) = bench.open();
    let space = || std::fs::metadata(bench.path.join("data")).expect("the medium").blocks() * 512;
    let mut looks = 0;
    while space() > 3 << 20 {
        looks += 1;
        assert!(looks < 3000, "{} bytes are taken for 2 MiB", space());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let found = ask(&engine, Op::Read, 0, 8 << 20).expect("a read");
    assert_eq!(found.iter().filter(|byte| **byte == 7).count(), 2 << 20);
}

#[test]
fn a_stopped_engine_refuses_and_says_so() {
    let (_bench, _dir, engine) = opened();
    engine.stop(true, |_| true);
    assert_eq!(ask(&engine, Op::Read, 0, 512), Err(Refusal::ShuttingDown));
}

/// Environment variable of the process that is to end.
const PANICS: &str = "QUIETUS_TEST_PANICS";

#[test]
fn a_panic_in_the_middle_of_a_change_ends_the_process() {
    if std::env::var_os(PANICS).is_some() {
        let (_bench, _dir, engine) = opened();
        engine.shared.lock().panics = true;
        let half = std::thread::scope(|scope| scope.spawn(|| ask(&engine, Op::Trim, 0, 4096)).join());
        // Unreachable.
        println!("went on with half a change: {:?}, {half:?}", ask(&engine, Op::Read, 0, 512));
        std::process::exit(0);
    }
    let mut again = std::process::Command::new(std::env::current_exe().expect("this test"));
    let name = "engine::tests::a_panic_in_the_middle_of_a_change_ends_the_process";
    let output = again.args(["--exact", name, "--nocapture"]).env(PANICS, "1").output().expect("it runs");
    let aborted = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(aborted, Some(rustix::process::Signal::ABORT.as_raw()), "{output:?}");
}

#[test]
fn many_threads_see_their_own_writes() {
    let (_bench, _dir, engine) = opened();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..50 {
                    let (at, byte) = ((thread * 64 + n % 16) * 8192, (thread * 50 + n) as u8);
                    ask(engine, Op::Write(vec![byte; 8192].into()), at, 8192).expect("a write");
                    if n % 5 == 4 {
                        ask(engine, Op::Trim, at, 4096).expect("a trim");
                        assert_eq!(ask(engine, Op::Read, at, 4096), Ok(vec![0; 4096].into()));
                    } else {
                        assert_eq!(ask(engine, Op::Read, at, 8192), Ok(vec![byte; 8192].into()));
                    }
                }
            });
        }
    });
    assert!(engine.wait_until_drained(|_| true));
}

#[test]
fn workers_come_with_work_and_leave_after_it() {
    let (_bench, _dir, engine) = opened();
    let (sender, outcomes) = mpsc::channel();
    let sink = Arc::new(Channel(sender));
    for n in 0..256 {
        let request =
            Request { op: Op::Write(vec![7; 4096].into()), extent: Extent::new(n * 4096, 4096), fua: true };
        engine.submit(request, ReplyTo { sink: sink.clone(), cookie: n });
    }
    let most = (0..256).map(|_| {
        outcomes.recv().expect("an outcome").1.expect("a write");
        engine.shared.jobs.size()
    });
    let most = most.max().expect("some");
    assert!((2..=WORKERS).contains(&most), "{most} at once");
    let ends = Instant::now() + Duration::from_secs(60);
    while engine.shared.jobs.size() > 1 || engine.shared.passes.size() > 1 {
        assert!(Instant::now() < ends, "no client leaves");
        std::thread::sleep(Duration::from_millis(50));
    }
    ask(&engine, Op::Flush, 0, 0).expect("the one that stayed does it");
}

#[test]
fn a_read_only_disk_refuses_writes_and_destroys_nothing() {
    let (bench, dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; 8192].into()), 0, 8192).expect("a write");
    drop((dir, engine));
    let dir = DiskDir::open(&bench.path).expect("no other process has it open");
    let mut config = dir.config().expect("a policy");
    config.read_only = true;
    let engine = Engine::start("disk", &dir, config, None, &mut |_, _| true).expect("it starts");
    assert_eq!(ask(&engine, Op::Trim, 0, 8192), Err(Refusal::ReadOnly));
    assert_eq!(ask(&engine, Op::Read, 0, 8192), Ok(vec![7; 8192].into()));
    assert_eq!(ask(&engine, Op::Flush, 0, 0), Ok(Vec::new().into()));
}
