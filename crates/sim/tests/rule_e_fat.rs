//! FAT under rule E, on trial: enumerated, and by chance.

mod trial;

use quietus_sim::rule_e::fat::trial::{parts, searched, walked};
use trial::{assert_searched, assert_walked};

/// Steps tried in each part.
const TRANSITIONS: u64 = 15_000;
const WALKS: u64 = 4_000;

#[test]
fn both_versions_and_the_judge_agree_in_every_enumerated_state_of_fat() {
    assert_searched(parts(), searched, TRANSITIONS, 500);
}

#[test]
fn both_versions_and_the_judge_agree_on_long_walks_through_fat() {
    assert_walked(walked, WALKS);
}
