//! Receipts on their way to the audit log.

use super::*;

/// A disk that is killed, and opened again.
fn killed(bench: Bench) -> Bench {
    let logs = bench.logs;
    let mut bench = bench.reopened("clear", None);
    bench.logs = logs;
    bench
}

/// A disk whose audit log takes nothing, with one receipt.
fn unlogged() -> Bench {
    let mut bench = Bench::new("clear");
    bench.logs = false;
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 4096, 8192).unwrap();
    bench.idle();
    assert_eq!(bench.receipts.len(), 1);
    assert_eq!(bench.volume.obligations().count(), 0, "it was cleared");
    bench
}

#[test]
fn a_receipt_that_no_log_has_comes_again_after_every_crash() {
    let mut bench = unlogged();
    let receipt = bench.receipts[0];
    for _ in 0..5 {
        bench = killed(bench);
        bench.tell(Event::Tick);
        bench.settle();
        assert_eq!((bench.first_receipt, &bench.receipts[..]), (Some(0), &[receipt][..]));
    }
}

#[test]
fn a_receipt_that_the_log_has_never_comes_again() {
    let mut bench = unlogged();
    bench.log();
    bench.settle();
    bench = killed(bench);
    bench.tell(Event::Tick);
    bench.settle();
    assert_eq!(bench.receipts, []);
    assert_eq!(bench.volume.log_head(), LogHead { lines: 1, hash: [7; 32] });
}

#[test]
fn a_receipt_that_the_log_alone_knows_of_is_not_handed_out_at_the_start() {
    let mut bench = killed(unlogged());
    let head = LogHead { lines: 9, hash: [9; 32] };
    bench.tell(Event::Recorded { receipts: 1, head });
    bench.settle();
    assert_eq!(bench.receipts, []);
    assert_eq!(killed(bench).volume.log_head(), head);
}

#[test]
fn a_receipt_waits_for_the_commit_that_clears_its_obligation() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 4096, 8192).unwrap();
    bench.tick(1000);
    while bench.volume.obligations().count() > 0 {
        assert!(bench.step());
    }
    assert_eq!(bench.receipts, []);
    bench.settle();
    assert_eq!(bench.receipts.len(), 1);
}

/// A disk full of data, on a full host: its audit log cannot be written.
fn stuck(policy: &str) -> Bench {
    let mut bench = Bench::new(policy);
    bench.logs = false;
    bench.write(0, 7, SIZE);
    bench.tell(Event::RecordStuck(FULL.into()));
    bench
}

const FULL: &str = "no space left on the host";

/// How many requests were done, and how many were refused for lack of space.
fn outcomes(bench: &Bench, asked: &[RequestId]) -> (usize, usize) {
    let outcome = |id: &RequestId| bench.replies.get(id).expect("no request waits for ever");
    let full = |it: &&RequestId| matches!(outcome(it), Err(Refusal::NoSpace(why)) if why.contains(FULL));
    let done = asked.iter().filter(|id| outcome(id).is_ok()).count();
    assert_eq!(done + asked.iter().filter(full).count(), asked.len());
    (done, asked.len() - done)
}

/// The host has room again: all is destroyed, and every byte of it has one receipt.
fn check_recovered(mut bench: Bench) {
    bench.logs = true;
    bench.log();
    bench.settle();
    bench.idle();
    let status = bench.volume.status();
    assert_eq!((status.latched, bench.volume.receipts_waiting()), (None, 0));
    assert!(bench.volume.is_drained());
    let bytes: u64 = bench.receipts.iter().map(|it| it.extent.len).sum();
    assert_eq!(bytes, status.counters.destroyed_bytes);
    assert_eq!(bytes, status.counters.dead_bytes.iter().sum::<u64>());
}

