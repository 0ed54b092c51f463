//! Writes over dead bytes in place, with a policy of one pass.

use super::*;
use crate::owed::journal::NOTES;

const BLOCK: u64 = 4096;

/// A disk on which `[0, 8192)` held sevens and has died.
fn dead() -> Bench {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 2 * BLOCK);
    bench.done(Op::Trim, 0, 2 * BLOCK).unwrap();
    bench
}

/// The server is killed, and starts again: in the same session of the host, or in another.
fn killed(bench: Bench, is_same_session: bool) -> Bench {
    reopened(bench, u64::from(is_same_session), false)
}

fn reopened(bench: Bench, session: u64, read_only: bool) -> Bench {
    let config = Config { read_only, ..Config::new("clear".parse().unwrap()) };
    let opening = Opening { session, ..opening(config, SIZE, None) };
    let volume = Volume::open(opening, &Media::new(&bench.data, &bench.journal)).unwrap();
    Bench::of(volume, bench.data, bench.journal, None)
}

#[test]
fn a_write_over_dead_bytes_waits_for_nothing_and_is_the_pass() {
    let mut bench = dead();
    let write = bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    assert!(
        bench.step() && bench.step() && bench.todo.is_empty(),
        "more was done than the write and its note"
    );
    assert!(bench.replies.remove(&write).is_some_and(|it| it.is_ok()), "it waited");
    assert_eq!(bench.reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
    let status = bench.volume.status();
    assert_eq!((status.counters.revocations, status.owed.queued_bytes), (0, 2 * BLOCK));
    bench.idle();
    let acts: Vec<_> = bench.receipts.iter().map(|it| (it.act, it.extent.start.0, it.passes)).collect();
    assert!(acts.contains(&(Done::Overwritten, 0, 1)) && acts.contains(&(Done::Shredded, BLOCK, 1)));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 2 * BLOCK);
    assert_eq!(bench.reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
    assert!(bench.volume.is_drained());
}

#[test]
fn content_that_such_a_write_replaces_is_not_seen() {
    let mut bench = dead();
    bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    let read = bench.ask(Op::Read, 0, BLOCK);
    assert_eq!(bench.replies.remove(&read), Some(Ok(vec![0; BLOCK as usize].into())));
}

#[test]
fn no_erase_task_begins_where_such_a_write_is_under_way() {
    let mut bench = dead();
    bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    let write = bench.todo.pop_front().expect("it goes to the medium");
    bench.idle();
    assert_eq!(bench.volume.status().counters.destroyed_bytes, BLOCK);
    bench.carry_out(write);
    bench.settle();
    assert!(bench.reads(0, BLOCK).iter().all(|byte| *byte == 8));
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
    assert_eq!(killed(bench, false).reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
}

#[test]
fn a_kill_undoes_no_such_write_and_a_power_cut_one_that_was_not_flushed() {
    for (fua, is_same_session) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut bench = dead();
        let id = bench.ask_fua(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK, fua);
        while !bench.replies.contains_key(&id) {
            assert!(bench.step(), "it is never answered");
        }
        let mut bench = killed(bench, is_same_session);
        let survives = fua || is_same_session;
        assert_eq!(bench.reads(0, BLOCK), [if survives { 8 } else { 0 }; BLOCK as usize]);
        bench.idle();
        assert!(bench.data.bytes.borrow().iter().all(|byte| *byte != 7 && (survives || *byte == 0)));
        assert_eq!(bench.volume.status().counters.destroyed_bytes, 2 * BLOCK);
    }
}

#[test]
fn what_a_kill_leaves_unsynced_waits_for_the_next_sync_and_a_second_kill_undoes_nothing() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    let syncs = bench.data.syncs.get();
    let bench = killed(bench, true);
    assert_eq!((bench.data.syncs.get(), bench.volume.status().owed.queued_bytes), (syncs, 2 * BLOCK));
    let mut bench = killed(bench, true);
    assert_eq!(bench.reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
    bench.done(Op::Flush, 0, 0).unwrap();
    let completed: Vec<_> = bench.receipts.iter().map(|it| (it.act, it.extent)).collect();
    assert_eq!(completed, [(Done::Overwritten, Extent::new(0, BLOCK))]);
    assert_eq!(killed(bench, false).reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
}

#[test]
fn a_disk_that_is_read_only_syncs_nothing_and_records_nothing() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    let mut bench = reopened(bench, 1, true);
    assert_eq!(bench.reads(0, 2 * BLOCK), [[8; 4096], [0; 4096]].concat());
    bench.tick(10_000);
    assert_eq!(bench.todo, []);
    bench.ask(Op::Flush, 0, 0);
    assert!(bench.todo.iter().all(|io| io.op == IoOp::Sync), "{:?}", bench.todo);
    bench.settle();
    assert!(bench.receipts.is_empty() && bench.latched.is_none());
    assert_eq!(killed(bench, false).reads(0, 2 * BLOCK), [0; 2 * BLOCK as usize]);
}

#[test]
fn a_durable_write_over_such_a_write_stays_after_a_power_cut() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    let id = bench.ask_fua(Op::Write(vec![9; BLOCK as usize].into()), 0, BLOCK, true);
    while !bench.replies.contains_key(&id) {
        assert!(bench.step(), "it is never answered");
    }
    assert_eq!(killed(bench, false).reads(0, BLOCK), [9; BLOCK as usize]);
}

