//! The log on a host that is full, crashes, and is tampered with.

mod memory;

use super::*;
use memory::Memory;
use serde_json::{Value, json};

const LIMITS: Limits = Limits { file_bytes_max: 700, files_max: 3 };
const ENDLESS: Limits = Limits { file_bytes_max: u64::MAX, files_max: 2 };

/// Step between the places in a log that are tried: 1, so all of them, in `make check`.
fn step() -> usize {
    if std::env::var("QUIETUS_TRIALS").is_ok_and(|it| it == "check") { 1 } else { 7 }
}

fn clock() -> u64 {
    1_763_700_000_000
}

/// A log, and the end of it that the journal keeps.
struct Bench {
    dir: Memory,
    log: AuditLog<Memory>,
    known: Head,
    /// Lines that were shown at the last start.
    seen: Vec<Value>,
    limits: Limits,
}

fn event(n: u64) -> Value {
    json!({ "event": "something", "value": n })
}

impl Bench {
    fn new(limits: Limits) -> Self {
        Self::open(Memory::default(), limits, Head::default())
    }

    fn open(dir: Memory, limits: Limits, known: Head) -> Self {
        let mut seen = Vec::new();
        let mut show = |text: &[u8]| seen.push(serde_json::from_slice(text).expect("a line"));
        let log = AuditLog::open(dir.clone(), limits, &known, clock, &mut show).expect("it opens");
        Self { dir, log, known, seen, limits }
    }

    fn try_add(&mut self, n: u64) -> io::Result<()> {
        self.log.append(&[event(n)])?;
        self.known = self.log.head().clone();
        Ok(())
    }

    fn add(&mut self, n: u64) {
        self.try_add(n).expect("there is room");
    }

    /// A log with the events up to `count`.
    fn with(limits: Limits, count: u64) -> Self {
        let mut bench = Self::new(limits);
        (0..count).for_each(|n| bench.add(n));
        bench
    }

    fn again(self) -> Self {
        Self::open(self.dir, self.limits, self.known)
    }

    fn check(&self) -> Result<Checked, CheckError> {
        Files::open(&self.dir)?.read(&self.known, &mut |_| {})
    }

    /// All lines in the files, the oldest first.
    fn lines(&self) -> Vec<Value> {
        let mut names = self.dir.names().expect("names");
        names.retain(|name| name.starts_with("audit") && !name.contains("aside"));
        // `audit-…` comes before `audit.…`.
        let text: String = names.iter().map(|name| self.dir.text(name)).collect();
        text.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect()
    }

    fn values(&self) -> Vec<u64> {
        self.lines().iter().filter_map(|line| line["value"].as_u64()).collect()
    }

    fn told(&self, event: &str) -> usize {
        self.lines().iter().filter(|line| line["event"] == event).count()
    }
}

#[test]
fn lines_are_numbered_and_name_the_hash_of_the_one_before() {
    let bench = Bench::with(ENDLESS, 2);
    let lines = bench.lines();
    assert_eq!((&lines[0]["n"], &lines[1]["n"]), (&json!(0), &json!(1)));
    assert_eq!(lines[0]["prev"], "");
    let text = bench.dir.text(CURRENT);
    assert_eq!(lines[1]["prev"], Head::after(0, text.lines().next().expect("a line").as_bytes()).hash);
    assert_eq!(bench.check().expect("it is whole").head, bench.known);
}

#[test]
fn rotation_overwrites_nothing_and_removes_only_what_is_not_kept() {
    let mut bench = Bench::new(LIMITS);
    for n in 0..200 {
        bench.add(n);
        let checked = bench.check().expect("it is whole");
        assert!(checked.files <= LIMITS.files_max, "{checked:?}");
        assert!(bench.dir.all_bytes() < 3 * 1000);
        let values = bench.values();
        assert_eq!(values, (n + 1 - values.len() as u64..=n).collect::<Vec<_>>(), "a gap");
        if n < 4 {
            assert_eq!(checked.first, 0);
        }
    }
    assert!(bench.check().expect("it is whole").first > 100);
    assert!(bench.lines().len() > 4);
}

#[test]
fn a_crash_at_any_change_loses_no_line_that_was_durable() {
    // Long enough for two rotations and a removal.
    for changes in (0..4500).step_by(step()) {
        let mut bench = Bench::with(LIMITS, 3);
        bench.dir.fuse.set(Some(changes));
        let mut durable = 2;
        for n in 3..20 {
            if bench.try_add(n).is_ok() {
                durable = n;
            }
        }
        let died = bench.dir.fuse.get() == Some(0);
        bench.dir.fuse.set(None);
        let before = bench.known.clone();
        bench = bench.again();
        bench.add(1000);
        assert_eq!(bench.told("lost"), 0, "after {changes}");
        bench.check().unwrap_or_else(|error| panic!("after {changes}: {error}"));
        assert!(bench.values().contains(&durable), "after {changes}");
        assert!(bench.seen.iter().any(|line| line["n"] == before.lines - 1), "after {changes}");
        if !died {
            assert!(changes > 2500, "more than one rotation");
            return;
        }
    }
    panic!("the fuse is always too short");
}

