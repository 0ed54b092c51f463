//! Below a cache, which may not pass flushes on.

use super::*;
use quietus_core::watch::Attached;

const CACHED: Attached = Attached::Cached { hold_ms: 5_000 };

/// Files are written for so long that everything has passed the cache.
fn settle(disk: &mut Disk) {
    for _ in 0..2 * 15 + 1 {
        disk.wait(1000);
        disk.data(51);
    }
}

/// Unmounts, with block 50 free.
fn unmount(disk: &mut Disk) {
    disk.mark(1);
    disk.write(MAP, &map(&[50]));
    disk.log(0, &superblock(5, 0));
    disk.mark(0);
    disk.wait(500);
}

/// Transaction `tid` of a journal with checksums arrives, the block at `order` of its three.
fn arrives(disk: &mut Disk, tid: u32, free: &[Block], order: [usize; 3]) {
    let blocks = summed(tid, free);
    order.into_iter().for_each(|n| disk.log(1 + 3 * (tid - 5) + n as u32, &blocks[n]));
}

const IN_ORDER: [usize; 3] = [0, 1, 2];
const BACKWARDS: [usize; 3] = [2, 1, 0];

/// Mounted below a cache, with checksums in the journal.
fn summed_below_cache() -> Disk {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.log(0, &summed_superblock(5, 1));
    disk
}

#[test]
fn two_transactions_in_order_prove_below_a_cache() {
    let mut disk = summed_below_cache();
    disk.data(50);
    settle(&mut disk);
    arrives(&mut disk, 5, &[50], IN_ORDER);
    assert_eq!(disk.dead(), [0; 0]);
    arrives(&mut disk, 6, &[50], IN_ORDER);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn transactions_that_are_sent_again_are_older_than_any_that_has_come() {
    let mut disk = summed_below_cache();
    disk.data(50);
    for tid in [10, 5, 9, 6, 8, 7] {
        arrives(&mut disk, tid, if tid < 10 { &[50] } else { &[] }, BACKWARDS);
    }
    settle(&mut disk);
    arrives(&mut disk, 8, &[50], IN_ORDER);
    arrives(&mut disk, 9, &[50], IN_ORDER);
    assert_eq!(disk.dead(), [0; 0], "transaction 10 has an owner of it");
}

#[test]
fn a_commit_block_that_is_read_late_tells_how_far_the_guest_is() {
    let mut disk = summed_below_cache();
    disk.data(50);
    arrives(&mut disk, 6, &[50], BACKWARDS);
    disk.is_lazy = true;
    let [_, _, commit] = summed(9, &[]);
    disk.log_in_parts(15, &commit);
    disk.log(16, &[9; BYTES]);
    disk.read();
    settle(&mut disk);
    (6..9).for_each(|tid| arrives(&mut disk, tid, &[50], IN_ORDER));
    assert_eq!(disk.dead(), [0; 0], "transaction 9 has an owner of it");
}

#[test]
fn what_a_cache_sends_again_of_the_time_before_an_attach_proves_nothing() {
    let mut disk = summed_below_cache();
    disk.data(50);
    (5..10).for_each(|tid| arrives(&mut disk, tid, if tid < 9 { &[50] } else { &[] }, IN_ORDER));
    let mut disk = disk.killed();
    settle(&mut disk);
    (6..9).for_each(|tid| arrives(&mut disk, tid, &[50], IN_ORDER));
    assert_eq!(disk.dead(), [0; 0], "transaction 9 has an owner of it");
    assert_eq!(disk.figure("place in the journal known (1: yes)"), 0);
    arrives(&mut disk, 10, &[], IN_ORDER);
    assert_eq!(disk.figure("place in the journal known (1: yes)"), 1);
}

#[test]
fn a_map_in_place_proves_nothing_against_what_was_written_lately() {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.data(50);
    unmount(&mut disk);
    assert!(!disk.dead().contains(&50));
    settle(&mut disk);
    unmount(&mut disk);
    assert!(disk.dead().contains(&50));
}

#[test]
fn what_was_inferred_before_the_cache_was_seen_is_taken_back() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    disk.commit_other(6, 4);
    disk.attach(CACHED);
    assert_eq!(disk.dead(), [0; 0]);
    settle(&mut disk);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_copy_without_a_checksum_may_be_a_later_transactions() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.attach(CACHED);
    settle(&mut disk);
    disk.commit(5, 1, &[50]);
    disk.commit_other(6, 4);
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn what_came_before_its_turn_is_no_residue_when_the_cache_is_gone() {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.log(5, &[9; BYTES]);
    disk.commit_other(5, 1);
    disk.attach(Attached::Direct);
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn copies_before_the_tail_wait_until_everything_has_passed_the_cache() {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), [0; 0]);
    settle(&mut disk);
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), [1, 2, 3].map(place));
}

#[test]
fn without_the_cache_two_commits_prove_again() {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.attach(Attached::Direct);
    disk.commit_other(5, 1);
    disk.data(50);
    disk.commit(6, 4, &[50]);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [50]);
}
