//! Rule E below a cache, on trial: by chance.

mod trial;

use quietus_sim::rule_e::cache::{untold, walked};
use quietus_sim::verdict::silence_panics;
use trial::assert_walked;

const WALKS: u64 = 10_000;
/// Walks among which live data dies if the rules are not told of the cache.
const UNTOLD_WALKS: u64 = 50_000;

#[test]
fn both_versions_and_the_judge_agree_on_long_walks_below_a_cache() {
    assert_walked(walked, WALKS);
}

#[test]
fn a_cache_that_the_rules_do_not_know_of_costs_live_data() {
    silence_panics();
    let mut broken = (0..UNTOLD_WALKS).filter_map(walked_untold);
    assert!(broken.any(|it| it.starts_with("safety")), "the cache is too tame");
}

fn walked_untold(seed: u64) -> Option<String> {
    Some(untold(seed).failure?.1)
}