#[test]
fn a_line_torn_at_any_byte_is_cut_off_and_told() {
    let whole = Bench::with(ENDLESS, 3);
    let text = whole.dir.get(CURRENT);
    let known = Bench::with(ENDLESS, 2).known;
    let second_end = Bench::with(ENDLESS, 2).dir.get(CURRENT).len();
    for bytes in second_end + 1..text.len() {
        let dir = Memory::default();
        dir.put(CURRENT, text[..bytes].to_vec());
        let mut bench = Bench::open(dir, ENDLESS, known.clone());
        bench.add(7);
        assert_eq!(bench.values(), [0, 1, 7], "torn at {bytes}");
        assert_eq!(bench.lines()[2]["bytes"], bytes - second_end);
        assert_eq!(bench.told("repaired"), 1);
        bench.check().expect("it is whole");
    }
}

#[test]
fn a_host_that_is_full_at_any_byte_tears_nothing_and_loses_nothing() {
    for keeps_torn in [false, true] {
        for room in (0..2400).step_by(step()) {
            let mut bench = Bench::with(LIMITS, 2);
            bench.dir.room.set(Some(room));
            bench.dir.keeps_torn.set(keeps_torn);
            let mut failed = 0;
            for n in 2..14 {
                while bench.try_add(n).is_err() {
                    failed += 1;
                    if !keeps_torn {
                        bench.check().unwrap_or_else(|error| panic!("{room}: {error}"));
                    }
                    bench.dir.room.set(None);
                    bench.dir.keeps_torn.set(false);
                }
            }
            bench.check().unwrap_or_else(|error| panic!("{room}: {error}"));
            assert!(failed <= 1 && (bench.told("lost"), bench.told("repaired")) == (0, 0), "{room}");
            let values = bench.values();
            assert_eq!(values, (14 - values.len() as u64..14).collect::<Vec<_>>(), "{room}");
            assert!(failed == 1 || room > 1500, "{room}");
        }
    }
}

#[test]
fn lines_whose_sync_failed_are_written_again() {
    let mut bench = Bench::with(ENDLESS, 2);
    bench.dir.refuses_sync.set(true);
    bench.try_add(2).expect_err("it is not durable");
    assert_eq!(bench.values(), [0, 1]);
    bench.dir.refuses_sync.set(false);
    bench.add(2);
    assert_eq!(bench.values(), [0, 1, 2]);
    bench.check().expect("it is whole");
}

