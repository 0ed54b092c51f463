//! Deaths of plain content, and of sensitive content beside it, below it and above it.

use super::layers::Puppet;
use super::leaving::{BLOCK, killed, overlay};
use super::*;
use crate::owed::receipts::Done;

/// `bench` below a watcher that follows marks; nothing is plain yet.
fn marked(mut bench: Bench) -> (Bench, Puppet) {
    let puppet = Puppet::with_marks();
    bench.volume.watch(Box::new(puppet.clone()));
    (bench, puppet)
}

fn in_place(policy: &str) -> (Bench, Puppet) {
    marked(Bench::new(policy))
}

fn extent(start: u64, len: u64) -> Extent<Addr> {
    Extent::new(start, len)
}

impl Bench {
    /// Writes sevens of this class.
    fn holds(&mut self, puppet: &Puppet, start: u64, len: u64, is_plain: bool) {
        self.write(start, 7, len);
        puppet.is_plain(extent(start, len), is_plain);
    }

    fn trims(&mut self, start: u64, len: u64) {
        self.done(Op::Trim, start, len).unwrap();
    }

    /// All receipts, by their first byte: act, first byte, length, passes.
    fn told(&self) -> Vec<(Done, u64, u64, u16)> {
        let told = self.receipts.iter().map(|it| (it.act, it.extent.start.0, it.extent.len, it.passes));
        let mut told: Vec<_> = told.collect();
        told.sort_by_key(|it| it.1);
        told
    }

    fn has_sevens(&self) -> bool {
        self.data.bytes.borrow().contains(&7)
    }
}

#[test]
fn plain_bytes_read_as_zeros_at_once_and_get_no_pass() {
    for can_punch in [true, false] {
        let data = Memory::new(SIZE);
        data.keeps.set(!can_punch);
        let (mut bench, puppet) = marked(Bench::made("6", data, 64 << 10, [None; 2]));
        bench.holds(&puppet, 0, 65536, true);
        bench.trims(4096, 8192);
        assert_eq!(bench.reads(0, 16384), [[7; 4096], [0; 4096], [0; 4096], [7; 4096]].concat());
        bench.idle();
        assert_eq!(bench.data.bytes.borrow()[4096..12288], [0; 8192], "its space is not given back");
        assert_eq!(bench.told(), [(Done::Plain, 4096, 8192, 0)]);
        let counters = bench.volume.status().counters;
        assert_eq!((counters.destroyed_bytes, counters.plain_bytes), (0, 8192));
        assert_eq!(counters.passed_bytes, if can_punch { 0 } else { 8192 }, "no more than zeros");
        assert_eq!(bench.liveness()[1], (8192, Liveness::Dead));
        assert!(bench.volume.is_drained());
    }
}

#[test]
fn a_slot_with_plain_content_is_freed_and_holds_nothing_then() {
    let (mut bench, puppet) = marked(overlay());
    bench.holds(&puppet, 0, 4 * BLOCK, true);
    bench.flush();
    bench.trims(BLOCK, 2 * BLOCK);
    bench.tick(1000);
    while bench.told().is_empty() {
        assert!(bench.step());
    }
    assert_eq!(bench.told(), [(Done::Plain, BLOCK, 2 * BLOCK, 0)]);
    assert_eq!(bench.volume.status().counters.passed_bytes, 0);
    assert_eq!(bench.data.bytes.borrow()[BLOCK as usize..3 * BLOCK as usize], [0; 2 * 4096]);
    assert!(bench.volume.unallocated().is_some_and(|it| !it.is_empty()));
}

#[test]
fn a_place_that_a_plain_death_gave_up_is_destroyed_with_the_sensitive_content_of_its_next_owner() {
    for (mut bench, puppet) in [in_place("purge-2"), marked(overlay())] {
        bench.holds(&puppet, 0, 2 * BLOCK, true);
        bench.done(Op::Flush, 0, 0).unwrap();
        bench.trims(0, 2 * BLOCK);
        bench.idle();
        bench.holds(&puppet, 0, 2 * BLOCK, false);
        bench.trims(0, 2 * BLOCK);
        bench.idle();
        assert_eq!(bench.told(), [(Done::Plain, 0, 2 * BLOCK, 0), (Done::Shredded, 0, 2 * BLOCK, 2)]);
        assert!(!bench.has_sevens());
    }
}

#[test]
fn only_what_is_plain_is_freed() {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 16384, true);
    puppet.is_plain(extent(4096, 4096), false);
    bench.trims(0, 16384);
    bench.idle();
    let parts = [(Done::Plain, 0, 4096, 0), (Done::Shredded, 4096, 4096, 2), (Done::Plain, 8192, 8192, 0)];
    assert_eq!(bench.told(), parts);
}

