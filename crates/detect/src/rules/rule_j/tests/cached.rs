//! Below a cache, which may not pass flushes on.

use crate::rules::rule_j::tests::*;
use quietus_core::watch::Attached;

const CACHED: Attached = Attached::Cached { hold_ms: 5_000 };

/// Files are written for so long that everything has passed the cache.
fn settle(disk: &mut Disk) {
    for _ in 0..2 * 15 + 1 {
        disk.wait(1000);
        disk.data(51);
    }
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
