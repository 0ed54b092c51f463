//! Both versions of rule J, on trial: enumerated, and by chance.

mod trial;

use quietus_sim::rule_j::lockstep::{parts, retold, searched, walked};
use quietus_sim::rule_j::play::Setup;
use trial::{assert_retold, assert_searched, assert_walked};

/// Steps tried in each part.
const TRANSITIONS: u64 = 4_000;
const WALKS: u64 = 6_000;

#[test]
fn both_versions_and_the_judge_agree_in_every_enumerated_state() {
    assert_searched(parts(), searched, TRANSITIONS, 100);
}

#[test]
fn both_versions_and_the_judge_agree_on_long_walks() {
    assert_walked(walked, WALKS);
}

#[test]
fn histories_that_are_worth_keeping_are_kept() {
    assert_retold(retold, Setup::large);
}
