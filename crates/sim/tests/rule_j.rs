//! Rule J, on trial: by the letter, and both versions of it, below a journal that is here or elsewhere.

mod trial;

use quietus_sim::rule_j::guest::Mode;
use quietus_sim::rule_j::known::histories;
use quietus_sim::rule_j::play::Setup;
use quietus_sim::rule_j::text::{Counts, RULE, Reading, Residue};
use quietus_sim::rule_j::trial::{parts, read, reread, searched};
use quietus_sim::rule_j::{elsewhere, lockstep};
use quietus_sim::verdict::silence_panics;
use trial::{assert_retold, assert_searched, assert_walked};

/// Steps tried in each part.
const TRANSITIONS: u64 = 4_000;
const WALKS: u64 = 1_500;

#[test]
fn the_rule_by_the_letter_never_destroys_what_somebody_owns() {
    assert_walked(|seed| read(RULE, seed), WALKS);
}

#[test]
fn the_rule_by_the_letter_holds_in_every_enumerated_state() {
    assert_searched(parts(), searched, TRANSITIONS, 100);
}

/// The first walk that finds `reading` wrong, and what it says.
fn objection(reading: Reading) -> Option<(u64, String)> {
    silence_panics();
    let mut walks = (0..WALKS).map(|seed| (seed, read(reading, seed).failure));
    walks.find_map(|(seed, failure)| Some((seed, failure?)).map(|(seed, it)| (seed, it.0 + &it.1)))
}

#[test]
fn wrong_readings_of_the_rule_are_found() {
    let wrong = [
        Reading { margin: 1, ..RULE },
        Reading { counts: Counts::Numbers, ..RULE },
        Reading { counts: Counts::Blocks, ..RULE },
        Reading { residue: Residue::Outside, ..RULE },
    ];
    for reading in wrong {
        let found = objection(reading);
        println!("{reading:?}: {found:?}");
        let (_, broken) = found.unwrap_or_else(|| panic!("{reading:?} was not found"));
        assert!(broken.contains("safety"), "{reading:?}: {broken}");
    }
}

#[test]
fn histories_that_are_worth_keeping_are_kept_by_the_letter() {
    silence_panics();
    for (name, steps) in histories() {
        for mode in [Mode::Journal, Mode::Ordered, Mode::Writeback] {
            assert_eq!(reread(RULE, mode, &steps), Ok(()), "{name}, {mode:?}");
        }
    }
}

#[test]
fn each_of_them_is_destructive_by_a_reading_that_is_wrong() {
    let wrong = [
        Reading { margin: 1, ..RULE },
        Reading { counts: Counts::Numbers, ..RULE },
        Reading { counts: Counts::Blocks, ..RULE },
    ];
    for (reading, (name, steps)) in wrong.into_iter().zip(histories()) {
        for mode in [Mode::Ordered, Mode::Writeback] {
            let broken = reread(reading, mode, &steps);
            assert!(broken.clone().is_err_and(|it| it.starts_with("safety")), "{name}, {mode:?}: {broken:?}");
        }
    }
}

#[test]
fn both_versions_and_the_judge_agree_in_every_enumerated_state() {
    assert_searched(lockstep::parts(), lockstep::searched, TRANSITIONS, 100);
}

#[test]
fn both_versions_and_the_judge_agree_on_long_walks() {
    assert_walked(lockstep::walked, 6_000);
    assert_walked(elsewhere::walked, 4_000);
}

#[test]
fn histories_that_are_worth_keeping_are_kept() {
    assert_retold(lockstep::retold, Setup::large);
    assert_retold(elsewhere::retold, elsewhere::setup_large);
}
