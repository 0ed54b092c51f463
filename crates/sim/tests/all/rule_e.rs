//! Rule E, on trial below ext2 and FAT, and below a cache: enumerated, by chance, and in the histories that
//! are kept.

use crate::trial::{assert_mostly_plain, assert_searched, assert_walked, of};
use quietus_sim::Watchers::{Both, Product};
use quietus_sim::rules::rule_e::trial::{parts, retold, searched, walked};
use quietus_sim::rules::rule_e::{known, marks};
use quietus_sim::silence_panics;

/// Steps tried in each part.
const TRANSITIONS: u64 = 20_000;
const WALKS: u64 = 20_000;
/// Lives of guests with marked files.
const LIVES: u64 = 1000;

#[test]
fn both_versions_agree_in_every_enumerated_state() {
    assert_searched(parts(), searched, of(TRANSITIONS), 500);
}

#[test]
fn both_versions_agree_on_long_walks() {
    assert_walked(walked, of(WALKS));
}

#[test]
fn histories_that_are_worth_keeping_are_kept() {
    silence_panics();
    for it in known::histories().iter().chain(&known::cached()) {
        assert_eq!(retold(it, true, Both), Ok(()), "{}", it.name);
    }
}

#[test]
fn live_data_dies_in_the_histories_that_are_kept_unless_the_cache_is_known() {
    silence_panics();
    for it in known::cached() {
        let broken = retold(&it, false, Product).expect_err(it.name);
        assert!(broken.starts_with("safety"), "{}: {broken}", it.name);
    }
}

#[test]
fn content_of_marked_files_is_never_plain_and_dies_in_the_end() {
    assert_mostly_plain(|seed| marks::lived(seed).unwrap_or_else(|broken| panic!("{broken}")), of(LIVES));
}
