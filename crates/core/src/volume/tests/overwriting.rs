//! What has died in place and is written again, with a policy of one pass.

use super::*;

const BLOCK: u64 = 4096;

/// A disk on which `[0, 8192)` held sevens and has died.
fn dead() -> Bench {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 2 * BLOCK);
    bench.done(Op::Trim, 0, 2 * BLOCK).unwrap();
    bench
}

fn killed(bench: Bench) -> Bench {
    Bench::open("clear", bench.data, bench.journal, None)
}

#[test]
fn a_write_over_dead_bytes_waits_for_nothing_and_is_the_pass() {
    let mut bench = dead();
    let write = bench.ask(Op::Write(vec![8; BLOCK as usize]), 0, BLOCK);
    assert!(bench.step() && bench.todo.is_empty(), "more was done than the write");
    assert!(bench.replies.remove(&write).is_some_and(|it| it.is_ok()), "it waited");
    assert_eq!(bench.reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
    let status = bench.volume.status();
    assert_eq!((status.counters.revocations, status.queued_bytes), (0, 2 * BLOCK));
    bench.idle();
    let acts: Vec<_> = bench.receipts.iter().map(|it| (it.act, it.extent.start.0, it.passes)).collect();
    assert!(acts.contains(&(Done::Overwritten, 0, 1)) && acts.contains(&(Done::Shredded, BLOCK, 1)));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 2 * BLOCK);
    assert_eq!(bench.reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
    assert!(bench.volume.is_drained());
}

#[test]
fn nobody_sees_what_such_a_write_replaces() {
    let mut bench = dead();
    bench.ask(Op::Write(vec![8; BLOCK as usize]), 0, BLOCK);
    let read = bench.ask(Op::Read, 0, BLOCK);
    assert_eq!(bench.replies.remove(&read), Some(Ok(vec![0; BLOCK as usize])));
}

#[test]
fn no_erase_task_begins_where_such_a_write_is_under_way() {
    let mut bench = dead();
    bench.ask(Op::Write(vec![8; BLOCK as usize]), 0, BLOCK);
    let write = bench.todo.pop_front().expect("it goes to the medium");
    bench.idle();
    assert_eq!(bench.volume.status().counters.destroyed_bytes, BLOCK);
    bench.carry_out(write);
    assert_eq!(bench.reads(0, BLOCK), [8; BLOCK as usize]);
}

#[test]
fn a_flush_is_answered_once_the_journal_knows_what_lives_again() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    let flush = bench.ask(Op::Flush, 0, 0);
    assert!(bench.step(), "the content is synced");
    assert!(!bench.replies.contains_key(&flush), "the journal does not know yet");
    let second = bench.ask(Op::Flush, 0, 0);
    bench.settle();
    assert!(bench.replies[&flush].is_ok() && bench.replies[&second].is_ok());
    assert_eq!(killed(bench).reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
}

#[test]
fn a_write_with_fua_survives_a_crash_and_one_without_is_dead_after_it() {
    for fua in [true, false] {
        let mut bench = dead();
        let id = bench.ask_fua(Op::Write(vec![8; BLOCK as usize]), 0, BLOCK, fua);
        while !bench.replies.contains_key(&id) {
            assert!(bench.step(), "it is never answered");
        }
        let mut bench = killed(bench);
        assert_eq!(bench.reads(0, BLOCK), [if fua { 8 } else { 0 }; BLOCK as usize]);
        bench.idle();
        assert!(bench.data.bytes.borrow().iter().all(|byte| *byte != 7 && (fua || *byte == 0)));
    }
}

#[test]
fn what_dies_again_before_the_sync_is_destroyed_as_what_it_is_by_now() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert_eq!(bench.reads(0, BLOCK), [0; BLOCK as usize]);
    bench.idle();
    assert!(bench.receipts.iter().all(|it| it.act == Done::Shredded));
    assert!(bench.data.bytes.borrow().iter().all(|byte| *byte == 0));
}

#[test]
fn a_wish_for_a_conservative_overwrite_does_not_take_the_death_away() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    bench.done(Op::Scour, 0, BLOCK).unwrap();
    assert_eq!(killed(bench).reads(0, BLOCK), [0; BLOCK as usize]);
}

#[test]
fn a_busy_disk_syncs_such_writes_after_a_second_unasked() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    for _ in 0..11 {
        bench.now += 100;
        bench.write(4 * BLOCK, 1, BLOCK);
    }
    assert_eq!(killed(bench).reads(0, BLOCK), [8; BLOCK as usize]);
}

#[test]
fn a_stop_without_a_drain_keeps_them() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    bench.tell(Event::Stop { drain: false });
    bench.settle();
    assert!(bench.volume.is_at_rest());
    assert_eq!(killed(bench).reads(0, BLOCK), [8; BLOCK as usize]);
}
