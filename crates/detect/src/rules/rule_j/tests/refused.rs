//! Changes that were refused.

use crate::rules::rule_j::tests::*;

#[test]
fn data_that_was_refused_is_destroyed_before_it_comes_again() {
    let mut disk = mounted(&[]);
    assert_eq!(disk.refuse(50, &[7; BYTES]), [0; 0]);
    assert_eq!(disk.data(50), [50]);
    disk.commit(5, 1, &[50]);
    disk.commit_other(6, 4);
    assert_eq!(disk.dead(), [50], "something was forgotten");
}

#[test]
fn a_transaction_whose_commit_block_was_refused_does_not_count() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    disk.log(4, &descriptor(6, &[(40, 0)]));
    disk.log(5, &[9; BYTES]);
    disk.refuse(place(6), &header(2, 6));
    assert_eq!(disk.dead(), [0; 0]);
    disk.log(6, &header(2, 6));
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [0; 0], "no commit has shown it free since");
    disk.commit(8, 10, &[50]);
    disk.commit_other(9, 13);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_tail_that_was_refused_frees_nothing() {
    let mut disk = mounted(&[]);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.refuse(place(0), &superblock(6, 4));
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn a_mark_that_was_refused_ends_the_watch() {
    let mut disk = mounted(&[]);
    disk.refuse(50, &[7; BYTES]);
    disk.refuse(SUPER, &[1; BYTES]);
    assert!(disk.rule.has_changed());
}
