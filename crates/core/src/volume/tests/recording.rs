//! Receipts on their way to the audit log.

use super::*;

/// A disk that is killed, and opened again.
fn killed(bench: Bench) -> Bench {
    let Bench { data, journal, logs, .. } = bench;
    let mut bench = Bench::open("clear", data, journal, None);
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
    bench.now += 1000;
    bench.tell(Event::Tick);
    while bench.volume.obligations().count() > 0 {
        assert!(bench.step());
    }
    assert_eq!(bench.receipts, []);
    bench.settle();
    assert_eq!(bench.receipts.len(), 1);
}

#[test]
fn a_log_that_is_stuck_slows_nobody_until_it_latches_the_disk() {
    let mut bench = Bench::new("clear");
    bench.logs = false;
    bench.write(0, 7, SIZE);
    bench.tell(Event::RecordStuck("no space left on the host".into()));
    let asked: Vec<_> = (0..SIZE / 1024).map(|n| bench.ask(Op::Trim, n * 1024, 512)).collect();
    bench.settle();
    bench.idle();
    let reason = bench.latched.clone().expect("it latches");
    assert!(reason.contains("no space left on the host"), "{reason}");
    assert!(asked.iter().all(|id| bench.replies.contains_key(id)), "nobody waits for ever");
    assert!(bench.replies.values().filter(|it| it.is_ok()).count() > 100);
    let receipts = bench.receipts.len();
    bench = killed(bench);
    bench.tell(Event::Tick);
    bench.settle();
    assert!(bench.receipts.len() >= receipts, "no receipt was lost");
}

#[test]
fn a_log_that_is_slow_makes_deaths_wait_and_no_more() {
    let mut bench = Bench::new("clear");
    bench.logs = false;
    bench.write(0, 7, SIZE);
    let max = bench.volume.status().ledger_entries_max;
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
