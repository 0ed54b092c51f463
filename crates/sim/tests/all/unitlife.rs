//! The life of a unit, as far as a test run goes. `quietus-sim unit-life` enumerates more.

use crate::trial::{assert_enough, of};
use quietus_sim::unitlife::Fault;
use quietus_sim::unitlife::graph::{Enumerated, Limits, enumerated, walks};

/// States that `make check` explores with one unit in use.
const ONE_UNIT: u64 = 150_000;
/// States that it explores with two units, and with a block that fails.
const MORE: u64 = 30_000;
/// Walks of `make check`.
const WALKS: u64 = 20_000;
/// States that are searched for a promise that a fault breaks.
const FAULTY: u64 = 40_000;
/// Walks that are searched for one.
const FAULTY_WALKS: u64 = 400;
/// The walk from which on they are searched for a dropped trim: one walk in seven thousand finds it.
const DROPPED_FROM: u64 = 7_150;

fn tried(units: u8, may_fail: bool, states_max: u64, fault: Option<Fault>) -> Enumerated {
    enumerated(Limits { units, may_fail, states_max }, fault, |_| {})
}

/// Least depth of so many states with one unit. `make check` goes at least as far as TrueErase does.
fn depth_min(states: u64) -> usize {
    if states == ONE_UNIT { 16 } else { 12 }
}

#[test]
fn the_literal_machine_does_what_the_page_says_in_every_state_of_one_unit_near_the_first_one() {
    let states = of(ONE_UNIT);
    let all = tried(1, false, states, None);
    assert!(all.failure.is_none(), "{all:#?}");
    let is_far = all.depth >= depth_min(states) && all.transitions >= 25 * states;
    assert_enough(all.states == states && is_far, &all);
}

#[test]
fn the_literal_machine_does_what_the_page_says_of_two_units_and_of_a_block_that_fails() {
    for may_fail in [false, true] {
        let all = tried(2, may_fail, of(MORE), None);
        assert!(all.failure.is_none(), "{all:#?}");
        assert_enough(all.states == of(MORE) && all.depth >= 5, &all);
    }
}

#[test]
fn the_literal_machine_does_what_the_page_says_on_long_walks() {
    let all = walks(0..of(WALKS), None);
    assert!(all.failure.is_none(), "{all:#?}");
    assert_enough(all.depth >= 100, &all);
}

/// A machine without the rule breaks one of these promises.
fn assert_breaks(fault: Fault, promises: &[&str]) {
    let from = if fault == Fault::TrimDropped { DROPPED_FROM } else { 0 };
    let walked = walks(from..from + FAULTY_WALKS, Some(fault)).failure;
    let found = walked.or_else(|| tried(2, true, FAULTY, Some(fault)).failure);
    let broken = found.map(|it| it.broken).unwrap_or_default();
    assert!(promises.iter().any(|it| broken.contains(it)), "{fault:?}: {broken:?}");
}

const LOST: &str = "what was flushed is never lost";
const FOUND: &str = "what was destroyed is not found";
const TWICE: &str = "two starts in a row are one";

#[test]
fn a_deletion_that_forgets_stale_versions_breaks_a_promise() {
    assert_breaks(Fault::ForgetStale, &[FOUND]);
}

#[test]
fn an_erase_before_its_copy_breaks_a_promise() {
    assert_breaks(Fault::EraseBeforeCopy, &[LOST, TWICE]);
}

#[test]
fn a_deletion_that_leaves_the_open_block_breaks_a_promise() {
    assert_breaks(Fault::SkipOpen, &[FOUND]);
}

#[test]
fn a_program_in_a_block_that_was_open_at_a_cut_breaks_a_promise() {
    assert_breaks(Fault::ProgramAfterCut, &[FOUND, LOST, TWICE]);
}

#[test]
fn a_start_that_trusts_a_weak_page_breaks_a_promise() {
    assert_breaks(Fault::TrustWeak, &[LOST, TWICE]);
}

#[test]
fn a_start_that_trusts_a_blank_page_breaks_a_promise() {
    assert_breaks(Fault::TrustBlank, &[FOUND, LOST, TWICE]);
}

#[test]
fn a_trim_that_does_not_reach_the_chip_breaks_a_promise() {
    assert_breaks(Fault::TrimVolatile, &[LOST, TWICE]);
}

#[test]
fn a_trim_that_is_dropped_with_its_block_breaks_a_promise() {
    assert_breaks(Fault::TrimDropped, &[LOST, TWICE]);
}

#[test]
fn a_bad_block_that_is_spared_breaks_a_promise() {
    assert_breaks(Fault::BadSpared, &[FOUND]);
}

#[test]
fn trials_that_count_without_a_session_break_a_promise() {
    assert_breaks(Fault::CountTrials, &[LOST, TWICE]);
}

#[test]
fn runs_in_listed_blocks_that_count_break_a_promise() {
    assert_breaks(Fault::CountListed, &[LOST, TWICE]);
}