#[test]
fn a_log_that_is_stuck_pauses_destruction_and_slows_no_request() {
    let mut bench = stuck("purge-2");
    let max = bench.volume.status().owed.entries_max;
    let (first, all) = (max as u64 / 3, max as u64 / 2);
    let mut trim = |from, to| {
        let trims: Vec<_> = (from..to).map(|n| bench.ask(Op::Trim, n * 1024, 512)).collect();
        bench.settle();
        bench.idle();
        assert_eq!(outcomes(&bench, &trims), (trims.len(), 0));
        (bench.volume.receipts_waiting() as u64, bench.volume.status().owed.queued_bytes)
    };
    assert_eq!(trim(0, first), (first, 0), "what is under way is not cut short");
    assert_eq!(trim(first, all), (first, (all - first) * 512));
    assert_eq!(bench.volume.next_wakeup(), None, "nothing is due until the log is tried again");
    let last = (all - 1) * 1024;
    bench.write(last, 9, 512);
    bench.flush();
    assert_eq!(bench.reads(last, 1024), [[9; 512], [7; 512]].concat());
    assert!(bench.volume.receipts_waiting() as u64 > first, "what a write waits for is destroyed");
    check_recovered(bench);
}

#[test]
fn what_needs_room_that_only_a_stuck_log_can_give_is_refused_and_all_else_is_served() {
    let mut bench = stuck("purge-2");
    let max = bench.volume.status().owed.entries_max;
    let mut refused = 0;
    for round in 0..4 {
        let trims: Vec<_> = (0..SIZE / 1024).map(|n| bench.ask(Op::Trim, n * 1024, 512)).collect();
        bench.settle();
        bench.idle();
        let write = || Op::Write(vec![round; 512].into());
        let writes: Vec<_> = (0..SIZE / 1024).map(|n| bench.ask(write(), n * 1024, 512)).collect();
        bench.settle();
        bench.tell(Event::RecordStuck(FULL.into()));
        refused += outcomes(&bench, &trims).1 + outcomes(&bench, &writes).1;
        assert!(bench.volume.receipts_waiting() <= max / 2 * 3 + 64, "memory is bounded");
        bench.write(512, round, 512);
        bench.flush();
        assert_eq!(bench.reads(512, 512), [round; 512]);
        assert_eq!(bench.latched, None);
    }
    assert!(refused > 0);
    check_recovered(bench);
}

#[test]
fn what_a_stuck_log_has_not_taken_outlives_a_crash() {
    let mut bench = stuck("clear");
    let asked: Vec<_> = (0..SIZE / 1024).map(|n| bench.ask(Op::Trim, n * 1024, 512)).collect();
    bench.settle();
    bench.idle();
    assert!(outcomes(&bench, &asked).0 > 100);
    let waiting = bench.volume.receipts_waiting();
    bench = killed(bench);
    assert_eq!(bench.volume.receipts_waiting(), waiting);
    bench.tell(Event::RecordStuck(FULL.into()));
    bench.idle();
    assert_eq!(bench.volume.receipts_waiting(), waiting, "destruction pauses after the start too");
    check_recovered(bench);
}

#[test]
fn a_log_that_is_slow_makes_deaths_wait_and_no_more() {
    let mut bench = Bench::new("clear");
    bench.logs = false;
    bench.write(0, 7, SIZE);
    let max = bench.volume.status().owed.entries_max;
    let asked: Vec<_> = (0..SIZE / 1024).map(|n| bench.ask(Op::Trim, n * 1024, 512)).collect();
    bench.settle();
    bench.idle();
    assert!(bench.receipts.len() <= max, "memory is bounded");
    assert!(!asked.iter().all(|id| bench.replies.contains_key(id)), "some wait for room");
    bench.logs = true;
    bench.log();
    bench.settle();
    bench.idle();
    assert!(asked.iter().all(|id| bench.replies[id].is_ok()));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, SIZE / 2);
    assert_eq!(bench.latched, None);
}

#[test]
fn a_stop_that_does_not_drain_keeps_the_receipts() {
    let mut bench = unlogged();
    bench.tell(Event::Stop { drain: false });
    bench.settle();
    assert!(bench.volume.is_at_rest());
    bench = killed(bench);
    bench.tell(Event::Tick);
    assert_eq!(bench.receipts.len(), 1);
}
