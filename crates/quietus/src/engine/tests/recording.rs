//! The audit log of a disk above real files.

use super::*;
use crate::evidence::audit_log::{CURRENT, Line};
use quietus_core::owed::ledger::Cause;
use serde_json::Value;

impl Bench {
    fn log_path(&self) -> PathBuf {
        self.path.join(CURRENT)
    }

    /// The lines of the log, the chain's own included.
    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_path()).expect("a text");
        text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        let lines = self.lines().into_iter();
        lines.filter_map(|line| Some(serde_json::from_value::<Line<Entry>>(line).ok()?.event)).collect()
    }

    /// Extents that receipts name: first byte and length.
    fn receipts(&self) -> Vec<(u64, u64)> {
        let named = |entry: &Entry| match entry {
            Entry::Receipt { batch, .. } => batch.all().map(|it| (it.start, it.len)).collect(),
            _ => Vec::new(),
        };
        self.entries().iter().flat_map(named).collect()
    }

    /// Nothing can be written: there is a directory in the place of the log.
    fn block_log(&self) {
        std::fs::rename(self.log_path(), self.path.join("elsewhere")).expect("it is there");
        std::fs::create_dir(self.log_path()).expect("a directory");
    }

    fn unblock_log(&self) {
        std::fs::remove_dir(self.log_path()).expect("it is there");
        let aside = self.path.join("audit-aside-0.jsonl");
        if aside.is_dir() {
            std::fs::remove_dir(aside).expect("it is there");
        }
        std::fs::rename(self.path.join("elsewhere"), self.log_path()).expect("it is there");
    }

    /// A disk with one receipt, that was stopped.
    fn stopped() -> Self {
        let bench = Self::new();
        let (_dir, engine) = bench.open();
        ask(&engine, Op::Write(vec![7; 8192].into()), 0, 8192).expect("a write");
        ask(&engine, Op::Trim, 0, 8192).expect("a trim");
        engine.stop(true, |_| true);
        bench
    }
}

fn lines(engine: &Engine) -> u64 {
    engine.check_record().expect("it is whole").head.lines
}

#[test]
fn the_log_is_chained_and_a_changed_line_is_found() {
    let bench = Bench::stopped();
    let events: Vec<_> = bench.lines().iter().map(|line| line["event"].clone()).collect();
    assert_eq!(events.first(), Some(&Value::from("opened")));
    assert_eq!(events.last(), Some(&Value::from("stopped")));
    assert_eq!(bench.receipts(), [(0, 8192)]);
    let (dir, engine) = bench.open();
    engine.recorder().flush().expect("it can be written");
    assert_eq!(lines(&engine), events.len() as u64 + 1);
    drop((dir, engine));
    let text = std::fs::read_to_string(bench.log_path()).expect("a text");
    std::fs::write(bench.log_path(), text.replace("\"bytes\":8192", "\"bytes\":4096")).expect("a write");
    bench.open().1.check_record().expect_err("a line was changed");
}

#[test]
fn a_receipt_says_what_died_of_which_cause_and_how_it_was_destroyed() {
    let (bench, _dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; 1 << 20].into()), 0, 1 << 20).expect("a write");
    ask(&engine, Op::Trim, 4096, 8192).expect("a trim");
    ask(&engine, Op::Purge, 65536, 4096).expect("a purge");
    engine.stop(true, |_| true);
    let (mut died, mut told) = (Vec::new(), Vec::new());
    for entry in bench.entries() {
        match entry {
            Entry::Died(batch) => died.extend(batch.all().map(|it| (*it.kind, it.start, it.len))),
            Entry::Receipt { batch, .. } => told.extend(batch.all().map(|it| (*it.kind, it.start, it.len))),
            _ => {}
        }
    }
    assert_eq!(
        died,
        [(Death::sensitive(Cause::Trim), 4096, 8192), (Death::sensitive(Cause::Purge), 65536, 4096)]
    );
    let completion =
        |cause| Completion { act: quietus_core::volume::Done::Shredded, cause, passes: 2, epochs: None };
    assert_eq!(told, [(completion(Cause::Trim), 4096, 8192), (completion(Cause::Purge), 65536, 4096)]);
}

#[test]
fn a_log_that_was_removed_or_cut_short_while_no_server_ran_is_missed() {
    for tamper in [|_: &[u8]| None, |text: &[u8]| Some(text[..text.len() / 2].to_vec())] {
        let bench = Bench::stopped();
        let text = std::fs::read(bench.log_path()).expect("bytes");
        match tamper(&text) {
            None => std::fs::remove_file(bench.log_path()).expect("it is there"),
            Some(rest) => std::fs::write(bench.log_path(), rest).expect("a write"),
        }
        for _ in 0..2 {
            let (_dir, engine) = bench.open();
            engine.recorder().flush().expect("it can be written");
            engine.check_record().expect_err("lines are missing");
            engine.stop(false, |_| true);
        }
        assert_eq!(bench.lines().iter().filter(|line| line["event"] == "lost").count(), 1);
    }
}

