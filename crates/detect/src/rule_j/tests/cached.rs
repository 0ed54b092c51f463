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
    assert_eq!(disk.dead(), []);
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
    assert_eq!(disk.dead(), []);
}

#[test]
fn what_came_before_its_turn_is_no_residue_when_the_cache_is_gone() {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.log(5, &[9; BYTES]);
    disk.commit_other(5, 1);
    disk.attach(Attached::Direct);
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), []);
}

#[test]
fn copies_before_the_tail_wait_until_everything_has_passed_the_cache() {
    let mut disk = mounted(&[]);
    disk.attach(CACHED);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), []);
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
    assert_eq!(disk.dead(), []);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [50]);
}
