//! Rule E, on trial: enumerated, by chance, and the histories that it once
//! failed in.

use quietus_sim::rule_e::play::Step::{
    Act, Crash, Create, Cut, Delay, Delete, Grow, GrowIndirect, Mount, Pass, Proven, Punch, Read, Restart,
    Sleep, Truncate, Unmount, WriteBack,
};
use quietus_sim::rule_e::trial::{Part, parts, retold, searched, walked};
use quietus_sim::verdict::silence_panics;

/// Steps tried in each part.
const TRANSITIONS: u64 = 20_000;
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
        assert!(part.transitions >= TRANSITIONS && part.states > 500, "too little was searched: {part:?}");
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
fn pointers_lost_before_they_were_read_are_evidence_that_has_to_be_durable() {
    let steps = [
        Create(1),
        GrowIndirect(1, 3),
        Grow(1, 2, 4),
        Unmount(false),
        Restart,
        Mount,
        Delete(1),
        Delay(1),
        Pass(100),
        Cut,
        Proven,
        Unmount(true),
        Read,
        Act(true),
    ];
    assert_eq!(retold(5, &steps), Ok(()));
}

#[test]
fn pointers_lost_before_anybody_knew_of_them_are_evidence_that_has_to_be_durable() {
    let steps = [
        Create(1),
        GrowIndirect(1, 3),
        Create(0),
        Grow(1, 3, 5),
        Unmount(false),
        Restart,
        Mount,
        Punch(1, 3),
        WriteBack(1),
        Delete(0),
        Cut,
        Unmount(true),
        Proven,
        Read,
        Act(true),
    ];
    assert_eq!(retold(5, &steps), Ok(()));
}

#[test]
fn what_lay_below_a_death_that_a_crash_undid_is_destroyed() {
    let steps = [
        Create(1),
        Grow(1, 0, 3),
        Delay(2),
        Pass(1500),
        WriteBack(3),
        Delete(1),
        Create(2),
        Grow(2, 0, 3),
        WriteBack(3),
        Sleep,
        WriteBack(2),
        Punch(2, 0),
        Delay(1),
        Truncate(2),
        Crash(false),
    ];
    assert_eq!(retold(5, &steps), Ok(()));
}