#[test]
fn a_log_that_was_removed_is_missed_by_a_disk_that_is_read_only() {
    let bench = Bench::stopped();
    std::fs::remove_file(bench.log_path()).expect("it is there");
    let dir = DiskDir::open(&bench.path).expect("no other process has it open");
    let config = Config { read_only: true, ..dir.config().expect("a policy") };
    let engine = Engine::start("disk", &dir, config, None, &mut |_, _| true).expect("it starts");
    engine.check_record().expect_err("lines are missing");
    let head = engine.recorder().flush().expect("nothing is to be written");
    assert_eq!(head.lines, engine.record_status().lines, "a proof names the end");
    assert!(head.lines > 0 && !bench.log_path().exists(), "nothing is written");
}

#[test]
fn receipts_that_a_kill_kept_from_the_log_are_there_after_the_next_start() {
    for _ in 0..3 {
        let (bench, dir, engine) = opened();
        ask(&engine, Op::Write(vec![7; 65536].into()), 0, 65536).expect("a write");
        for n in 0..16 {
            ask(&engine, Op::Trim, n * 4096, 4096).expect("a trim");
        }
        engine.wait_until_drained(|_| true);
        // No stop: as if it had been killed, within the second that is collected.
        drop((dir, engine));
        let (_dir, engine) = bench.open();
        let destroyed = engine.status().counters.destroyed_bytes;
        engine.stop(true, |_| true);
        assert_eq!(bench.receipts().iter().map(|(_, len)| len).sum::<u64>(), destroyed);
        assert_eq!(destroyed, 65536);
    }
}

#[test]
fn what_was_owed_at_a_kill_is_told_again() {
    let (bench, dir, engine) = opened();
    engine.reconfigure(|config| config.idle_after_ms = u64::MAX / 2);
    engine.reconfigure(|config| config.deadline_ms = u64::MAX / 2);
    ask(&engine, Op::Write(vec![7; 65536].into()), 0, 65536).expect("a write");
    ask(&engine, Op::Trim, 8192, 4096).expect("a trim");
    drop((dir, engine));
    let (dir, engine) = bench.open();
    engine.stop(false, |_| true);
    drop((dir, engine));
    let owed = bench.entries().into_iter().find_map(|entry| match entry {
        Entry::Owed(batch) => Some(batch),
        _ => None,
    });
    let owed = owed.expect("it was not stopped");
    let all: Vec<_> = owed.all().map(|it| (it.kind.cause, it.start, it.len)).collect();
    assert_eq!(all, [(Cause::Trim, 8192, 4096)]);
    let (_dir, engine) = bench.open();
    engine.stop(true, |_| true);
    let owed = bench.entries().iter().filter(|entry| matches!(entry, Entry::Owed(_))).count();
    assert_eq!(owed, 1, "a clean stop loses no line");
}

/// The disk of `bench`, opened, with a receipt that its log cannot take.
fn with_a_receipt_that_waits(bench: &Bench) -> (DiskDir, Engine) {
    let (dir, engine) = bench.open();
    engine.recorder().flush().expect("it can be written");
    bench.block_log();
    ask(&engine, Op::Write(vec![7; 8192].into()), 0, 8192).expect("a write");
    ask(&engine, Op::Trim, 0, 8192).expect("a trim");
    engine.wait_until_drained(|_| true);
    (dir, engine)
}

#[test]
fn a_log_that_cannot_be_written_says_so_and_goes_on_when_it_can() {
    let bench = Bench::new();
    let (dir, engine) = with_a_receipt_that_waits(&bench);
    let trouble = engine.recorder().flush().expect_err("it cannot be written");
    assert!(trouble.contains("audit.jsonl"), "{trouble}");
    assert_eq!(engine.record_status().receipts_waiting, 1);
    assert!(engine.record_status().trouble.is_some());
    bench.unblock_log();
    engine.recorder().flush().expect("it can be written again");
    assert_eq!(bench.receipts(), [(0, 8192)]);
    assert_eq!(engine.record_status().trouble, None);
    engine.stop(true, |_| true);
    drop((dir, engine));
    assert_eq!(bench.open().1.record_status().receipts_waiting, 0);
}

#[test]
fn many_small_deaths_make_few_lines() {
    const DEATHS: u64 = 500;
    let (bench, _dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; SIZE as usize].into()), 0, SIZE).expect("a write");
    for n in 0..DEATHS {
        ask(&engine, Op::Trim, n * 8192, 4096).expect("a trim");
        if n % 3 == 0 {
            ask(&engine, Op::Write(vec![9; 4096].into()), n * 8192, 4096).expect("a write");
        }
    }
    engine.stop(true, |_| true);
    assert_eq!(engine.status().counters.destroyed_bytes, DEATHS * 4096);
    let receipts = bench.receipts();
    assert_eq!(receipts.iter().map(|(_, len)| len).sum::<u64>(), DEATHS * 4096);
    let bytes = std::fs::metadata(bench.log_path()).expect("it is there").len();
    assert!(bytes < 60 * DEATHS, "{bytes} bytes for {DEATHS} deaths");
}

