//! Cells that blocks get between purges.

use super::*;
use crate::media::cipher::Keyed as Part;
use crate::media::places::Places;
use crate::store::MapState;
use crate::store::sealed::layout::{LOG_SECTORS, SECTOR_BYTES};

const SIZE: u64 = 13_000 * BLOCK_BYTES;

fn durable(bench: &Bench, blocks: Range<u64>) -> bool {
    bench.store.is_durable(bytes_of(blocks))
}

#[test]
fn an_early_cell_counts_at_once_and_is_found_after_a_checkpoint() {
    let mut bench = Bench::new(SIZE);
    let before = bench.cell(5);
    bench.write(5..6);
    let early = bench.cell(5);
    assert_ne!(early, before);
    assert_eq!((durable(&bench, 5..6), bench.store.map_state()), (false, MapState::Behind));
    bench.restart();
    assert_eq!(bench.cell(5), before, "a crash takes it");
    bench.write(5..6);
    let early = bench.cell(5);
    bench.checkpoint_writes();
    assert!(!durable(&bench, 5..6) && durable(&bench, 6..7));
    bench.store.end_checkpoint();
    assert_eq!((durable(&bench, 5..6), bench.store.map_state()), (true, MapState::Durable));
    assert_eq!(bench.store.position(), KeysPosition { purge: 1, log: 1 });
    bench.restart();
    assert_eq!(bench.cell(5), early);
}

#[test]
fn the_cell_of_a_write_under_way_is_not_logged_and_that_of_a_failed_one_is_gone() {
    let mut bench = Bench::new(SIZE);
    let before = bench.cells(0..3);
    bench.store.renew(bytes_of(0..3));
    bench.checkpoint();
    bench.store.end_write(bytes_of(0..1), Written::There(Vec::new()));
    bench.store.end_write(bytes_of(1..2), Written::NotThere);
    let now = bench.cells(0..3);
    assert!(now[0] != before[0] && now[1] == before[1] && now[2] != before[2]);
    assert!(!durable(&bench, 0..1) && durable(&bench, 1..2) && !durable(&bench, 2..3));
    bench.checkpoint();
    bench.restart();
    assert_eq!(bench.cells(0..3), [now[0], before[1], before[2]]);
}

#[test]
fn what_dies_of_a_run_is_not_in_the_entry_of_the_rest() {
    let mut bench = Bench::new(SIZE);
    bench.write(0..300);
    let early = bench.cells(0..300);
    bench.purge(&[100..200]);
    bench.checkpoint();
    let now = bench.cells(0..300);
    assert!(now[..100] == early[..100] && now[200..] == early[200..]);
    assert!((100..200).all(|block| now[block] != early[block]));
    bench.restart();
    assert_eq!(bench.cells(0..300), now);
}

#[test]
fn while_a_purge_runs_entries_go_to_both_halves() {
    let mut bench = Bench::new(SIZE);
    bench.begin_purge(&[900..901]);
    bench.write(5..6);
    bench.checkpoint();
    bench.store.prepare(bytes_of(7..8));
    bench.log();
    bench.store.activate(bytes_of(7..8));
    bench.log();
    let now = bench.cells(5..8);
    let mut found = bench.start(Some(bench.store.position()), &[]).expect("the disk opens");
    std::mem::swap(&mut bench.store, &mut found);
    assert_eq!(bench.cells(5..8), now);
    // The purge did not run yet: what this start has destroyed is not needed.
    std::mem::swap(&mut bench.store, &mut found);
    while bench.step().is_some() {}
    assert_eq!(bench.store.position().purge, 2);
    assert_eq!(bench.cells(5..8), now);
    bench.restart();
    assert_eq!(bench.cells(5..8), now);
}

#[test]
fn a_purge_ends_the_cells_that_logged_ones_replaced_also_if_those_die_meanwhile() {
    let mut bench = Bench::new(SIZE);
    let before = bench.cells(5..7);
    bench.write(5..7);
    bench.checkpoint();
    let logged = bench.cells(5..7);
    bench.begin_purge(&[]);
    bench.write(5..6);
    let newer = bench.cell(5);
    while bench.step().is_some() {}
    assert_eq!(bench.cells(5..7), [newer, logged[1]]);
    bench.restart();
    let found = bench.cells(5..7);
    assert_eq!(found, logged);
    assert!(found[0] != before[0] && found[1] != before[1]);
}