#[test]
fn the_owner_destroys_plain_content_too() {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 8192, true);
    bench.done(Op::Purge, 0, 4096).unwrap();
    bench.trims(4096, 4096);
    bench.done(Op::Purge, 4096, 4096).unwrap();
    bench.idle();
    assert!(bench.told().iter().all(|it| (it.0, it.3) == (Done::Shredded, 2)), "{:?}", bench.told());
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 8192);
}

/// The receipts of sensitive bytes that die, and die again as plain ones before they are destroyed.
fn dead_twice() -> Vec<(Done, u64, u64, u16)> {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 12288, true);
    puppet.is_plain(extent(4096, 4096), false);
    bench.trims(4096, 4096);
    puppet.is_plain(extent(0, 12288), true);
    bench.trims(0, 12288);
    bench.idle();
    bench.told()
}

#[test]
fn a_plain_death_takes_no_pass_from_a_sensitive_one_that_is_owed() {
    let parts = [(Done::Plain, 0, 4096, 0), (Done::Shredded, 4096, 4096, 2), (Done::Plain, 8192, 4096, 0)];
    assert_eq!(dead_twice(), parts);
}

/// The receipts of sensitive bytes below a watcher that calls zeros plain.
fn dead_once() -> Vec<(Done, u64, u64, u16)> {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 4096, false);
    bench.trims(0, 4096);
    bench.idle();
    bench.told()
}

#[test]
fn the_class_is_that_of_the_content_before_the_change() {
    assert_eq!(dead_once(), [(Done::Shredded, 0, 4096, 2)]);
}

#[cfg(debug_assertions)]
#[test]
fn mutants_that_forget_sensitive_deaths_or_ask_late_are_caught() {
    use crate::mutant::{self, Mutant};
    let shredded = |told: Vec<(Done, u64, u64, u16)>| told.iter().any(|it| it.0 == Done::Shredded);
    assert!(shredded(dead_twice()) && shredded(dead_once()));
    for mutant in Mutant::OF_CLASSES {
        mutant::activate(Some(mutant));
        let is_caught = !shredded(dead_twice()) || !shredded(dead_once());
        mutant::activate(None);
        assert!(is_caught, "{mutant:?}");
    }
}

#[test]
fn below_a_change_that_has_not_ended_everything_is_sensitive() {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 4096, true);
    bench.ask(Op::Write(vec![7; 4096].into()), 0, 4096);
    bench.ask(Op::Trim, 0, 4096);
    bench.settle();
    bench.idle();
    assert_eq!(bench.told(), [(Done::Shredded, 0, 4096, 2)]);
}

#[test]
fn a_death_that_was_handed_out_and_not_carried_out_is_sensitive() {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 8192, true);
    // While the bytes change, the verdict on them waits.
    let write = bench.ask(Op::Write(vec![7; 4096].into()), 4096, 4096);
    puppet.finds_dead(extent(0, 4096));
    bench.settle();
    assert!(bench.replies.remove(&write).is_some());
    bench.idle();
    assert_eq!(bench.told(), [(Done::Shredded, 0, 4096, 2)]);
}

#[test]
fn in_one_block_sensitive_wins_whatever_dies_first() {
    for sensitive_first in [true, false] {
        let (mut bench, puppet) = marked(overlay());
        bench.holds(&puppet, 0, BLOCK, true);
        puppet.is_plain(extent(0, 1024), false);
        bench.flush();
        let mut parts = [(0, 1024), (1024, 3072)];
        if !sensitive_first {
            parts.reverse();
        }
        for (start, len) in parts {
            bench.trims(start, len);
        }
        bench.idle();
        let told = bench.told();
        assert!(told.iter().all(|it| (it.0, it.3) == (Done::Shredded, 2)), "{told:?}");
        assert!(!bench.has_sevens());
        assert!(bench.data.bytes.borrow().is_empty(), "the slot is free as a whole, and cut off");
    }
}

