//! A medium that will not erase some bytes.

use super::leaving::{BLOCK, overlay};
use super::*;

/// The medium will not erase these bytes, or all others too.
fn stubborn(bench: &Bench, start: u64, len: u64) {
    bench.data.stubborn.set(Extent::new(start, len));
}

fn writes(bench: &mut Bench, start: u64, byte: u8) -> Result<Buf, Refusal> {
    bench.done(Op::Write(vec![byte; BLOCK as usize].into()), start, BLOCK)
}

/// How many bytes are owed, how many of these remain, and how many were destroyed. Nothing latches, and nothing is left to do.
fn bytes(bench: &mut Bench) -> [u64; 3] {
    (0..2).for_each(|_| bench.idle());
    let status = bench.volume.status();
    let is_drained = bench.volume.is_drained();
    assert!(status.latched.is_none() && is_drained, "{status:?}, {:?}", bench.volume.erasing);
    assert!(bench.volume.owes_nothing_due());
    let owed = status.owed.queued_bytes + status.owed.conservative_bytes;
    [owed, status.owed.remains_bytes, bench.receipts.iter().map(|it| it.extent.len).sum()]
}

#[test]
fn a_place_that_remains_keeps_no_other_from_being_destroyed_and_is_tried_again() {
    for mut bench in [Bench::new("purge-2"), Bench::new("ff"), overlay()] {
        bench.write(0, 7, 16 * BLOCK);
        bench.flush();
        stubborn(&bench, 5 * BLOCK + 700, 1);
        bench.done(Op::Trim, 0, 16 * BLOCK).unwrap();
        assert_eq!(bytes(&mut bench), [BLOCK, BLOCK, 15 * BLOCK]);
        assert!(
            bench.volume.next_wakeup().is_some_and(|at| at.0 > bench.now + 1000),
            "it is not tried again, or at once"
        );
        assert_eq!(bench.reads(5 * BLOCK, BLOCK), [0; 4096]);
        bench.done(Op::Trim, 0, 16 * BLOCK).unwrap();
        stubborn(&bench, 0, 0);
        assert_eq!(bytes(&mut bench), [BLOCK, BLOCK, 15 * BLOCK]);
        bench.now += 60_000;
        assert_eq!(bytes(&mut bench), [0, 0, 16 * BLOCK]);
        assert_eq!(bench.volume.next_wakeup(), None);
    }
}

#[test]
fn a_shred_of_everything_tries_what_remains_at_once() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 2 * BLOCK);
    stubborn(&bench, 0, 1);
    bench.done(Op::Trim, 0, 2 * BLOCK).unwrap();
    bench.tell(Event::ShredNow);
    bench.settle();
    assert_eq!(bytes(&mut bench), [BLOCK, BLOCK, BLOCK]);
    stubborn(&bench, 0, 0);
    bench.tell(Event::ShredNow);
    bench.settle();
    assert_eq!(bytes(&mut bench), [0, 0, 2 * BLOCK]);
}

#[test]
fn a_write_above_what_remains_is_refused_and_others_are_done() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 4 * BLOCK);
    bench.done(Op::Trim, 0, 3 * BLOCK).unwrap();
    bench.done(Op::ConservativeOverwrite, 3 * BLOCK, BLOCK).unwrap();
    bench.idle();
    bench.write(0, 7, 3 * BLOCK);
    bench.done(Op::Trim, 0, 3 * BLOCK).unwrap();
    for (block, content) in [(1, 0), (3, 7)] {
        stubborn(&bench, block * BLOCK, BLOCK);
        for _ in 0..2 {
            assert!(matches!(writes(&mut bench, block * BLOCK, 9), Err(Refusal::Io(_))));
        }
        writes(&mut bench, 0, 8).unwrap();
        let found = bench.reads(block * BLOCK, BLOCK);
        // The content of a write that was refused may be there.
        assert!(found == [content; 4096] || content == 7 && found == [9; 4096], "block {block}");
        stubborn(&bench, 0, 0);
        bench.now += 60_000;
        writes(&mut bench, block * BLOCK, 9).unwrap();
    }
    bench.idle();
    assert_eq!(bench.reads(0, 4 * BLOCK), [[8; 4096], [9; 4096], [0; 4096], [9; 4096]].concat());
}

#[test]
fn content_above_what_remains_is_put_back_and_the_next_start_tries_again() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 4 * BLOCK);
    stubborn(&bench, BLOCK, 1);
    bench.done(Op::ConservativeOverwrite, 0, 4 * BLOCK).unwrap();
    assert_eq!(bytes(&mut bench), [BLOCK, BLOCK, 3 * BLOCK]);
    assert_eq!(bench.reads(0, 4 * BLOCK), [7; 4 * 4096]);
    let mut bench = bench.reopened("purge-2", None);
    assert_eq!(bytes(&mut bench)[..2], [BLOCK, BLOCK]);
    let mut bench = bench.reopened("purge-2", None);
    stubborn(&bench, 0, 0);
    assert_eq!(bytes(&mut bench)[..2], [0, 0]);
    assert_eq!(bench.reads(0, 4 * BLOCK), [7; 4 * 4096]);
}

#[test]
fn receipts_wait_for_copies_that_remain_and_requests_do_not() {
    let mut bench = overlay();
    bench.write(0, 7, 4 * BLOCK);
    bench.flush();
    bench.done(Op::Trim, 0, 2 * BLOCK).unwrap();
    // The last blocks move into the places that this frees, and the medium will not erase the copies.
    stubborn(&bench, 2 * BLOCK, 2 * BLOCK);
    bench.tell(Event::ShredNow);
    bench.settle();
    let before = bytes(&mut bench)[2];
    bench.done(Op::Trim, 2 * BLOCK, BLOCK).unwrap();
    assert_eq!(bytes(&mut bench), [0, 0, before], "a receipt for what has a copy");
    writes(&mut bench, 8 * BLOCK, 9).unwrap();
    stubborn(&bench, 0, 0);
    bench.now += 60_000;
    assert_eq!(bytes(&mut bench), [0, 0, 3 * BLOCK]);
    assert_eq!(bench.reads(3 * BLOCK, BLOCK), [7; 4096]);
}