#[test]
fn a_checkpoint_that_a_purge_overtakes_loses_no_cell_whether_it_ends_or_not() {
    for ends in [true, false] {
        let mut bench = Bench::new(SIZE);
        bench.write(5..7);
        let early = bench.cells(5..7);
        bench.checkpoint_writes();
        bench.begin_purge(&[]);
        while bench.step().is_some() {}
        assert!(!durable(&bench, 5..7));
        if ends {
            bench.store.end_checkpoint();
        } else {
            assert!(!bench.store.abort_checkpoint());
            assert_eq!(bench.store.map_state(), MapState::Behind);
            bench.checkpoint();
        }
        assert!(durable(&bench, 5..7) && bench.cells(5..7) == early);
        bench.restart();
        assert_eq!(bench.cells(5..7), early);
    }
}

#[test]
fn a_prepared_cell_counts_once_it_is_active_or_staged() {
    let mut bench = Bench::new(SIZE);
    let (staged, before) = (bytes_of(5..7), bench.cells(5..7));
    bench.store.prepare(staged);
    bench.log();
    assert_eq!(bench.store.log(), None);
    assert_eq!(bench.cells(5..7), before);
    let prepared = bench.store.prepared(staged, None);
    assert_eq!(
        bench.store.prepared(staged, Some(Pos(8192))).first(),
        Place { on: MediumId::Journal, extent: Extent::new(8192, 8192) }
    );
    // Prepared and not staged never was.
    bench.restart();
    assert_eq!(bench.cells(5..7), before);
    bench.store = bench.start(None, &[bytes_of(5..6), bytes_of(6..7)]).expect("the disk opens");
    bench.opened += 1;
    assert_eq!(bench.store.prepared(staged, None), prepared);
    [bytes_of(5..6), bytes_of(6..7)].into_iter().for_each(|block| bench.store.activate(block));
    assert_eq!(bench.store.locate(staged), prepared);
    bench.log();
    bench.restart();
    bench.load(5..7);
    assert_eq!(bench.store.locate(staged), prepared);
    let error = bench.start(None, &[bytes_of(7..8)]).expect_err("block 7 was never prepared");
    assert!(error.to_string().contains("block at byte 28672"), "{error}");
}

#[test]
fn a_block_that_was_given_up_before_it_was_staged_hinders_no_purge() {
    let mut bench = Bench::new(SIZE);
    let before = bench.cell(5);
    bench.store.prepare(bytes_of(5..6));
    bench.purge(&[]);
    assert_eq!((bench.store.log(), bench.cell(5)), (None, before));
}

#[test]
fn what_was_given_up_does_not_come_to_the_log_with_what_is_prepared_next() {
    let mut bench = Bench::new(SIZE);
    bench.store.prepare(bytes_of(5..6));
    bench.store.give_up_prepared();
    bench.store.prepare(bytes_of(7..8));
    bench.log();
    bench.store.activate(bytes_of(7..8));
    bench.log();
    bench.purge(&[]);
}

#[test]
#[should_panic(expected = "becomes active before a purge begins")]
fn a_purge_does_not_begin_while_a_prepared_cell_may_be_needed() {
    let mut bench = Bench::new(SIZE);
    bench.store.prepare(bytes_of(5..6));
    bench.log();
    bench.begin_purge(&[]);
}

#[test]
fn each_write_to_the_log_has_all_before_it_that_may_not_be_durable() {
    let mut bench = Bench::new(SIZE);
    bench.write(5..6);
    let early = bench.cell(5);
    // The writes of the checkpoint are on their way, and do not come about.
    bench.store.begin_checkpoint(false);
    assert!(bench.store.next_batch().is_some() && bench.store.next_batch().is_none());
    bench.store.prepare(bytes_of(7..8));
    let (places, bytes) = bench.store.log().expect("the log lacks an entry");
    assert_eq!(places.bytes(), 2 * SECTOR_BYTES);
    bench.put(&places.iter().collect::<Vec<_>>(), &bytes);
    assert_eq!(bench.store.position().log, 0, "nothing is known to be durable");
    bench.store.activate(bytes_of(7..8));
    assert_eq!(bench.store.position().log, 2, "what is active was durable before");
    let (places, _) = bench.store.log().expect("the log lacks an entry");
    assert_eq!(places.bytes(), SECTOR_BYTES);
    bench.store = bench.start(None, &[bytes_of(7..8)]).expect("the disk opens");
    assert_eq!(bench.cell(5), early);
}

