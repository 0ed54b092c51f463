//! Both versions of rule J, on trial: enumerated, and by chance.

mod trial;

use quietus_sim::rule_j::guest::Mode;
use quietus_sim::rule_j::known::histories;
use quietus_sim::rule_j::lockstep::{parts, retold, searched, walked};
use quietus_sim::rule_j::play::Setup;
use quietus_sim::verdict::silence_panics;
use trial::{assert_searched, assert_walked};

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
    silence_panics();
    for (name, steps) in histories() {
        for mode in [Mode::Journal, Mode::Ordered, Mode::Writeback] {
            for compares in [true, false] {
                assert_eq!(retold(&Setup::large(mode), &steps, compares), Ok(()), "{name}, {mode:?}");
            }
        }
    }
}
