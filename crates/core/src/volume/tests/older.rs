//! Disks in place on a medium of which only an erase destroys what was written.

use super::*;
use crate::owed::journal::Slot;

const BLOCK: u64 = 4096;

fn bench() -> Bench {
    Bench::made("purge-2", Memory::erasing(SIZE), 64 << 10, [None; 2])
}

fn all(block: u64) -> Extent<Pos> {
    Extent::new(block * BLOCK, BLOCK)
}

fn acts(bench: &Bench) -> Vec<(Done, u64, u16)> {
    bench.receipts.iter().map(|it| (it.act, it.extent.start.0, it.passes)).collect()
}

#[test]
fn one_erase_destroys_what_died_and_all_that_lay_there_before() {
    let mut bench = bench();
    [5, 6, 7].into_iter().for_each(|byte| bench.write(0, byte, 2 * BLOCK));
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert!(bench.data.has(all(0), 5), "a write destroys nothing");
    bench.tick(1000);
    let erases = bench.todo.iter().filter(|io| matches!(io.op, IoOp::Erase(_))).count();
    assert_eq!((bench.todo.len(), erases), (1, 1), "an erase stands for all passes and syncs");
    bench.settle();
    assert!((5..8).all(|byte| !bench.data.has(all(0), byte)) && bench.data.has(all(1), 5));
    assert_eq!(acts(&bench), [(Done::Erased, 0, 0)]);
    assert_eq!(bench.reads(0, 2 * BLOCK), [[0; 4096], [7; 4096]].concat());
    assert!(bench.volume.is_drained() && bench.volume.status().counters.passed_bytes == 0);
}

#[test]
fn a_write_over_dead_bytes_waits_for_nothing_and_what_it_replaced_is_owed_from_the_next_sync_on() {
    let mut bench = bench();
    bench.write(0, 7, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    let write = bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    assert!(bench.step() && bench.todo.is_empty(), "the write alone, without a note");
    assert!(bench.replies.remove(&write).is_some_and(|it| it.is_ok()), "it waited");
    bench.done(Op::Flush, 0, 0).unwrap();
    assert_eq!((acts(&bench).len(), bench.data.has(all(0), 7)), (0, true), "there is no receipt yet");
    bench.idle();
    assert!(!bench.data.has(all(0), 7) && bench.data.has(all(0), 8));
    assert_eq!(acts(&bench), [(Done::Erased, 0, 0)]);
    assert_eq!(bench.volume.status().counters.revocations, 0);
}

#[test]
fn a_crash_before_the_sync_loses_the_write_and_one_after_the_flush_does_not() {
    for is_flushed in [false, true] {
        let mut bench = bench();
        bench.write(0, 7, BLOCK);
        bench.done(Op::Trim, 0, BLOCK).unwrap();
        bench.write(0, 8, BLOCK);
        if is_flushed {
            bench.done(Op::Flush, 0, 0).unwrap();
        }
        let mut bench = bench.reopened("purge-2", None);
        assert_eq!(bench.reads(0, BLOCK)[0], if is_flushed { 8 } else { 0 });
        bench.idle();
        assert!(!bench.data.has(all(0), 7) && bench.data.has(all(0), 8) == is_flushed);
    }
}

#[test]
fn older_versions_are_destroyed_only_where_no_write_goes_meanwhile() {
    let mut bench = bench();
    bench.write(0, 7, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    bench.write(0, 8, BLOCK);
    bench.done(Op::Flush, 0, 0).unwrap();
    bench.tick(1000);
    let erase = bench.todo.pop_front().expect("the erase is under way");
    let write = bench.ask(Op::Write(vec![9; BLOCK as usize].into()), 0, BLOCK);
    assert!(bench.todo.is_empty(), "the write waits for the record");
    bench.carry_out(erase);
    bench.settle();
    assert!(bench.replies[&write].is_ok() && bench.reads(0, BLOCK)[0] == 9);
    assert!(!bench.data.has(all(0), 7));
}

#[test]
fn a_conservative_overwrite_stages_nothing_and_a_start_owes_what_lies_below_suspicious_bytes() {
    let mut bench = bench();
    [6, 7].into_iter().for_each(|byte| bench.write(0, byte, BLOCK));
    bench.done(Op::ConservativeOverwrite, 0, BLOCK).unwrap();
    bench.idle();
    assert!(!bench.data.has(all(0), 6) && bench.reads(0, BLOCK)[0] == 7);
    assert_eq!(acts(&bench), [(Done::Rewritten, 0, 0)]);
    let shape = Shape { half_bytes: 64 << 10, slots: 16 };
    let [first, end] = [Slot(0), Slot(16)].map(|slot| shape.slot(slot).0 as usize);
    assert!(is_zeros(&bench.journal.bytes.borrow()[first..end]), "nothing was staged");
    // Suspicious bytes are written over, and the server is killed before it knows.
    bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    assert!(bench.step());
    let mut bench = bench.reopened("purge-2", None);
    bench.idle();
    assert!(!bench.data.has(all(0), 7) && bench.reads(0, BLOCK)[0] == 8);
}

#[test]
fn what_the_medium_will_not_erase_stays_owed_and_is_tried_again() {
    let mut bench = bench();
    for (block, byte) in [(0, 6), (1, 7), (2, 5)] {
        bench.write(block * BLOCK, byte, BLOCK);
    }
    bench.done(Op::Trim, 0, 3 * BLOCK).unwrap();
    bench.write(0, 9, BLOCK);
    bench.done(Op::Flush, 0, 0).unwrap();
    bench.data.stubborn.set(Extent::new(0, 2 * BLOCK));
    (0..6).for_each(|_| bench.idle());
    assert!(!bench.data.has(all(2), 5), "one place keeps no other from being destroyed");
    let owed = bench.volume.status().owed;
    assert_eq!(
        (owed.queued_bytes, owed.remains_bytes, bench.latched.is_none()),
        (2 * BLOCK, 2 * BLOCK, true)
    );
    bench.data.stubborn.set(Extent::default());
    bench.tick(60_000);
    bench.settle();
    bench.idle();
    assert!(!bench.data.has(all(0), 6) && !bench.data.has(all(1), 7) && bench.volume.is_drained());
}
