//! Kept histories: each shows the purpose of one number of the rule.

use crate::rules::rule_e::guest::Action::{Create, Grow};
use crate::rules::rule_e::toy::TABLE;
use crate::rules::rule_j::play::Step;
use crate::rules::rule_j::play::Step::{
    Acknowledge, Again, Checkpoint, Commit, Do, Finish, Land, Mount, MoveTail, Split, Sync, Unmount, Work,
    Write,
};

/// The journal's superblock: it is written before the first transaction.
const SUPERBLOCK: Step = Land(3);
/// A block of data.
const DATA: u32 = 23;

/// All kept histories: the fact that each shows, and its steps.
pub fn histories() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        ("what_is_written_while_the_transaction_before_its_own_commits_outlives_that_commit", early(&[])),
        (
            "a_mount_that_leaves_a_number_out_commits_nothing_by_that",
            early(&[Sync(true), Unmount, Mount(false)]),
        ),
        ("a_commit_block_that_comes_twice_is_one_commit", twice()),
        ("what_came_before_the_last_transaction_was_read_is_needed_to_recover_the_next", overtaken()),
    ]
}

/// A block is written while the transaction before the one that allocates it is
/// on its way.
fn early(before: &[Step]) -> Vec<Step> {
    [before, &written(), &[Finish, Work, Acknowledge]].concat()
}

fn written() -> Vec<Step> {
    let first = [Do(Create(0)), Do(Grow(0, 0, DATA + 1)), Commit, SUPERBLOCK, Commit, Land(DATA + 1)];
    [&first[..], &[Do(Create(1)), Do(Grow(1, 0, DATA)), Write(DATA), Land(DATA)]].concat()
}

fn twice() -> Vec<Step> {
    [&written()[..], &[Finish, Again, Work, Again, Work]].concat()
}

/// Two transactions of three blocks, the copy in each of which is read when both have
/// come; and the tail moves up to the second.
fn overtaken() -> Vec<Step> {
    let first = [Do(Create(0)), Commit, SUPERBLOCK, Commit, Split(5), Finish, Acknowledge];
    let second = [Checkpoint(TABLE), Land(TABLE), MoveTail, Do(Create(1)), Commit, Split(8)];
    [&first[..], &second, &[Work, SUPERBLOCK, Work]].concat()
}
