//! Rule E, on trial below ext2 and FAT, and below a cache: enumerated, by chance, and in the histories that
//! are kept.

mod trial;

use quietus_sim::Watchers::{Both, Product};
use quietus_sim::rule_e::known;
use quietus_sim::rule_e::trial::{cached, parts, retold, retold_cached, searched, walked};
use quietus_sim::verdict::silence_panics;
use trial::{assert_searched, assert_walked};

/// Steps tried in each part.
const TRANSITIONS: u64 = 20_000;
const WALKS: u64 = 10_000;
/// Walks among which live data dies if the rules are not told of the cache.
const UNTOLD_WALKS: u64 = 50_000;

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
    for (name, steps) in known::histories() {
        assert_eq!(retold(&steps, Both), Ok(()), "{name}");
    }
}

#[test]
fn both_versions_and_the_judge_agree_on_long_walks_below_a_cache() {
    assert_walked(|seed| cached(seed, true, Both), WALKS);
}

#[test]
fn a_cache_that_the_rules_do_not_know_of_costs_live_data() {
    silence_panics();
    for guest in ["a guest above", "a guest with a FAT"] {
        let walks = (0..UNTOLD_WALKS).map(|seed| cached(seed, false, Product));
        let mut broken = walks.filter(|it| it.name.starts_with(guest)).filter_map(|it| it.failure);
        assert!(broken.any(|it| it.1.starts_with("safety")), "the cache is too tame below {guest}");
    }
}

#[test]
fn live_data_dies_in_the_histories_that_are_kept_unless_the_cache_is_known() {
    silence_panics();
    for (name, steps) in known::cached() {
        let broken = retold_cached(&steps, false).expect_err(name);
        assert!(broken.starts_with("safety"), "{name}: {broken}");
        assert_eq!(retold_cached(&steps, true), Ok(()), "{name}");
    }
}
