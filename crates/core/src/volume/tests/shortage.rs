//! A host without space for the map of an overlay.

use super::leaving::{BLOCK, killed, overlay};
use super::*;

/// The host has no space for the map, or has some again.
fn starve(bench: &Bench, is_starved: bool) {
    bench.overlay.as_ref().expect("it is an overlay").0.starved.set(is_starved);
}

fn writes(bench: &mut Bench, start: u64, byte: u8) -> Outcome {
    bench.done(Op::Write(vec![byte; BLOCK as usize].into()), start, BLOCK)
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
fn a_checkpoint_without_space_is_refused_to_whoever_flushes_and_done_later() {
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
