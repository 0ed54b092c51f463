//! Rule E below a guest whose journal lies on another device, by chance.

mod trial;

use quietus_sim::rule_j::elsewhere::walked;
use trial::assert_walked;

const WALKS: u64 = 4_000;

#[test]
fn both_versions_and_the_judge_agree_on_long_walks() {
    assert_walked(walked, WALKS);
}
