//! Blocks of the log that are written in parts, and read once more has come.

use crate::rules::rule_j::tests::toy::*;
use crate::rules::rule_j::tests::{mounted, place};

const COPY: [u8; BYTES] = [9; BYTES];

fn received(disk: &Disk) -> u64 {
    disk.figure("commits received")
}

fn is_known(disk: &Disk) -> bool {
    disk.figure("place in the journal known (1: yes)") == 1
}

#[test]
fn what_was_written_before_the_last_transaction_was_read_may_be_of_the_next() {
    let mut disk = mounted(&[]);
    disk.is_lazy = true;
    disk.log(1, &descriptor(5, &[(40, 0)]));
    disk.log_in_parts(2, &COPY);
    disk.log(3, &header(2, 5));
    disk.log_in_parts(5, &COPY);
    disk.read();
    assert_eq!(received(&disk), 1);
    disk.log(0, &superblock(5, 1));
    assert_eq!(disk.dead(), [0; 0]);
    disk.log(4, &descriptor(6, &[(40, 0)]));
    disk.log(6, &header(2, 6));
    assert_eq!(received(&disk), 2);
}

#[test]
fn what_arrived_before_a_transaction_could_begin_is_none_of_it() {
    for in_parts in [false, true] {
        let mut disk = mounted(&[]);
        disk.is_lazy = true;
        if in_parts {
            disk.log_in_parts(5, &COPY)
        } else {
            disk.log(5, &COPY)
        }
        disk.commit_other(5, 1);
        disk.read();
        disk.log(4, &descriptor(6, &[(40, 0)]));
        disk.log(6, &header(2, 6));
        assert_eq!(received(&disk), 1);
        disk.log(5, &COPY);
        assert_eq!(received(&disk), 2);
    }
}

#[test]
fn a_part_that_came_before_a_transaction_could_begin_is_none_of_it() {
    let mut disk = mounted(&[]);
    let at = u64::from(place(5)) * BYTES as u64;
    disk.write_at(at, &COPY[..512]);
    disk.commit_other(5, 1);
    disk.write_at(at + 512, &COPY[512..]);
    disk.log(4, &descriptor(6, &[(40, 0)]));
    disk.log(6, &header(2, 6));
    assert_eq!(received(&disk), 1);
    disk.write_at(at, &COPY[..512]);
    assert_eq!(received(&disk), 2);
}

#[test]
fn a_commit_block_that_was_read_after_more_had_come_makes_no_place_known() {
    let mut disk = Disk::with(&superblock(5, 1), false, false);
    disk.is_lazy = true;
    disk.log_in_parts(3, &header(2, 5));
    disk.log(4, &descriptor(6, &[(40, 0)]));
    disk.read();
    assert!(!is_known(&disk));
    disk.log(5, &COPY);
    disk.log_in_parts(6, &header(2, 6));
    disk.read();
    assert!(is_known(&disk));
}

#[test]
fn a_tail_that_was_read_after_more_had_come_is_no_replay() {
    let mut disk = mounted(&[]);
    disk.commit_other(5, 1);
    disk.is_lazy = true;
    disk.log_in_parts(0, &superblock(7, 1));
    disk.log(2, &COPY);
    disk.read();
    assert_eq!(disk.dead(), [0; 0]);
    assert!(!is_known(&disk));
}
