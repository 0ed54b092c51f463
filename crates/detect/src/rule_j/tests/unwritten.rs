//! What lies below extents that committed inodes name as unwritten.

use super::toy::*;
use crate::format::Block;
use quietus_core::watch::WaitsFor;

/// Mounted, all of what was dead before handed out.
fn mounted() -> Disk {
    let mut disk = Disk::of_extents();
    disk.wait(500);
    disk.dead();
    disk.mount();
    disk
}

impl Disk {
    /// Transaction `tid` has the inodes, which name `unwritten`.
    fn commit_extents(&mut self, tid: u32, at: u32, unwritten: &[u8]) {
        let mut content = vec![0; BYTES];
        content[..unwritten.len()].copy_from_slice(unwritten);
        self.commit_all(tid, at, &[(EXTENTS, content)]);
    }

    /// The guest is active for longer than it takes to settle.
    fn be_active(&mut self) {
        for _ in 0..25 {
            self.wait(1000);
            self.data(60);
        }
    }

    fn commits(&mut self, transactions: &[(u32, u32)]) -> Vec<Block> {
        transactions.iter().for_each(|(tid, at)| self.commit_other(*tid, *at));
        self.dead()
    }
}

/// Block 50 was written long ago, and the file that has it gives it up in place by transaction 6.
fn given_up() -> Disk {
    let mut disk = mounted();
    disk.data(50);
    disk.commit_extents(5, 1, &[]);
    disk.be_active();
    disk.commit_extents(6, 4, &[50]);
    disk
}

#[test]
fn what_a_file_gave_up_in_place_is_dead_two_commits_later() {
    let mut disk = given_up();
    let waiting: Vec<_> = disk.rule.waiting().filter(|it| it.0 == WaitsFor::Content).collect();
    assert_eq!(waiting.len(), 1);
    assert_eq!(disk.commits(&[(7, 7)]), [0; 0]);
    assert_eq!(disk.commits(&[(8, 10)]), [50]);
    assert_eq!(disk.figure("dead below unwritten extents"), 1);
}

#[test]
fn what_a_file_gave_up_in_place_soon_after_it_was_written_has_to_settle_first() {
    let mut disk = mounted();
    disk.commit_extents(5, 1, &[]);
    disk.data(50);
    disk.commit_extents(6, 4, &[50]);
    assert_eq!(disk.commits(&[(7, 7), (8, 10), (9, 13)]), [0; 0]);
    // The log begins anew.
    [0, 1].into_iter().for_each(|start| disk.log(0, &superblock(10, start)));
    disk.be_active();
    assert!(!disk.commits(&[(10, 1), (11, 4)]).contains(&50));
    assert_eq!(disk.commits(&[(12, 7)]), [50]);
}

#[test]
fn what_is_written_below_an_unwritten_extent_lives() {
    let mut disk = given_up();
    disk.data(50);
    disk.be_active();
    assert_eq!(disk.commits(&[(7, 7), (8, 10), (9, 13)]), [0; 0]);
}

#[test]
fn what_its_owner_says_to_have_written_lives() {
    let mut disk = given_up();
    disk.commit_extents(7, 7, &[]);
    assert_eq!(disk.commits(&[(8, 10), (9, 13)]), [0; 0]);
}

#[test]
fn what_was_condemned_lives_again_once_its_owner_says_to_have_written_it() {
    let mut disk = given_up();
    disk.commit_other(7, 7);
    disk.commit_other(8, 10);
    disk.commit_extents(9, 13, &[]);
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn what_was_written_before_the_inodes_were_seen_lives_below_an_unwritten_extent() {
    let mut disk = mounted();
    disk.data(50);
    disk.be_active();
    disk.commit_extents(5, 1, &[50]);
    assert_eq!(disk.commits(&[(6, 4), (7, 7), (8, 10)]), [0; 0]);
}

#[test]
fn what_was_not_written_since_the_mount_dies_below_an_unwritten_extent() {
    let mut disk = mounted();
    disk.commit_extents(5, 1, &[50]);
    assert_eq!(disk.commits(&[(6, 4)]), [0; 0]);
    assert_eq!(disk.commits(&[(7, 7)]), [50]);
}

#[test]
fn what_a_file_gave_up_in_place_is_dead_at_the_unmount() {
    let mut disk = given_up();
    disk.log(0, &superblock(7, 0));
    disk.mark(0);
    assert!(disk.dead().contains(&50));
}

#[test]
fn what_was_paged_below_an_unwritten_extent_is_dead_at_the_unmount() {
    let mut disk = given_up();
    disk.data(50);
    disk.log(0, &superblock(7, 0));
    disk.mark(0);
    assert!(disk.dead().contains(&50));
}

#[test]
fn what_is_written_after_the_unmount_lives() {
    let mut disk = given_up();
    disk.log(0, &superblock(7, 0));
    disk.mark(0);
    disk.data(50);
    assert!(!disk.dead().contains(&50));
}

#[test]
fn what_is_known_of_inodes_ends_with_the_place_in_the_journal() {
    let mut disk = given_up();
    disk.log(0, &superblock(9, 1));
    assert!(!disk.commits(&[(9, 1), (10, 4), (11, 7)]).contains(&50));
}

#[cfg(debug_assertions)]
#[test]
fn the_mutants_are_caught() {
    use crate::mutant::{self, Mutant};
    let tests: [fn(); 3] = [
        what_a_file_gave_up_in_place_is_dead_two_commits_later,
        what_is_written_below_an_unwritten_extent_lives,
        what_was_written_before_the_inodes_were_seen_lives_below_an_unwritten_extent,
    ];
    for mutant in Mutant::UNWRITTEN_J {
        mutant::activate(Some(mutant));
        let is_caught = tests.iter().any(|test| std::panic::catch_unwind(test).is_err());
        mutant::activate(None);
        assert!(is_caught, "{mutant:?}");
    }
}