#[test]
fn what_waits_for_a_log_that_cannot_be_written_is_bounded_and_what_is_dropped_is_told() {
    // More than wait and are being written together.
    const DEATHS: u64 = 200_000;
    let (bench, _dir, engine) = opened();
    engine.recorder().flush().expect("it can be written");
    bench.block_log();
    for n in 0..DEATHS {
        engine.recorder().died(Death::sensitive(Cause::Trim), n * 8192, 4096);
    }
    engine.recorder().flush().expect_err("it cannot be written");
    bench.unblock_log();
    engine.recorder().flush().expect("it can be written again");
    engine.recorder().flush().expect("it can be written again");
    let (mut named, mut dropped) = (0, 0);
    for entry in bench.entries() {
        match entry {
            Entry::Died(batch) => named += batch.all().count() as u64,
            Entry::Dropped { deaths, bytes } => {
                assert_eq!(bytes, deaths * 4096);
                dropped += deaths;
            }
            _ => {}
        }
    }
    assert_eq!(named + dropped, DEATHS);
    assert!(dropped > 0 && named > 60_000, "{named} named");
}

/// Trims 512 of each 1024 bytes from `from` on, `count` times, many at once.
fn trim_many(engine: &Engine, from: u64, count: u64) {
    let (sender, outcomes) = mpsc::channel();
    let sink: Arc<Channel> = Arc::new(Channel(sender));
    for n in 0..count {
        let reply = ReplyTo { sink: Arc::clone(&sink) as _, cookie: n };
        let extent = Extent::new(from + n * 1024, 512);
        engine.submit(Request { op: Op::Trim, extent, fua: false }, reply);
    }
    for _ in 0..count {
        outcomes.recv().expect("an outcome").1.expect("a trim");
    }
}

#[test]
fn a_log_that_stays_full_pauses_destruction_and_no_receipt_is_lost() {
    const DISK: u64 = 32 << 20;
    let bench = Bench::of(DISK);
    let (dir, engine) = bench.open();
    let first = engine.status().owed.entries_max as u64 / 4;
    for at in (0..DISK).step_by(1 << 20) {
        ask(&engine, Op::Write(vec![7; 1 << 20].into()), at, 1 << 20).expect("a write");
    }
    engine.recorder().flush().expect("it can be written");
    bench.block_log();
    trim_many(&engine, 0, first);
    let _ = engine.wait_until_drained(|_| true);
    engine.recorder().flush().expect_err("it cannot be written");
    trim_many(&engine, first * 1024, 4096);
    engine.shred_now();
    assert!(!engine.wait_until_destroyed(|_| true), "no caller waits for what pauses");
    let status = engine.status();
    assert!(status.owed.pauses.is_some_and(|why| why.contains("audit.jsonl")));
    assert_eq!((status.latched, status.owed.queued_bytes), (None, 4096 * 512));
    assert!(engine.record_status().receipts_waiting as u64 >= first);
    ask(&engine, Op::Write(vec![9; 512].into()), first * 1024, 512).expect("service goes on");
    // No stop: as if it had been killed, and there is room when it starts again.
    drop((dir, engine));
    bench.unblock_log();
    let (_dir, engine) = bench.open();
    assert_eq!(ask(&engine, Op::Read, first * 1024, 512).expect("a read"), vec![9_u8; 512]);
    engine.stop(true, |_| true);
    let status = engine.status();
    assert_eq!((status.latched, status.owed.queued_bytes, status.owed.pauses), (None, 0, None));
    assert_eq!(engine.record_status().receipts_waiting, 0);
    let bytes: u64 = bench.receipts().iter().map(|(_, len)| len).sum();
    assert_eq!((bytes, bytes), (status.counters.destroyed_bytes, (first + 4096) * 512));
}

#[test]
fn receipts_that_the_log_has_and_the_journal_does_not_know_of_are_not_repeated() {
    let bench = Bench::new();
    let (dir, engine) = with_a_receipt_that_waits(&bench);
    assert_eq!(engine.record_status().receipts_waiting, 1);
    let journal = std::fs::read(bench.path.join("journal")).expect("bytes");
    bench.unblock_log();
    engine.recorder().flush().expect("it can be written again");
    drop((dir, engine));
    std::fs::write(bench.path.join("journal"), journal).expect("a write");
    let (_dir, engine) = bench.open();
    engine.stop(true, |_| true);
    assert_eq!(bench.receipts(), [(0, 8192)]);
    assert_eq!(engine.record_status().receipts_waiting, 0);
    lines(&engine);
}