#[test]
fn an_entry_of_a_block_that_became_active_is_the_last_one() {
    let mut bench = Bench::new(SIZE);
    bench.write(5..6);
    bench.store.prepare(bytes_of(5..6));
    bench.log();
    bench.store.begin_checkpoint(false);
    bench.store.activate(bytes_of(5..6));
    bench.log();
    let active = bench.cell(5);
    assert_eq!(bench.store.next_batch(), None);
    bench.store.end_checkpoint();
    bench.restart();
    assert_eq!(bench.cell(5), active);
}

#[test]
fn a_full_log_has_no_room_until_a_purge_and_keeps_some_for_prepared_blocks() {
    let mut bench = Bench::new(SIZE);
    let mut count = 0;
    while bench.store.has_room(bytes_of(0..1)) {
        bench.write(count % 10_000..count % 10_000 + 1);
        bench.checkpoint();
        count += 1;
    }
    let left = u64::from(LOG_SECTORS) - count;
    assert!((512..530).contains(&left), "{left} sectors");
    for block in 0..256 {
        bench.store.prepare(bytes_of(block..block + 1));
        bench.log();
        bench.store.activate(bytes_of(block..block + 1));
        bench.log();
    }
    let now = bench.cells(0..5000);
    bench.restart();
    assert!(bench.cells(0..5000) == now && !bench.store.has_room(bytes_of(0..1)));
    bench.purge(&[]);
    assert!(bench.cells(0..5000) == now && bench.store.has_room(bytes_of(0..1)));
}

#[test]
fn what_waits_for_a_checkpoint_has_room_however_it_is_cut() {
    let mut bench = Bench::new(GIB);
    let (mut next, step) = (0, 512);
    while bench.store.has_room(bytes_of(next..next + step)) {
        bench.write(next..next + step);
        next += step;
    }
    assert!(next > 100_000 && bench.store.map_state() == MapState::Due, "{next} blocks");
    let dead: Vec<_> = (0..next / 2).map(|n| 2 * n..2 * n + 1).collect();
    bench.begin_purge(&dead);
    bench.checkpoint();
    let now = bench.cells(next - 1000..next);
    while bench.step().is_some() {}
    bench.restart();
    let found = bench.cells(next - 1000..next);
    assert!(
        (0..1000).all(|n| (found[n] == now[n]) == (n % 2 == 1)),
        "the dead ones of the old tree have other cells"
    );
}

#[test]
fn content_lies_at_its_address_each_block_under_its_cell() {
    let mut bench = Bench::new(3 * BLOCK_BYTES + 700);
    bench.write(1..2);
    bench.load(0..4);
    let mut cells = Vec::new();
    bench.store.each_cell(0..4, |_, cell| cells.push(cell));
    let place = |from: u64, to: u64| -> Places {
        let part = Extent::between(from, to);
        let at = Place { on: MediumId::Data, extent: Extent::between(from, to) };
        (at, Part { cell: cells[(from / BLOCK_BYTES) as usize].clone(), part }).into()
    };
    let parts = [place(4000, 4096), place(4096, 8192), place(8192, 8200)];
    assert_eq!(bench.store.locate(Extent::new(4000, 4200)), parts.into_iter().collect());
    let last = 3 * BLOCK_BYTES;
    assert_eq!(bench.store.locate(Extent::new(last, 700)), place(last, last + 700));
    let plan = bench.store.begin_write(Extent::new(last + 512, 188), Epoch(0));
    assert_eq!(plan, crate::store::WritePlan::To(place(last + 512, last + 1024)));
}

#[test]
fn a_seed_that_opens_what_is_dead_is_not_in_the_log_that_outlives_the_purge() {
    let mut bench = Bench::new(GIB);
    bench.write(0..8);
    bench.begin_purge(&[3..4]);
    let now = bench.cells(0..8);
    bench.checkpoint();
    while bench.step().is_some() {}
    assert_eq!(bench.store.position().log, 0, "what shares the seed of a dead block is in leaves");
    bench.restart();
    let found = bench.cells(0..8);
    assert!((0..8).all(|n| (found[n] == now[n]) == (n != 3)));
}
