//! Rule E, on trial below ext2 and FAT: enumerated, by chance, and in the histories that are kept.

mod trial;

use quietus_sim::Watchers::Both;
use quietus_sim::rule_e::known::histories;
use quietus_sim::rule_e::trial::{parts, retold, searched, walked};
use quietus_sim::verdict::silence_panics;
use trial::{assert_searched, assert_walked};

/// Steps tried in each part.
const TRANSITIONS: u64 = 20_000;
const WALKS: u64 = 10_000;

#[test]
fn both_versions_and_the_judge_agree_in_every_enumerated_state() {
    assert_searched(parts(), searched, TRANSITIONS, 500);
}

#[test]
fn both_versions_and_the_judge_agree_on_long_walks() {
    assert_walked(walked, WALKS);
}

#[test]
fn histories_that_are_worth_keeping_are_kept() {
    silence_panics();
    for (name, steps) in histories() {
        assert_eq!(retold(&steps, Both), Ok(()), "{name}");
    }
}
