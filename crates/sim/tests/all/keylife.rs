//! The life of a key, as far as a test run goes. `quietus-sim key-life` enumerates more.

use crate::trial::{assert_enough, of};
use quietus_sim::keylife::Fault;
use quietus_sim::keylife::graph::{Against, Enumerated, Limits, enumerated, walks};

/// States that `make check` explores: with one block in use, and with two and three.
const STATES: [u64; 3] = [150_000, 20_000, 20_000];
/// Walks of `make check`.
const WALKS: u64 = 20_000;
/// States that are searched for a promise that a fault breaks.
const FAULTY: u64 = 6_000;
/// Walks that are searched for one.
const FAULTY_WALKS: u64 = 500;

/// Least depth and number of transitions of so many states. With one block `make check` goes at least as far as TrueErase does.
fn bar(blocks: usize, states: u64) -> (usize, u64) {
    match blocks {
        1 if states == STATES[0] => (16, 2_700_000),
        1 => (12, 10 * states),
        2 => (6, 10 * states),
        _ => (5, 10 * states),
    }
}

fn tried(blocks: usize, states_max: u64, against: Against, joint: bool) -> Enumerated {
    enumerated(Limits { blocks, states_max, joint }, against, |_| {})
}

#[test]
fn the_literal_machine_does_what_the_page_says_in_every_state_near_the_first_one() {
    for (blocks, states) in (1..).zip(STATES.map(of)) {
        let all = tried(blocks, states, Against::Literal, false);
        assert!(all.failure.is_none(), "{all:#?}");
        let (depth, transitions) = bar(blocks, states);
        let is_deep = all.states == states && all.depth >= depth && all.transitions >= transitions;
        assert_enough(is_deep && all.illegal > all.transitions / 3, &all);
    }
}

#[test]
fn the_literal_machine_does_what_the_page_says_in_states_that_histories_tell_apart() {
    let all = tried(1, of(STATES[1]), Against::Literal, true);
    assert!(all.failure.is_none(), "{all:#?}");
    assert_enough(all.states == of(STATES[1]), &all);
}

#[test]
fn the_literal_machine_does_what_the_page_says_on_long_walks() {
    let all = walks(0..of(WALKS), Against::Literal);
    assert!(all.failure.is_none(), "{all:#?}");
    assert_enough(all.depth >= 100, &all);
}

/// The first promise that the literal machine breaks without a rule.
fn broken(fault: Fault) -> String {
    let walked = walks(0..FAULTY_WALKS, Against::Faulty(fault)).failure;
    let found = walked.or_else(|| tried(1, FAULTY, Against::Faulty(fault), true).failure);
    found.map(|it| it.broken).unwrap_or_default()
}

/// A machine without the rule breaks one of these promises.
fn assert_breaks(fault: Fault, promises: &[&str]) {
    let broken = broken(fault);
    assert!(promises.iter().any(|it| broken.contains(it)), "{fault:?}: {broken:?}");
}

const LOST: &str = "live is never lost";
const OPENS: &str = "opens from nothing";
const READS: &str = "may only read";

#[test]
fn a_leaf_under_the_cell_of_its_old_page_breaks_a_promise() {
    assert_breaks(Fault::KeepPageCell, &[OPENS, READS]);
}

#[test]
fn an_old_cell_that_stays_in_the_tree_below_an_early_one_breaks_a_promise() {
    assert_breaks(Fault::SpareWritten, &[OPENS]);
}

#[test]
fn a_root_before_its_pages_breaks_a_promise() {
    assert_breaks(Fault::TopBeforePages, &[LOST]);
}

#[test]
fn an_old_root_that_is_spared_breaks_a_promise() {
    assert_breaks(Fault::SpareRoot, &[OPENS]);
}

#[test]
fn a_receipt_before_the_end_of_the_old_root_breaks_a_promise() {
    assert_breaks(Fault::ReceiptBeforeRoot, &[OPENS]);
}

#[test]
fn a_start_without_syncs_breaks_a_promise() {
    assert_breaks(Fault::StartUnsynced, &[LOST, READS]);
}

#[test]
fn a_root_that_stays_in_doubt_breaks_a_promise() {
    assert_breaks(Fault::UnsettledRoot, &[LOST, READS]);
}

#[test]
fn a_frame_before_its_data_breaks_a_promise() {
    assert_breaks(Fault::FrameBeforeData, &[READS]);
}

#[test]
fn a_frame_before_its_cell_breaks_a_promise() {
    assert_breaks(Fault::ClearBeforeCell, &[READS]);
}

#[test]
fn a_name_of_a_write_under_way_breaks_a_promise() {
    assert_breaks(Fault::NameUnended, &[READS]);
}

#[test]
fn entries_in_one_half_alone_break_a_promise() {
    assert_breaks(Fault::OneHalf, &[READS, LOST]);
}

#[test]
fn a_fresh_cell_under_live_content_breaks_a_promise() {
    assert_breaks(Fault::FreshUnderLive, &[READS]);
}

#[test]
fn a_cell_that_is_active_before_its_content_breaks_a_promise() {
    assert_breaks(Fault::ActiveAtOnce, &[READS, LOST]);
}

#[test]
fn a_cell_that_is_never_active_breaks_a_promise() {
    assert_breaks(Fault::NeverActive, &[READS]);
}
