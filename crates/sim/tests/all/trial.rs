//! Each trial of a rule must show that no promise was broken, and that enough was tried.

use quietus_sim::rules::rule_e::trial::Part;
use quietus_sim::silence_panics;
use std::fmt::Debug;

/// Ends, if too little was tried. A panic would say nothing here: trials silence them.
pub fn assert_enough(is_enough: bool, tried: &impl Debug) {
    if !is_enough {
        eprintln!("too little to judge: {tried:?}");
        std::process::exit(1);
    }
}

/// The number of histories, walks or steps of this run, if `make check` has `check`: a tenth, unless `QUIETUS_TRIALS` is `check`.
pub fn of(check: u64) -> u64 {
    let is_check = std::env::var("QUIETUS_TRIALS").is_ok_and(|it| it == "check");
    if is_check { check } else { check / 10 }
}

/// Ends, if `part` broke a promise.
pub fn assert_kept(part: &Part) {
    if !part.is_kept() {
        std::process::exit(1);
    }
}

/// Each of `parts` parts tries at least `transitions` steps, in more than `states` states.
pub fn assert_searched(parts: usize, searched: fn(usize, u64) -> Part, transitions: u64, states: u64) {
    silence_panics();
    for n in 0..parts {
        let part = searched(n, transitions);
        assert_kept(&part);
        assert!(part.transitions >= transitions && part.states > states, "too little was searched: {part:?}");
    }
}

/// Of all blocks of unmarked files in these lives, most are plain in the end: `lived` says how many, and of how many.
pub fn assert_mostly_plain(lived: impl Fn(u64) -> (u64, u64), lives: u64) {
    let (plain, all) = (0..lives).map(lived).fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    assert!(plain * 2 > all, "only {plain} of {all} blocks of unmarked files are plain in the end");
}

/// `walks` walks have more than 30 steps on average.
pub fn assert_walked(walked: impl Fn(u64) -> Part, walks: u64) {
    silence_panics();
    let mut steps = 0;
    for seed in 0..walks {
        let part = walked(seed);
        assert_kept(&part);
        steps += part.transitions;
    }
    assert!(steps > walks * 30, "the walks are short: {steps} steps");
}
