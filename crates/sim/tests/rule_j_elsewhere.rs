//! Rule E below a guest whose journal lies on another device, and rule J below that.

mod trial;

use quietus_sim::rule_j::elsewhere::{retold, setup_large, walked};
use trial::{assert_retold, assert_walked};

const WALKS: u64 = 4_000;

#[test]
fn both_versions_and_the_judge_agree_on_long_walks() {
    assert_walked(walked, WALKS);
}

#[test]
fn histories_that_are_worth_keeping_are_kept() {
    assert_retold(retold, setup_large);
}