fn missing(result: Result<Checked, CheckError>) -> (u64, u64) {
    match result {
        Err(CheckError::Missing { from, to, .. }) => (from, to),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_that_was_removed_is_missed_now_and_ever_after() {
    let mut bench = Bench::with(ENDLESS, 5);
    bench.dir.remove(CURRENT).expect("it is there");
    assert_eq!(missing(bench.check()), (0, 4));
    bench = bench.again();
    bench.add(5);
    assert_eq!((missing(bench.check()), bench.told("lost")), ((0, 4), 1));
    assert_eq!(bench.lines()[0]["n"], 5, "the chain goes on");
    bench = bench.again();
    bench.add(6);
    assert_eq!((missing(bench.check()), bench.told("lost")), ((0, 4), 1));
}

#[test]
fn a_log_that_was_removed_is_whole_once_it_is_restored() {
    let mut bench = Bench::with(ENDLESS, 5);
    let backup = bench.dir.get(CURRENT);
    bench.dir.remove(CURRENT).expect("it is there");
    bench = bench.again();
    bench.add(5);
    bench.dir.put(&older_name(0), backup);
    bench.check().expect("it is whole again");
}

#[test]
fn a_log_whose_first_or_last_lines_were_cut_off_is_missed() {
    let bench = Bench::with(ENDLESS, 5);
    let text = bench.dir.text(CURRENT);
    let lines = |kept: std::ops::Range<usize>| {
        text.split_inclusive('\n').take(kept.end).skip(kept.start).collect::<String>().into_bytes()
    };
    bench.dir.put(CURRENT, lines(2..5));
    assert_eq!(missing(bench.check()), (0, 1));
    for kept in 0..5 {
        let mut bench = Bench::with(ENDLESS, 5);
        bench.dir.put(CURRENT, lines(0..kept));
        assert_eq!(missing(bench.check()), (kept as u64, 4));
        bench = bench.again();
        bench.add(5);
        assert_eq!((missing(bench.check()), bench.told("lost")), ((kept as u64, 4), 1));
    }
}

#[test]
fn an_older_file_that_is_missing_is_missed() {
    let limits = Limits { files_max: 100, ..LIMITS };
    let bench = Bench::with(limits, 20);
    for first in older(&bench.dir).expect("names") {
        let dir = bench.dir.copy();
        dir.remove(&older_name(first)).expect("it is there");
        let tampered = Bench { dir, ..Bench::open(bench.dir.clone(), limits, bench.known.clone()) };
        assert_eq!(missing(tampered.check()).0, first);
    }
}

#[test]
fn a_changed_byte_anywhere_is_found() {
    let bench = Bench::with(LIMITS, 8);
    for name in bench.dir.names().expect("names") {
        for at in 0..bench.dir.get(&name).len() {
            let tampered = Bench::open(bench.dir.copy(), LIMITS, bench.known.clone());
            let mut bytes = tampered.dir.get(&name);
            bytes[at] ^= 1;
            tampered.dir.put(&name, bytes);
            let error = tampered.check().map(drop).expect_err("a byte was changed");
            assert!(!matches!(error, CheckError::Io { .. }), "{name}, byte {at}");
        }
    }
}

#[test]
fn what_is_not_this_log_is_found_and_set_aside_as_it_is() {
    let mut other = Bench::new(ENDLESS);
    (100..105).for_each(|n| other.add(n));
    for (what, found, has_lines, aside) in [
        ("another log", other.dir.get(CURRENT), true, &*older_name(0)),
        ("a large file", vec![7; 3 << 20], false, "audit-aside-0.jsonl"),
        ("a word", b"hello\n".to_vec(), true, "audit-aside-0.jsonl"),
        ("empty lines", vec![b'\n'; 100], true, "audit-aside-0.jsonl"),
    ] {
        let mut bench = Bench::with(ENDLESS, 5);
        bench.dir.put(CURRENT, found.clone());
        let error = bench.check().expect_err(what);
        assert_eq!(matches!(error, CheckError::Changed { .. }), has_lines, "{what}: {error}");
        bench = bench.again();
        bench.add(5);
        assert_eq!(bench.told("lost"), 1, "{what}");
        bench.check().expect_err("the lines are still missing");
        assert_eq!(bench.dir.get(aside), found, "{what} was destroyed");
    }
}

#[test]
fn what_happens_to_the_file_meanwhile_is_told() {
    let tamper: [fn(&Memory); 3] = [
        |dir| dir.remove(CURRENT).expect("it is there"),
        |dir| dir.put(CURRENT, b"hello\n".to_vec()),
        |dir| dir.read(CURRENT).expect("it is there").cut(9).expect("a cut"),
    ];
    for tamper in tamper {
        let mut bench = Bench::with(ENDLESS, 5);
        tamper(&bench.dir);
        bench.add(5);
        assert_eq!(bench.log.head().lines, 8, "continued, lost, and the event");
        bench.check().expect_err("lines are missing");
        let text = bench.dir.text(CURRENT);
        assert!(text.contains("\"lost\"") && text.contains("\"value\":5"), "{text}");
    }
}

#[test]
fn what_a_crash_left_behind_the_known_end_is_seen_and_kept() {
    let mut bench = Bench::with(ENDLESS, 5);
    let known = Bench::with(ENDLESS, 3).known;
    bench.known = known;
    bench = bench.again();
    let values: Vec<_> = bench.seen.iter().map(|line| line["value"].as_u64()).collect();
    assert_eq!(values, [Some(2), Some(3), Some(4)], "the known one, and those behind it");
    bench.add(5);
    assert_eq!(bench.values(), [0, 1, 2, 3, 4, 5]);
    bench.check().expect("it is whole");
}

#[test]
fn a_start_reads_the_end_of_a_large_log_only() {
    let mut bench = Bench::new(ENDLESS);
    let large = json!({ "event": "large", "text": "x".repeat(3000) });
    for _ in 0..100 {
        bench.log.append(std::slice::from_ref(&large)).expect("there is room");
    }
    bench.known = bench.log.head().clone();
    let file = bench.dir.read(CURRENT).expect("it is there");
    let begin = begin_near(&file, 99).expect("it is read");
    assert!(begin > 200_000, "{begin} of {}", bench.dir.all_bytes());
    assert_eq!(bench.again().seen.len(), 1);
}

#[test]
fn what_comes_back_after_it_was_missed_is_never_overwritten() {
    let mut bench = Bench::with(ENDLESS, 5);
    let text = bench.dir.get(CURRENT);
    bench.dir.remove(CURRENT).expect("it is there");
    bench.dir.fuse.set(Some(0));
    bench.try_add(5).expect_err("no file can be made");
    bench.dir.fuse.set(None);
    bench.dir.put(CURRENT, text.clone());
    bench.add(5);
    assert_eq!(bench.dir.get(&older_name(0)), text);
    assert_eq!(bench.values(), [0, 1, 2, 3, 4, 5]);
    bench.check().expect("all lines are there");
}