#[test]
fn a_note_says_nothing_of_bytes_that_died_again() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert_eq!(killed(bench, true).reads(0, BLOCK), [0; BLOCK as usize]);
}

#[test]
fn a_snapshot_keeps_what_was_written_over_for_the_same_session() {
    for is_same_session in [true, false] {
        let mut bench = dead();
        bench.write(0, 8, BLOCK);
        let generation = bench.volume.disk.commits.journal.position().generation;
        // Deaths one after the other fill the half.
        while bench.volume.disk.commits.journal.position().generation == generation {
            bench.write(4 * BLOCK, 1, BLOCK);
            bench.done(Op::Trim, 4 * BLOCK, BLOCK).unwrap();
        }
        let mut bench = killed(bench, is_same_session);
        assert_eq!(bench.reads(0, BLOCK), [if is_same_session { 8 } else { 0 }; BLOCK as usize]);
    }
}

#[test]
fn a_note_that_a_snapshot_has_overtaken_is_written_again() {
    let mut bench = dead();
    let write = bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    assert!(bench.step(), "the write");
    let note = bench.todo.pop_front().expect("its note");
    let generation = bench.volume.disk.commits.journal.position().generation;
    while bench.volume.disk.commits.journal.position().generation == generation {
        bench.write(4 * BLOCK, 1, BLOCK);
        bench.done(Op::Trim, 4 * BLOCK, BLOCK).unwrap();
    }
    bench.carry_out(note);
    assert!(!bench.replies.contains_key(&write), "it is answered before it is noted");
    bench.settle();
    assert!(bench.replies[&write].is_ok());
    assert_eq!(killed(bench, true).reads(0, BLOCK), [8; BLOCK as usize]);
}

#[test]
fn a_medium_that_fails_makes_the_notes_void() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    bench.data.broken.set(true);
    bench.ask(Op::Flush, 0, 0);
    bench.settle();
    assert!(bench.latched.is_some());
    bench.data.broken.set(false);
    assert_eq!(killed(bench, true).reads(0, BLOCK), [0; BLOCK as usize]);
}

#[test]
fn a_note_that_was_being_written_when_the_medium_failed_is_void_too() {
    let mut bench = dead();
    let write = bench.ask(Op::Write(vec![8; BLOCK as usize].into()), 0, BLOCK);
    assert!(bench.step(), "the write");
    let note = bench.todo.pop_front().expect("its note");
    bench.data.broken.set(true);
    bench.ask(Op::Flush, 0, 0);
    bench.settle();
    assert!(bench.latched.is_some() && !bench.replies.contains_key(&write));
    bench.carry_out(note);
    bench.settle();
    assert!(matches!(bench.replies[&write], Err(Refusal::Latched(_))), "{:?}", bench.replies[&write]);
    bench.data.broken.set(false);
    assert_eq!(killed(bench, true).reads(0, BLOCK), [0; BLOCK as usize]);
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
fn a_conservative_overwrite_is_owed_once_the_death_before_it_is_met() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    let conservative = bench.ask(Op::ConservativeOverwrite, 0, BLOCK);
    assert!(bench.step() && !bench.replies.contains_key(&conservative), "the content is synced first");
    bench.settle();
    assert!(bench.replies[&conservative].is_ok());
    assert_eq!(bench.volume.status().owed.conservative_bytes, BLOCK);
    assert!(killed(bench, false).reads(0, BLOCK).iter().all(|byte| *byte == 8));
}

#[test]
fn a_busy_disk_syncs_such_writes_after_a_second_unasked() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    for _ in 0..11 {
        bench.now += 100;
        bench.write(4 * BLOCK, 1, BLOCK);
    }
    assert_eq!(killed(bench, false).reads(0, BLOCK), [8; BLOCK as usize]);
}

#[test]
fn a_stop_without_a_drain_keeps_them() {
    let mut bench = dead();
    bench.write(0, 8, BLOCK);
    bench.tell(Event::Stop { drain: false });
    bench.settle();
    assert!(bench.volume.is_at_rest());
    assert_eq!(killed(bench, false).reads(0, BLOCK), [8; BLOCK as usize]);
}

#[test]
fn more_writes_over_dead_bytes_at_once_than_there_are_notes_survive_a_kill_as_they_were_answered() {
    let mut bench = Bench::made("clear", Memory::new(SIZE), 4 << 20, [None; 2]);
    bench.write(0, 7, SIZE);
    bench.done(Op::Trim, 0, SIZE).unwrap();
    let writes: Vec<_> =
        (0..NOTES + 100).map(|n| (n, bench.ask(Op::Write(vec![8; 512].into()), n * 512, 512))).collect();
    while bench.todo.front().is_some_and(|io| io.op != IoOp::Sync) {
        bench.step();
    }
    let answered: Vec<_> = writes.iter().filter(|(_, id)| bench.replies.contains_key(id)).collect();
    assert_eq!(answered.len() as u64, NOTES, "as many as there are notes need no sync");
    let answered: Vec<u64> = answered.into_iter().map(|(n, _)| *n).collect();
    let mut bench = killed(bench, true);
    for n in answered {
        assert_eq!(bench.reads(n * 512, 512), [8; 512], "write {n}");
    }
}