#[test]
fn a_block_that_is_plain_in_part_dies_as_a_sensitive_whole() {
    let (mut bench, puppet) = marked(overlay());
    // Of the base, where a block has no parts that could die alone.
    puppet.is_plain(extent(SIZE / 2, 2 * BLOCK), true);
    puppet.is_plain(extent(SIZE / 2 + 512, 512), false);
    bench.trims(SIZE / 2, 2 * BLOCK);
    assert_eq!(bench.reads(SIZE / 2, 3 * BLOCK), [[0; 4096], [0; 4096], [9; 4096]].concat());
    bench.idle();
    assert_eq!(
        bench.told(),
        [(Done::Shredded, SIZE / 2, BLOCK, 2), (Done::Plain, SIZE / 2 + BLOCK, BLOCK, 0)]
    );
    assert_eq!(bench.reads(SIZE / 2, 3 * BLOCK), [[0; 4096], [0; 4096], [9; 4096]].concat());
}

#[test]
fn after_a_crash_what_was_plain_is_destroyed() {
    let (mut bench, puppet) = marked(overlay());
    bench.holds(&puppet, 0, BLOCK, true);
    bench.flush();
    bench.trims(0, BLOCK);
    let mut bench = killed(bench);
    bench.idle();
    assert_eq!(bench.told(), [(Done::Shredded, 0, BLOCK, 2)]);
    assert!(!bench.has_sevens());
}

#[test]
fn receipts_for_plain_content_and_their_sum_survive_a_crash() {
    let (mut bench, puppet) = marked(overlay());
    bench.logs = false;
    bench.holds(&puppet, 0, BLOCK, true);
    bench.flush();
    bench.trims(0, BLOCK);
    bench.idle();
    let mut bench = killed(bench);
    bench.idle();
    assert_eq!(bench.told(), [(Done::Plain, 0, BLOCK, 0)]);
    assert_eq!(bench.volume.status().counters.plain_bytes, BLOCK);
}

#[test]
fn sensitive_content_below_a_write_that_is_not_synced_is_destroyed() {
    let (mut bench, puppet) = in_place("clear");
    bench.holds(&puppet, 0, 8192, false);
    bench.trims(0, 4096);
    bench.write(0, 8, 8192);
    puppet.is_plain(extent(0, 8192), true);
    bench.trims(0, 8192);
    bench.idle();
    assert_eq!(bench.told(), [(Done::Shredded, 0, 4096, 1), (Done::Plain, 4096, 4096, 0)]);
}

#[test]
fn a_plain_block_that_is_written_again_leaves_its_place_which_gets_no_pass() {
    let (mut bench, puppet) = marked(overlay());
    bench.holds(&puppet, 0, 2 * BLOCK, true);
    puppet.is_plain(extent(BLOCK, BLOCK), false);
    bench.flush();
    bench.trims(0, 2 * BLOCK);
    bench.write(0, 8, 2 * BLOCK);
    bench.flush();
    bench.idle();
    assert_eq!(bench.told(), [(Done::Plain, 0, BLOCK, 0), (Done::Shredded, BLOCK, BLOCK, 2)]);
    assert!(!bench.has_sevens());
    assert_eq!(bench.reads(0, 2 * BLOCK), [8; 2 * 4096]);
    let counters = bench.volume.status().counters;
    assert_eq!((counters.plain_bytes, counters.destroyed_bytes), (BLOCK, BLOCK));
}

#[test]
fn plain_zeros_without_a_hole_keep_their_space() {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 4096, true);
    bench.done(Op::Zero { no_hole: true, fast: false }, 0, 8192).unwrap();
    bench.idle();
    assert_eq!(bench.told(), [(Done::Plain, 0, 4096, 0)]);
    assert_eq!(bench.reads(0, 8192), [0; 8192]);
    assert_eq!(bench.liveness()[0], (8192, Liveness::Live));
}

#[test]
fn zeros_over_plain_content_get_no_pass() {
    let (mut bench, puppet) = in_place("purge-2");
    let config = Config { detect_zeroes: true, ..bench.volume.config().clone() };
    bench.volume.reconfigure(config);
    bench.holds(&puppet, 0, 8192, true);
    puppet.is_plain(extent(4096, 4096), false);
    bench.write(0, 0, 8192);
    bench.idle();
    assert_eq!(bench.told(), [(Done::Plain, 0, 4096, 0), (Done::Shredded, 4096, 4096, 2)]);
}

#[test]
fn a_purge_of_what_is_being_given_back_comes_too_late_and_says_no_more_than_is_true() {
    let (mut bench, puppet) = in_place("purge-2");
    bench.holds(&puppet, 0, 4096, true);
    bench.trims(0, 4096);
    bench.tick(1000);
    assert!(!bench.todo.is_empty(), "its space is being given back");
    bench.done(Op::Purge, 0, 4096).unwrap();
    bench.idle();
    assert_eq!(bench.told(), [(Done::Plain, 0, 4096, 0)]);
}
