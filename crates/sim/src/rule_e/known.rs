//! Histories that are worth keeping: each once failed, or shows what one rule
//! is there for.

use crate::cache::Step::{Emit, Sink};
use crate::rule_e::guest::actions::Action::{Create, Delete, Grow, GrowIndirect, Punch, Truncate};
use crate::rule_e::play::Step::{
    self, Act, Cache, Crash, Cut, Delay, Do, Land, Mount, Pass, Proven, Read, Reconnect, Restart, Sleep,
    Unmount, WriteBack,
};
use crate::rule_e::toy::{MAP, SUPER, TABLE};
use quietus_detect::format::Block;

/// All of them: what they show, as a fact, and what happens.
pub fn histories() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        ("pointers_lost_before_they_were_read_are_evidence_that_must_be_durable", lost_before_read()),
        ("pointers_lost_before_anybody_knew_of_them_are_evidence_that_must_be_durable", lost_unknown()),
        ("what_lay_below_a_death_that_a_crash_undid_is_destroyed", undone()),
        ("a_map_that_was_overtaken_by_a_write_proves_nothing", overtaken(&[])),
        ("a_map_that_two_connections_bring_proves_nothing", overtaken_on(&[Reconnect(true)])),
        ("a_map_that_comes_again_proves_nothing", overtaken_on(&[Reconnect(false), Land(MAP)])),
        ("a_guest_that_sleeps_may_have_all_to_write", overtaken(&[Sleep, WriteBack(4)])),
        ("a_map_read_again_proves_nothing_against_what_was_written_since", read_again()),
        ("the_same_pointers_of_another_generation_are_others", renewed()),
    ]
}

fn lost_before_read() -> Vec<Step> {
    let before = [Do(Create(1)), Do(GrowIndirect(1, 3)), Do(Grow(1, 2, 4)), Unmount(false), Restart, Mount];
    let after = [Do(Delete(1)), Delay(MAP), Pass(100), Cut, Proven, Unmount(true), Read, Act(true)];
    [&before[..], &after].concat()
}

fn lost_unknown() -> Vec<Step> {
    let before = [
        Do(Create(1)),
        Do(GrowIndirect(1, 3)),
        Do(Create(0)),
        Do(Grow(1, 3, 5)),
        Unmount(false),
        Restart,
        Mount,
    ];
    let after = [Do(Punch(1, 3)), WriteBack(MAP), Do(Delete(0)), Cut, Unmount(true), Proven, Read, Act(true)];
    [&before[..], &after].concat()
}

fn undone() -> Vec<Step> {
    let first = [Do(Create(1)), Do(Grow(1, 0, 3)), Delay(TABLE), Pass(1500), WriteBack(3)];
    let second = [Do(Delete(1)), Do(Create(2)), Do(Grow(2, 0, 3)), WriteBack(3), Sleep, WriteBack(TABLE)];
    let third = [Do(Punch(2, 0)), Delay(MAP), Do(Truncate(2)), Crash(false)];
    [&first[..], &second, &third].concat()
}

/// The map leaves before block 3 is allocated, and arrives after it was written.
fn overtaken(between: &[Step]) -> Vec<Step> {
    overtaken_on(&[&[Land(MAP)], between].concat())
}

fn overtaken_on(arrival: &[Step]) -> Vec<Step> {
    let before =
        [Do(Create(0)), Do(Grow(0, 0, 4)), Delay(MAP), Do(Create(1)), Do(Grow(1, 0, 3)), WriteBack(3)];
    [&before[..], arrival, &[Cut, Proven, Act(false)]].concat()
}

fn read_again() -> Vec<Step> {
    let before = [Unmount(false), Mount, Do(Create(1)), Do(Grow(1, 0, 3)), WriteBack(3), Pass(1500)];
    [&before[..], &[Read, Cut, Proven, Act(false)]].concat()
}

/// A file, its block of pointers and its data come to another file in the same
/// places, once nothing of the first is suspicious any more.
fn renewed() -> Vec<Step> {
    let file = [Do(GrowIndirect(1, 4)), Do(Grow(1, 2, 3))];
    let settled = [Mount, Pass(1500), Unmount(false), Pass(1500), Read].repeat(20);
    let again = [Mount, Do(Delete(1)), Do(Create(1))];
    [&[Do(Create(1))], &file[..], &[Unmount(false), Read], &settled, &again, &file, &[WriteBack(3)]].concat()
}

/// Histories above a cache in which live data is destroyed if nobody tells the rules of it.
pub fn cached() -> Vec<(&'static str, Vec<Step>)> {
    // The map leaves the guest before block 3 is allocated.
    let early = [Do(Create(0)), Do(Grow(0, 0, 4)), WriteBack(MAP), Cache(Sink(MAP))];
    let again = [Do(Grow(0, 1, 5)), WriteBack(MAP)];
    let written = [&[Do(Create(1)), Do(Grow(1, 0, 3)), WriteBack(3)], &passes(3)[..]].concat();
    let late = [Pass(700), Pass(700), Cache(Emit(MAP))];
    let in_turn = [&[Cache(Emit(MAP))], &passes(MAP)[..]].concat();
    let unmounted = [&[Unmount(false)], &passes(SUPER)[..], &[Pass(700), Read]].concat();
    let history =
        |steps: &[&[Step]]| [&passes(SUPER)[..], &steps.concat(), &[Cut, Proven, Act(false)]].concat();
    vec![
        ("a_map_that_is_held_back_proves_nothing", history(&[&early, &written, &late])),
        (
            "the_second_of_two_maps_that_are_held_back_proves_nothing",
            history(&[&early, &again, &written, &in_turn]),
        ),
        ("an_unmount_that_overtakes_the_map_proves_nothing", history(&[&written, &unmounted])),
    ]
}

/// A block passes the cache.
fn passes(block: Block) -> [Step; 2] {
    [Cache(Sink(block)), Cache(Emit(block))]
}
