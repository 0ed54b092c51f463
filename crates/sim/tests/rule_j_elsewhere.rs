//! Rule E below a guest whose journal lies on another device, and rule J below that.

mod trial;

use quietus_sim::rule_j::elsewhere::{retold, setup_large, walked};
use quietus_sim::rule_j::guest::Mode;
use quietus_sim::rule_j::known::histories;
use quietus_sim::verdict::silence_panics;
use trial::assert_walked;

const WALKS: u64 = 4_000;

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
                assert_eq!(retold(&setup_large(mode), &steps, compares), Ok(()), "{name}, {mode:?}");
            }
        }
    }
}
