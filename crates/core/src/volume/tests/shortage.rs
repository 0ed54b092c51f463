//! A full host: without space for the map of an overlay, and for passes.

use super::leaving::{BLOCK, killed, overlay};
use super::*;

/// The host has no space for the map, or has some again.
fn starve(bench: &Bench, is_starved: bool) {
    bench.overlay.as_ref().expect("it is an overlay").0.starved.set(is_starved);
}

fn writes(bench: &mut Bench, start: u64, byte: u8) -> Outcome {
    bench.replied(Op::Write(vec![byte; BLOCK as usize].into()), start, BLOCK)
}

#[test]
fn a_write_that_the_map_has_no_space_for_is_refused_and_later_ones_are_done() {
    let mut bench = overlay();
    starve(&bench, true);
    assert!(matches!(writes(&mut bench, 0, 7), Err(Refusal::NoSpace(_))));
    // A part of a block of the base is copied up, which is a write.
    assert!(matches!(bench.done(Op::Trim, SIZE / 2, 512), Err(Refusal::NoSpace(_))));
    assert!(bench.data.bytes.borrow().is_empty(), "it was written all the same");
    assert_eq!(bench.volume.status().latched, None);
    bench.flush();
    starve(&bench, false);
    writes(&mut bench, 0, 7).unwrap();
    starve(&bench, true);
    writes(&mut bench, BLOCK, 8).expect("the page has its space");
    starve(&bench, false);
    bench.flush();
    assert_eq!(killed(bench).reads(0, 2 * BLOCK), [[7; 4096], [8; 4096]].concat());
}

#[test]
fn a_checkpoint_without_space_refuses_the_flush_and_is_done_later() {
    let mut bench = overlay();
    writes(&mut bench, 0, 7).unwrap();
    bench.done(Op::Trim, SIZE / 2, BLOCK).unwrap();
    starve(&bench, true);
    for _ in 0..2 {
        assert!(matches!(bench.done(Op::Flush, 0, 0), Err(Refusal::NoSpace(_))));
        bench.idle();
        assert_eq!(bench.volume.status().latched, None);
        assert!(bench.receipts.is_empty(), "a receipt for what the map may still name");
        assert!(bench.volume.next_wakeup().is_some_and(|at| at.0 > bench.now), "it never rests");
    }
    writes(&mut bench, BLOCK, 8).expect("the page has its space");
    starve(&bench, false);
    bench.flush();
    bench.now += 60_000;
    bench.idle();
    assert!(bench.volume.is_drained() && bench.receipts.len() == 1);
    assert_eq!(killed(bench).reads(0, 2 * BLOCK), [[7; 4096], [8; 4096]].concat());
}

#[test]
fn what_dies_in_the_base_while_the_map_has_no_space_stays_owed_and_reads_as_zeros() {
    let mut bench = overlay();
    starve(&bench, true);
    bench.done(Op::Trim, SIZE / 2, 2 * BLOCK).expect("the journal answers for it");
    bench.idle();
    starve(&bench, false);
    let mut bench = killed(bench);
    starve(&bench, true);
    bench.idle();
    assert_eq!((bench.volume.status().latched, bench.volume.status().owed.queued_bytes), (None, 2 * BLOCK));
    assert!(bench.volume.next_wakeup().is_some_and(|at| at.0 > bench.now), "it never rests");
    assert_eq!(bench.reads(SIZE / 2, 3 * BLOCK), [[0; 4096], [0; 4096], [9; 4096]].concat());
    starve(&bench, false);
    bench.now += 60_000;
    bench.idle();
    assert_eq!((bench.volume.status().owed.queued_bytes, bench.receipts.len()), (0, 1));
    assert_eq!(killed(bench).reads(SIZE / 2, 3 * BLOCK), [[0; 4096], [0; 4096], [9; 4096]].concat());
}

/// A disk in place with suspicious content, over which a write waits for its passes; so many steps later the
/// host is full.
fn full_amid_passes(steps: usize) -> (Bench, RequestId) {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 2 * BLOCK);
    bench.done(Op::ConservativeOverwrite, 0, 2 * BLOCK).unwrap();
    bench.idle();
    let write = bench.ask(Op::Write(vec![8; 2 * BLOCK as usize].into()), 0, 2 * BLOCK);
    for _ in 0..steps {
        bench.step();
    }
    bench.data.starved.set(true);
    bench.settle();
    bench.idle();
    assert_eq!(bench.latched, None, "after {steps} steps");
    (bench, write)
}

#[test]
fn a_rewrite_that_finds_no_space_is_refused_before_its_passes_and_waits_amid_them() {
    let mut seen = [0; 3];
    for steps in 0..24 {
        let (mut bench, write) = full_amid_passes(steps);
        let (byte, outcome) = match bench.replies.remove(&write) {
            None => (8, 0),
            Some(Err(Refusal::NoSpace(_))) if steps < 2 => (7, 1),
            Some(_) => (8, 2),
        };
        seen[outcome] += 1;
        let waits = || bench.volume.next_wakeup().is_some_and(|at| at.0 > bench.now);
        assert!(outcome != 0 || waits(), "after {steps} steps it never begins again");
        bench.data.starved.set(false);
        bench.now += 60_000;
        bench.idle();
        assert_eq!(bench.replies.remove(&write).is_some(), outcome == 0);
        assert!(bench.reads(0, 2 * BLOCK) == [byte; 8192], "after {steps} steps");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn a_kill_of_a_server_whose_passes_wait_for_space_loses_nothing() {
    for steps in 0..24 {
        let (bench, _) = full_amid_passes(steps);
        bench.data.starved.set(false);
        let mut bench = bench.reopened("purge-2", None);
        let found = bench.reads(0, 2 * BLOCK);
        assert!(found == [7; 8192] || found == [8; 8192], "after {steps} steps");
    }
}
