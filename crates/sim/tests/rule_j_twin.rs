//! Both versions of rule J, on trial: enumerated, and by chance.

use quietus_sim::rule_e::trial::Part;
use quietus_sim::rule_j::guest::Mode;
use quietus_sim::rule_j::known::histories;
use quietus_sim::rule_j::lockstep::{parts, retold, searched, walked};
use quietus_sim::rule_j::play::Setup;
use quietus_sim::verdict::silence_panics;

/// Steps tried in each part.
const TRANSITIONS: u64 = 4_000;
const WALKS: u64 = 6_000;

fn assert_kept(part: &Part) {
    if let Some((history, broken)) = &part.failure {
        eprintln!("{}: {broken}\n{history}", part.name);
        std::process::exit(1);
    }
}

#[test]
fn both_versions_and_the_judge_agree_in_every_enumerated_state() {
    silence_panics();
    for n in 0..parts() {
        let part = searched(n, TRANSITIONS);
        assert_kept(&part);
        println!("{part:?}");
        assert!(part.transitions >= TRANSITIONS && part.states > 100, "too little was searched: {part:?}");
    }
}

#[test]
fn both_versions_and_the_judge_agree_on_long_walks() {
    silence_panics();
    let mut steps = 0;
    for seed in 0..WALKS {
        let part = walked(seed);
        assert_kept(&part);
        steps += part.transitions;
    }
    assert!(steps > WALKS * 30, "the walks are short: {steps} steps");
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
